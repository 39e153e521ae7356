//! How a verb ends when it does not end well: a text and an exit code.

use serde::Deserialize;

/// Why a verb ends early. The text is for a person, on standard error.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    kind: Kind,
    text: String,
}

/// What scripts tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Whoever read our output has gone.
    Unread,
    Work,
    Usage,
    Missing,
    Denied,
    Unreachable,
    Timeout,
    Interrupted,
}

/// An error as the server writes it.
#[derive(Debug, Deserialize)]
struct ServerError {
    #[serde(default)]
    code: String,
    message: String,
    #[serde(default)]
    hint: Option<String>,
}

impl Failure {
    fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    /// The work failed: exit code 1.
    pub fn work(text: impl Into<String>) -> Self {
        Self::new(Kind::Work, text)
    }

    /// Bad usage or file: exit code 2.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::new(Kind::Usage, text)
    }

    /// No such thing: exit code 3.
    pub fn missing(text: impl Into<String>) -> Self {
        Self::new(Kind::Missing, text)
    }

    /// Nobody there: exit code 5.
    pub fn unreachable(address: &str, reason: &str) -> Self {
        Self::new(Kind::Unreachable, format!("cannot reach {address} ({reason}). Start one: rollcall dev"))
    }

    /// The time to wait is over: exit code 6.
    pub fn timeout(text: impl Into<String>) -> Self {
        Self::new(Kind::Timeout, text)
    }

    /// Ctrl-C while waiting: exit code 130.
    pub fn interrupted(text: impl Into<String>) -> Self {
        Self::new(Kind::Interrupted, text)
    }

    /// Our output could not be written. `rollcall tasks | head` is no failure.
    pub fn output(error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::new(Kind::Unread, ""),
            _ => Self::work(format!("cannot write to standard output: {error}")),
        }
    }

    /// What an answer with an error status means. `body` should be the server's error; anything else is shown cut.
    pub fn from_answer(status: u16, body: &[u8]) -> Self {
        const SHOWN_BYTES_MAX: usize = 200;
        let kind = match status {
            400 | 409 | 413 | 422 => Kind::Usage,
            401 | 403 => Kind::Denied,
            404 => Kind::Missing,
            _ => Kind::Work,
        };
        match serde_json::from_slice::<ServerError>(body) {
            Ok(ServerError { message, hint: Some(hint), .. }) => Self::new(kind, format!("{message}\n{hint}")),
            Ok(ServerError { code, message, .. }) if message.is_empty() => Self::new(kind, code),
            Ok(ServerError { message, .. }) => Self::new(kind, message),
            Err(_) => {
                let shown = String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES_MAX)]).into_owned();
                // Whoever that is, its 404 is not our "no such thing".
                let text = format!("the server answered {status}: {}", shown.escape_debug());
                Self::work(format!("{text}\nRollcall does not answer like this; look at --server and ROLLCALL_SERVER"))
            }
        }
    }

    /// The same where the server speaks of a parameter that is one of our options: `where:9: …` becomes `--where:8: …` if `shift` letters
    /// were put before what was typed.
    pub fn of_options(mut self, shift: usize) -> Self {
        let Some((head, rest)) = self.text.split_once(": ") else { return self };
        let (name, column) = head.split_once(':').map_or((head, None), |(name, column)| (name, Some(column)));
        if !["where", "sort", "limit", "after"].contains(&name) {
            return self;
        }
        self.text = match column.and_then(|column| column.parse::<usize>().ok()) {
            Some(column) => format!("--{name}:{}: {rest}", column.saturating_sub(shift).max(1)),
            None => format!("--{name}: {rest}"),
        };
        self
    }

    /// As `rollcall` documents them.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Unread => 0,
            Kind::Work => 1,
            Kind::Usage => 2,
            Kind::Missing => 3,
            Kind::Denied => 4,
            Kind::Unreachable => 5,
            Kind::Timeout => 6,
            Kind::Interrupted => 130,
        }
    }

    /// Says it, if there is something to say.
    pub fn print(&self) {
        if !self.text.is_empty() {
            eprintln!("{}", self.text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Failure;

    #[test]
    fn an_answer_becomes_a_text_and_an_exit_code() {
        let table: [(u16, &[u8], u8, &str); 7] = [
            (
                404,
                br#"{"code":"no_job","message":"no job `web`","hint":"rollcall jobs"}"#,
                3,
                "no job `web`\nrollcall jobs",
            ),
            (
                400,
                br#"{"code":"bad","message":"--where:1: no column `agnet`","hint":null}"#,
                2,
                "--where:1: no column `agnet`",
            ),
            (403, br#"{"message":"no"}"#, 4, "no"),
            (422, br#"{"code":"full","message":""}"#, 2, "full"),
            (
                404,
                b"oops\x1b[1m",
                1,
                concat!(
                    "the server answered 404: oops\\u{1b}[1m\n",
                    "Rollcall does not answer like this; look at --server and ROLLCALL_SERVER"
                ),
            ),
            (
                503,
                b"",
                1,
                "the server answered 503: \nRollcall does not answer like this; look at --server and ROLLCALL_SERVER",
            ),
            (
                200,
                b"\xff",
                1,
                "the server answered 200: \u{fffd}\nRollcall does not answer like this; look at --server and ROLLCALL_SERVER",
            ),
        ];
        for (status, body, code, text) in table {
            let failure = Failure::from_answer(status, body);
            assert_eq!((failure.exit_code(), failure.text.as_str()), (code, text), "{status}");
        }
    }

    #[test]
    fn parameters_are_told_as_the_options_they_came_from() {
        for (text, shift, expected) in [
            ("where:9: no column `agnet`\nhint", 1, "--where:8: no column `agnet`\nhint"),
            ("sort: no column `a`", 0, "--sort: no column `a`"),
            ("no job: web", 0, "no job: web"),
            ("nothing", 1, "nothing"),
        ] {
            assert_eq!(Failure::usage(text).of_options(shift).text, expected);
        }
    }

    #[test]
    fn exit_codes_are_those_of_the_manual() {
        let failures = [
            Failure::work(""),
            Failure::usage(""),
            Failure::missing(""),
            Failure::unreachable("a", "b"),
            Failure::timeout(""),
            Failure::interrupted(""),
        ];
        assert_eq!(failures.map(|failure| failure.exit_code()), [1, 2, 3, 5, 6, 130]);
        assert_eq!(Failure::output(&std::io::ErrorKind::BrokenPipe.into()).exit_code(), 0);
    }
}
