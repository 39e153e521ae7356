//! Jobs: made, changed, stopped.

use super::answer::{self, Refusal, shown};
use super::{House, SharedHouse};
use crate::random::random;
use crate::specs::{canonical_text, hash};
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use rollcall_commands::{JobChange, StopJob, SubmitJob};
use rollcall_types::{JobFile, JobName, Namespace, UserName};
use rollcall_wire_native::{ErrorCode, Parameters};
use serde_json::json;
use std::time::Duration;
use tokio::time::timeout;

/// A longer body is refused. A job file has at most 64 KiB; in JSON each of its characters may take up to six.
const BODY_BYTES_MAX: usize = 512 << 10;
/// A body must have come whole after so long.
const BODY_WAIT_MAX: Duration = Duration::from_secs(30);

/// `POST /v1/jobs`: makes a job, or makes it run something else.
pub(super) async fn submit(State(house): SharedHouse, uri: Uri, body: Body) -> Result<Response, Refusal> {
    Parameters::parse(uri.query().unwrap_or_default(), &[])?;
    let job = read_job(&read_body(body).await?)?;
    let (namespace, name) = (job.namespace.clone(), job.name.clone());
    let (submitted, version) = house.writer.run(command(&house, job)?).await?;
    let tasks: Vec<String> = submitted.tasks.iter().map(ToString::to_string).collect();
    Ok(answer::json(&json!({
        "version": version.0,
        "namespace": namespace,
        "job": name,
        "change": word(submitted.change),
        "spec_number": submitted.spec_number,
        "tasks": tasks,
    })))
}

/// All words for what submitting a job did.
pub(super) const CHANGES: [&str; 4] = ["new", "changed", "restarted", "unchanged"];

fn word(change: JobChange) -> &'static str {
    let [new, changed, restarted, unchanged] = CHANGES;
    match change {
        JobChange::New => new,
        JobChange::Changed => changed,
        JobChange::Restarted => restarted,
        JobChange::Unchanged => unchanged,
    }
}

/// `POST /v1/jobs/{namespace}/{name}/stop`: stops a job, or one instance of it.
pub(super) async fn stop(
    State(house): SharedHouse,
    path: Result<Path<(String, String)>, PathRejection>,
    uri: Uri,
) -> Result<Response, Refusal> {
    let Path((namespace, name)) = path?;
    let parameters = Parameters::parse(uri.query().unwrap_or_default(), &["instance"])?;
    let instance = parameters.get("instance").map(|text| {
        let wrong = |_| format!("instance: '{}' is not the number of an instance", shown(text));
        text.parse().map_err(wrong).map_err(|message| Refusal::new(ErrorCode::BadParameter, message))
    });
    let instance = instance.transpose()?;
    let stop = StopJob { namespace: Namespace::from(&*namespace), job: JobName::from(&*name), instance };
    let (stopped, version) = house.writer.run(stop).await?;
    let tasks: Vec<String> = stopped.tasks.iter().map(ToString::to_string).collect();
    Ok(answer::json(&json!({ "version": version.0, "namespace": namespace, "job": name, "tasks": tasks })))
}

async fn read_body(body: Body) -> Result<Bytes, Refusal> {
    let Ok(collected) = timeout(BODY_WAIT_MAX, Limited::new(body, BODY_BYTES_MAX).collect()).await else {
        let message = format!("the body did not come whole within {} s", BODY_WAIT_MAX.as_secs());
        return Err(Refusal::new(ErrorCode::TooSlow, message).hint("nothing changed; send it again"));
    };
    collected.map(|body| body.to_bytes()).map_err(|error| {
        if error.is::<LengthLimitError>() {
            let message = format!("the body has more than {BODY_BYTES_MAX} bytes");
            Refusal::new(ErrorCode::TooLarge, message)
        } else {
            Refusal::new(ErrorCode::BadBody, "the body did not come whole, or not as its headers say")
        }
    })
}

fn read_job(body: &[u8]) -> Result<JobFile, Refusal> {
    let job: JobFile = serde_json::from_slice(body).map_err(|error| {
        Refusal::new(ErrorCode::BadBody, format!("the body is no job: {error}"))
            .hint("all fields: rollcall help job-file")
    })?;
    match job.problems() {
        problems if problems.is_empty() => Ok(job),
        problems => Err(Refusal::new(ErrorCode::BadBody, problems.join("\n"))
            .hint("nothing changed. All fields: rollcall help job-file")),
    }
}

fn command(house: &House, job: JobFile) -> Result<SubmitJob, Refusal> {
    let random = random()
        .map_err(|error| Refusal::new(ErrorCode::Internal, format!("the system gives no random numbers: {error}")))?;
    let spec_text = canonical_text(&job);
    let user = job.user.as_deref().map_or_else(|| house.settings.task_user.clone(), UserName::from);
    Ok(SubmitJob {
        namespace: Namespace::from(&*job.namespace),
        job: JobName::from(&*job.name),
        kind: job.kind,
        user,
        instances: job.instances,
        spec: hash(&spec_text),
        spec_text,
        cpus_thousandths: job.resources.cpus,
        memory_bytes: job.resources.memory,
        disk_bytes: job.resources.disk,
        random,
    })
}

#[cfg(test)]
mod tests {
    use super::read_body;
    use crate::doors::pieces::pieces;
    use axum::body::Body;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_end_is_given_up() {
        let (sender, body) = pieces();
        sender.send("{".into()).await.expect("there is room");
        let refusal = read_body(Body::new(body)).await.expect_err("it does not come whole");
        assert_eq!(refusal.0.code.word(), "too_slow");
    }
}
