//! The log reader under foreign bytes: one function, called by the fuzzer and by a test over the stored corpus.
//!
//! The first byte picks how the rest is understood. Raw files meet the checksums; built ones have sound checksums and
//! any contents, so that the rules behind the checksums are reached; played ones are written by the log itself, then
//! cut and edited. The builder knows the format from its description alone and shares no code with the log.

use rollcall_log::Disk;
use rollcall_log::DurabilityClass;
use rollcall_log::Epoch;
use rollcall_log::Log;
use rollcall_log::OpenError;
use rollcall_log::Options;
use rollcall_log::Version;

use crate::disk::SimulatedDisk;

/// Longest file that is built: long enough for a dozen records.
const FILE_BYTES: usize = 4096;
const FORMAT: &[u8] = b"rollcall log\nformat 1\nwritten by 0.1.0\n";

/// Reads a folder made of these bytes. Whatever they are, the log must not panic; and what it has once accepted it must
/// accept again, with the same batches and those appended since.
///
/// # Panics
/// If the log breaks that.
pub fn fuzz_log_reader(bytes: &[u8]) {
    let mut input = Input { bytes };
    let disk = SimulatedDisk::new(7);
    match input.byte() % 4 {
        0 => raw(&disk, bytes.get(1..).unwrap_or_default()),
        1 | 2 => build(&disk, &mut input),
        _ => play(&disk, &mut input),
    }
    let Ok((log, mut batches)) = open(&disk) else { return };
    drop(log);
    for round in 0..2 {
        let (mut log, found) = open(&disk).expect("a folder that was opened once is opened again");
        assert_eq!(found, batches, "round {round}");
        let version = Version(log.reserved_version().0.saturating_sub(2));
        if log.append(version, &[b"more"], log.epoch(), DurabilityClass::Committed).is_ok() {
            batches.push((version.0, b"more".to_vec()));
        }
    }
}

type Batches = Vec<(u64, Vec<u8>)>;

fn options() -> Options {
    Options {
        first_segment_bytes: 2048,
        segment_bytes: 4096,
        reserve_versions: 8,
        ..Options::new(Epoch(200), 1, "0.1.0")
    }
}

fn open(disk: &SimulatedDisk) -> Result<(Log<SimulatedDisk>, Batches), OpenError> {
    let opening = Log::open(disk.clone(), options())?;
    let mut batches = Vec::new();
    if let Some(checkpoint) = opening.checkpoint() {
        let mut buffer = Vec::new();
        for index in 0..checkpoint.chunk_count() {
            batches.push((0, checkpoint.read_chunk(index, &mut buffer)?.to_vec()));
        }
    }
    let (log, _) = opening.replay(|record| {
        batches.push((record.version.0, record.payload.to_vec()));
        Ok::<(), OpenError>(())
    })?;
    Ok((log, batches))
}

/// Bytes of the input, one by one; zeros after its end.
struct Input<'a> {
    bytes: &'a [u8],
}

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    /// Mostly small numbers; the highest there are, too.
    fn number(&mut self) -> u64 {
        match self.byte() {
            byte @ 0..=250 => u64::from(byte),
            251 => 1 << 62,
            252 => (1 << 62) - 1,
            253 => u64::MAX,
            254 => u64::from(self.byte()) << 32,
            255 => u64::MAX - u64::from(self.byte()),
        }
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Two files, split where a byte says.
fn raw(disk: &SimulatedDisk, bytes: &[u8]) {
    let (first, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let (segment, checkpoint) = rest.split_at(rest.len() * usize::from(*first) / 255);
    disk.put("format", FORMAT);
    disk.put("segment-00000000000000000001", segment);
    if !checkpoint.is_empty() {
        disk.put("checkpoint-00000000000000000001", checkpoint);
    }
}

fn build(disk: &SimulatedDisk, input: &mut Input<'_>) {
    if input.byte() != 1 {
        disk.put("format", FORMAT);
    }
    for _ in 0..6 {
        if input.is_empty() {
            return;
        }
        let number = input.number();
        match input.byte() % 4 {
            0 => disk.put(&format!("checkpoint-{number:020}"), &built_checkpoint(number, input)),
            _ => disk.put(&format!("segment-{number:020}"), &built_segment(number, input)),
        }
    }
}

fn seal(bytes: &mut [u8], seed: u32) {
    let crc = crc32c::crc32c_append(seed, &bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
}

fn words(words: &[u64]) -> impl Iterator<Item = u8> {
    words.iter().flat_map(|word| word.to_le_bytes())
}

fn built_segment(first: u64, input: &mut Input<'_>) -> Vec<u8> {
    let salt = u32::from(input.byte());
    let flags = u64::from(input.byte() % 2);
    let mut bytes = b"\0\0\0\0RSEG".to_vec();
    bytes.extend(words(&[1 | flags << 32, first, 1, u64::from(salt), FILE_BYTES as u64]));
    bytes.resize(64, 0);
    seal(&mut bytes, 0);
    let mut next = first;
    let mut version = 1;
    for _ in 0..input.byte() % 16 {
        bytes.extend(built_record(&mut next, &mut version, salt, input));
    }
    bytes.resize(FILE_BYTES, 0);
    for _ in 0..input.byte() % 4 {
        let at = usize::from(input.byte()) << 8 | usize::from(input.byte());
        bytes[at % FILE_BYTES] ^= input.byte();
    }
    bytes
}

/// A record that usually follows the one before it.
fn built_record(next: &mut u64, version: &mut u64, salt: u32, input: &mut Input<'_>) -> Vec<u8> {
    let odd = input.byte();
    let mut or = |bit: u8, usual: u64| if odd & (1 << bit) == 0 { usual } else { input.number() };
    let sequence = or(0, *next);
    let durable = or(1, sequence.saturating_sub(1));
    let (epoch, own_version, reserved) = (or(2, 1), or(3, *version), or(4, 20));
    let kind = or(5, 1);
    let length = or(6, 16) as usize % 600;
    *next = sequence.saturating_add(1);
    *version = own_version.saturating_add(1);
    let mut payload = vec![odd; length.next_multiple_of(8)];
    payload[length..].fill(0);
    let mut bytes = b"\0\0\0\0RCRD".to_vec();
    bytes.extend(words(&[length as u64 | kind << 32, sequence, epoch, durable, own_version, reserved]));
    bytes.extend(crc32c::crc32c_append(salt, &payload).to_le_bytes());
    bytes.extend([0; 4]);
    seal(&mut bytes, salt);
    bytes.extend(payload);
    if odd & 0x80 != 0 {
        let at = usize::from(input.byte()) % bytes.len();
        bytes[at] ^= 1;
    }
    bytes
}

fn built_checkpoint(sequence: u64, input: &mut Input<'_>) -> Vec<u8> {
    let flags = u64::from(input.byte() % 2);
    let mut bytes = b"\0\0\0\0RCKP".to_vec();
    let (version, segment, offset) = (input.number(), input.number(), input.number());
    bytes.extend(words(&[1 | flags << 32, sequence, 1, version, input.number(), segment, offset]));
    seal(&mut bytes, 0);
    let mut table = Vec::new();
    for index in 0..u64::from(input.byte() % 4) {
        let length = input.number() % 300;
        let mut chunk = b"\0\0\0\0RCHK".to_vec();
        chunk.extend(words(&[length | index << 32]));
        chunk.resize(16 + length as usize, index as u8);
        seal(&mut chunk, 0);
        let crc = u64::from(u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]));
        table.extend(words(&[bytes.len() as u64, length | crc << 32]));
        bytes.extend(chunk);
    }
    let odd = input.byte();
    let mut or = |bit: u8, usual: u64| if odd & (1 << bit) == 0 { usual } else { input.number() };
    let mut trailer = b"\0\0\0\0REND".to_vec();
    trailer.extend(words(&[or(0, (table.len() / 16) as u64), or(1, bytes.len() as u64), 0]));
    let crc = crc32c::crc32c_append(crc32c::crc32c(&table), &trailer[4..]);
    trailer[..4].copy_from_slice(&crc.to_le_bytes());
    bytes.extend(table);
    bytes.extend(trailer);
    if odd & 4 != 0 {
        let at = (usize::from(input.byte()) << 8 | usize::from(input.byte())) % bytes.len();
        bytes[at] ^= 1;
    }
    bytes
}

/// Lets the log write, cuts the power or not, and edits some bytes.
fn play(disk: &SimulatedDisk, input: &mut Input<'_>) {
    let (seed, cut) = (input.byte(), input.byte());
    let own = SimulatedDisk::new(u64::from(seed));
    let Ok((mut log, _)) = open(&own) else { return };
    let mut version = 1;
    for _ in 0..input.byte() % 24 {
        let length = usize::from(input.byte()) * 4;
        let class = if length % 8 == 0 { DurabilityClass::Committed } else { DurabilityClass::Relaxed };
        let _ = log.append(Version(version), &[&vec![length as u8; length]], Epoch(200), class);
        version += 1;
        if input.byte() == 0 {
            let Ok(mut writer) = log.checkpoint_writer(Version(version)) else { continue };
            version += 1;
            let done = writer.write(&vec![1; length]).and_then(|()| writer.finish());
            let _ = done.map(|done| log.checkpoint_done(done));
        }
    }
    drop(log);
    let own = if cut % 2 == 0 { own.power_cut() } else { own.kill() };
    for (index, (name, mut bytes)) in own.contents().into_iter().enumerate() {
        while input.byte() == index as u8 + 1 && !bytes.is_empty() {
            let at = (usize::from(input.byte()) << 8 | usize::from(input.byte())) % bytes.len();
            bytes[at] ^= input.byte();
        }
        disk.put(&name, &bytes);
    }
    let _ = disk.remove("lock");
}
