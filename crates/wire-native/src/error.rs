//! The one shape of an error: a code for programs, a message and a hint for people.

use crate::condition::{WhereError, WhereErrorKind};
use crate::json::put_text;
use crate::time::put_time;
use rollcall_schema::Time;
use rollcall_store::{AsOfError, Compacted, QueryError, Version};
use std::fmt;
use thiserror::Error;

macro_rules! error_codes {
    ($(#[doc = $meaning:literal] $name:ident = $word:literal, $status:literal;)*) => {
        /// What went wrong, for programs. Words are never changed; each has the HTTP status it is answered with.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $(#[doc = $meaning] $name,)*
        }

        impl ErrorCode {
            /// All codes, for documentation.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name),*];

            /// The word in the field `code`.
            pub const fn word(self) -> &'static str {
                match self {
                    $(ErrorCode::$name => $word,)*
                }
            }

            /// What it means, as a sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(ErrorCode::$name => $meaning.trim_start(),)*
                }
            }

            /// The HTTP status.
            pub const fn status(self) -> u16 {
                match self {
                    $(ErrorCode::$name => $status,)*
                }
            }
        }
    };
}

error_codes! {
    /// The condition cannot be read.
    BadWhere = "bad_where", 400;
    /// The condition or the order names a column that the table has not.
    NoSuchColumn = "no_such_column", 400;
    /// The order cannot be read.
    BadSort = "bad_sort", 400;
    /// The limit is not a number, or out of range.
    BadLimit = "bad_limit", 400;
    /// The cursor is none, or belongs to another query.
    BadCursor = "bad_cursor", 400;
    /// The version or time asked for cannot be read.
    BadAsOf = "bad_as_of", 400;
    /// The request has a parameter that means nothing, or one twice.
    BadParameter = "bad_parameter", 400;
    /// It is no request of HTTP/1.1, or not a whole one.
    BadRequest = "bad_request", 400;
    /// The body cannot be read.
    BadBody = "bad_body", 400;
    /// It would be understood, but this version cannot do it yet.
    NotSupported = "not_supported", 400;
    /// Nobody said who is asking.
    NotAuthenticated = "not_authenticated", 401;
    /// Who is asking may not do this.
    NotAllowed = "not_allowed", 403;
    /// The request came through a page of another origin or for another host.
    ForeignOrigin = "foreign_origin", 403;
    /// There is no such path.
    NoSuchPath = "no_such_path", 404;
    /// There is no such table.
    NoSuchTable = "no_such_table", 404;
    /// There is no such job, task, agent or other thing.
    NoSuchThing = "no_such_thing", 404;
    /// The path exists, but not for this method.
    WrongMethod = "wrong_method", 405;
    /// The request did not come whole in time.
    TooSlow = "too_slow", 408;
    /// It does not go together with the present state, or something changed meanwhile.
    Conflict = "conflict", 409;
    /// The version asked for is no longer held.
    TooOld = "too_old", 410;
    /// The changes asked for are no longer held.
    Compacted = "compacted", 410;
    /// The body or what it asks for is larger than a limit.
    TooLarge = "too_large", 413;
    /// The query part of the address is too long.
    QueryTooLong = "query_too_long", 414;
    /// The address and the headers together are too long, or there are too many headers.
    HeadersTooLarge = "headers_too_large", 431;
    /// The version or time asked for has not happened yet.
    NotYet = "not_yet", 400;
    /// As much as can be done at once is being done.
    Busy = "busy", 503;
    /// Writes have stopped because the disk is full or failing; reads go on.
    WritesStopped = "writes_stopped", 503;
    /// A mistake of ours.
    Internal = "internal", 500;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.word())
    }
}

/// An error as it is answered. A message about a parameter begins with its name, as in ``where:1: no column `agnet` ``: the command line, whose
/// options are called the same, only puts `--` before it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ApiError {
    /// For programs.
    pub code: ErrorCode,
    /// What was being done and what is wrong with it.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

impl ApiError {
    /// An error without a hint.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> ApiError {
        ApiError { code, message: message.into(), hint: None }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> ApiError {
        self.hint = Some(hint.into());
        self
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.code.status()
    }

    /// Appends the error as a JSON object on one line, without the line's end. `hint` is left out if there is none.
    pub fn put_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"code\":");
        put_text(out, self.code.word());
        out.extend_from_slice(b",\"message\":");
        put_text(out, &self.message);
        if let Some(hint) = &self.hint {
            out.extend_from_slice(b",\"hint\":");
            put_text(out, hint);
        }
        out.push(b'}');
    }

    /// The body of an answer with this error.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128 + self.message.len());
        self.put_json(&mut out);
        out.push(b'\n');
        out
    }
}

impl From<WhereError> for ApiError {
    fn from(error: WhereError) -> ApiError {
        let code = match error.kind {
            WhereErrorKind::NoColumn => ErrorCode::NoSuchColumn,
            WhereErrorKind::NotSupported => ErrorCode::NotSupported,
            WhereErrorKind::Syntax | WhereErrorKind::WrongValue | WhereErrorKind::TooLarge => ErrorCode::BadWhere,
        };
        ApiError { code, message: format!("where:{}: {}", error.column, error.message), hint: error.hint }
    }
}

impl From<AsOfError> for ApiError {
    fn from(error: AsOfError) -> ApiError {
        match error {
            AsOfError::TooOld { oldest } => {
                let message = "as_of: that is no longer held";
                let hint = format!("the oldest version held is {}", version_at(oldest));
                ApiError::new(ErrorCode::TooOld, message).hint(hint)
            }
            AsOfError::NotYet { newest } => {
                let message = "as_of: that has not happened yet";
                let hint = format!("the newest version is {}", version_at(newest));
                ApiError::new(ErrorCode::NotYet, message).hint(hint)
            }
        }
    }
}

fn version_at((version, time): (Version, Time)) -> String {
    let mut text = Vec::new();
    put_time(&mut text, time);
    format!("{version}, committed at {}", String::from_utf8_lossy(&text))
}

impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> ApiError {
        let code = match error {
            QueryError::Condition(_) => ErrorCode::BadWhere,
            QueryError::NoOrder { .. } | QueryError::TooManySortColumns => ErrorCode::BadSort,
            QueryError::WrongCursor => ErrorCode::BadCursor,
        };
        ApiError::new(code, error.to_string())
    }
}

impl From<Compacted> for ApiError {
    fn from(compacted: Compacted) -> ApiError {
        let message = format!("changes after version {} are no longer held", compacted.position);
        ApiError::new(ErrorCode::Compacted, message)
            .hint("read the table again, and watch from the version of that answer")
    }
}

#[cfg(test)]
mod tests {
    use super::{ApiError, ErrorCode};
    use crate::parse_where;
    use crate::testing::Everything;
    use rollcall_schema::{Row, Time};
    use rollcall_store::{AsOfError, Version};

    #[test]
    fn every_error_is_one_object_of_code_message_and_hint() {
        let condition = parse_where("flag and agnet = 1", Everything::schema()).unwrap_err();
        let at = (Version(7), Time::EPOCH);
        for (error, status, expected) in [
            (
                condition.into(),
                400,
                concat!(
                    r#"{"code":"no_such_column","message":"where:10: no column `agnet`","#,
                    r#""hint":"columns of everything: flag, count, balance, at, colour, id, text, data, notes, maybe_text, maybe_count, maybe_at"}"#
                ),
            ),
            (ApiError::new(ErrorCode::Busy, "a \"b\""), 503, r#"{"code":"busy","message":"a \"b\""}"#),
            (
                AsOfError::TooOld { oldest: at }.into(),
                410,
                r#"{"code":"too_old","message":"as_of: that is no longer held","hint":"the oldest version held is 7, committed at 1970-01-01T00:00:00.000000Z"}"#,
            ),
        ] {
            assert_eq!(
                (String::from_utf8(error.to_json()).unwrap(), error.status()),
                (format!("{expected}\n"), status)
            );
        }
    }

    #[test]
    fn every_code_has_a_word_of_its_own_and_an_error_status() {
        for (position, code) in ErrorCode::ALL.iter().enumerate() {
            assert!((400..600).contains(&code.status()), "{code}");
            assert!(ErrorCode::ALL[..position].iter().all(|other| other.word() != code.word()), "{code}");
        }
    }
}
