//! The simulated disk as the log sees it, and as a test commands it.

use std::collections::BTreeMap;
use std::io;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use rollcall_log::Disk;
use rollcall_log::DiskFile;
use rollcall_log::LockAttempt;

use crate::disk_state::Fault;
use crate::disk_state::State;
use crate::trace::Call;
use crate::trace::CallKind;

/// A disk in memory, held by one simulated process. Clones are handles of the same process.
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
    process: u64,
}

impl SimulatedDisk {
    /// An empty disk. All that chance decides follows from the seed.
    pub fn new(seed: u64) -> Self {
        Self { state: Arc::new(Mutex::new(State::new(seed))), process: 0 }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A test that failed elsewhere may look at the disk all the same.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Plants a fault at the call of this number; the first call that changes something is number 1.
    pub fn plant(&self, call: u64, fault: Fault) {
        self.state().faults.insert(call, fault);
    }

    /// How many calls that change something were made so far.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Whether a planted crash has happened.
    pub fn crashed(&self) -> bool {
        self.state().crashed
    }

    /// Limits the bytes of all files together; `None` is no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// Cuts the power: unsynced writes are lost, kept or torn as chance decides, and every handle so far is dead.
    /// Gives the disk to a new process. Planted faults are forgotten.
    #[must_use = "the old handle is dead"]
    pub fn power_cut(&self) -> Self {
        let mut state = self.state();
        state.power_cut();
        Self { state: Arc::clone(&self.state), process: state.process }
    }

    /// Ends the process, as kill -9 does: the kernel keeps what was written. Gives the disk to a new process.
    #[must_use = "the old handle is dead"]
    pub fn kill(&self) -> Self {
        let mut state = self.state();
        state.end_process();
        Self { state: Arc::clone(&self.state), process: state.process }
    }

    /// All files and their contents, as a process sees them.
    pub fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        self.state().contents()
    }

    /// Puts a durable file in place of whatever has that name.
    pub fn put(&self, path: &str, bytes: &[u8]) {
        self.state().put(path, bytes);
    }

    /// Flips bits of one byte, on the disk and for every reader.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn flip(&self, path: &str, offset: usize, mask: u8) -> io::Result<()> {
        self.state().flip(path, offset, mask)
    }

    /// Starts to record all calls.
    pub fn record(&self) {
        self.state().trace = Some(Vec::new());
    }

    /// Puts a mark of the test's own into the record.
    pub fn mark(&self, text: &str) {
        self.state().note(CallKind::Mark, text, 0, 0, true);
    }

    /// What was recorded; recording ends.
    pub fn recorded(&self) -> Vec<Call> {
        self.state().trace.take().unwrap_or_default()
    }

    fn file(&self, node: usize) -> SimulatedFile {
        SimulatedFile { disk: self.clone(), node }
    }
}

impl Disk for SimulatedDisk {
    type File = SimulatedFile;
    type Lock = SimulatedLock;

    fn describe(&self) -> String {
        "simulated".to_owned()
    }

    fn create(&self, path: &str) -> io::Result<SimulatedFile> {
        let mut state = self.state();
        state.call(self.process, CallKind::Create, path, |state| state.add(path, false).map(|_| ()))?;
        Ok(self.file(state.find(path)?))
    }

    fn open(&self, path: &str) -> io::Result<SimulatedFile> {
        let state = self.state();
        state.alive(self.process)?;
        Ok(self.file(state.find(path)?))
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        let state = self.state();
        state.alive(self.process)?;
        Ok(state.exists(path))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let state = self.state();
        state.alive(self.process)?;
        state.names_in(folder)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.state().call(self.process, CallKind::Rename, to, |state| {
            let node = state.find(from)?;
            state.set_name(from, None);
            state.set_name(to, Some(node));
            Ok(())
        })
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.state().call(self.process, CallKind::Remove, path, |state| {
            state.find(path)?;
            state.set_name(path, None);
            Ok(())
        })
    }

    fn create_folder(&self, path: &str) -> io::Result<()> {
        self.state().call(self.process, CallKind::CreateFolder, path, |state| {
            if state.exists(path) { Ok(()) } else { state.add(path, true).map(|_| ()) }
        })
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        self.state().call(self.process, CallKind::SyncFolder, folder, |state| {
            state.sync_names(folder);
            Ok(())
        })
    }

    fn lock(&self, path: &str) -> io::Result<LockAttempt<SimulatedLock>> {
        let mut state = self.state();
        if state.locked {
            return Ok(LockAttempt::Held(Some(state.process as u32)));
        }
        state.call(self.process, CallKind::Lock, path, |state| {
            let node = if state.exists(path) { state.find(path)? } else { state.add(path, false)? };
            state.write(node, 0, b"0\n".to_vec())?;
            state.locked = true;
            Ok(())
        })?;
        Ok(LockAttempt::Taken(SimulatedLock { disk: self.clone() }))
    }
}

/// An open file of a simulated disk.
#[derive(Debug)]
pub struct SimulatedFile {
    disk: SimulatedDisk,
    node: usize,
}

impl SimulatedFile {
    fn write(&self, kind: CallKind, mut bytes: Vec<u8>, offset: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let fault = state.begin_call(self.disk.process)?;
        let length = bytes.len() as u64;
        if fault.is_some() {
            // Nothing, all, or a part was written when it went wrong.
            let kept = match state.random.below(3) {
                0 => 0,
                1 => length,
                _ => state.random.below(length + 1),
            };
            bytes.truncate(kept as usize);
        }
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut result = state.write(self.node, start, bytes);
        if let Some(fault) = fault {
            result = Err(state.fail(fault));
        }
        let path = state.name_of(self.node);
        state.note(kind, &path, offset, length, result.is_ok());
        result
    }

    fn sync(&self, kind: CallKind) -> io::Result<()> {
        let mut state = self.disk.state();
        let result = match state.begin_call(self.disk.process)? {
            None => {
                state.sync(self.node);
                Ok(())
            }
            Some(fault) => {
                if fault != Fault::Crash {
                    state.fail_sync(self.node);
                }
                Err(state.fail(fault))
            }
        };
        let path = state.name_of(self.node);
        state.note(kind, &path, 0, 0, result.is_ok());
        result
    }
}

impl DiskFile for SimulatedFile {
    fn size(&self) -> io::Result<u64> {
        let state = self.disk.state();
        state.alive(self.disk.process)?;
        Ok(state.size(self.node))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.disk.state();
        state.alive(self.disk.process)?;
        Ok(state.read(self.node, buffer, offset))
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        self.write(CallKind::Write, bytes, offset)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.write(CallKind::Allocate, vec![0; bytes as usize], 0)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync(CallKind::SyncData)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync(CallKind::SyncAll)
    }
}

/// The lock of a simulated folder.
#[derive(Debug)]
pub struct SimulatedLock {
    disk: SimulatedDisk,
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        // The lock of a process that is gone was given back when it went.
        if state.process == self.disk.process {
            state.locked = false;
        }
    }
}
