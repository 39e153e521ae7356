//! Answers and errors as bytes.

use crate::WriteError;
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rollcall_commands::CommandError;
use rollcall_store::ChangeError;
use serde::Serialize;

/// A foreign text is shown in an error up to so many characters.
const SHOWN_CHARACTERS_MAX: usize = 80;

/// What every error looks like.
#[derive(Debug, Serialize)]
pub(crate) struct ApiError {
    #[serde(skip)]
    status: StatusCode,
    code: &'static str,
    message: String,
    hint: Option<String>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError { status, code, message: message.into(), hint: None }
    }

    /// 400: the request itself is wrong.
    pub(crate) fn wrong(code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// 403: not from there.
    pub(crate) fn denied(code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::FORBIDDEN, code, message)
    }

    /// 404: no such thing.
    pub(crate) fn missing(code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, code, message)
    }

    /// What to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> ApiError {
        self.hint = Some(hint.into());
        self
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut answer = json(&self);
        *answer.status_mut() = self.status;
        answer
    }
}

impl From<WriteError> for ApiError {
    fn from(error: WriteError) -> ApiError {
        let message = error.to_string();
        let unavailable = |code| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, code, message.clone());
        match error {
            WriteError::Refused(refused) => refused.into(),
            WriteError::NotDurable { .. } => unavailable("not_durable").hint("reading goes on; send it again"),
            WriteError::Uncertain { .. } => unavailable("uncertain").hint("look before sending it again"),
            WriteError::Stopping => unavailable("stopping"),
        }
    }
}

impl From<CommandError> for ApiError {
    fn from(refused: CommandError) -> ApiError {
        let message = refused.to_string();
        let is = |status, code| ApiError::new(status, code, message.clone());
        match refused {
            CommandError::NoSuchJob { .. } => {
                is(StatusCode::NOT_FOUND, "no_such_job").hint("all there are: GET /v1/jobs")
            }
            CommandError::NoSuchInstance { .. } => is(StatusCode::NOT_FOUND, "no_such_instance"),
            CommandError::NoSuchTask(_) => is(StatusCode::NOT_FOUND, "no_such_task"),
            CommandError::NoSuchAgent(_) => is(StatusCode::NOT_FOUND, "no_such_agent"),
            CommandError::NotGiven { .. } | CommandError::IllegalMove { .. } => is(StatusCode::CONFLICT, "conflict"),
            CommandError::TooManyInstances { .. } => is(StatusCode::UNPROCESSABLE_ENTITY, "too_many_instances"),
            CommandError::Change(ChangeError::Outdated { .. }) => is(StatusCode::CONFLICT, "conflict"),
            CommandError::Change(_) => is(StatusCode::UNPROCESSABLE_ENTITY, "refused"),
            CommandError::Query(_) => is(StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        }
    }
}

/// An answer of JSON.
pub(crate) fn json(value: &impl Serialize) -> Response {
    // Our own types have text keys only, so they can be written.
    let body = serde_json::to_vec(value).unwrap_or_default();
    with_type(body.into(), "application/json")
}

/// An answer of some type, which no browser shall take for another.
pub(crate) fn with_type(body: Body, content_type: &'static str) -> Response {
    let mut answer = Response::new(body);
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
    answer
}

/// A foreign text for a message: escaped, and cut when long.
pub(crate) fn shown(text: &str) -> String {
    let cut: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
    let dots = if cut.len() < text.len() { "..." } else { "" };
    format!("{}{dots}", cut.escape_debug())
}
