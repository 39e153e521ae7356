//! Rounds as data: agents and jobs in, placements and sentences out.

use crate::{DECISIONS_MAX, Decision, plan};
use rollcall_commands::{Command, RegisterAgent, SubmitJob};
use rollcall_schema::Time;
use rollcall_store::{Snapshot, Store, StoreLimits, Writer};
use rollcall_types::{AgentRow, JobKind, JobRow, SpecHash, SpecRow, Task};
use std::sync::Arc;

const G: u64 = 1 << 30;

struct World {
    store: Arc<Store>,
    writer: Writer,
    commands: i64,
}

impl World {
    fn new() -> World {
        let builder = Store::builder(StoreLimits::default());
        let (store, writer) = builder.table::<Task>().table::<JobRow>().table::<SpecRow>().table::<AgentRow>().build();
        World { store, writer, commands: 0 }
    }

    fn run<C: Command>(&mut self, command: C) {
        self.commands += 1;
        let mut batch = self.writer.begin(Time::from_micros(self.commands));
        batch.attempt(|change| command.apply(change).map(drop)).expect("the command fits the world");
        if let Some(prepared) = batch.prepare() {
            self.writer.publish(prepared);
        }
    }

    fn agent(&mut self, (name, cpus_thousandths, memory_bytes): (&str, u32, u64)) {
        self.run(RegisterAgent { agent: name.into(), cpus_thousandths, memory_bytes, disk_bytes: G });
    }

    fn job(&mut self, (name, instances, cpus_thousandths, memory_bytes): (&str, u32, u32, u64)) {
        let random = (self.commands as u128) << 64;
        self.run(SubmitJob {
            namespace: "default".into(),
            job: name.into(),
            kind: JobKind::Service,
            user: "nobody".into(),
            instances,
            spec: SpecHash(random),
            spec_text: "{}".into(),
            cpus_thousandths,
            memory_bytes,
            disk_bytes: 0,
            random,
        });
    }

    /// Carries out one round and tells it: `web.0.1 -> n1` or `web.0.1: no_fit: …`.
    fn round(&mut self) -> Vec<String> {
        let snapshot = self.store.snapshot();
        let decisions = plan(&snapshot);
        let told = decisions.iter().map(|decision| told(&snapshot, decision)).collect();
        for decision in decisions {
            match decision {
                Decision::Place(place) => self.run(place),
                Decision::Explain(explain) => self.run(explain),
            }
        }
        told
    }
}

fn told(snapshot: &Snapshot, decision: &Decision) -> String {
    let name = |number| snapshot.table::<Task>().get(number).expect("is in the snapshot").row().name();
    match decision {
        Decision::Place(place) => format!("{} -> {}", name(place.task), place.agent),
        Decision::Explain(explain) => format!("{}: {}: {}", name(explain.task), explain.cause, explain.text),
    }
}

#[test]
fn rounds_place_what_fits_and_say_why_the_rest_waits() {
    type Case =
        (&'static [(&'static str, u32, u64)], &'static [(&'static str, u32, u32, u64)], &'static [&'static str]);
    let cases: [Case; 6] = [
        (&[], &[("web", 1, 250, G)], &["web.0.1: no_agents: no agent is ready; it starts when one joins"]),
        // The emptiest first, equal ones by name.
        (
            &[("n2", 2000, 4 * G), ("n1", 2000, 4 * G)],
            &[("web", 3, 500, G)],
            &["web.0.1 -> n1", "web.1.1 -> n2", "web.2.1 -> n1"],
        ),
        // What was given away in the round is not given again.
        (
            &[("n1", 1000, 2 * G)],
            &[("web", 2, 600, G)],
            &["web.0.1 -> n1", "web.1.1: no_fit: needs 0.6 cpus; the only ready agent has 0.4 free"],
        ),
        (
            &[("n1", 4000, 7 * G + G / 2), ("n2", 4000, 6 * G), ("n4", 4000, 3 * G)],
            &[("big", 1, 250, 12 * G)],
            &["big.0.1: no_fit: needs 12G memory; the most any of 3 ready agents has free is 7.5G"],
        ),
        (
            &[("n1", 4000, G), ("n2", 500, 8 * G)],
            &[("odd", 1, 2000, 4 * G)],
            &["odd.0.1: no_fit: needs 4G memory and 2 cpus on one agent; none of 2 ready agents has all of it free"],
        ),
        // A later small task passes one that does not fit.
        (
            &[("n1", 1000, G)],
            &[("big", 1, 250, 2 * G), ("small", 1, 250, G)],
            &["big.0.1: no_fit: needs 2G memory; the only ready agent has 1G free", "small.0.1 -> n1"],
        ),
    ];
    for (agents, jobs, expected) in cases {
        let mut world = World::new();
        agents.iter().for_each(|agent| world.agent(*agent));
        jobs.iter().for_each(|job| world.job(*job));
        assert_eq!(world.round(), expected);
    }
}

#[test]
fn rounds_come_to_rest_and_begin_again_when_something_changes() {
    let mut world = World::new();
    world.job(("web", 1, 250, 2 * G));
    assert_eq!(world.round().len(), 1);
    assert_eq!(world.round(), [""; 0]);
    world.agent(("n1", 1000, G));
    assert_eq!(world.round(), ["web.0.1: no_fit: needs 2G memory; the only ready agent has 1G free"]);
    assert_eq!(world.round(), [""; 0]);
    world.agent(("n1", 1000, 4 * G));
    assert_eq!(world.round(), ["web.0.1 -> n1"]);
    world.job(("api", 1, 250, 4 * G));
    let expected = "api.0.1: no_fit: needs 4G memory; the only ready agent has 2G free";
    assert_eq!(world.round(), [expected], "what runs is not free");
    assert_eq!(world.round(), [""; 0]);
}

#[test]
fn a_round_is_bounded_and_the_next_one_goes_on() {
    let mut world = World::new();
    for job in ["a", "b"] {
        world.job((job, 1000, 1, 1));
    }
    world.agent(("n1", 100_000, G));
    assert_eq!(world.round().len(), DECISIONS_MAX);
    assert_eq!(world.round().len(), 2000 - DECISIONS_MAX);
    assert_eq!(world.round(), [""; 0]);
}
