//! Commands about jobs.

use crate::{Command, CommandError};
use rollcall_schema::{SharedText, Unknown};
use rollcall_store::{Query, RowNumber, Transaction};
use rollcall_types::{
    CauseCode, Event, Events, INSTANCES_MAX, JobKind, JobName, JobRow, Namespace, SpecHash, SpecRow, Task, TaskState,
    Uid, UserName,
};

/// Makes a job, or changes it to run something else. Submitting the same again fills the instances that have ended, and changes nothing if
/// there are none.
#[derive(Clone, Debug)]
pub struct SubmitJob {
    /// The namespace.
    pub namespace: Namespace,
    /// The name.
    pub job: JobName,
    /// How it is meant to end.
    pub kind: JobKind,
    /// Who its tasks run as.
    pub user: UserName,
    /// How many slots it has.
    pub instances: u32,
    /// The name of what it runs.
    pub spec: SpecHash,
    /// The canonical text of what it runs.
    pub spec_text: SharedText,
    /// Processor time reserved for each task, in thousandths of a processor.
    pub cpus_thousandths: u32,
    /// Memory reserved for each task, in bytes.
    pub memory_bytes: u64,
    /// Disk space reserved for each task, in bytes.
    pub disk_bytes: u64,
    /// A number drawn at random for this command: the identities of new rows count from here.
    pub random: u128,
}

/// What submitting a job did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobChange {
    /// It was not there, or had been stopped.
    New,
    /// It ran something else, or another number of instances.
    Changed,
    /// It was there as it is wanted, but instances of it had ended; they have new tasks.
    Restarted,
    /// It was there as it is wanted, and each instance is filled: by a task that runs or will, or of a batch job by one that finished.
    Unchanged,
}

/// What was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// What it did.
    pub change: JobChange,
    /// The number of the job's newest spec.
    pub spec_number: u32,
    /// The identities of the tasks that were made.
    pub tasks: Vec<Uid>,
}

impl Command for SubmitJob {
    type Answer = Submitted;

    fn apply(self, change: &mut Transaction<'_>) -> Result<Submitted, CommandError> {
        if self.instances == 0 || self.instances > INSTANCES_MAX {
            return Err(CommandError::TooManyInstances { instances: self.instances, instances_max: INSTANCES_MAX });
        }
        let before = find_job(change, &self.namespace, &self.job)?;
        if let Some((_, job)) = &before
            && !job.stopped
            && (job.spec, job.instances, job.kind, &job.user) == (self.spec, self.instances, self.kind, &self.user)
        {
            let job = job.clone();
            return self.fill(change, &job);
        }
        self.keep_spec(change)?;
        let kind =
            if before.as_ref().is_some_and(|(_, job)| !job.stopped) { JobChange::Changed } else { JobChange::New };
        if let Some((_, job)) = &before {
            let text = match self.spec_number_after(job) {
                same if same == job.spec_number => "replaced by a change of the job".to_owned(),
                next => format!("replaced by spec {next}"),
            };
            stop_tasks(change, &self.namespace, &self.job, None, (CauseCode::Superseded, text.into()))?;
        }
        let job = self.put_job(change, before)?;
        let tasks =
            (0..self.instances).map(|instance| self.make_task(change, &job, instance)).collect::<Result<_, _>>()?;
        Ok(Submitted { change: kind, spec_number: job.spec_number, tasks })
    }
}

impl SubmitJob {
    /// Makes tasks for the instances that nothing fills. A task that is being stopped fills none: it will have ended. A batch job whose tasks were
    /// removed with the history of its namespace begins again.
    fn fill(&self, change: &mut Transaction<'_>, job: &JobRow) -> Result<Submitted, CommandError> {
        let mut is_filled = vec![false; self.instances as usize];
        let query = Query::all().equal(Task::JOB, &self.job).equal(Task::NAMESPACE, &self.namespace);
        for task in change.table::<Task>().select(query)? {
            let task = task.row();
            let fills = match task.state {
                TaskState::Stopping => false,
                TaskState::Finished => self.kind == JobKind::Batch && task.spec == job.spec,
                state => state.is_active(),
            };
            if let Some(slot) = is_filled.get_mut(task.instance as usize) {
                *slot |= fills;
            }
        }
        let empty = (0..self.instances).zip(is_filled).filter(|(_, is_filled)| !is_filled);
        let tasks: Vec<Uid> =
            empty.map(|(instance, _)| self.make_task(change, job, instance)).collect::<Result<_, _>>()?;
        let kind = if tasks.is_empty() { JobChange::Unchanged } else { JobChange::Restarted };
        Ok(Submitted { change: kind, spec_number: job.spec_number, tasks })
    }

    fn spec_number_after(&self, job: &JobRow) -> u32 {
        if job.spec == self.spec { job.spec_number } else { job.spec_number + 1 }
    }

    fn uid(&self, offset: u32) -> Uid {
        Uid(self.random.wrapping_add(u128::from(offset)))
    }

    fn keep_spec(&self, change: &mut Transaction<'_>) -> Result<(), CommandError> {
        let known = change.table::<SpecRow>().select(Query::all().equal(SpecRow::SPEC, self.spec))?.next().is_some();
        if !known {
            change.insert(SpecRow {
                spec: self.spec,
                namespace: self.namespace.clone(),
                text: self.spec_text.clone(),
                created: change.now(),
                unknown: Unknown::default(),
            })?;
        }
        Ok(())
    }

    fn put_job(
        &self,
        change: &mut Transaction<'_>,
        before: Option<(RowNumber, JobRow)>,
    ) -> Result<JobRow, CommandError> {
        let now = change.now();
        match before {
            Some((number, job)) => {
                let spec_number = self.spec_number_after(&job);
                let job = JobRow {
                    kind: self.kind,
                    user: self.user.clone(),
                    instances: self.instances,
                    spec: self.spec,
                    stopped: false,
                    changed: now,
                    spec_number,
                    ..job
                };
                change.update(number, job.clone())?;
                Ok(job)
            }
            None => {
                let job = JobRow {
                    uid: self.uid(INSTANCES_MAX),
                    namespace: self.namespace.clone(),
                    job: self.job.clone(),
                    kind: self.kind,
                    user: self.user.clone(),
                    instances: self.instances,
                    spec: self.spec,
                    stopped: false,
                    created: now,
                    changed: now,
                    spec_number: 1,
                    unknown: Unknown::default(),
                };
                change.insert(job.clone())?;
                Ok(job)
            }
        }
    }

    fn make_task(&self, change: &mut Transaction<'_>, job: &JobRow, instance: u32) -> Result<Uid, CommandError> {
        let slot = Query::all()
            .equal(Task::JOB, &job.job)
            .equal(Task::INSTANCE, instance)
            .equal(Task::NAMESPACE, &job.namespace);
        let last_attempt = change.table::<Task>().select(slot)?.map(|task| task.row().attempt).max();
        let now = change.now();
        let uid = self.uid(instance);
        let first = Event { at: now, detail: 0, repeats: 0, state: TaskState::Pending, cause: None };
        change.insert(Task {
            uid,
            // Cloned from the job's row, so that all its tasks share one name.
            namespace: job.namespace.clone(),
            job: job.job.clone(),
            instance,
            attempt: last_attempt.unwrap_or(0) + 1,
            spec: job.spec,
            user: job.user.clone(),
            agent: None,
            state: TaskState::Pending,
            cause: None,
            cause_text: None,
            cpus_thousandths: self.cpus_thousandths,
            memory_bytes: self.memory_bytes,
            disk_bytes: self.disk_bytes,
            created: now,
            started: None,
            ended: None,
            pid: None,
            events: Events::default().with(first),
            unknown: Unknown::default(),
        })?;
        Ok(uid)
    }
}

/// Stops a job, or one instance of it. The job stays and can be submitted again.
#[derive(Clone, Debug)]
pub struct StopJob {
    /// The namespace.
    pub namespace: Namespace,
    /// The name.
    pub job: JobName,
    /// One instance only.
    pub instance: Option<u32>,
}

/// What stopping did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// The tasks that were told to stop, or were not yet started and are stopped.
    pub tasks: Vec<Uid>,
}

impl Command for StopJob {
    type Answer = Stopped;

    fn apply(self, change: &mut Transaction<'_>) -> Result<Stopped, CommandError> {
        let Some((number, job)) = find_job(change, &self.namespace, &self.job)? else {
            return Err(CommandError::NoSuchJob { namespace: self.namespace, job: self.job });
        };
        if let Some(instance) = self.instance.filter(|instance| *instance >= job.instances) {
            return Err(CommandError::NoSuchInstance { job: self.job, instance, instances: job.instances });
        }
        if self.instance.is_none() && !job.stopped {
            let changed = change.now();
            change.update(number, JobRow { stopped: true, changed, ..job })?;
        }
        // Who asked is not known before there are principals.
        let cause = (CauseCode::StoppedBy, "stopped by request".into());
        stop_tasks(change, &self.namespace, &self.job, self.instance, cause).map(|tasks| Stopped { tasks })
    }
}

pub(crate) fn find_job(
    change: &Transaction<'_>,
    namespace: &Namespace,
    job: &JobName,
) -> Result<Option<(RowNumber, JobRow)>, CommandError> {
    let query = Query::all().equal(JobRow::NAMESPACE, namespace).equal(JobRow::JOB, job);
    Ok(change.table::<JobRow>().select(query)?.next().map(|found| (found.number, found.row().clone())))
}

fn stop_tasks(
    change: &mut Transaction<'_>,
    namespace: &Namespace,
    job: &JobName,
    instance: Option<u32>,
    (cause, text): (CauseCode, SharedText),
) -> Result<Vec<Uid>, CommandError> {
    let mut query = Query::all().equal(Task::JOB, job);
    if let Some(instance) = instance {
        query = query.equal(Task::INSTANCE, instance);
    }
    // Whether they are active is looked at here: asked of the planner, it would lead through all active tasks of the namespace.
    let query = query.equal(Task::NAMESPACE, namespace);
    let active = change.table::<Task>().select(query)?.filter(|found| found.row().is_active());
    let tasks: Vec<_> = active.map(|found| (found.number, found.row().clone())).collect();
    let mut stopped = Vec::new();
    for (number, task) in tasks {
        let next = if task.state == TaskState::Pending { TaskState::Stopped } else { TaskState::Stopping };
        if let Some(moved) = task.moved(next, change.now(), Some(cause), 0) {
            stopped.push(task.uid);
            change.update(number, Task { cause_text: Some(text.clone()), ..moved })?;
        }
    }
    Ok(stopped)
}
