//! Answers and errors as HTTP.

use crate::WriteError;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rollcall_commands::CommandError;
use rollcall_schema::Time;
use rollcall_store::{ChangeError, QueryError};
use rollcall_wire_native::{ApiError, ErrorCode, put_time};
use serde::Serialize;

/// A foreign text is shown in an error up to so many characters.
const SHOWN_CHARACTERS_MAX: usize = 80;

/// Every error of a door, in the one shape.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) ApiError);

impl Refusal {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Refusal {
        Refusal(ApiError::new(code, message))
    }

    /// The same with what to do about it.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Refusal {
        Refusal(self.0.hint(hint))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut answer = with_type(self.0.to_json().into(), "application/json");
        // INVARIANT: the codes of the wire room have statuses between 400 and 599.
        *answer.status_mut() = StatusCode::from_u16(self.0.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        answer
    }
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Refusal {
        Refusal(error)
    }
}

impl From<PathRejection> for Refusal {
    fn from(_: PathRejection) -> Refusal {
        Refusal::new(ErrorCode::BadRequest, "the path of the address is not UTF-8")
            .hint("encode each byte outside A-Z a-z 0-9 - . _ ~ as % and two hexadecimal digits, in UTF-8")
    }
}

impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Refusal {
        Refusal(error.into())
    }
}

impl From<WriteError> for Refusal {
    fn from(error: WriteError) -> Refusal {
        let message = error.to_string();
        match error {
            WriteError::Refused(refused) => refused.into(),
            WriteError::NotDurable { .. } => {
                Refusal::new(ErrorCode::WritesStopped, message).hint("reading goes on; send it again later")
            }
            WriteError::Uncertain { .. } => {
                Refusal::new(ErrorCode::WritesStopped, message).hint("look whether it was done before sending it again")
            }
            WriteError::Stopping => Refusal::new(ErrorCode::Busy, message),
        }
    }
}

impl From<CommandError> for Refusal {
    fn from(refused: CommandError) -> Refusal {
        let message = refused.to_string();
        match refused {
            CommandError::NoSuchJob { .. } => Refusal::new(ErrorCode::NoSuchThing, message)
                .hint("all there are: rollcall tasks --columns job,state, or GET /v1/jobs"),
            CommandError::NoSuchInstance { .. } | CommandError::NoSuchTask(_) | CommandError::NoSuchAgent(_) => {
                Refusal::new(ErrorCode::NoSuchThing, message)
            }
            CommandError::TooManyInstances { .. } => Refusal::new(ErrorCode::BadBody, message),
            CommandError::Change(ChangeError::TooManyRows { .. } | ChangeError::TooManyBytes { .. }) => {
                Refusal::new(ErrorCode::TooLarge, message)
            }
            CommandError::NotGiven { .. } | CommandError::IllegalMove { .. } | CommandError::Change(_) => {
                Refusal::new(ErrorCode::Conflict, message)
            }
            CommandError::Query(_) => Refusal::new(ErrorCode::Internal, message),
        }
    }
}

/// An answer of JSON, on one line.
pub(crate) fn json(value: &impl Serialize) -> Response {
    // Our own types have text keys only, so they can be written.
    let mut body = serde_json::to_vec(value).unwrap_or_default();
    body.push(b'\n');
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

/// A time as answers show it.
pub(crate) fn show_time(time: Time) -> String {
    let mut text = Vec::new();
    put_time(&mut text, time);
    String::from_utf8_lossy(&text).into_owned()
}

/// A foreign text for a message: escaped, and cut when long.
pub(crate) fn shown(text: &str) -> String {
    let cut: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
    let dots = if cut.len() < text.len() { "..." } else { "" };
    format!("{}{dots}", cut.escape_debug())
}
