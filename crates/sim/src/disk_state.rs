//! What a simulated disk is: files and names as a process sees them, and as a power cut would leave them.

use std::collections::BTreeMap;
use std::io;

use crate::random::Random;
use crate::trace::Call;
use crate::trace::CallKind;

/// Disks tear writes at the borders of these.
const SECTOR_BYTES: usize = 512;

/// What goes wrong at one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The machine loses power in the middle of the call.
    Crash,
    /// The call fails; of a write, any part may have been done.
    Error(io::ErrorKind),
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) random: Random,
    /// Handles of an earlier process are dead.
    pub(crate) process: u64,
    pub(crate) crashed: bool,
    pub(crate) locked: bool,
    /// How many calls that change something were made.
    pub(crate) calls: u64,
    pub(crate) faults: BTreeMap<u64, Fault>,
    pub(crate) capacity: Option<u64>,
    pub(crate) trace: Option<Vec<Call>>,
    nodes: Vec<Node>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// Changes of names since their folder was synced, in order.
    pending_names: Vec<(String, Option<usize>)>,
}

#[derive(Debug, Default)]
struct Node {
    folder: bool,
    /// What a process reads.
    seen: Vec<u8>,
    /// What is on disk.
    durable: Vec<u8>,
    pending: Vec<Write>,
}

#[derive(Debug)]
struct Write {
    offset: usize,
    bytes: Vec<u8>,
}

impl Write {
    fn apply(&self, content: &mut Vec<u8>) {
        let end = self.offset + self.bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[self.offset..end].copy_from_slice(&self.bytes);
    }

    /// Puts on disk the part of the write that is drawn: by sectors or by bytes.
    fn apply_torn(&self, content: &mut Vec<u8>, random: &mut Random, piece: usize) {
        let mut start = 0;
        while start < self.bytes.len() {
            let border = (self.offset + start) / piece * piece + piece;
            let end = self.bytes.len().min(border - self.offset);
            if random.one_in(2) {
                Write { offset: self.offset + start, bytes: self.bytes[start..end].to_vec() }.apply(content);
            }
            start = end;
        }
    }
}

impl State {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            process: 0,
            crashed: false,
            locked: false,
            calls: 0,
            faults: BTreeMap::new(),
            capacity: None,
            trace: None,
            nodes: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending_names: Vec::new(),
        }
    }

    pub(crate) fn alive(&self, process: u64) -> io::Result<()> {
        if self.crashed || self.process != process {
            return Err(io::Error::other("the simulated machine is down"));
        }
        Ok(())
    }

    /// Counts a call and gives the fault planted at it.
    pub(crate) fn begin_call(&mut self, process: u64) -> io::Result<Option<Fault>> {
        self.alive(process)?;
        self.calls += 1;
        Ok(self.faults.remove(&self.calls))
    }

    /// Runs a call that is done wholly or not at all.
    pub(crate) fn call(
        &mut self,
        process: u64,
        kind: CallKind,
        path: &str,
        work: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        let result = match self.begin_call(process)? {
            None => work(self),
            Some(fault) => {
                // Whether the call took effect before things went wrong is drawn. A failed sync did nothing.
                if self.random.one_in(2) && !matches!(kind, CallKind::SyncFolder) {
                    let _ = work(self);
                }
                Err(self.fail(fault))
            }
        };
        self.note(kind, path, 0, 0, result.is_ok());
        result
    }

    pub(crate) fn fail(&mut self, fault: Fault) -> io::Error {
        match fault {
            Fault::Crash => {
                self.crashed = true;
                io::Error::other("the simulated machine lost power")
            }
            Fault::Error(kind) => kind.into(),
        }
    }

    pub(crate) fn note(&mut self, kind: CallKind, path: &str, offset: u64, bytes: u64, succeeded: bool) {
        if let Some(trace) = &mut self.trace {
            trace.push(Call { kind, path: path.to_owned(), offset, bytes, succeeded });
        }
    }

    pub(crate) fn find(&self, path: &str) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        path.is_empty() || self.names.contains_key(path)
    }

    /// The present name of a file; empty if it was removed.
    pub(crate) fn name_of(&self, node: usize) -> String {
        self.names.iter().find(|(_, id)| **id == node).map(|(name, _)| name.clone()).unwrap_or_default()
    }

    pub(crate) fn names_in(&self, folder: &str) -> io::Result<Vec<String>> {
        if !folder.is_empty() && !self.nodes[self.find(folder)?].folder {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let inside = self.names.keys().filter(|path| parent(path) == folder);
        Ok(inside.map(|path| path.rsplit('/').next().unwrap_or(path).to_owned()).collect())
    }

    pub(crate) fn add(&mut self, path: &str, folder: bool) -> io::Result<usize> {
        if self.exists(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !self.exists(parent(path)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let node = self.nodes.len();
        self.nodes.push(Node { folder, ..Node::default() });
        self.set_name(path, Some(node));
        Ok(node)
    }

    pub(crate) fn set_name(&mut self, path: &str, node: Option<usize>) {
        match node {
            Some(node) => self.names.insert(path.to_owned(), node),
            None => self.names.remove(path),
        };
        self.pending_names.push((path.to_owned(), node));
    }

    pub(crate) fn sync_names(&mut self, folder: &str) {
        let durable = &mut self.durable_names;
        self.pending_names.retain(|(path, node)| {
            if parent(path) != folder {
                return true;
            }
            set(durable, path, *node);
            false
        });
    }

    pub(crate) fn size(&self, node: usize) -> u64 {
        self.nodes[node].seen.len() as u64
    }

    pub(crate) fn read(&self, node: usize, buffer: &mut [u8], offset: u64) -> usize {
        let seen = &self.nodes[node].seen;
        let start = seen.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
        let length = buffer.len().min(seen.len() - start);
        buffer[..length].copy_from_slice(&seen[start..start + length]);
        length
    }

    /// Writes as much as there is space for.
    pub(crate) fn write(&mut self, node: usize, offset: usize, mut bytes: Vec<u8>) -> io::Result<()> {
        let mut result = Ok(());
        if let Some(capacity) = self.capacity {
            let others: usize =
                self.names.values().filter(|id| **id != node).map(|id| self.nodes[*id].seen.len()).sum();
            let limit = (capacity as usize).saturating_sub(others).max(self.nodes[node].seen.len());
            if offset + bytes.len() > limit {
                bytes.truncate(limit.saturating_sub(offset));
                result = Err(io::ErrorKind::StorageFull.into());
            }
        }
        self.write_through(node, offset, bytes);
        result
    }

    fn write_through(&mut self, node: usize, offset: usize, bytes: Vec<u8>) {
        let node = &mut self.nodes[node];
        let write = Write { offset, bytes };
        write.apply(&mut node.seen);
        node.pending.push(write);
    }

    pub(crate) fn sync(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        for write in node.pending.drain(..) {
            write.apply(&mut node.durable);
        }
    }

    /// What real kernels do: the pages are dropped or not, marked clean either way, and read as if all were well.
    pub(crate) fn fail_sync(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        for write in std::mem::take(&mut node.pending) {
            if self.random.one_in(2) {
                write.apply(&mut node.durable);
            }
        }
    }

    /// The machine comes up again with what the disk kept.
    pub(crate) fn power_cut(&mut self) {
        self.keep_names();
        for node in &mut self.nodes {
            let pending = std::mem::take(&mut node.pending);
            let way = self.random.below(5);
            for write in &pending {
                match way {
                    0 => {}
                    1 => write.apply(&mut node.durable),
                    2 if self.random.one_in(2) => write.apply(&mut node.durable),
                    2 => {}
                    3 => write.apply_torn(&mut node.durable, &mut self.random, SECTOR_BYTES),
                    _ => write.apply_torn(&mut node.durable, &mut self.random, 1),
                }
            }
            node.seen = node.durable.clone();
        }
        self.end_process();
        self.crashed = false;
    }

    fn keep_names(&mut self) {
        let pending = std::mem::take(&mut self.pending_names);
        let way = self.random.below(3);
        for (path, node) in pending {
            if way == 1 || way == 2 && self.random.one_in(2) {
                set(&mut self.durable_names, &path, node);
            }
        }
        // What lies in a folder whose own name was lost is lost too.
        let kept = self.durable_names.clone();
        self.durable_names.retain(|path, _| {
            let mut folder = parent(path);
            while !folder.is_empty() && kept.contains_key(folder) {
                folder = parent(folder);
            }
            folder.is_empty()
        });
        self.names = self.durable_names.clone();
    }

    pub(crate) fn end_process(&mut self) {
        self.process += 1;
        self.locked = false;
        self.faults.clear();
    }

    pub(crate) fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let files = self.names.iter().filter(|(_, node)| !self.nodes[**node].folder);
        files.map(|(path, node)| (path.clone(), self.nodes[*node].seen.clone())).collect()
    }

    /// Puts a durable file in place of what is there.
    pub(crate) fn put(&mut self, path: &str, bytes: &[u8]) {
        self.nodes.push(Node { folder: false, seen: bytes.to_vec(), durable: bytes.to_vec(), pending: Vec::new() });
        let node = self.nodes.len() - 1;
        self.names.insert(path.to_owned(), node);
        self.durable_names.insert(path.to_owned(), node);
    }

    pub(crate) fn flip(&mut self, path: &str, offset: usize, mask: u8) -> io::Result<()> {
        let node = self.find(path)?;
        let node = &mut self.nodes[node];
        for content in [&mut node.seen, &mut node.durable] {
            if let Some(byte) = content.get_mut(offset) {
                *byte ^= mask;
            }
        }
        Ok(())
    }
}

fn set(names: &mut BTreeMap<String, usize>, path: &str, node: Option<usize>) {
    match node {
        Some(node) => names.insert(path.to_owned(), node),
        None => names.remove(path),
    };
}

/// The folder that a path lies in; empty for the root.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}
