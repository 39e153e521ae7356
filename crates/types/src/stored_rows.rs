//! The stored form of the rows of this crate, under foreign bytes.

use crate::{AgentRow, AgentState, CauseCode, Event, Events, JobKind, JobRow, SpecHash, SpecRow, Task, TaskState, Uid};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::sample::{Index, select};
use rollcall_schema::{NamePool, Row, Time, Unknown, fuzz_row};

/// The corpus of the fuzz target `row`, which reads bytes as rows of every table.
const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/tests/corpus/rows");

fn fuzz(bytes: &[u8]) {
    fuzz_row::<Task>(bytes);
    fuzz_row::<JobRow>(bytes);
    fuzz_row::<SpecRow>(bytes);
    fuzz_row::<AgentRow>(bytes);
}

fn encoded(row: &impl Row) -> Vec<u8> {
    let mut bytes = Vec::new();
    row.encode(&mut bytes);
    bytes
}

fn rows() -> Vec<(&'static str, Vec<u8>)> {
    let event = |at, state, cause| Event { at: Time::from_micros(at), detail: -9, repeats: 2, state, cause };
    let events = Events::default().with(event(1, TaskState::Running, None));
    let task = Task {
        uid: Uid(7 << 64),
        namespace: "default".into(),
        job: "web".into(),
        instance: 2,
        attempt: 300,
        spec: SpecHash(u128::MAX),
        user: "nobody".into(),
        agent: Some("n1".into()),
        state: TaskState::Failed,
        cause: Some(CauseCode::Signal),
        cause_text: Some("ended by SIGKILL".into()),
        cpus_thousandths: 250,
        memory_bytes: 64 << 20,
        disk_bytes: 0,
        created: Time::from_micros(-1),
        started: Some(Time::from_micros(1)),
        ended: None,
        pid: Some(4711),
        events: events.with(event(2, TaskState::Failed, Some(CauseCode::Signal))),
        unknown: Unknown::default(),
    };
    let job = JobRow {
        uid: Uid(1),
        namespace: "shop".into(),
        job: "import".into(),
        kind: JobKind::Batch,
        user: "nobody".into(),
        instances: 1000,
        spec: SpecHash(3),
        stopped: true,
        created: Time::EPOCH,
        changed: Time::from_micros(9),
        spec_number: 2,
        unknown: Unknown::default(),
    };
    let spec = SpecRow {
        spec: SpecHash(3),
        namespace: "shop".into(),
        text: "{}".into(),
        created: Time::EPOCH,
        unknown: Unknown::default(),
    };
    let agent = AgentRow {
        agent: "n1".into(),
        namespace: "cluster".into(),
        state: AgentState::Ready,
        cpus_thousandths: 2000,
        memory_bytes: 1 << 40,
        disk_bytes: 1,
        joined: Time::EPOCH,
        unknown: Unknown::default(),
    };
    vec![("task", encoded(&task)), ("job", encoded(&job)), ("spec", encoded(&spec)), ("agent", encoded(&agent))]
}

#[test]
fn rows_of_the_corpus_are_read_or_refused() {
    for (name, bytes) in rows() {
        // A file that differs says that the stored form has changed: then old data is no longer read as it was.
        let kept = std::fs::read(format!("{CORPUS}/{name}")).expect("the corpus has one row of each table");
        assert_eq!(kept, bytes, "the stored form of {name}");
    }
    assert!(Task::decode(&rows()[0].1, &mut NamePool::default()).is_ok());
    for entry in std::fs::read_dir(CORPUS).expect("the corpus is there") {
        fuzz(&std::fs::read(entry.expect("is listed").path()).expect("is a file"));
    }
}

/// One change of a stored row.
#[derive(Clone, Debug)]
enum Edit {
    Set(Index, u8),
    Insert(Index, u8),
    Cut(Index),
    Remove(Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Edit::Insert(at, byte)),
        any::<Index>().prop_map(Edit::Cut),
        any::<Index>().prop_map(Edit::Remove),
    ]
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(4_000))]

    #[test]
    fn changed_rows_are_read_or_refused(row in select(rows()), edits in vec(edit(), 1..4)) {
        let mut bytes = row.1;
        for edit in edits {
            let at = |place: Index, bytes: &[u8]| place.index(bytes.len().max(1));
            match edit {
                Edit::Set(place, byte) if !bytes.is_empty() => { let at = at(place, &bytes); bytes[at] = byte; }
                Edit::Insert(place, byte) => { let at = at(place, &bytes).min(bytes.len()); bytes.insert(at, byte); }
                Edit::Cut(place) => bytes.truncate(at(place, &bytes)),
                Edit::Remove(place) if !bytes.is_empty() => drop(bytes.remove(at(place, &bytes))),
                Edit::Set(..) | Edit::Remove(..) => {}
            }
        }
        fuzz(&bytes);
    }
}
