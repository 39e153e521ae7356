//! What agents have free, and what a task needs of it.

use rollcall_store::{Query, Snapshot};
use rollcall_types::units::{format_cpus, show_bytes};
use rollcall_types::{AgentName, AgentRow, AgentState, Task};

/// An amount of each resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Amounts {
    cpus_thousandths: u64,
    memory_bytes: u64,
    disk_bytes: u64,
}

/// A resource: its name, how much of it there is in amounts, and how a person reads that.
type Resource = (&'static str, fn(&Amounts) -> u64, fn(u64) -> String);

/// In the order in which they are named to people.
const RESOURCES: [Resource; 3] = [
    ("memory", |amounts| amounts.memory_bytes, show_bytes),
    ("cpus", |amounts| amounts.cpus_thousandths, show_cpus),
    ("disk", |amounts| amounts.disk_bytes, show_bytes),
];

/// Shares of an agent are compared in so many parts of the whole.
const SHARE_PARTS: u128 = 1 << 20;

fn show_cpus(thousandths: u64) -> String {
    format_cpus(u32::try_from(thousandths).unwrap_or(u32::MAX))
}

impl Amounts {
    /// What a task reserves.
    pub(crate) fn of_task(task: &Task) -> Amounts {
        Amounts {
            cpus_thousandths: task.cpus_thousandths.into(),
            memory_bytes: task.memory_bytes,
            disk_bytes: task.disk_bytes,
        }
    }

    fn fits_in(&self, free: &Amounts) -> bool {
        RESOURCES.iter().all(|(_, amount, _)| amount(self) <= amount(free))
    }

    fn minus(&self, taken: &Amounts) -> Amounts {
        Amounts {
            cpus_thousandths: self.cpus_thousandths.saturating_sub(taken.cpus_thousandths),
            memory_bytes: self.memory_bytes.saturating_sub(taken.memory_bytes),
            disk_bytes: self.disk_bytes.saturating_sub(taken.disk_bytes),
        }
    }
}

/// A ready agent.
struct Capacity {
    agent: AgentName,
    whole: Amounts,
    free: Amounts,
}

impl Capacity {
    /// The smallest share of any resource that is left when `needed` is taken; it is what the agent runs out of first.
    fn share_left(&self, needed: &Amounts) -> u128 {
        let left = self.free.minus(needed);
        let share = |(_, amount, _): &Resource| match amount(&self.whole) {
            0 => SHARE_PARTS,
            whole => u128::from(amount(&left)) * SHARE_PARTS / u128::from(whole),
        };
        RESOURCES.iter().map(share).min().unwrap_or(0)
    }
}

/// All ready agents, with what is left of them.
pub(crate) struct Capacities {
    agents: Vec<Capacity>,
}

impl Capacities {
    /// As the snapshot has them.
    pub(crate) fn of(snapshot: &Snapshot) -> Capacities {
        let tasks = snapshot.table::<Task>();
        let agents = snapshot.table::<AgentRow>().select(Query::all()).expect("a query without conditions fits");
        let ready = agents.map(|agent| agent.row()).filter(|agent| agent.state == AgentState::Ready);
        let mut agents: Vec<Capacity> = ready
            .map(|row| {
                let whole = Amounts {
                    cpus_thousandths: row.cpus_thousandths.into(),
                    memory_bytes: row.memory_bytes,
                    disk_bytes: row.disk_bytes,
                };
                let used = tasks.totals("by_agent", &[(&row.agent).into()], None).unwrap_or_default();
                let used = match used.sums[..] {
                    [cpus_thousandths, memory_bytes, disk_bytes] => {
                        Amounts { cpus_thousandths, memory_bytes, disk_bytes }
                    }
                    _ => Amounts::default(),
                };
                Capacity { agent: row.agent.clone(), whole, free: whole.minus(&used) }
            })
            .collect();
        agents.sort_by(|left, right| left.agent.cmp(&right.agent));
        Capacities { agents }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.agents.is_empty()
    }

    /// Takes what is needed from the agent that has the most left over afterwards; the first by name of equal ones.
    pub(crate) fn take(&mut self, needed: &Amounts) -> Option<AgentName> {
        let mut best: Option<(usize, u128)> = None;
        for (position, agent) in self.agents.iter().enumerate().filter(|(_, agent)| needed.fits_in(&agent.free)) {
            let left = agent.share_left(needed);
            if best.is_none_or(|(_, most)| left > most) {
                best = Some((position, left));
            }
        }
        let agent = &mut self.agents[best?.0];
        agent.free = agent.free.minus(needed);
        Some(agent.agent.clone())
    }

    /// Why nobody can take it: the first resource that nobody has enough of, or that nobody has all of them at once.
    pub(crate) fn why_not(&self, needed: &Amounts) -> String {
        for (name, amount, show) in RESOURCES {
            let most = self.agents.iter().map(|agent| amount(&agent.free)).max().unwrap_or(0);
            if amount(needed) > most {
                let needs = format!("needs {} {name}", show(amount(needed)));
                return match self.agents.len() {
                    1 => format!("{needs}; the only ready agent has {} free", show(most)),
                    count => format!("{needs}; the most any of {count} ready agents has free is {}", show(most)),
                };
            }
        }
        let needs = RESOURCES.iter().filter(|(_, amount, _)| amount(needed) > 0);
        let needs: Vec<String> = needs.map(|(name, amount, show)| format!("{} {name}", show(amount(needed)))).collect();
        let count = self.agents.len();
        format!("needs {} on one agent; none of {count} ready agents has all of it free", needs.join(" and "))
    }
}
