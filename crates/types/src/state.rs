//! States of a task and the moves between them.

use rollcall_schema::Enumeration;

/// Where a task is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Enumeration)]
pub enum TaskState {
    /// Wanted, and not yet given to an agent.
    #[word(number = 1)]
    Pending,
    /// Given to an agent, which has not yet said that it runs.
    #[word(number = 2)]
    Starting,
    /// Its main process runs.
    #[word(number = 3)]
    Running,
    /// Told to stop, and not yet ended.
    #[word(number = 4)]
    Stopping,
    /// Ended by itself, with success.
    #[word(number = 5)]
    Finished,
    /// Ended by itself without success, or could not be started.
    #[word(number = 6)]
    Failed,
    /// Ended because it was told to.
    #[word(number = 7)]
    Stopped,
    /// Its agent can no longer say what became of it.
    #[word(number = 8)]
    Lost,
}

/// The part of a namespace's tasks that a task belongs to; wire forms nest by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Enumeration)]
pub enum Section {
    /// It runs, will run or is being stopped.
    #[word(number = 1)]
    Live,
    /// Nobody can say whether it runs.
    #[word(number = 2)]
    Unreachable,
    /// It has ended.
    #[word(number = 3)]
    Completed,
}

impl TaskState {
    /// Whether the task runs, will run or is being stopped.
    pub const fn is_active(self) -> bool {
        matches!(self, TaskState::Pending | TaskState::Starting | TaskState::Running | TaskState::Stopping)
    }

    /// The section of tasks in this state.
    pub const fn section(self) -> Section {
        match self {
            TaskState::Lost => Section::Unreachable,
            state if state.is_active() => Section::Live,
            _ => Section::Completed,
        }
    }

    /// Whether a task in this state may move to `next`. An end is final, but for a lost task, of which its agent may yet bring word.
    pub const fn may_become(self, next: TaskState) -> bool {
        use TaskState::{Failed, Finished, Lost, Pending, Running, Starting, Stopped, Stopping};
        match self {
            Pending => matches!(next, Starting | Stopped | Failed),
            Starting => matches!(next, Running | Stopping | Finished | Failed | Stopped | Lost),
            Running => matches!(next, Stopping | Finished | Failed | Stopped | Lost),
            Stopping => matches!(next, Finished | Failed | Stopped | Lost),
            Lost => matches!(next, Running | Finished | Failed | Stopped),
            Finished | Failed | Stopped => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TaskState;

    #[test]
    fn nothing_leaves_an_end_and_nothing_comes_back_to_pending() {
        for &from in TaskState::ALL {
            let ended = matches!(from, TaskState::Finished | TaskState::Failed | TaskState::Stopped);
            assert_eq!(TaskState::ALL.iter().any(|next| from.may_become(*next)), !ended, "{from}");
            assert!(!from.may_become(TaskState::Pending) && !from.may_become(from));
        }
    }
}
