//! Appending: what one thread does to the log while it is open.

use std::io;
use std::io::IoSlice;

use crate::blobs::Blobs;
use crate::checkpoint::CheckpointHeader;
use crate::checkpoint::CheckpointWriter;
use crate::checkpoint::FinishedCheckpoint;
use crate::disk::Disk;
use crate::disk::DiskFile;
use crate::disk::write_zeros;
use crate::error::AppendError;
use crate::error::CheckpointError;
use crate::limits::MAX_NUMBER;
use crate::limits::MAX_RECORD_BYTES;
use crate::limits::MAX_SEGMENT_BYTES;
use crate::limits::SEGMENT_GROWTH;
use crate::names;
use crate::names::Epoch;
use crate::names::Sequence;
use crate::names::Version;
use crate::options::DurabilityClass;
use crate::options::Options;
use crate::record;
use crate::record::RecordHeader;
use crate::record::RecordKind;
use crate::record::record_bytes;
use crate::segment::Ready;
use crate::segment::SEGMENT_HEADER_BYTES;
use crate::segment::Segment;
use crate::segment::SegmentHeader;
use crate::segment::SegmentPreparer;

/// A batch that is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its place.
    pub sequence: Sequence,
    /// Whether it is on disk, and not only on its way there.
    pub durable: bool,
}

/// The open log. It belongs to one thread, which may block on the disk.
#[derive(Debug)]
pub struct Log<D: Disk> {
    pub(crate) disk: D,
    pub(crate) options: Options,
    // Held for as long as the log is open.
    pub(crate) _lock: D::Lock,
    pub(crate) segment: Segment<D::File>,
    pub(crate) ready: Ready<D>,
    pub(crate) position: Position,
    /// Why nothing may be acknowledged, since something that was written may be lost.
    pub(crate) broken: Option<String>,
    /// How often the log has broken: tells whether a checkpoint was begun before or after that.
    pub(crate) failures: u64,
    pub(crate) checkpoints_begun: u64,
    /// One record, put together here so that it goes out in one write.
    pub(crate) buffer: Vec<u8>,
    /// Bytes of all records since the start, and of those that the start replayed.
    pub(crate) appended: u64,
    /// How many of them the last checkpoint covers.
    pub(crate) covered: u64,
    pub(crate) blobs: Blobs<D>,
}

/// How far the log has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    /// The newest epoch seen.
    pub(crate) epoch: u64,
    /// Sequence of the last record written.
    pub(crate) written: u64,
    /// Sequence of the last record known durable.
    pub(crate) durable: u64,
    /// Version of the last batch written.
    pub(crate) written_version: u64,
    /// Version of the last batch known durable.
    pub(crate) durable_version: u64,
    /// The highest version used, also by batches that failed.
    pub(crate) used_version: u64,
    /// The reserve in the last record written.
    pub(crate) written_reserve: u64,
    /// The reserve that is known durable: no version above it may be shown to anyone.
    pub(crate) durable_reserve: u64,
    /// The last record proves the one before it, so none is owed.
    pub(crate) proven: bool,
}

impl<D: Disk> Log<D> {
    /// Adds a batch. `payload` is the batch in parts, which are written one after the other. A committed batch is
    /// durable when this returns, and so is every batch before it.
    ///
    /// `version` must be above every version used before, also by batches that failed.
    ///
    /// # Errors
    /// After `NeedsCheckpoint` the batch may come back in a restart, or not, until a checkpoint decides it. After any
    /// other error the batch is certain not to be in the log, and the log goes on.
    pub fn append(
        &mut self,
        version: Version,
        payload: &[&[u8]],
        epoch: Epoch,
        class: DurabilityClass,
    ) -> Result<Appended, AppendError> {
        let bytes: u64 = payload.iter().map(|part| part.len() as u64).sum();
        self.admit(version, bytes, epoch)?;
        self.make_room(record_bytes(bytes))?;
        self.reserve_to(version)?;
        self.write_record(RecordKind::Batch, version.0, payload)?;
        if class == DurabilityClass::Committed {
            self.sync()?;
        }
        Ok(Appended {
            sequence: Sequence(self.position.written),
            durable: self.position.durable == self.position.written,
        })
    }

    fn admit(&mut self, version: Version, bytes: u64, epoch: Epoch) -> Result<(), AppendError> {
        self.check_epoch(epoch)?;
        self.check_trusted()?;
        if bytes > MAX_RECORD_BYTES as u64 {
            return Err(AppendError::TooLarge { bytes });
        }
        check_range(version)?;
        if version.0 <= self.position.used_version {
            return Err(AppendError::VersionUsed { version, last: Version(self.position.used_version) });
        }
        Ok(())
    }

    fn check_epoch(&mut self, epoch: Epoch) -> Result<(), AppendError> {
        if epoch.0 < self.position.epoch {
            return Err(AppendError::Fenced { epoch, newest: Epoch(self.position.epoch) });
        }
        self.position.epoch = epoch.0;
        Ok(())
    }

    fn check_trusted(&self) -> Result<(), AppendError> {
        match &self.broken {
            Some(reason) => Err(AppendError::NeedsCheckpoint { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Shuts out every epoch below this one, as an append of it would.
    ///
    /// # Errors
    /// `Fenced` if a higher one was seen already.
    pub fn fence(&mut self, epoch: Epoch) -> Result<(), AppendError> {
        self.check_epoch(epoch)
    }

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// `NeedsCheckpoint` if the disk failed, now or before.
    pub fn sync(&mut self) -> Result<(), AppendError> {
        self.check_trusted()?;
        if !self.needs_sync() {
            return Ok(());
        }
        if let Err(error) = self.segment.file.sync_data() {
            let reason = format!("fdatasync of {}: {error}", self.segment.name);
            return Err(self.break_off(reason));
        }
        self.note_durable();
        Ok(())
    }

    /// Whether something was written that is not known durable.
    pub fn needs_sync(&self) -> bool {
        self.position.durable < self.position.written
    }

    fn note_durable(&mut self) {
        let position = &mut self.position;
        position.durable = position.written;
        position.durable_version = position.written_version;
        position.durable_reserve = position.written_reserve;
    }

    /// Whether the last batch has no later record yet that proves it durable: `idle_record` is owed.
    pub fn needs_idle_record(&self) -> bool {
        !self.position.proven
    }

    /// Proves the last batch durable with one more, empty record, so that a start can tell damage to it from a crash.
    /// Nothing happens if it is proven already.
    ///
    /// # Errors
    /// As for `append`; what is owed stays owed.
    pub fn idle_record(&mut self) -> Result<(), AppendError> {
        self.sync()?;
        if self.needs_idle_record() {
            self.make_control_room()?;
            self.write_record(RecordKind::Idle, self.position.written_version, &[])?;
            self.sync()?;
        }
        Ok(())
    }

    /// Ends the log cleanly: everything is durable, and proven to be.
    ///
    /// # Errors
    /// As for `idle_record`. The folder is unlocked all the same.
    pub fn close(mut self) -> Result<(), AppendError> {
        self.idle_record()
    }

    /// Makes sure that a version may be shown to readers before any batch of it is durable: a start after a crash
    /// then begins above it. Costs nothing while the version is well within the reserve.
    ///
    /// # Errors
    /// As for `append`.
    pub fn reserve(&mut self, version: Version) -> Result<(), AppendError> {
        if version.0.saturating_add(self.options.reserve_versions / 2) <= self.position.durable_reserve {
            return Ok(());
        }
        self.check_trusted()?;
        check_range(version)?;
        self.write_reserve(version.0.saturating_add(self.options.reserve_versions))
    }

    /// Versions up to this one may be shown.
    pub fn reserved_version(&self) -> Version {
        Version(self.position.durable_reserve)
    }

    /// A batch's own record carries a renewed reserve along long before it is needed. Only a leap of versions costs
    /// a record and a sync of its own.
    fn reserve_to(&mut self, version: Version) -> Result<(), AppendError> {
        if version.0 <= self.position.durable_reserve {
            return Ok(());
        }
        self.write_reserve(version.0.saturating_add(self.options.reserve_versions))
    }

    pub(crate) fn write_reserve(&mut self, reserve: u64) -> Result<(), AppendError> {
        self.make_control_room()?;
        let before = self.position.written_reserve;
        self.position.written_reserve = before.max(reserve.min(MAX_NUMBER));
        if let Err(error) = self.write_record(RecordKind::Reserve, self.position.written_version, &[]) {
            self.position.written_reserve = before;
            return Err(error);
        }
        self.sync()
    }

    fn write_record(&mut self, kind: RecordKind, version: u64, payload: &[&[u8]]) -> Result<(), AppendError> {
        let before = self.position;
        let position = &mut self.position;
        if kind == RecordKind::Batch {
            position.used_version = version;
            if version.saturating_add(self.options.reserve_versions / 2) > position.written_reserve {
                position.written_reserve = version.saturating_add(self.options.reserve_versions).min(MAX_NUMBER);
            }
        }
        let (sequence, reserve) = (position.written + 1, position.written_reserve);
        let header = RecordHeader::new(kind, sequence, position.epoch, position.durable, version, reserve);
        record::encode(&mut self.buffer, &header, payload, self.segment.header.salt);
        let bytes = self.buffer.len() as u64;
        if let Err(source) = self.segment.file.write_at(&[IoSlice::new(&self.buffer)], self.segment.end) {
            self.position = Position { used_version: self.position.used_version, ..before };
            return Err(self.take_back(bytes, source));
        }
        self.segment.end += bytes;
        self.appended += bytes;
        let position = &mut self.position;
        position.written = sequence;
        position.written_version = version;
        position.proven = kind == RecordKind::Idle;
        Ok(())
    }

    /// After a failed write any part of the record may be in the file. It must be gone for certain before another
    /// takes its place, or before its batch is said to have failed.
    fn take_back(&mut self, bytes: u64, source: io::Error) -> AppendError {
        let erased = write_zeros(&self.segment.file, self.segment.end, bytes);
        match erased.and_then(|()| self.segment.file.sync_data()) {
            Ok(()) => {
                self.note_durable();
                self.write_error("writing to", self.segment.name.clone(), bytes, source)
            }
            Err(error) => {
                // Its sequence is used up: the file may hold a record of it.
                self.position.written += 1;
                self.break_off(format!("a write to {}: {source}; and erasing what it left: {error}", self.segment.name))
            }
        }
    }

    fn write_error(&self, action: &'static str, file: String, bytes: u64, source: io::Error) -> AppendError {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => AppendError::NoSpace { bytes, source },
            _ => AppendError::Io { action, file, source },
        }
    }

    fn break_off(&mut self, reason: String) -> AppendError {
        self.failures += 1;
        self.broken = Some(reason.clone());
        AppendError::NeedsCheckpoint { reason }
    }

    /// Goes on to the next segment if a batch does not fit into this one.
    fn make_room(&mut self, bytes: u64) -> Result<(), AppendError> {
        if self.segment.has_room_for_batch(bytes) { Ok(()) } else { self.next_segment(bytes) }
    }

    fn make_control_room(&mut self) -> Result<(), AppendError> {
        if self.segment.has_room_for_control() { Ok(()) } else { self.next_segment(0) }
    }

    fn next_segment(&mut self, bytes: u64) -> Result<(), AppendError> {
        // The new segment's existence says that all records before it are durable.
        self.sync()?;
        let header = self.next_header(self.position.written + 1, self.next_segment_bytes(bytes), false);
        let name = names::segment(header.first);
        match self.ready.begin(header) {
            Ok(segment) => {
                self.segment = segment;
                Ok(())
            }
            Err(error) if error.uncertain => Err(self.break_off(format!("naming {name}: {}", error.source))),
            Err(error) => Err(self.write_error("making", name, bytes, error.source)),
        }
    }

    fn next_header(&self, first: u64, bytes: u64, follows_checkpoint: bool) -> SegmentHeader {
        let salt = segment_salt(self.options.salt, first);
        SegmentHeader { first, epoch: self.position.epoch, salt, bytes, follows_checkpoint }
    }

    fn next_segment_bytes(&self, record_bytes: u64) -> u64 {
        let grown = self.segment.header.bytes.saturating_mul(SEGMENT_GROWTH);
        grown
            .min(self.options.segment_bytes.min(MAX_SEGMENT_BYTES))
            .max(Segment::<D::File>::bytes_to_hold(record_bytes))
    }

    /// Something to make the next segment ready with, on any thread, once this one is half full. Calling it after
    /// each append is cheap.
    pub fn segment_preparer(&self) -> Option<SegmentPreparer<D>> {
        if self.segment.end * 2 < self.segment.header.bytes {
            return None;
        }
        self.ready.preparer(self.next_segment_bytes(0))
    }

    /// Begins a checkpoint of the state after all batches appended so far. `version` is the version of that state:
    /// that of the last batch, or a later one if versions passed that were not logged.
    ///
    /// In a log that needs a checkpoint, the state must hold every batch up to the last durable one, and may hold
    /// those after it that were acknowledged as relaxed.
    ///
    /// # Errors
    /// `TooOld` for a state that lacks batches; otherwise those of the disk.
    pub fn checkpoint_writer(&mut self, version: Version) -> Result<CheckpointWriter<D>, CheckpointError> {
        let broken = self.broken.is_some();
        let oldest = if broken { self.position.durable_version } else { self.position.written_version };
        if version.0 < oldest {
            return Err(CheckpointError::TooOld { version, oldest: Version(oldest) });
        }
        check_range(version).map_err(CheckpointError::Sync)?;
        if !broken {
            self.reserve(version).and_then(|()| self.sync()).map_err(CheckpointError::Sync)?;
        }
        let position = &mut self.position;
        position.used_version = position.used_version.max(version.0);
        let (segment, offset) = if broken {
            (position.written + 1, SEGMENT_HEADER_BYTES)
        } else {
            (self.segment.header.first, self.segment.end)
        };
        let header = CheckpointHeader {
            sequence: position.written,
            epoch: position.epoch,
            version: version.0,
            reserved: position.written_reserve.max(version.0),
            segment,
            offset,
            new_segment: broken,
        };
        self.checkpoints_begun += 1;
        CheckpointWriter::create(self.disk.clone(), header, self.failures, self.appended, self.checkpoints_begun)
    }

    /// Begins a checkpoint of a state that does not come from this log, as a restore from a backup does. Every batch
    /// before it is void once the checkpoint is finished, so nothing can be appended until `checkpoint_done`: the log
    /// needs a checkpoint from here on, this one or, if the restore is given up, one of the state before.
    ///
    /// # Errors
    /// As for `checkpoint_writer`.
    pub fn restore_writer(&mut self, version: Version) -> Result<CheckpointWriter<D>, CheckpointError> {
        if self.broken.is_none() {
            self.sync().map_err(CheckpointError::Sync)?;
            self.break_off("a restore was begun and is not finished".to_owned());
        }
        self.checkpoint_writer(version)
    }

    /// Takes a finished checkpoint into use: what it replaces is removed, and a log that needed it is whole again.
    ///
    /// # Errors
    /// If the new segment of a broken log cannot be made, the log stays broken; write another checkpoint then. Files
    /// that could not be removed are removed after the next checkpoint.
    pub fn checkpoint_done(&mut self, checkpoint: FinishedCheckpoint) -> Result<(), AppendError> {
        let header = checkpoint.header;
        // Only a checkpoint that was begun since the failure holds everything that was acknowledged.
        if self.broken.is_some() && checkpoint.failures == self.failures {
            self.mend(&header)?;
        }
        self.covered = self.covered.max(checkpoint.appended);
        self.remove_replaced(&header).map_err(|source| AppendError::Io {
            action: "removing files replaced by",
            file: names::checkpoint(header.sequence),
            source,
        })
    }

    fn mend(&mut self, header: &CheckpointHeader) -> Result<(), AppendError> {
        let bytes = self.next_segment_bytes(0);
        let new = self.next_header(header.segment, bytes, true);
        let name = names::segment(new.first);
        self.segment = match self.ready.begin(new) {
            Ok(segment) => segment,
            Err(error) if error.uncertain => return Err(self.break_off(format!("naming {name}: {}", error.source))),
            Err(error) => return Err(self.write_error("making", name, bytes, error.source)),
        };
        self.broken = None;
        let position = &mut self.position;
        position.durable = position.written;
        position.written_version = header.version;
        position.durable_version = header.version;
        position.written_reserve = header.reserved;
        position.durable_reserve = header.reserved;
        position.proven = true;
        Ok(())
    }

    fn remove_replaced(&self, header: &CheckpointHeader) -> io::Result<()> {
        for name in self.disk.list("")? {
            let replaced = names::parse_segment(&name).is_some_and(|first| first < header.segment)
                || names::parse_checkpoint(&name).is_some_and(|sequence| sequence < header.sequence);
            if replaced {
                self.disk.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Bytes of the records after the last checkpoint that was taken into use, or read at the start: what a restart
    /// must replay.
    pub fn bytes_since_checkpoint(&self) -> u64 {
        self.appended - self.covered
    }

    /// Whether nothing is acknowledged until a checkpoint is written, and why.
    pub fn needs_checkpoint(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Sequence of the last record.
    pub fn last_sequence(&self) -> Sequence {
        Sequence(self.position.written)
    }

    /// Sequence up to which everything is known durable.
    pub fn durable_sequence(&self) -> Sequence {
        Sequence(self.position.durable)
    }

    /// Version of the last batch known durable.
    pub fn durable_version(&self) -> Version {
        Version(self.position.durable_version)
    }

    /// The newest epoch seen.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.position.epoch)
    }

    /// The blobs beside the log, usable from any thread.
    pub fn blobs(&self) -> Blobs<D> {
        self.blobs.clone()
    }
}

fn check_range(version: Version) -> Result<(), AppendError> {
    if version.0 > MAX_NUMBER { Err(AppendError::VersionOutOfRange { version }) } else { Ok(()) }
}

/// Each segment has a salt of its own: a copy of another segment inside a payload is no record here either.
pub(crate) fn segment_salt(salt: u64, first: u64) -> u32 {
    let mixed = (salt ^ first.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 32) as u32
}
