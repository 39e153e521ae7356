//! Jobs: made, changed, stopped.

use super::answer::{self, ApiError};
use super::parameters::Parameters;
use super::{House, SharedHouse};
use crate::random::random;
use crate::specs::{canonical_text, hash};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use rollcall_commands::{JobChange, StopJob, SubmitJob};
use rollcall_types::{JobFile, JobName, Namespace, UserName};
use serde_json::json;

/// A longer body is refused. A job file has at most 64 KiB; in JSON each of its characters may take up to six.
const BODY_BYTES_MAX: usize = 512 << 10;

/// `POST /v1/jobs`: makes a job, or makes it run something else.
pub(super) async fn submit(State(house): SharedHouse, uri: Uri, body: Body) -> Result<Response, ApiError> {
    Parameters::of(&uri, &[])?;
    let job = read_job(&read_body(body).await?)?;
    let (namespace, name) = (job.namespace.clone(), job.name.clone());
    let (submitted, version) = house.writer.run(command(&house, job)?).await?;
    let change = match submitted.change {
        JobChange::New => "new",
        JobChange::Changed => "changed",
        JobChange::Unchanged => "unchanged",
    };
    let tasks: Vec<String> = submitted.tasks.iter().map(ToString::to_string).collect();
    Ok(answer::json(&json!({
        "version": version.0,
        "namespace": namespace,
        "job": name,
        "change": change,
        "spec_number": submitted.spec_number,
        "tasks": tasks,
    })))
}

/// `POST /v1/jobs/{namespace}/{name}/stop`: stops a job, or one instance of it.
pub(super) async fn stop(
    State(house): SharedHouse,
    Path((namespace, name)): Path<(String, String)>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let instance = Parameters::of(&uri, &["instance"])?.value("instance", "0")?;
    let stop = StopJob { namespace: Namespace::from(&*namespace), job: JobName::from(&*name), instance };
    let (stopped, version) = house.writer.run(stop).await?;
    let tasks: Vec<String> = stopped.tasks.iter().map(ToString::to_string).collect();
    Ok(answer::json(&json!({ "version": version.0, "namespace": namespace, "job": name, "tasks": tasks })))
}

async fn read_body(body: Body) -> Result<Bytes, ApiError> {
    let collected = Limited::new(body, BODY_BYTES_MAX).collect().await;
    collected.map(|body| body.to_bytes()).map_err(|error| {
        if error.is::<LengthLimitError>() {
            let message = format!("the body has more than {BODY_BYTES_MAX} bytes");
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
        } else {
            ApiError::wrong("bad_body", "the body did not come whole")
        }
    })
}

fn read_job(body: &[u8]) -> Result<JobFile, ApiError> {
    let job: JobFile = serde_json::from_slice(body).map_err(|error| {
        ApiError::wrong("bad_job", format!("the body is no job: {error}")).hint("all fields: rollcall help job-file")
    })?;
    match job.problems() {
        problems if problems.is_empty() => Ok(job),
        problems => Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_job", problems.join("\n"))
            .hint("nothing changed. All fields: rollcall help job-file")),
    }
}

fn command(house: &House, job: JobFile) -> Result<SubmitJob, ApiError> {
    let random = random().map_err(|error| {
        let message = format!("the system gives no random numbers: {error}");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    })?;
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
