//! Specs: what a task runs, as one canonical text that is named by its hash.

use rollcall_agent::TaskSpec;
use rollcall_types::{JobFile, SharedText, SpecHash};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// From the request to stop to the kill of what still runs.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(10);

/// The text of what the tasks of a job run: its job file as JSON with sorted names, without the number of instances, which the job's row
/// has: another number of copies is not another thing to run.
pub(crate) fn canonical_text(job: &JobFile) -> SharedText {
    let mut value = serde_json::to_value(job).expect("a job has text keys and finite numbers only");
    if let Some(fields) = value.as_object_mut() {
        fields.remove("instances");
    }
    value.to_string().into()
}

/// The name of a text.
pub(crate) fn hash(text: &str) -> SpecHash {
    let digest = Sha256::digest(text.as_bytes());
    SpecHash(digest.iter().take(16).fold(0, |number, byte| number << 8 | u128::from(*byte)))
}

/// What an agent needs of a canonical text; `None` if it is none, which a row of `specs` never is.
pub(crate) fn task_spec(text: &str) -> Option<TaskSpec> {
    let job: JobFile = serde_json::from_str(text).ok()?;
    let JobFile { command, environment, user, .. } = job;
    Some(TaskSpec { command, environment, user, stop_grace: STOP_GRACE })
}

#[cfg(test)]
mod tests {
    use super::{canonical_text, hash, task_spec};
    use rollcall_types::{JobFile, example_web};

    #[test]
    fn a_spec_is_named_by_what_runs_and_not_by_how_many() {
        let job = JobFile::parse(example_web(), "web.toml").expect("is right");
        let text = canonical_text(&job);
        let more = JobFile { instances: 9, ..job.clone() };
        assert_eq!(canonical_text(&more), text);
        let mut other = job.clone();
        other.environment.insert("A".into(), "b".into());
        assert_ne!(hash(&canonical_text(&other)), hash(&text));
        let spec = task_spec(&text).expect("is a spec");
        assert_eq!((spec.command, spec.environment), (job.command, job.environment));
    }

    #[test]
    fn the_hash_is_the_start_of_sha_256() {
        assert_eq!(hash("abc").to_string(), "ba7816bf8f01cfea414140de5dae2223");
    }
}
