//! The real disk: a folder of the file system.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::IoSlice;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::FallocateFlags;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::disk::Disk;
use crate::disk::DiskFile;
use crate::disk::LockAttempt;
use crate::limits::ALLOCATE_BYTES;

/// A folder of the file system.
#[derive(Clone, Debug)]
pub struct RealDisk {
    root: Arc<PathBuf>,
}

impl RealDisk {
    /// Uses the folder at `root`, made durably if it is missing.
    ///
    /// # Errors
    /// Those of making the folder.
    pub fn new(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        let mut missing: Vec<&Path> = root.ancestors().take_while(|folder| !folder.exists()).collect();
        missing.retain(|folder| !folder.as_os_str().is_empty());
        for folder in missing.into_iter().rev() {
            match std::fs::create_dir(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            File::open(parent)?.sync_all()?;
        }
        Ok(Self { root: Arc::new(root) })
    }

    fn path(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.to_path_buf() } else { self.root.join(path) }
    }
}

impl Disk for RealDisk {
    type File = RealFile;
    type Lock = RealLock;

    fn describe(&self) -> String {
        self.root.display().to_string()
    }

    fn create(&self, path: &str) -> io::Result<RealFile> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(self.path(path))?;
        Ok(RealFile { file })
    }

    fn open(&self, path: &str) -> io::Result<RealFile> {
        let file = OpenOptions::new().read(true).write(true).open(self.path(path))?;
        Ok(RealFile { file })
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        self.path(path).try_exists()
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.path(folder))? {
            // A name that is not text is none of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        std::fs::remove_file(self.path(path))
    }

    fn create_folder(&self, path: &str) -> io::Result<()> {
        match std::fs::create_dir(self.path(path)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        File::open(self.path(folder))?.sync_all()
    }

    fn lock(&self, path: &str) -> io::Result<LockAttempt<RealLock>> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(self.path(path))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let holder = format!("{}\n", std::process::id());
                file.set_len(0)?;
                file.write_all_at(holder.as_bytes(), 0)?;
                Ok(LockAttempt::Taken(RealLock { _file: file }))
            }
            Err(Errno::WOULDBLOCK) => {
                // Between the holder's lock and its note of the process id the file may be empty.
                let mut text = String::new();
                let _ = file.by_ref().take(64).read_to_string(&mut text);
                Ok(LockAttempt::Held(text.trim().parse().ok()))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// An open file of a real disk.
#[derive(Debug)]
pub struct RealFile {
    file: File,
}

impl DiskFile for RealFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match self.file.read_at(buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        if let [part] = parts {
            return self.file.write_all_at(part, offset);
        }
        let mut written = loop {
            match rustix::io::pwritev(&self.file, parts, offset) {
                Err(Errno::INTR) => {}
                other => break other? as u64,
            }
        };
        // A short write is rare; its rest goes out part by part.
        let mut start = 0;
        for part in parts {
            let done = written.min(part.len() as u64);
            written -= done;
            self.file.write_all_at(&part[done as usize..], offset + start + done)?;
            start += part.len() as u64;
        }
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        // Asking for the space first fails at once on a full disk, and gives one extent where it can.
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
        let zeros = vec![0u8; ALLOCATE_BYTES.min(bytes as usize)];
        let mut offset = 0;
        while offset < bytes {
            let piece = zeros.len().min((bytes - offset) as usize);
            self.file.write_all_at(&zeros[..piece], offset)?;
            // Piece by piece, so that no append beside this waits behind one long flush. [p50 of an append meanwhile:
            // 0.25 ms; with one flush at the end 3.5 ms]
            self.file.sync_data()?;
            offset += piece as u64;
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

/// A held lock on a folder.
#[derive(Debug)]
pub struct RealLock {
    // The kernel gives the lock back when the file is closed, also after kill -9.
    _file: File,
}
