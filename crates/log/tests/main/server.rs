//! A tiny server on a log, which knows what it may and may not find after a crash.

use rollcall_log::AppendError;
use rollcall_log::CheckpointWriter;
use rollcall_log::Disk;
use rollcall_log::DurabilityClass;
use rollcall_log::Epoch;
use rollcall_log::Log;
use rollcall_log::OpenError;
use rollcall_log::Options;
use rollcall_log::Record;
use rollcall_log::Version;
use rollcall_sim::Random;

/// Batches are remembered by version and a sum of their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    pub version: u64,
    sum: u64,
}

impl Batch {
    pub fn of(version: u64, payload: &[u8]) -> Self {
        let sum = payload
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        Self { version, sum: sum ^ payload.len() as u64 }
    }
}

/// What clients were told, and so what must be found.
#[derive(Clone, Debug, Default)]
pub struct Promises {
    /// Every batch that readers could see, in order.
    pub state: Vec<Batch>,
    /// How many of them were acknowledged as durable.
    pub acknowledged: usize,
    /// A batch whose outcome nobody was told: it may be found after the others, or not.
    pub doubtful: Option<Batch>,
    /// The highest version that anybody saw.
    pub shown: u64,
}

impl Promises {
    /// Checks what a start found, which then becomes the state.
    pub fn check(&mut self, found: Vec<Batch>, next_version: u64) -> Result<(), String> {
        if found.len() < self.acknowledged {
            return Err(format!(
                "{} batches were acknowledged as durable, {} are left",
                self.acknowledged,
                found.len()
            ));
        }
        let mut possible = self.state.clone();
        possible.extend(self.doubtful);
        if !possible.starts_with(&found) {
            let place = found.iter().zip(&possible).position(|(found, written)| found != written);
            let place = place.unwrap_or(possible.len());
            return Err(format!("batch {place} of {} was never written there: {:?}", found.len(), found.get(place)));
        }
        let highest = found.last().map_or(0, |batch| batch.version).max(self.shown);
        if next_version <= highest {
            return Err(format!("version {next_version} would be used again: {highest} was seen"));
        }
        self.acknowledged = found.len();
        self.state = found;
        self.doubtful = None;
        Ok(())
    }
}

/// Small sizes, so that a few batches reach every border.
pub fn small(epoch: u64) -> Options {
    Options {
        first_segment_bytes: 2048,
        segment_bytes: 4096,
        reserve_versions: 8,
        ..Options::new(Epoch(epoch), 0x5eed, "0.1.0")
    }
}

pub struct Server<D: Disk> {
    pub disk: D,
    pub log: Log<D>,
    pub next_version: u64,
    epoch: u64,
    checkpoint: Option<(CheckpointWriter<D>, Vec<Batch>)>,
}

impl<D: Disk> Server<D> {
    /// Reads a whole folder.
    pub fn open(disk: D, epoch: u64) -> Result<(Self, Vec<Batch>, Vec<String>), OpenError> {
        let opening = Log::open(disk.clone(), small(epoch))?;
        let mut found = Vec::new();
        if let Some(checkpoint) = opening.checkpoint() {
            let mut buffer = Vec::new();
            for index in 0..checkpoint.chunk_count() {
                for entry in checkpoint.read_chunk(index, &mut buffer)?.chunks(16) {
                    let word = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().unwrap());
                    found.push(Batch { version: word(0), sum: word(8) });
                }
            }
        }
        let (log, recovered) = opening.replay(|record: Record<'_>| {
            found.push(Batch::of(record.version.0, record.payload));
            Ok::<(), OpenError>(())
        })?;
        let server = Self { disk, log, next_version: recovered.next_version.0, epoch, checkpoint: None };
        Ok((server, found, recovered.warnings.iter().map(ToString::to_string).collect()))
    }

    /// Opens, and holds what is found against what was promised.
    pub fn start(disk: D, epoch: u64, promises: &mut Promises) -> Result<Result<Self, OpenError>, String> {
        match Self::open(disk, epoch) {
            Ok((server, found, _)) => promises.check(found, server.next_version).map(|()| Ok(server)),
            Err(error @ (OpenError::Io { .. } | OpenError::Locked { .. })) => Ok(Err(error)),
            Err(error) => Err(format!("the start refused: {error}")),
        }
    }

    pub fn append(
        &mut self,
        promises: &mut Promises,
        payload: &[u8],
        class: DurabilityClass,
    ) -> Result<(), AppendError> {
        let batch = Batch::of(self.next_version, payload);
        let (front, back) = payload.split_at(payload.len() / 2);
        let result = self.log.append(Version(batch.version), &[front, back], Epoch(self.epoch), class);
        self.next_version += 1;
        match result {
            Ok(appended) => {
                promises.state.push(batch);
                promises.shown = batch.version;
                assert!(class == DurabilityClass::Relaxed || appended.durable);
                if appended.durable {
                    promises.acknowledged = promises.state.len();
                }
                Ok(())
            }
            Err(error) => {
                // A log that was broken before took nothing of this batch; then an earlier one is in doubt.
                if matches!(error, AppendError::NeedsCheckpoint { .. }) && promises.doubtful.is_none() {
                    promises.doubtful = Some(batch);
                }
                Err(error)
            }
        }
    }

    pub fn sync(&mut self, promises: &mut Promises) -> Result<(), AppendError> {
        self.log.sync()?;
        promises.acknowledged = promises.state.len();
        Ok(())
    }

    pub fn idle(&mut self, promises: &mut Promises) -> Result<(), AppendError> {
        self.log.idle_record()?;
        assert!(!self.log.needs_idle_record());
        promises.acknowledged = promises.state.len();
        Ok(())
    }

    /// Lets readers see a version that no batch has, as a change of volatile rows does.
    pub fn show(&mut self, promises: &mut Promises, leap: u64) -> Result<(), AppendError> {
        let version = self.next_version + leap;
        self.log.reserve(Version(version))?;
        assert!(self.log.reserved_version() >= Version(version));
        self.next_version = version + 1;
        promises.shown = version;
        Ok(())
    }

    pub fn begin_checkpoint(&mut self, promises: &mut Promises) -> Result<(), String> {
        let healthy = self.log.needs_checkpoint().is_none();
        let mut writer =
            self.log.checkpoint_writer(Version(self.next_version - 1)).map_err(|error| error.to_string())?;
        if healthy {
            promises.acknowledged = promises.state.len();
        }
        let (first, rest) = promises.state.split_at(promises.state.len() / 2);
        write_chunks(&mut writer, first)?;
        self.checkpoint = Some((writer, rest.to_vec()));
        Ok(())
    }

    pub fn finish_checkpoint(&mut self, promises: &mut Promises) -> Result<(), String> {
        let Some((mut writer, rest)) = self.checkpoint.take() else { return Ok(()) };
        write_chunks(&mut writer, &rest)?;
        let finished = writer.finish().map_err(|error| error.to_string())?;
        let was_broken = self.log.needs_checkpoint().is_some();
        self.log.checkpoint_done(finished).map_err(|error| error.to_string())?;
        if was_broken && self.log.needs_checkpoint().is_none() {
            promises.acknowledged = promises.state.len();
            promises.doubtful = None;
        }
        Ok(())
    }
}

pub fn write_chunks<D: Disk>(writer: &mut CheckpointWriter<D>, batches: &[Batch]) -> Result<(), String> {
    for chunk in batches.chunks(5) {
        let bytes: Vec<u8> =
            chunk.iter().flat_map(|batch| [batch.version.to_le_bytes(), batch.sum.to_le_bytes()]).flatten().collect();
        writer.write(&bytes).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The bytes of a batch: no two are alike.
pub fn payload(random: &mut Random, version: u64, length: usize) -> Vec<u8> {
    let mut bytes = random.bytes(length);
    let number = version.to_le_bytes();
    let copied = length.min(number.len());
    bytes[..copied].copy_from_slice(&number[..copied]);
    bytes
}
