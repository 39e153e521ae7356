//! Segment files: how one is made ready ahead of need, begun and read.
//!
//! A segment starts with a header of 64 bytes; records follow without gaps, and zeros after the last one.
//!
//! ```text
//!  0 crc32c of bytes 4..64     4 magic "RSEG"     8 format     12 flags: 1 follows a checkpoint, not a record
//! 16 first sequence           24 epoch           32 salt      40 size of the file in bytes     48..64 zero
//! ```
//!
//! A segment is begun only when every record before it is durable, and it is itself durable under its name before its
//! first record is written. So its header is proof that all earlier records were once on disk.

use std::io;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use crate::disk::Disk;
use crate::disk::DiskFile;
use crate::disk::read_exact_at;
use crate::format::FORMAT_NUMBER;
use crate::limits::CONTROL_BYTES;
use crate::limits::MAX_SEGMENT_BYTES;
use crate::limits::READ_BYTES;
use crate::names;
use crate::record::RECORD_HEADER_BYTES;
use crate::record::u32_at;
use crate::record::u64_at;

/// Records start here.
pub(crate) const SEGMENT_HEADER_BYTES: u64 = 64;
const MAGIC: [u8; 4] = *b"RSEG";
const FOLLOWS_CHECKPOINT: u32 = 1;

/// What a segment says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) first: u64,
    pub(crate) epoch: u64,
    pub(crate) salt: u32,
    pub(crate) bytes: u64,
    /// The records before the first are void: only a checkpoint leads here.
    pub(crate) follows_checkpoint: bool,
}

impl SegmentHeader {
    fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES as usize] {
        let mut header = [0; SEGMENT_HEADER_BYTES as usize];
        header[4..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&FORMAT_NUMBER.to_le_bytes());
        let flags = if self.follows_checkpoint { FOLLOWS_CHECKPOINT } else { 0 };
        header[12..16].copy_from_slice(&flags.to_le_bytes());
        header[16..24].copy_from_slice(&self.first.to_le_bytes());
        header[24..32].copy_from_slice(&self.epoch.to_le_bytes());
        header[32..40].copy_from_slice(&u64::from(self.salt).to_le_bytes());
        header[40..48].copy_from_slice(&self.bytes.to_le_bytes());
        let crc = crc32c::crc32c(&header[4..]);
        header[0..4].copy_from_slice(&crc.to_le_bytes());
        header
    }

    fn parse(header: &[u8; SEGMENT_HEADER_BYTES as usize]) -> Option<Self> {
        if header[4..8] != MAGIC || crc32c::crc32c(&header[4..]) != u32_at(header, 0) {
            return None;
        }
        Some(Self {
            first: u64_at(header, 16),
            epoch: u64_at(header, 24),
            salt: u32_at(header, 32),
            bytes: u64_at(header, 40),
            follows_checkpoint: u32_at(header, 12) & FOLLOWS_CHECKPOINT != 0,
        })
    }
}

/// The segment that is being written.
#[derive(Debug)]
pub(crate) struct Segment<F> {
    pub(crate) file: F,
    pub(crate) name: String,
    pub(crate) header: SegmentHeader,
    /// Where the next record goes.
    pub(crate) end: u64,
}

impl<F> Segment<F> {
    /// Whether a batch's record of so many bytes fits. There must be room after it for records without payload: the
    /// proof of the last batch and the reserve of a start must be possible on a full disk too.
    pub(crate) fn has_room_for_batch(&self, bytes: u64) -> bool {
        self.end + bytes + CONTROL_BYTES <= self.header.bytes
    }

    /// Whether a record without payload fits.
    pub(crate) fn has_room_for_control(&self) -> bool {
        self.end + RECORD_HEADER_BYTES <= self.header.bytes
    }

    /// The size of a segment that holds a record of so many bytes.
    pub(crate) fn bytes_to_hold(record_bytes: u64) -> u64 {
        SEGMENT_HEADER_BYTES + record_bytes + CONTROL_BYTES
    }
}

/// Makes the next segment ready, on any thread, so that no append waits for its zeros.
#[derive(Debug)]
pub struct SegmentPreparer<D: Disk> {
    ready: Ready<D>,
    bytes: u64,
}

impl<D: Disk> SegmentPreparer<D> {
    /// Writes and syncs the zeros of the next segment. If this fails, the log makes the segment itself when it
    /// needs it.
    ///
    /// # Errors
    /// Those of the disk; what was written is removed.
    pub fn prepare(self) -> io::Result<()> {
        let mut slot = self.ready.lock();
        if slot.is_none() {
            *slot = Some(make(&self.ready.disk, self.bytes)?);
        }
        Ok(())
    }
}

/// The slot of the segment that waits to be used. There is one temporary file name, so the lock is held while
/// its file is made.
#[derive(Debug)]
pub(crate) struct Ready<D: Disk> {
    disk: D,
    slot: Arc<Mutex<Option<ReadySegment<D::File>>>>,
}

#[derive(Debug)]
struct ReadySegment<F> {
    file: F,
    bytes: u64,
}

/// Why a segment was not begun.
pub(crate) struct BeginError {
    pub(crate) source: io::Error,
    /// The new file may have its name already, so what a restart would find is not known.
    pub(crate) uncertain: bool,
}

impl<D: Disk> Ready<D> {
    pub(crate) fn new(disk: D) -> Self {
        Self { disk, slot: Arc::new(Mutex::new(None)) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<ReadySegment<D::File>>> {
        // The slot holds a whole segment or none, so a panic elsewhere cannot have left it half-made.
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something to make the next segment with, unless it is ready or being made.
    pub(crate) fn preparer(&self, bytes: u64) -> Option<SegmentPreparer<D>> {
        let empty = self.slot.try_lock().is_ok_and(|slot| slot.is_none());
        let handle = Self { disk: self.disk.clone(), slot: Arc::clone(&self.slot) };
        empty.then_some(SegmentPreparer { ready: handle, bytes })
    }

    /// Begins a segment of at least `header.bytes` bytes with the file that is ready, or with a new one.
    pub(crate) fn begin(&self, mut header: SegmentHeader) -> Result<Segment<D::File>, BeginError> {
        let harmless = |source| BeginError { source, uncertain: false };
        let mut slot = self.lock();
        let ready = match slot.take().filter(|ready| ready.bytes >= header.bytes) {
            Some(ready) => ready,
            None => make(&self.disk, header.bytes).map_err(harmless)?,
        };
        header.bytes = ready.bytes;
        let name = names::segment(header.first);
        let written = ready.file.write_at(&[IoSlice::new(&header.encode())], 0).and_then(|()| ready.file.sync_all());
        if let Err(source) = written {
            let _ = self.disk.remove(names::SEGMENT_TEMPORARY);
            return Err(harmless(source));
        }
        let named = self.disk.rename(names::SEGMENT_TEMPORARY, &name).and_then(|()| self.disk.sync_folder(""));
        named.map_err(|source| BeginError { source, uncertain: true })?;
        Ok(Segment { file: ready.file, name, header, end: SEGMENT_HEADER_BYTES })
    }
}

fn make<D: Disk>(disk: &D, bytes: u64) -> io::Result<ReadySegment<D::File>> {
    if disk.exists(names::SEGMENT_TEMPORARY)? {
        disk.remove(names::SEGMENT_TEMPORARY)?;
    }
    let file = disk.create(names::SEGMENT_TEMPORARY)?;
    match file.allocate(bytes).and_then(|()| file.sync_all()) {
        Ok(()) => Ok(ReadySegment { file, bytes }),
        Err(error) => {
            let _ = disk.remove(names::SEGMENT_TEMPORARY);
            Err(error)
        }
    }
}

/// Why a segment cannot be read.
pub(crate) enum ReadSegmentError {
    Io(io::Error),
    /// The offset, and what is wrong there.
    Damaged(u64, String),
}

/// Opens a segment and checks its header against its name and length.
pub(crate) fn open_segment<D: Disk>(disk: &D, first: u64) -> Result<(D::File, SegmentHeader), ReadSegmentError> {
    let file = disk.open(&names::segment(first)).map_err(ReadSegmentError::Io)?;
    let size = file.size().map_err(ReadSegmentError::Io)?;
    if !(SEGMENT_HEADER_BYTES..=MAX_SEGMENT_BYTES).contains(&size) {
        return Err(ReadSegmentError::Damaged(0, format!("no segment is {size} bytes long")));
    }
    let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
    read_exact_at(&file, &mut bytes, 0).map_err(ReadSegmentError::Io)?;
    let Some(header) = SegmentHeader::parse(&bytes) else {
        return Err(ReadSegmentError::Damaged(0, "the header of the segment does not match its checksum".to_owned()));
    };
    if header.first != first {
        let what = format!("the header says that the segment starts at sequence {}", header.first);
        return Err(ReadSegmentError::Damaged(16, what));
    }
    if header.bytes != size {
        let what = format!("the file is {size} bytes long, but its header says {}", header.bytes);
        return Err(ReadSegmentError::Damaged(size.min(header.bytes), what));
    }
    Ok((file, header))
}

/// Reads a segment from `offset` to its end, in large pieces, into a buffer that is used again for each segment.
pub(crate) fn read_from(
    file: &impl DiskFile,
    header: &SegmentHeader,
    offset: u64,
    bytes: &mut Vec<u8>,
) -> io::Result<()> {
    bytes.resize((header.bytes - offset) as usize, 0);
    let mut start = 0;
    while start < bytes.len() {
        let end = bytes.len().min(start + READ_BYTES);
        read_exact_at(file, &mut bytes[start..end], offset + start as u64)?;
        start = end;
    }
    Ok(())
}

/// How long the bytes are without the zeros at their end. Most of the last segment is zeros, so they are compared in
/// blocks.
pub(crate) fn without_trailing_zeros(bytes: &[u8]) -> usize {
    const ZEROS: [u8; 4096] = [0; 4096];
    let mut end = bytes.len();
    while end > 0 {
        let start = end.saturating_sub(ZEROS.len());
        if bytes[start..end] != ZEROS[..end - start] {
            return start + bytes[start..end].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        }
        end = start;
    }
    0
}
