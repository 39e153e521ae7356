//! One pass over the records of a log: what they say, and where they end.

use std::collections::VecDeque;

use crate::checkpoint::CheckpointHeader;
use crate::names;
use crate::names::Epoch;
use crate::names::Sequence;
use crate::names::Version;
use crate::record::RECORD_HEADER_BYTES;
use crate::record::RecordHeader;
use crate::record::RecordKind;
use crate::segment::SegmentHeader;

/// A batch, as it was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its place in the log.
    pub sequence: Sequence,
    /// Its version.
    pub version: Version,
    /// The epoch that wrote it.
    pub epoch: Epoch,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// A segment as it was read from `offset` on; `end` and `dirty` count from there.
pub(crate) struct Tail<F> {
    pub(crate) file: F,
    pub(crate) header: SegmentHeader,
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
    /// Where the sound records end.
    pub(crate) end: usize,
    /// How many bytes after that are not all zero.
    pub(crate) dirty: usize,
}

impl<F> Tail<F> {
    pub(crate) fn name(&self) -> String {
        names::segment(self.header.first)
    }

    /// How much after the sound records may hold others: the last header may end in zeros.
    pub(crate) fn scanned(&self) -> usize {
        (self.dirty + RECORD_HEADER_BYTES as usize).min(self.bytes.len() - self.end)
    }
}

/// What the records read so far say.
pub(crate) struct Walk {
    /// The sequence that comes next.
    pub(crate) next: u64,
    pub(crate) epoch: u64,
    pub(crate) version: u64,
    pub(crate) reserved: u64,
    /// The last sequence that a record or a segment says was durable.
    pub(crate) proven: u64,
    /// Sequences and places of the records in the present segment that nothing proves durable. As many as are
    /// appended between two syncs.
    pub(crate) unproven: VecDeque<(u64, usize)>,
    pub(crate) batches: u64,
    pub(crate) bytes: u64,
}

impl Walk {
    pub(crate) fn new(start: Option<&CheckpointHeader>) -> Self {
        let sequence = start.map_or(0, |header| header.sequence);
        Self {
            next: sequence + 1,
            epoch: start.map_or(0, |header| header.epoch),
            version: start.map_or(0, |header| header.version),
            reserved: start.map_or(0, |header| header.reserved),
            proven: sequence,
            unproven: VecDeque::new(),
            batches: 0,
            bytes: 0,
        }
    }

    /// The first version that was certainly never shown to anyone.
    pub(crate) fn next_version(&self) -> u64 {
        self.version.max(self.reserved).saturating_add(1)
    }

    pub(crate) fn enter_segment(&mut self) {
        self.proven = self.next - 1;
        self.unproven.clear();
    }

    pub(crate) fn read<F, E>(
        &mut self,
        tail: &mut Tail<F>,
        apply: &mut impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let salt = tail.header.salt;
        loop {
            let bytes = &tail.bytes[tail.end..];
            let Some(header) = RecordHeader::parse(bytes, salt).filter(|header| self.follows(header)) else { break };
            let Some(payload) = header.payload(bytes, salt) else { break };
            if header.kind == RecordKind::Batch {
                self.batches += 1;
                apply(Record {
                    sequence: Sequence(header.sequence),
                    version: Version(header.version),
                    epoch: Epoch(header.epoch),
                    payload,
                })?;
            }
            self.note(&header, tail.end);
            tail.end += header.record_bytes() as usize;
        }
        Ok(())
    }

    /// A record with the right checksum that breaks the order was not written by this log.
    fn follows(&self, header: &RecordHeader) -> bool {
        let version_follows = match header.kind {
            RecordKind::Batch => header.version > self.version,
            RecordKind::Idle | RecordKind::Reserve => header.version >= self.version,
        };
        header.sequence == self.next && header.epoch >= self.epoch && version_follows
    }

    fn note(&mut self, header: &RecordHeader, place: usize) {
        self.next = header.sequence + 1;
        self.epoch = header.epoch;
        self.version = header.version;
        self.reserved = self.reserved.max(header.reserved);
        self.proven = self.proven.max(header.durable);
        self.bytes += header.record_bytes();
        self.unproven.push_back((header.sequence, place));
        while self.unproven.front().is_some_and(|(sequence, _)| *sequence <= self.proven) {
            self.unproven.pop_front();
        }
    }
}
