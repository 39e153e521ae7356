//! Blobs: large values as files of their own, named by the SHA-256 of their content.
//!
//! `put` returns when file and name are durable, so the row that names a blob is written after it. A blob that no row
//! names is removed by the caller; one that two rows name is stored once.

use std::io;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use sha2::Digest;
use sha2::Sha256;

use crate::disk::Disk;
use crate::disk::DiskFile;
use crate::disk::read_exact_at;
use crate::error::BlobError;
use crate::limits::MAX_BLOB_BYTES;

const FOLDER: &str = "blobs";
/// Unfinished files lie apart, so that removing what a crash left needs no look at every blob.
const UNFINISHED: &str = "blobs/unfinished";

/// The SHA-256 of a blob's content: its name.
pub type BlobHash = [u8; 32];

/// The blobs of one folder. Clones share it and may be used from any thread.
#[derive(Clone, Debug)]
pub struct Blobs<D: Disk> {
    disk: D,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Which of the 256 folders are known to be there durably.
    folders: Mutex<[bool; 256]>,
    /// Tells unfinished files of this process apart.
    unfinished: AtomicU64,
}

impl<D: Disk> Blobs<D> {
    pub(crate) fn new(disk: D) -> Self {
        Self { disk, shared: Arc::new(Shared { folders: Mutex::new([false; 256]), unfinished: AtomicU64::new(0) }) }
    }

    /// Stores a blob durably. `hash` must be the SHA-256 of `content`: it is checked when the blob is read.
    ///
    /// # Errors
    /// After an error the blob may be there or not; putting it again is always right.
    pub fn put(&self, hash: &BlobHash, content: &[u8]) -> Result<(), BlobError> {
        if content.len() > MAX_BLOB_BYTES {
            return Err(BlobError::TooLarge { bytes: content.len() as u64 });
        }
        let path = path(hash);
        self.put_file(hash, &path, content).map_err(|source| BlobError::Io { action: "storing", file: path, source })
    }

    fn put_file(&self, hash: &BlobHash, path: &str, content: &[u8]) -> io::Result<()> {
        self.make_folders(hash[0])?;
        // A file that is there was durable before it got its name, but a failed put may have left the name alone
        // not durable. So only the writing is spared.
        if !self.disk.exists(path)? {
            let number = self.shared.unfinished.fetch_add(1, Ordering::Relaxed);
            let unfinished = format!("{UNFINISHED}/{number}");
            if let Err(error) = self.write_file(&unfinished, content) {
                let _ = self.disk.remove(&unfinished);
                return Err(error);
            }
            self.disk.rename(&unfinished, path)?;
        }
        self.disk.sync_folder(&folder(hash[0]))
    }

    fn write_file(&self, path: &str, content: &[u8]) -> io::Result<()> {
        let file = self.disk.create(path)?;
        file.write_at(&[IoSlice::new(content)], 0)?;
        file.sync_all()
    }

    fn make_folders(&self, prefix: u8) -> io::Result<()> {
        let mut known = self.shared.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains(&true) {
            self.disk.create_folder(FOLDER)?;
            self.disk.create_folder(UNFINISHED)?;
            // What an earlier process did not finish.
            for name in self.disk.list(UNFINISHED)? {
                self.disk.remove(&format!("{UNFINISHED}/{name}"))?;
            }
            self.disk.sync_folder("")?;
        }
        if !known[usize::from(prefix)] {
            self.disk.create_folder(&folder(prefix))?;
            self.disk.sync_folder(FOLDER)?;
            known[usize::from(prefix)] = true;
        }
        Ok(())
    }

    /// Reads a blob and checks it against its hash. `None` if there is none.
    ///
    /// # Errors
    /// `Damaged` if the content is not what was stored.
    pub fn get(&self, hash: &BlobHash) -> Result<Option<Vec<u8>>, BlobError> {
        let path = path(hash);
        let content = match self.read_file(&path) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(BlobError::Io { action: "reading", file: path, source }),
        };
        if Sha256::digest(&content)[..] != hash[..] {
            return Err(BlobError::Damaged { folder: self.disk.describe(), file: path });
        }
        Ok(Some(content))
    }

    fn read_file(&self, path: &str) -> io::Result<Vec<u8>> {
        let file = self.disk.open(path)?;
        let size = file.size()?;
        if size > MAX_BLOB_BYTES as u64 {
            return Err(io::Error::other(format!("the file has {size} bytes, more than any blob")));
        }
        let mut content = vec![0; size as usize];
        read_exact_at(&file, &mut content, 0)?;
        Ok(content)
    }

    /// Removes a blob, if there is one. That it is gone need not be durable: a blob too many does no harm.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn remove(&self, hash: &BlobHash) -> Result<(), BlobError> {
        let path = path(hash);
        match self.disk.remove(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(BlobError::Io { action: "removing", file: path, source })
            }
            _ => Ok(()),
        }
    }

    /// The hashes of all blobs, in order: for finding those that no row names.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn list(&self) -> Result<Vec<BlobHash>, BlobError> {
        let mut hashes = Vec::new();
        for prefix in self.list_folder(FOLDER)? {
            if prefix.len() != 2 {
                continue;
            }
            for rest in self.list_folder(&format!("{FOLDER}/{prefix}"))? {
                hashes.extend(parse(&prefix, &rest));
            }
        }
        Ok(hashes)
    }

    fn list_folder(&self, folder: &str) -> Result<Vec<String>, BlobError> {
        match self.disk.list(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            other => other.map_err(|source| BlobError::Io { action: "listing", file: folder.to_owned(), source }),
        }
    }
}

fn folder(prefix: u8) -> String {
    format!("{FOLDER}/{prefix:02x}")
}

fn path(hash: &BlobHash) -> String {
    use std::fmt::Write;
    let mut path = folder(hash[0]) + "/";
    for byte in &hash[1..] {
        // Writing to a string cannot fail.
        let _ = write!(path, "{byte:02x}");
    }
    path
}

fn parse(prefix: &str, rest: &str) -> Option<BlobHash> {
    let digits = format!("{prefix}{rest}");
    if digits.len() != 64 || !digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let mut hash = [0; 32];
    for (index, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(hash)
}
