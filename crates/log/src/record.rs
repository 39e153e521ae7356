//! The bytes of one record: a header of 64 bytes, the payload, zeros up to the next multiple of eight.
//!
//! ```text
//!  0 header crc32c   of bytes 4..64, seeded with the segment's salt
//!  4 magic           "RCRD"
//!  8 payload length  bytes
//! 12 kind            1 batch, 2 idle, 3 reserve
//! 16 sequence        24 epoch   32 durable   40 version   48 reserved
//! 56 payload crc32c  of payload and padding, seeded with the salt
//! 60 zero
//! ```
//!
//! All numbers are little-endian. The header has a checksum of its own so that a scan over damaged bytes costs one
//! small checksum per candidate, and so that a record whose payload is lost can still say what was durable before it.
//! The salt keeps a payload that contains a copy of a record from being taken for one.

use crate::limits::MAX_NUMBER;
use crate::limits::MAX_RECORD_BYTES;

/// Size of a record without payload.
pub(crate) const RECORD_HEADER_BYTES: u64 = 64;
/// Records start at multiples of this.
pub(crate) const RECORD_ALIGNMENT: u64 = 8;
const HEADER: usize = RECORD_HEADER_BYTES as usize;
const MAGIC: [u8; 4] = *b"RCRD";

/// What a record is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// A batch of the writer.
    Batch,
    /// Carries nothing: it proves that the record before it is durable.
    Idle,
    /// Carries nothing but the reserve of versions.
    Reserve,
}

/// A record without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) kind: RecordKind,
    pub(crate) length: u32,
    pub(crate) sequence: u64,
    pub(crate) epoch: u64,
    /// The last sequence known durable when this record was written.
    pub(crate) durable: u64,
    /// The version of the batch; for other kinds, of the last batch before.
    pub(crate) version: u64,
    /// Versions up to this one may have been handed out.
    pub(crate) reserved: u64,
    payload_crc: u32,
}

impl RecordHeader {
    /// A header for a payload to come.
    pub(crate) fn new(kind: RecordKind, sequence: u64, epoch: u64, durable: u64, version: u64, reserved: u64) -> Self {
        Self { kind, length: 0, sequence, epoch, durable, version, reserved, payload_crc: 0 }
    }

    /// Bytes that the record takes in a segment.
    pub(crate) fn record_bytes(&self) -> u64 {
        record_bytes(u64::from(self.length))
    }

    /// Reads a header from the start of `bytes`. `None` if there is none, or it was not written by this segment.
    pub(crate) fn parse(bytes: &[u8], salt: u32) -> Option<Self> {
        let header = bytes.get(..HEADER)?;
        if header[4..8] != MAGIC || crc32c::crc32c_append(salt, &header[4..]) != u32_at(header, 0) {
            return None;
        }
        let kind = match u32_at(header, 12) {
            1 => RecordKind::Batch,
            2 => RecordKind::Idle,
            3 => RecordKind::Reserve,
            _ => return None,
        };
        let parsed = Self {
            kind,
            length: u32_at(header, 8),
            sequence: u64_at(header, 16),
            epoch: u64_at(header, 24),
            durable: u64_at(header, 32),
            version: u64_at(header, 40),
            reserved: u64_at(header, 48),
            payload_crc: u32_at(header, 56),
        };
        let sound = parsed.length as usize <= MAX_RECORD_BYTES
            && parsed.durable < parsed.sequence
            && parsed.sequence.max(parsed.version).max(parsed.reserved) <= MAX_NUMBER;
        sound.then_some(parsed)
    }

    /// The payload of the record at the start of `bytes`, if it is whole.
    pub(crate) fn payload<'a>(&self, bytes: &'a [u8], salt: u32) -> Option<&'a [u8]> {
        let padded = bytes.get(HEADER..self.record_bytes() as usize)?;
        if crc32c::crc32c_append(salt, padded) != self.payload_crc {
            return None;
        }
        Some(&padded[..self.length as usize])
    }
}

/// Bytes that a record with a payload of this length takes in a segment.
pub(crate) fn record_bytes(length: u64) -> u64 {
    (RECORD_HEADER_BYTES + length).next_multiple_of(RECORD_ALIGNMENT)
}

/// Puts one whole record into `buffer`, in place of what was there. The payload's parts together must be within
/// `MAX_RECORD_BYTES`.
pub(crate) fn encode(buffer: &mut Vec<u8>, header: &RecordHeader, payload: &[&[u8]], salt: u32) {
    buffer.clear();
    buffer.resize(HEADER, 0);
    for part in payload {
        buffer.extend_from_slice(part);
    }
    let length = (buffer.len() - HEADER) as u32;
    buffer.resize(record_bytes(u64::from(length)) as usize, 0);
    let payload_crc = crc32c::crc32c_append(salt, &buffer[HEADER..]);
    let kind: u32 = match header.kind {
        RecordKind::Batch => 1,
        RecordKind::Idle => 2,
        RecordKind::Reserve => 3,
    };
    buffer[4..8].copy_from_slice(&MAGIC);
    buffer[8..12].copy_from_slice(&length.to_le_bytes());
    buffer[12..16].copy_from_slice(&kind.to_le_bytes());
    let words = [header.sequence, header.epoch, header.durable, header.version, header.reserved];
    for (index, word) in words.into_iter().enumerate() {
        buffer[16 + 8 * index..24 + 8 * index].copy_from_slice(&word.to_le_bytes());
    }
    buffer[56..60].copy_from_slice(&payload_crc.to_le_bytes());
    let header_crc = crc32c::crc32c_append(salt, &buffer[4..HEADER]);
    buffer[0..4].copy_from_slice(&header_crc.to_le_bytes());
}

/// Looks from `from` on for the header of a later record which says that `sequence` was durable when it was written.
/// Gives its offset and its own sequence.
pub(crate) fn find_proof(bytes: &[u8], from: usize, salt: u32, sequence: u64) -> Option<(usize, u64)> {
    let mut offset = from.next_multiple_of(RECORD_ALIGNMENT as usize);
    while offset + HEADER <= bytes.len() {
        if bytes[offset + 4..offset + 8] == MAGIC
            && let Some(header) = RecordHeader::parse(&bytes[offset..], salt)
            && header.sequence > sequence
            && header.durable >= sequence
        {
            return Some((offset, header.sequence));
        }
        offset += RECORD_ALIGNMENT as usize;
    }
    None
}

/// A little-endian number at a place that the caller knows to be inside.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(word)
}

/// A little-endian number at a place that the caller knows to be inside.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(word)
}
