//! The only way to files: what the log asks of a disk, as a trait, so that a simulated disk can stand in.

use std::fmt;
use std::io;
use std::io::IoSlice;

use crate::limits::ZERO_BYTES;

/// One folder and the files below it. Paths are relative to the folder, with `/` between the parts, and are all
/// made by this crate. A clone is a second handle to the same folder.
pub trait Disk: Clone + fmt::Debug + Send + Sync + 'static {
    /// An open file.
    type File: DiskFile;
    /// The folder's lock; dropping it gives the lock back.
    type Lock: fmt::Debug + Send + Sync + 'static;

    /// The folder, as a person would name it in a message.
    fn describe(&self) -> String;
    /// Makes a new, empty file and opens it for reading and writing. The name must be free.
    fn create(&self, path: &str) -> io::Result<Self::File>;
    /// Opens a file that exists, for reading and writing.
    fn open(&self, path: &str) -> io::Result<Self::File>;
    /// Whether there is a file or folder of this name.
    fn exists(&self, path: &str) -> io::Result<bool>;
    /// The sorted names of what lies in a folder; `""` is the folder itself.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;
    /// Gives a file another name, replacing what had it. Durable after `sync_folder`.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file. Durable after `sync_folder`.
    fn remove(&self, path: &str) -> io::Result<()>;
    /// Makes a folder; no error if it is there already. Durable after `sync_folder` of its parent.
    fn create_folder(&self, path: &str) -> io::Result<()>;
    /// Makes durable which names a folder holds.
    fn sync_folder(&self, folder: &str) -> io::Result<()>;
    /// Tries to take an exclusive lock on a file, made if it is missing, and writes the holder's process id in it.
    fn lock(&self, path: &str) -> io::Result<LockAttempt<Self::Lock>>;
}

/// What came of an attempt to lock a folder.
#[derive(Debug)]
pub enum LockAttempt<L> {
    /// The lock is ours until this is dropped.
    Taken(L),
    /// Somebody else holds it; their process id, if the file tells.
    Held(Option<u32>),
}

/// An open file.
pub trait DiskFile: fmt::Debug + Send + Sync + 'static {
    /// Length in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Reads at most `buffer.len()` bytes; 0 means the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all parts, one after the other, in as few calls as possible. After an error any of the bytes may
    /// have been written.
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()>;
    /// Makes the file `bytes` long by writing zeros. They must be written, not only allocated: a block that was
    /// never written costs every later fdatasync a journal commit.
    fn allocate(&self, bytes: u64) -> io::Result<()>;
    /// Makes the contents durable (`fdatasync`).
    fn sync_data(&self) -> io::Result<()>;
    /// Makes contents and metadata durable (`fsync`).
    fn sync_all(&self) -> io::Result<()>;
}

/// Fills `buffer` from `offset`, or fails with `UnexpectedEof`.
pub(crate) fn read_exact_at(file: &impl DiskFile, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.read_at(buffer, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                offset += read as u64;
                buffer = &mut buffer[read..];
            }
        }
    }
    Ok(())
}

/// Writes zeros over `length` bytes from `offset`.
pub(crate) fn write_zeros(file: &impl DiskFile, mut offset: u64, length: u64) -> io::Result<()> {
    let end = offset + length;
    let zeros = vec![0u8; ZERO_BYTES.min(length as usize)];
    while offset < end {
        let piece = zeros.len().min((end - offset) as usize);
        file.write_at(&[IoSlice::new(&zeros[..piece])], offset)?;
        offset += piece as u64;
    }
    Ok(())
}
