//! Checkpoint files: everything that the log held up to one sequence, in framed chunks.
//!
//! ```text
//! header, 64 bytes   0 crc32c of 4..64   4 magic "RCKP"   8 format   12 flags: 1 the next record is in a new segment
//!                   16 sequence   24 epoch   32 version   40 reserved   48 next record's segment   56 its offset there
//! each chunk         0 crc32c of 4.. with payload   4 magic "RCHK"   8 payload length   12 number   16 payload
//! table              per chunk: offset, u64; payload length, u32; crc32c as in the chunk, u32
//! trailer, 32 bytes  0 crc32c of table and 4..32   4 magic "REND"   8 chunks   16 offset of the table   24 zero
//! ```
//!
//! The table makes each chunk readable by its number, from several threads at once. A checkpoint is written under a
//! temporary name and renamed when it is durable, so a file with its final name is whole.

use std::io;
use std::io::IoSlice;

use crate::disk::Disk;
use crate::disk::DiskFile;
use crate::disk::read_exact_at;
use crate::error::CheckpointError;
use crate::error::OpenError;
use crate::format::FORMAT_NUMBER;
use crate::limits::CHECKPOINT_SYNC_BYTES;
use crate::limits::MAX_CHUNK_BYTES;
use crate::limits::MAX_CHUNKS;
use crate::limits::MAX_NUMBER;
use crate::names;
use crate::names::Version;
use crate::record::u32_at;
use crate::record::u64_at;
use crate::segment::SEGMENT_HEADER_BYTES;

const HEADER_BYTES: u64 = 64;
const CHUNK_HEADER: usize = 16;
const ENTRY: usize = 16;
const TRAILER: usize = 32;
const HEADER_MAGIC: [u8; 4] = *b"RCKP";
const CHUNK_MAGIC: [u8; 4] = *b"RCHK";
const TRAILER_MAGIC: [u8; 4] = *b"REND";
const NEW_SEGMENT: u32 = 1;

/// Which part of the log a checkpoint covers, and where the log goes on after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointHeader {
    /// All records up to this one are covered, or void.
    pub(crate) sequence: u64,
    pub(crate) epoch: u64,
    pub(crate) version: u64,
    pub(crate) reserved: u64,
    /// The first sequence of the segment with the next record.
    pub(crate) segment: u64,
    /// Where the next record is or will be in that segment.
    pub(crate) offset: u64,
    /// The segment was not there yet when this was written: the log before it is void.
    pub(crate) new_segment: bool,
}

impl CheckpointHeader {
    fn encode(&self) -> [u8; HEADER_BYTES as usize] {
        let mut header = [0; HEADER_BYTES as usize];
        header[4..8].copy_from_slice(&HEADER_MAGIC);
        header[8..12].copy_from_slice(&FORMAT_NUMBER.to_le_bytes());
        header[12..16].copy_from_slice(&(if self.new_segment { NEW_SEGMENT } else { 0 }).to_le_bytes());
        let words = [self.sequence, self.epoch, self.version, self.reserved, self.segment, self.offset];
        for (index, word) in words.into_iter().enumerate() {
            header[16 + 8 * index..24 + 8 * index].copy_from_slice(&word.to_le_bytes());
        }
        let crc = crc32c::crc32c(&header[4..]);
        header[0..4].copy_from_slice(&crc.to_le_bytes());
        header
    }

    fn parse(header: &[u8; HEADER_BYTES as usize]) -> Option<Self> {
        if header[4..8] != HEADER_MAGIC || crc32c::crc32c(&header[4..]) != u32_at(header, 0) {
            return None;
        }
        let parsed = Self {
            sequence: u64_at(header, 16),
            epoch: u64_at(header, 24),
            version: u64_at(header, 32),
            reserved: u64_at(header, 40),
            segment: u64_at(header, 48),
            offset: u64_at(header, 56),
            new_segment: u32_at(header, 12) & NEW_SEGMENT != 0,
        };
        parsed.is_sound().then_some(parsed)
    }

    fn is_sound(&self) -> bool {
        // Half of the limit, so that whatever follows a sound checkpoint is within it.
        if self.sequence > MAX_NUMBER / 2 || self.version.max(self.reserved) > MAX_NUMBER {
            return false;
        }
        if self.new_segment {
            self.segment == self.sequence + 1 && self.offset == SEGMENT_HEADER_BYTES
        } else {
            (1..=self.sequence + 1).contains(&self.segment) && self.offset >= SEGMENT_HEADER_BYTES
        }
    }
}

/// Writes one checkpoint, on any thread, while appends go on. Dropped without `finish`, it leaves nothing behind.
#[derive(Debug)]
pub struct CheckpointWriter<D: Disk> {
    disk: D,
    file: Option<D::File>,
    header: CheckpointHeader,
    failures: u64,
    appended: u64,
    /// Tells the writers of one log apart: two at once must not share a temporary file.
    number: u64,
    table: Vec<u8>,
    end: u64,
    unsynced: u64,
}

/// A checkpoint that is durable: hand it to `Log::checkpoint_done`, so that what it replaces is removed.
#[derive(Debug)]
#[must_use = "older files are removed, and a broken log mended, by Log::checkpoint_done"]
pub struct FinishedCheckpoint {
    pub(crate) header: CheckpointHeader,
    pub(crate) failures: u64,
    /// How much had been appended in all when it was begun.
    pub(crate) appended: u64,
    /// Size of the file.
    pub(crate) bytes: u64,
}

impl FinishedCheckpoint {
    /// The version that it holds.
    pub fn version(&self) -> Version {
        Version(self.header.version)
    }

    /// Size of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl<D: Disk> CheckpointWriter<D> {
    /// `failures` and `appended` tell the log later what has happened since; `number` is new for each writer of a log.
    pub(crate) fn create(
        disk: D,
        header: CheckpointHeader,
        failures: u64,
        appended: u64,
        number: u64,
    ) -> Result<Self, CheckpointError> {
        let (end, unsynced) = (HEADER_BYTES, 0);
        let mut writer =
            Self { disk, file: None, header, failures, appended, number, table: Vec::new(), end, unsynced };
        let name = writer.temporary_name();
        let create = || {
            // An earlier process may have left one. Its pages may be stale after a failed sync: it must be a new file.
            if writer.disk.exists(&name)? {
                writer.disk.remove(&name)?;
            }
            let file = writer.disk.create(&name)?;
            file.write_at(&[IoSlice::new(&header.encode())], 0)?;
            Ok(file)
        };
        writer.file = Some(create().map_err(|source| writer.error("making", source))?);
        Ok(writer)
    }

    /// The version that the checkpoint is of.
    pub fn version(&self) -> Version {
        Version(self.header.version)
    }

    /// Adds a chunk. About `CHUNK_BYTES` is a good size; each is written by one call.
    ///
    /// # Errors
    /// After any error the checkpoint is of no use: drop it and begin another.
    pub fn write(&mut self, chunk: &[u8]) -> Result<(), CheckpointError> {
        let index = self.table.len() / ENTRY;
        if chunk.len() > MAX_CHUNK_BYTES || index >= MAX_CHUNKS {
            return Err(CheckpointError::TooLarge { bytes: chunk.len() as u64, index });
        }
        let length = chunk.len() as u32;
        let mut header = [0; CHUNK_HEADER];
        header[4..8].copy_from_slice(&CHUNK_MAGIC);
        header[8..12].copy_from_slice(&length.to_le_bytes());
        header[12..16].copy_from_slice(&(index as u32).to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&header[4..]), chunk);
        header[0..4].copy_from_slice(&crc.to_le_bytes());
        let offset = self.end;
        self.put(&[IoSlice::new(&header), IoSlice::new(chunk)])?;
        self.table.extend_from_slice(&offset.to_le_bytes());
        self.table.extend_from_slice(&length.to_le_bytes());
        self.table.extend_from_slice(&crc.to_le_bytes());
        Ok(())
    }

    /// Makes the checkpoint durable under its final name.
    ///
    /// # Errors
    /// As for `write`.
    pub fn finish(mut self) -> Result<FinishedCheckpoint, CheckpointError> {
        let table = std::mem::take(&mut self.table);
        let mut trailer = [0; TRAILER];
        trailer[4..8].copy_from_slice(&TRAILER_MAGIC);
        trailer[8..16].copy_from_slice(&((table.len() / ENTRY) as u64).to_le_bytes());
        trailer[16..24].copy_from_slice(&self.end.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&table), &trailer[4..]);
        trailer[0..4].copy_from_slice(&crc.to_le_bytes());
        self.put(&[IoSlice::new(&table), IoSlice::new(&trailer)])?;

        let temporary = self.temporary_name();
        self.file()?.sync_all().map_err(|source| self.error("syncing", source))?;
        let renamed = self.disk.rename(&temporary, &names::checkpoint(self.header.sequence));
        renamed.map_err(|source| self.error("renaming", source))?;
        // From here on the file has its final name, which dropping must not take for a leftover.
        self.file = None;
        self.disk.sync_folder("").map_err(|source| self.error("making durable the name of", source))?;
        let (header, failures, appended, bytes) = (self.header, self.failures, self.appended, self.end);
        Ok(FinishedCheckpoint { header, failures, appended, bytes })
    }

    fn put(&mut self, parts: &[IoSlice<'_>]) -> Result<(), CheckpointError> {
        let bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let mut result = self.file()?.write_at(parts, self.end);
        self.end += bytes;
        self.unsynced += bytes;
        if result.is_ok() && self.unsynced >= CHECKPOINT_SYNC_BYTES {
            self.unsynced = 0;
            result = self.file()?.sync_data();
        }
        // The file is given up: one more sync that succeeds would prove nothing after one that failed.
        result.map_err(|source| {
            self.abandon();
            self.error("writing", source)
        })
    }

    fn file(&self) -> Result<&D::File, CheckpointError> {
        let abandoned = || io::Error::other("an earlier write of this checkpoint failed");
        self.file.as_ref().ok_or_else(|| self.error("writing", abandoned()))
    }

    fn abandon(&mut self) {
        if self.file.take().is_some() {
            // What is left is removed by the next checkpoint or the next start.
            let _ = self.disk.remove(&self.temporary_name());
        }
    }

    fn temporary_name(&self) -> String {
        format!("{}.{}{}", names::checkpoint(self.header.sequence), self.number, names::TEMPORARY_SUFFIX)
    }

    fn error(&self, action: &'static str, source: io::Error) -> CheckpointError {
        CheckpointError::Io { action, file: names::checkpoint(self.header.sequence), source }
    }
}

impl<D: Disk> Drop for CheckpointWriter<D> {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Reads a checkpoint chunk by chunk, in any order, from any number of threads.
#[derive(Debug)]
pub struct CheckpointReader<D: Disk> {
    folder: String,
    name: String,
    file: D::File,
    header: CheckpointHeader,
    table: Vec<u8>,
}

impl<D: Disk> CheckpointReader<D> {
    /// Opens the file and checks all of it except the chunks.
    pub(crate) fn open(disk: &D, sequence: u64) -> Result<Self, OpenError> {
        let (folder, name) = (disk.describe(), names::checkpoint(sequence));
        let fail = |offset, what: &str| damaged(&folder, &name, offset, what);
        let io = |source| OpenError::Io { action: "reading", folder: folder.clone(), file: name.clone(), source };
        let file = disk.open(&name).map_err(io)?;
        let size = file.size().map_err(io)?;
        let smallest = HEADER_BYTES + TRAILER as u64;
        if size < smallest {
            return Err(fail(size, "the checkpoint is cut short"));
        }
        let mut bytes = [0; HEADER_BYTES as usize];
        read_exact_at(&file, &mut bytes, 0).map_err(io)?;
        let header = CheckpointHeader::parse(&bytes).filter(|header| header.sequence == sequence);
        let header = header.ok_or_else(|| fail(0, "the header of the checkpoint is not what was written"))?;

        let mut trailer = [0; TRAILER];
        let trailer_offset = size - TRAILER as u64;
        read_exact_at(&file, &mut trailer, trailer_offset).map_err(io)?;
        let (count, table_offset) = (u64_at(&trailer, 8), u64_at(&trailer, 16));
        let table_bytes = trailer_offset.checked_sub(table_offset).filter(|_| table_offset >= HEADER_BYTES);
        let table_bytes = table_bytes.filter(|bytes| {
            trailer[4..8] == TRAILER_MAGIC && count <= MAX_CHUNKS as u64 && *bytes == count * ENTRY as u64
        });
        let Some(table_bytes) = table_bytes else {
            return Err(fail(trailer_offset, "the trailer of the checkpoint is not what was written"));
        };
        let mut table = vec![0; table_bytes as usize];
        read_exact_at(&file, &mut table, table_offset).map_err(io)?;
        if crc32c::crc32c_append(crc32c::crc32c(&table), &trailer[4..]) != u32_at(&trailer, 0) {
            return Err(fail(table_offset, "the table of chunks does not match its checksum"));
        }
        let reader = Self { folder, name, file, header, table };
        reader.check_table(table_offset)?;
        Ok(reader)
    }

    /// Chunks must lie end to end, so that every byte of the file is covered by one checksum.
    fn check_table(&self, table_offset: u64) -> Result<(), OpenError> {
        let mut expected = HEADER_BYTES;
        for index in 0..self.chunk_count() {
            let (offset, length, _) = self.entry(index);
            if offset != expected || length as usize > MAX_CHUNK_BYTES {
                return Err(damaged(&self.folder, &self.name, table_offset, "the table of chunks makes no sense"));
            }
            expected += CHUNK_HEADER as u64 + u64::from(length);
        }
        if expected != table_offset {
            return Err(damaged(&self.folder, &self.name, table_offset, "the table of chunks makes no sense"));
        }
        Ok(())
    }

    /// The version that the checkpoint is of.
    pub fn version(&self) -> Version {
        Version(self.header.version)
    }

    /// How many chunks there are.
    pub fn chunk_count(&self) -> usize {
        self.table.len() / ENTRY
    }

    /// Reads one chunk with one large read, into a buffer that is used again, and gives its payload.
    ///
    /// # Errors
    /// `Damaged` if the chunk is not what was written, or there is no such chunk. The start must then be given up.
    pub fn read_chunk<'b>(&self, index: usize, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], OpenError> {
        if index >= self.chunk_count() {
            return Err(damaged(&self.folder, &self.name, 0, &format!("there is no chunk {index}")));
        }
        let (offset, length, crc) = self.entry(index);
        buffer.resize(CHUNK_HEADER + length as usize, 0);
        read_exact_at(&self.file, buffer, offset).map_err(|source| OpenError::Io {
            action: "reading",
            folder: self.folder.clone(),
            file: self.name.clone(),
            source,
        })?;
        let (header, payload) = buffer.split_at(CHUNK_HEADER);
        let found = crc32c::crc32c_append(crc32c::crc32c(&header[4..]), payload);
        let sound = header[4..8] == CHUNK_MAGIC
            && u32_at(header, 8) == length
            && u32_at(header, 12) as usize == index
            && u32_at(header, 0) == crc
            && found == crc;
        if !sound {
            return Err(damaged(&self.folder, &self.name, offset, &format!("chunk {index} is not what was written")));
        }
        Ok(payload)
    }

    /// Reads every chunk for its checksum.
    pub(crate) fn verify(&self) -> Result<(), OpenError> {
        let mut buffer = Vec::new();
        for index in 0..self.chunk_count() {
            self.read_chunk(index, &mut buffer)?;
        }
        Ok(())
    }

    pub(crate) fn header(&self) -> &CheckpointHeader {
        &self.header
    }

    fn entry(&self, index: usize) -> (u64, u32, u32) {
        let entry = &self.table[index * ENTRY..];
        (u64_at(entry, 0), u32_at(entry, 8), u32_at(entry, 12))
    }
}

fn damaged(folder: &str, name: &str, offset: u64, what: &str) -> OpenError {
    OpenError::Damaged { folder: folder.to_owned(), file: name.to_owned(), offset, what: what.to_owned() }
}
