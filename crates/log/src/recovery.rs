//! Opening a folder: what is in it, whether it can be trusted, and where writing goes on.
//!
//! A place where the next record should be and is not has two explanations. If any later record or segment says that
//! the missing one was durable when it was written, then it was on disk and is damaged: the start refuses. If none
//! does, then nobody was ever told that it is durable: it is the torn tail of a crash, and is cut.
//!
//! Nothing is changed before the whole log was read and found sound, except the lock file.

use std::io;
use std::io::IoSlice;
use std::sync::Arc;

use crate::blobs::Blobs;
use crate::checkpoint::CheckpointHeader;
use crate::checkpoint::CheckpointReader;
use crate::disk::Disk;
use crate::disk::DiskFile;
use crate::disk::LockAttempt;
use crate::disk::write_zeros;
use crate::error::AppendError;
use crate::error::OpenError;
use crate::error::Warning;
use crate::format;
use crate::format::Format;
use crate::log::Log;
use crate::log::Position;
use crate::log::segment_salt;
use crate::names;
use crate::names::Epoch;
use crate::names::Sequence;
use crate::names::Version;
use crate::options::Options;
use crate::record::find_proof;
use crate::segment;
use crate::segment::BeginError;
use crate::segment::ReadSegmentError;
use crate::segment::Ready;
use crate::segment::SEGMENT_HEADER_BYTES;
use crate::segment::Segment;
use crate::segment::SegmentHeader;
use crate::segment::without_trailing_zeros;
use crate::walk::Record;
use crate::walk::Tail;
use crate::walk::Walk;

/// What a start found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Version of the last batch, or of the checkpoint if none came after it; 0 in a new folder.
    pub last_version: Version,
    /// The first version that was certainly never shown to anyone.
    pub next_version: Version,
    /// How many batches were replayed after the checkpoint.
    pub batches: u64,
    /// What a person should hear of.
    pub warnings: Vec<Warning>,
}

/// A folder that is locked and has a sound format; its rows are read first from the checkpoint, then by `replay`.
#[derive(Debug)]
pub struct Opening<D: Disk> {
    disk: D,
    options: Options,
    lock: D::Lock,
    format: Option<Format>,
    /// First sequences of the segments, in order.
    segments: Vec<u64>,
    checkpoint: Option<Arc<CheckpointReader<D>>>,
    /// The damaged checkpoint that older files stand in for: they must reach as far as it did.
    replaced: Option<(u64, OpenError)>,
    warnings: Vec<Warning>,
}

/// A log that was read to its end and is sound. Dropped, it leaves the folder as it was.
pub struct ReadLog<D: Disk> {
    opening: Opening<D>,
    start: Option<CheckpointHeader>,
    walk: Walk,
    tail: Option<Tail<D::File>>,
}

impl<D: Disk> ReadLog<D> {
    /// The first version that was certainly never shown to anyone.
    pub fn next_version(&self) -> Version {
        Version(self.walk.next_version())
    }

    /// Makes the log ready to be written: a torn tail is cut, leftovers are removed, and versions are reserved.
    ///
    /// # Errors
    /// `Io` if that cannot be written.
    pub fn start(self) -> Result<(Log<D>, Recovered), OpenError> {
        let ReadLog { opening, start, walk, tail } = self;
        let segment = match tail {
            Some(tail) => opening.adopt(tail, &walk)?,
            None => opening.begin_segment(start.as_ref(), &walk)?,
        };
        opening.remove_leftovers(start.as_ref());
        opening.start(segment, &walk)
    }
}

impl<D: Disk> Log<D> {
    /// Locks a folder and finds its newest sound checkpoint. A new folder is one without a `format` file.
    ///
    /// # Errors
    /// See `OpenError`. A folder of a newer format is left untouched to the byte.
    pub fn open(disk: D, options: Options) -> Result<Opening<D>, OpenError> {
        // Before the lock, since even taking it would write to a folder that is not ours to touch.
        format::check(&disk, &options.program_version)?;
        let io = |action, file: &str, source| OpenError::Io {
            action,
            folder: disk.describe(),
            file: file.to_owned(),
            source,
        };
        let lock = match disk.lock(names::LOCK).map_err(|source| io("locking", names::LOCK, source))? {
            LockAttempt::Taken(lock) => lock,
            LockAttempt::Held(holder) => return Err(OpenError::Locked { folder: disk.describe(), holder }),
        };
        let format = format::check(&disk, &options.program_version)?;
        let found = disk.list("").map_err(|source| io("listing", ".", source))?;
        let mut segments: Vec<u64> = found.iter().filter_map(|name| names::parse_segment(name)).collect();
        segments.sort_unstable();
        let mut checkpoints: Vec<u64> = found.iter().filter_map(|name| names::parse_checkpoint(name)).collect();
        checkpoints.sort_unstable();
        if format.is_none() {
            refuse_without_format(&disk, &segments, &checkpoints)?;
            segments.clear();
        }
        let (checkpoint, replaced, warnings) = (None, None, Vec::new());
        let mut opening = Opening { disk, options, lock, format, segments, checkpoint, replaced, warnings };
        opening.choose_checkpoint(&checkpoints)?;
        Ok(opening)
    }
}

/// The `format` file is written when the first, empty segment is durable, and before its first record. So a folder
/// that has none is new, or was being made; but not if it has records.
fn refuse_without_format<D: Disk>(disk: &D, segments: &[u64], checkpoints: &[u64]) -> Result<(), OpenError> {
    let missing = |needed_by| OpenError::Missing { folder: disk.describe(), file: names::FORMAT.to_owned(), needed_by };
    if let Some(sequence) = checkpoints.first() {
        return Err(missing(names::checkpoint(*sequence)));
    }
    for first in segments {
        let Ok((file, header)) = segment::open_segment(disk, *first) else {
            return Err(missing(names::segment(*first)));
        };
        let mut bytes = Vec::new();
        let read = segment::read_from(&file, &header, SEGMENT_HEADER_BYTES, &mut bytes);
        read.map_err(|source| OpenError::Io {
            action: "reading",
            folder: disk.describe(),
            file: names::segment(*first),
            source,
        })?;
        if *first != 1 || without_trailing_zeros(&bytes) > 0 {
            return Err(missing(names::segment(*first)));
        }
    }
    Ok(())
}

impl<D: Disk> Opening<D> {
    /// The checkpoint whose chunks must be read too, before or beside the log; `None` if the log starts from nothing.
    pub fn checkpoint(&self) -> Option<&Arc<CheckpointReader<D>>> {
        self.checkpoint.as_ref()
    }

    /// Takes the newest sound checkpoint. If older files could stand in for it, it is read in full here, so that
    /// damage is found while they can still be used. Usually there are none, and each chunk is checked when it is read.
    fn choose_checkpoint(&mut self, checkpoints: &[u64]) -> Result<(), OpenError> {
        let from_the_start = self.segments.first() == Some(&1);
        for (index, sequence) in checkpoints.iter().enumerate().rev() {
            let replaceable = index > 0 || from_the_start;
            let opened = CheckpointReader::open(&self.disk, *sequence);
            match opened.and_then(|reader| if replaceable { reader.verify().map(|()| reader) } else { Ok(reader) }) {
                Ok(reader) => {
                    self.checkpoint = Some(Arc::new(reader));
                    break;
                }
                Err(error) => {
                    let OpenError::Damaged { file, offset, .. } = &error else { return Err(error) };
                    if !replaceable {
                        return Err(self.replaced.take().map_or(error, |(_, first)| first));
                    }
                    self.warnings.push(Warning::CheckpointDamaged { file: file.clone(), offset: *offset });
                    self.replaced.get_or_insert((*sequence, error));
                }
            }
        }
        Ok(())
    }

    /// Reads every batch after the checkpoint, in order, then makes the log ready to be written.
    ///
    /// # Errors
    /// See `OpenError`, or what `apply` returned. Nothing was changed if the files are damaged.
    pub fn replay<E: From<OpenError>>(
        self,
        apply: impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<(Log<D>, Recovered), E> {
        Ok(self.read(apply)?.start()?)
    }

    /// Reads every batch after the checkpoint, in order, and changes nothing yet.
    ///
    /// # Errors
    /// See `OpenError`, or what `apply` returned.
    pub fn read<E: From<OpenError>>(
        mut self,
        mut apply: impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<ReadLog<D>, E> {
        let start = self.checkpoint.as_ref().map(|checkpoint| *checkpoint.header());
        let mut walk = Walk::new(start.as_ref());
        let tail = self.walk(start.as_ref(), &mut walk, &mut apply)?;
        match self.replaced.take() {
            Some((sequence, error)) if walk.next <= sequence => return Err(error.into()),
            _ => {}
        }
        if self.options.epoch.0 < walk.epoch {
            let (epoch, newest) = (self.options.epoch, Epoch(walk.epoch));
            return Err(OpenError::Fenced { epoch, newest }.into());
        }
        Ok(ReadLog { opening: self, start, walk, tail })
    }

    /// Reads all segments from the checkpoint on. Gives the last one; `None` if there is none yet.
    fn walk<E: From<OpenError>>(
        &mut self,
        start: Option<&CheckpointHeader>,
        walk: &mut Walk,
        apply: &mut impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<Option<Tail<D::File>>, E> {
        let mut first = start.map_or(1, |header| header.segment);
        let mut offset = start.map_or(SEGMENT_HEADER_BYTES, |header| header.offset);
        if !self.segments.contains(&first) {
            // A broken log's checkpoint comes before its new segment; a crash between the two is no damage.
            let may_be_new = start.map_or(self.format.is_none(), |header| header.new_segment);
            let later = self.segments.iter().any(|segment| *segment > first);
            if may_be_new && !later {
                return Ok(None);
            }
            let needed_by = start.map_or(names::FORMAT.to_owned(), |header| names::checkpoint(header.sequence));
            return Err(self.refusal(self.missing(names::segment(first), needed_by)).into());
        }
        let mut begun = true;
        let mut buffer = Vec::new();
        loop {
            let mut tail = self.read_segment(first, offset, buffer)?;
            if tail.header.follows_checkpoint && !begun {
                let error = self.missing(names::checkpoint(first - 1), tail.name());
                return Err(self.refusal(error).into());
            }
            begun = false;
            walk.read(&mut tail, apply)?;
            if walk.next > first && self.segments.contains(&walk.next) {
                (first, offset) = (walk.next, SEGMENT_HEADER_BYTES);
                buffer = tail.bytes;
                walk.enter_segment();
                continue;
            }
            self.judge(&mut tail, walk)?;
            return Ok(Some(tail));
        }
    }

    fn read_segment(&self, first: u64, offset: u64, mut bytes: Vec<u8>) -> Result<Tail<D::File>, OpenError> {
        let name = names::segment(first);
        let io = |source| OpenError::Io { action: "reading", folder: self.disk.describe(), file: name.clone(), source };
        let (file, header) = segment::open_segment(&self.disk, first).map_err(|error| match error {
            ReadSegmentError::Io(source) => io(source),
            ReadSegmentError::Damaged(offset, what) => self.damaged(name.clone(), offset, what),
        })?;
        if offset < SEGMENT_HEADER_BYTES || offset > header.bytes {
            let what = format!("the checkpoint says that the log goes on at byte {offset}, which is outside");
            return Err(self.damaged(name.clone(), header.bytes, what));
        }
        segment::read_from(&file, &header, offset, &mut bytes).map_err(io)?;
        Ok(Tail { file, header, offset, bytes, end: 0, dirty: 0 })
    }

    /// Decides what the end of the records in the last segment is: the end, a torn tail, or damage.
    fn judge(&mut self, tail: &mut Tail<D::File>, walk: &Walk) -> Result<(), OpenError> {
        let here = tail.offset + tail.end as u64;
        if let Some(later) = self.segments.iter().find(|first| **first > tail.header.first) {
            let what = format!(
                "record {} is not what was written, but it was on disk before {} was begun",
                walk.next,
                names::segment(*later)
            );
            return Err(self.refusal(self.damaged(tail.name(), here, what)));
        }
        let rest = &tail.bytes[tail.end..];
        tail.dirty = without_trailing_zeros(rest);
        if let Some((offset, sequence)) = find_proof(&rest[..tail.scanned()], 0, tail.header.salt, walk.next) {
            let what = format!(
                "record {} is not what was written, but record {sequence} at byte {} says that it was on disk",
                walk.next,
                here + offset as u64
            );
            return Err(self.refusal(self.damaged(tail.name(), here, what)));
        }
        if tail.dirty > 0 {
            self.warnings.push(Warning::TornTail {
                file: tail.name(),
                offset: here,
                bytes: tail.dirty as u64,
                sequence: Sequence(walk.next),
            });
        }
        Ok(())
    }

    /// Makes the last segment safe to go on with.
    fn adopt(&self, tail: Tail<D::File>, walk: &Walk) -> Result<Segment<D::File>, OpenError> {
        let name = tail.name();
        let end = tail.offset + tail.end as u64;
        let prepare = || {
            if tail.dirty > 0 {
                // Whole records may lie beyond the torn one. They must be gone before a new one is written in
                // front of them, or the next start would take them for its successors.
                write_zeros(&tail.file, end, tail.dirty as u64)?;
                tail.file.sync_data()?;
            }
            // Records that were read from the page cache need not be on disk: if an earlier server's sync failed,
            // the kernel holds them for clean. Written again, they are made durable by the next sync.
            if let Some((_, unproven)) = walk.unproven.front() {
                let start = tail.offset + *unproven as u64;
                tail.file.write_at(&[IoSlice::new(&tail.bytes[*unproven..tail.end])], start)?;
            }
            Ok(())
        };
        prepare().map_err(|source| self.io("cutting the torn end of", name.clone(), source))?;
        Ok(Segment { file: tail.file, name, header: tail.header, end })
    }

    /// Begins the first segment of a new folder, or of a mended log.
    fn begin_segment(&self, start: Option<&CheckpointHeader>, walk: &Walk) -> Result<Segment<D::File>, OpenError> {
        let smallest = Segment::<D::File>::bytes_to_hold(0);
        let header = SegmentHeader {
            first: walk.next,
            epoch: self.options.epoch.0,
            salt: segment_salt(self.options.salt, walk.next),
            bytes: self.options.first_segment_bytes.max(smallest),
            follows_checkpoint: start.is_some(),
        };
        let begun = Ready::new(self.disk.clone()).begin(header);
        begun.map_err(|BeginError { source, .. }| self.io("making", names::segment(walk.next), source))
    }

    /// What a crash left between two steps. That it cannot be removed now is no reason not to start: it is tried again.
    fn remove_leftovers(&self, start: Option<&CheckpointHeader>) {
        let (segment, checkpoint) = start.map_or((1, 0), |header| (header.segment, header.sequence));
        for name in self.disk.list("").unwrap_or_default() {
            let replaced = names::parse_segment(&name).is_some_and(|first| first < segment)
                || names::parse_checkpoint(&name).is_some_and(|sequence| sequence < checkpoint)
                || name.ends_with(names::TEMPORARY_SUFFIX);
            if replaced {
                let _ = self.disk.remove(&name);
            }
        }
    }

    fn start(self, segment: Segment<D::File>, walk: &Walk) -> Result<(Log<D>, Recovered), OpenError> {
        let ours = Format::ours(&self.options.program_version);
        if self.format.as_ref() != Some(&ours) {
            format::write(&self.disk, &ours)?;
        }
        let next_version = walk.next_version();
        let reserve = next_version.saturating_add(self.options.reserve_versions);
        let position = Position {
            epoch: self.options.epoch.0,
            written: walk.next - 1,
            durable: walk.proven,
            written_version: walk.version,
            durable_version: walk.version,
            used_version: next_version - 1,
            written_reserve: walk.reserved,
            durable_reserve: walk.reserved,
            proven: false,
        };
        let mut log = Log {
            ready: Ready::new(self.disk.clone()),
            blobs: Blobs::new(self.disk.clone()),
            disk: self.disk,
            options: self.options,
            _lock: self.lock,
            segment,
            position,
            broken: None,
            failures: 0,
            checkpoints_begun: 0,
            buffer: Vec::new(),
            appended: walk.bytes,
            covered: 0,
        };
        // This also makes durable what was read, and tells every later start that this epoch has begun.
        log.write_reserve(reserve).map_err(|error| start_error(&log, error))?;
        let recovered = Recovered {
            last_version: Version(walk.version),
            next_version: Version(next_version),
            batches: walk.batches,
            warnings: self.warnings,
        };
        Ok((log, recovered))
    }

    /// If older files stand in for a damaged checkpoint and do not suffice, then the checkpoint is what is wrong.
    fn refusal(&mut self, error: OpenError) -> OpenError {
        self.replaced.take().map_or(error, |(_, checkpoint)| checkpoint)
    }

    fn damaged(&self, file: String, offset: u64, what: String) -> OpenError {
        OpenError::Damaged { folder: self.disk.describe(), file, offset, what }
    }

    fn missing(&self, file: String, needed_by: String) -> OpenError {
        OpenError::Missing { folder: self.disk.describe(), file, needed_by }
    }

    fn io(&self, action: &'static str, file: String, source: io::Error) -> OpenError {
        OpenError::Io { action, folder: self.disk.describe(), file, source }
    }
}

fn start_error<D: Disk>(log: &Log<D>, error: AppendError) -> OpenError {
    let source = match error {
        AppendError::NoSpace { source, .. } | AppendError::Io { source, .. } => source,
        other => io::Error::other(other),
    };
    let (folder, file) = (log.disk.describe(), log.segment.name.clone());
    OpenError::Io { action: "reserving versions in", folder, file, source }
}
