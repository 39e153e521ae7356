//! The last things that happened to a task.

use crate::{CauseCode, TaskState};
use rollcall_schema::codec::{put_field_with, put_varint, take_bytes, take_varint};
use rollcall_schema::{ColumnType, ColumnValue, FieldError, NamePool, Nested, NestedSchema, Time, Value};

/// How many events a task keeps; the oldest goes when one more comes.
pub const EVENTS_MAX: usize = 32;

/// A task entered a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, for a folded event the last time.
    pub at: Time,
    /// The exit code or signal number that belongs to the cause; zero where there is none.
    pub detail: i32,
    /// How often it happened in a row before, without anything between; the count stands still at its greatest value.
    pub repeats: u16,
    /// The state.
    pub state: TaskState,
    /// Why.
    pub cause: Option<CauseCode>,
}

/// The last events of a task, oldest first, at most [`EVENTS_MAX`]; the table `task_events` is this column unnested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events(Box<[Event]>);

impl Events {
    /// These events and one more: folded into the last one if that differs in its time only.
    pub fn with(&self, event: Event) -> Events {
        let mut events = Vec::with_capacity((self.0.len() + 1).min(EVENTS_MAX));
        let kept = self.0.len().saturating_sub(EVENTS_MAX - 1);
        events.extend_from_slice(&self.0[kept..]);
        match events.last_mut() {
            Some(last) if (last.state, last.cause, last.detail) == (event.state, event.cause, event.detail) => {
                *last = Event { repeats: last.repeats.saturating_add(1), ..event };
                // The fold made no room necessary: keep what would have been dropped.
                if kept > 0 {
                    events.insert(0, self.0[kept - 1]);
                }
            }
            _ => events.push(event),
        }
        Events(events.into_boxed_slice())
    }

    /// The events, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.0.iter()
    }
}

static SCHEMA: NestedSchema = NestedSchema {
    fields: &[
        ("at", "When, for a folded event the last time.", ColumnType::Time),
        ("state", "The state that the task entered.", ColumnType::Enumeration(TaskState::WORDS)),
        ("cause", "Why.", ColumnType::Enumeration(CauseCode::WORDS)),
        ("detail", "The exit code or signal number that belongs to the cause.", ColumnType::Signed),
        ("repeats", "How often it happened in a row before.", ColumnType::Unsigned),
    ],
};

impl Nested for Events {
    fn nested_schema(&self) -> &'static NestedSchema {
        &SCHEMA
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn field(&self, record: usize, field: usize) -> Value<'_> {
        let Some(event) = self.0.get(record) else { return Value::Null };
        match field {
            0 => Value::Time(event.at),
            1 => Value::Enumeration(event.state.position()),
            2 => event.cause.map_or(Value::Null, |cause| Value::Enumeration(cause.position())),
            3 => Value::Signed(i64::from(event.detail)),
            4 => Value::Unsigned(u64::from(event.repeats)),
            _ => Value::Null,
        }
    }
}

impl ColumnValue for Events {
    const TYPE: ColumnType = ColumnType::Nested(&SCHEMA);

    fn value(&self) -> Value<'_> {
        Value::Nested(self)
    }

    /// A record is its length and tagged fields, like a row: 1 time, 2 state, 3 cause, 4 detail, 5 repeats.
    fn encode(&self, out: &mut Vec<u8>) {
        for event in &self.0 {
            put_field_with(out, 1, |out| {
                put_field_with(out, 1, |out| event.at.encode(out));
                put_field_with(out, 2, |out| event.state.encode(out));
                if let Some(cause) = event.cause {
                    put_field_with(out, 3, |out| cause.encode(out));
                }
                if event.detail != 0 {
                    put_field_with(out, 4, |out| out.extend_from_slice(&event.detail.to_le_bytes()));
                }
                if event.repeats != 0 {
                    put_field_with(out, 5, |out| put_varint(out, u64::from(event.repeats)));
                }
            });
        }
    }

    fn decode(mut bytes: &[u8], names: &mut NamePool) -> Result<Self, FieldError> {
        let mut events = Vec::new();
        while !bytes.is_empty() {
            let record = take_varint(&mut bytes)
                .filter(|tag| *tag == 1)
                .and_then(|_| take_varint(&mut bytes))
                .and_then(|length| take_bytes(&mut bytes, length))
                .ok_or(FieldError::Record)?;
            events.push(decode_event(record, names)?);
        }
        Ok(Events(events.into_boxed_slice()))
    }

    fn is_absent(&self) -> bool {
        self.0.is_empty()
    }

    fn absent() -> Option<Self> {
        Some(Events::default())
    }

    fn heap_bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

fn decode_event(record: &[u8], names: &mut NamePool) -> Result<Event, FieldError> {
    let (mut at, mut state, mut cause, mut detail, mut repeats) = (None, None, None, 0, 0);
    let mut fields = rollcall_schema::codec::Fields::new(record);
    while let Some((tag, bytes)) = fields.take().map_err(|_| FieldError::Record)? {
        match tag {
            1 => at = Some(Time::decode(bytes, names)?),
            2 => state = Some(TaskState::decode(bytes, names)?),
            3 => cause = Some(CauseCode::decode(bytes, names)?),
            4 => detail = i32::from_le_bytes(bytes.try_into().map_err(|_| FieldError::Record)?),
            5 => repeats = u16::decode(bytes, names)?,
            _ => {}
        }
    }
    Ok(Event { at: at.ok_or(FieldError::Record)?, state: state.ok_or(FieldError::Record)?, cause, detail, repeats })
}

#[cfg(test)]
mod tests {
    use super::{EVENTS_MAX, Event, Events};
    use crate::{CauseCode, TaskState};
    use rollcall_schema::{ColumnValue, NamePool, Time};

    fn event(at: i64, state: TaskState) -> Event {
        Event { at: Time::from_micros(at), detail: at as i32 % 3, repeats: 0, state, cause: Some(CauseCode::Signal) }
    }

    #[test]
    fn the_oldest_goes_and_repeats_are_folded() {
        let mut events = Events::default();
        for at in 0..100 {
            events = events.with(event(at, if at % 2 == 0 { TaskState::Starting } else { TaskState::Failed }));
            assert!(events.iter().count() <= EVENTS_MAX);
        }
        assert_eq!(events.iter().map(|event| event.at.micros()).collect::<Vec<_>>(), (68..100).collect::<Vec<_>>());
        let folded = events.with(Event { at: Time::from_micros(500), ..*events.iter().next_back().unwrap() });
        assert_eq!(folded.iter().count(), EVENTS_MAX);
        assert_eq!(folded.iter().next_back().map(|event| (event.at.micros(), event.repeats)), Some((500, 1)));
        assert_eq!(folded.iter().next(), events.iter().next());
    }

    #[test]
    fn events_come_back_from_their_stored_form() {
        let events = (0..5).fold(Events::default(), |events, at| events.with(event(at, TaskState::ALL[at as usize])));
        let mut bytes = Vec::new();
        events.encode(&mut bytes);
        assert_eq!(Events::decode(&bytes, &mut NamePool::default()), Ok(events));
        for cut in 1..bytes.len() {
            let _ = Events::decode(&bytes[..cut], &mut NamePool::default());
        }
        assert!(Events::decode(&bytes[..bytes.len() - 1], &mut NamePool::default()).is_err());
    }
}
