//! The rows of the test store: together they use everything that a table can declare.

use rollcall_schema::codec::{put_varint, take_bytes, take_varint};
use rollcall_schema::{
    BlobReference, ColumnType, ColumnValue, Enumeration, FieldError, NamePool, Nested, NestedSchema, Row, SharedText,
    Time, Unknown, Value,
};

/// Where an item stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
pub enum Section {
    /// It lives.
    #[word(number = 1)]
    Live,
    /// It cannot be reached.
    #[word(number = 2)]
    Unreachable,
    /// It is over.
    #[word(number = 3)]
    Completed,
}

/// What an item does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
pub enum Phase {
    /// Nothing yet.
    #[word(number = 10)]
    Waiting,
    /// It runs.
    #[word(number = 20)]
    Running,
    /// It ran.
    #[word(number = 30)]
    Done,
}

/// Remarks inside a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notes(pub Vec<(u64, String)>);

static NOTES: NestedSchema = NestedSchema {
    fields: &[("weight", "How much it matters.", ColumnType::Unsigned), ("text", "What it says.", ColumnType::Text)],
};

impl Nested for Notes {
    fn nested_schema(&self) -> &'static NestedSchema {
        &NOTES
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn field(&self, record: usize, field: usize) -> Value<'_> {
        match (self.0.get(record), field) {
            (Some((weight, _)), 0) => Value::Unsigned(*weight),
            (Some((_, text)), 1) => Value::Text(text),
            _ => Value::Null,
        }
    }
}

impl ColumnValue for Notes {
    const TYPE: ColumnType = ColumnType::Nested(&NOTES);

    fn value(&self) -> Value<'_> {
        Value::Nested(self)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        for (weight, text) in &self.0 {
            put_varint(out, *weight);
            put_varint(out, text.len() as u64);
            out.extend_from_slice(text.as_bytes());
        }
    }

    fn decode(mut bytes: &[u8], _names: &mut NamePool) -> Result<Self, FieldError> {
        let mut notes = Vec::new();
        while !bytes.is_empty() {
            let weight = take_varint(&mut bytes).ok_or(FieldError::Record)?;
            let length = take_varint(&mut bytes).ok_or(FieldError::Record)?;
            let text = take_bytes(&mut bytes, length).ok_or(FieldError::Record)?;
            notes.push((weight, String::from_utf8(text.to_vec()).map_err(|_| FieldError::Text)?));
        }
        Ok(Notes(notes))
    }

    fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(u64, String)>() + self.0.iter().map(|(_, text)| text.capacity()).sum::<usize>()
    }
}

/// A thing with every kind of column.
#[derive(Clone, Debug, PartialEq, Row)]
#[row(
    table = "items",
    number = 1,
    partition(owner, section),
    computed(name = "active", with = Item::is_active, of = bool, doc = "Whether it lives and runs."),
    computed(name = "excess", with = Item::excess, of = Option<u64>, doc = "Thousandths above one cpu."),
    index(name = "name", columns(name), unique),
    index(name = "label", columns(label), unique),
    index(name = "job_instance", columns(job, instance)),
    index(name = "live_slot", columns(instance, job), unique, only_where = active),
    index(name = "host", columns(host)),
    index(name = "host_active", columns(host, name), only_where = active),
    index(name = "rank", columns(rank, name)),
    index(name = "phase_at", columns(phase, at)),
    index(name = "trace", columns(trace)),
    index(name = "excess", columns(excess)),
    rollup(name = "by_host", key(host), sums(cpus, memory), only_where = active),
    rollup(name = "by_phase", key(phase)),
    rollup(name = "by_job", key(job, phase), sums(cpus)),
    rollup(name = "all", key(), sums(memory))
)]
pub struct Item {
    /// What people call it.
    #[row(tag = 1)]
    pub name: String,
    /// Whose it is.
    #[row(tag = 2)]
    pub owner: SharedText,
    /// Where it stands.
    #[row(tag = 3, default = Section::Live)]
    pub section: Section,
    /// The job it is of.
    #[row(tag = 4, default = 0)]
    pub job: u32,
    /// Which of the job's slots it fills.
    #[row(tag = 5, default = 0)]
    pub instance: u32,
    /// A second name that few have.
    #[row(tag = 6)]
    pub label: Option<String>,
    /// Where it is.
    #[row(tag = 7)]
    pub host: Option<SharedText>,
    /// How it is rated.
    #[row(tag = 8)]
    pub rank: Option<i64>,
    /// What it does.
    #[row(tag = 9, default = Phase::Waiting)]
    pub phase: Phase,
    /// Since when.
    #[row(tag = 10, default = Time::EPOCH)]
    pub at: Time,
    /// Thousandths of a cpu.
    #[row(tag = 11, default = 0)]
    pub cpus: u64,
    /// Bytes of memory.
    #[row(tag = 12, default = 0)]
    pub memory: u32,
    /// An identifier from elsewhere.
    #[row(tag = 13, default = 0)]
    pub trace: u128,
    /// What it carries.
    #[row(tag = 14, default = Vec::new())]
    pub payload: Vec<u8>,
    /// Remarks.
    #[row(tag = 15, default = Notes::default())]
    pub notes: Notes,
    /// A large value.
    #[row(tag = 16)]
    pub blob: Option<BlobReference>,
    #[row(unknown)]
    pub unknown: Unknown,
}

impl Item {
    fn is_active(&self) -> bool {
        self.section == Section::Live && self.phase == Phase::Running
    }

    fn excess(&self) -> Option<u64> {
        self.cpus.checked_sub(1000)
    }

    /// An item with this name, else plain.
    pub fn named(name: impl Into<String>) -> Item {
        Item {
            name: name.into(),
            owner: "o".into(),
            section: Section::Live,
            job: 0,
            instance: 0,
            label: None,
            host: None,
            rank: None,
            phase: Phase::Waiting,
            at: Time::EPOCH,
            cpus: 0,
            memory: 0,
            trace: 0,
            payload: Vec::new(),
            notes: Notes::default(),
            blob: None,
            unknown: Unknown::default(),
        }
    }
}

/// What happened; only grows.
#[derive(Clone, Debug, PartialEq, Row)]
#[row(table = "events", number = 2, partition(source), kind = append, index(name = "at", columns(at)))]
pub struct Event {
    /// Where it happened.
    #[row(tag = 1)]
    pub source: u32,
    /// When.
    #[row(tag = 2)]
    pub at: Time,
    /// What.
    #[row(tag = 3)]
    pub text: String,
    #[row(unknown)]
    pub unknown: Unknown,
}

/// What is seen now; gone after a restart.
#[derive(Clone, Debug, PartialEq, Row)]
#[row(
    table = "sightings",
    number = 3,
    partition(source),
    durability = volatile,
    index(name = "what", columns(source, what), unique),
    index(name = "address", columns(address), unique),
    rollup(name = "by_source", key(source), sums(size))
)]
pub struct Sighting {
    /// Who saw it.
    #[row(tag = 1)]
    pub source: u32,
    /// What was seen.
    #[row(tag = 2)]
    pub what: u64,
    /// Its size.
    #[row(tag = 3)]
    pub size: u64,
    /// The only place where it can be.
    #[row(tag = 4)]
    pub address: Option<u64>,
    #[row(unknown)]
    pub unknown: Unknown,
}

/// A line between two things; safe a little later. It has no partition columns.
#[derive(Clone, Debug, PartialEq, Row)]
#[row(
    table = "links",
    number = 4,
    durability = relaxed,
    index(name = "ends", columns(from, to)),
    rollup(name = "by_from", key(from), sums(weight))
)]
pub struct Link {
    /// One end.
    #[row(tag = 1)]
    pub from: u64,
    /// The other.
    #[row(tag = 2)]
    pub to: u64,
    /// How thick.
    #[row(tag = 3)]
    pub weight: u64,
    #[row(unknown)]
    pub unknown: Unknown,
}

/// A file, whose content is a blob.
#[derive(Clone, Debug, PartialEq, Row)]
#[row(table = "files", number = 5, partition(shelf), index(name = "path", columns(path), unique))]
pub struct File {
    /// Where it lies.
    #[row(tag = 1)]
    pub shelf: Option<String>,
    /// What it is called.
    #[row(tag = 2)]
    pub path: String,
    /// Its content.
    #[row(tag = 3)]
    pub content: BlobReference,
    /// Its content before.
    #[row(tag = 4)]
    pub before: Option<BlobReference>,
    #[row(unknown)]
    pub unknown: Unknown,
}

/// A row of a table as a later version of the program declares it.
#[derive(Clone, Debug, PartialEq, Row)]
#[row(table = "things", number = 6)]
pub struct ThingLater {
    /// What it is called.
    #[row(tag = 1)]
    pub name: String,
    /// A field that came later.
    #[row(tag = 2, default = 7)]
    pub size: u32,
    /// Another one.
    #[row(tag = 300)]
    pub color: Option<String>,
    #[row(unknown)]
    pub unknown: Unknown,
}

/// The same row as the earlier version declares it.
#[derive(Clone, Debug, PartialEq, Row)]
#[row(table = "things", number = 6, index(name = "name", columns(name)))]
pub struct ThingEarlier {
    /// What it is called.
    #[row(tag = 1)]
    pub name: String,
    #[row(unknown)]
    pub unknown: Unknown,
}

/// A row whose rollup, not its index, is over a text.
#[derive(Clone, Debug, PartialEq, Row)]
#[row(table = "words", number = 7, rollup(name = "by_word", key(word)))]
pub struct Word {
    /// The word.
    #[row(tag = 1)]
    pub word: String,
    #[row(unknown)]
    pub unknown: Unknown,
}
