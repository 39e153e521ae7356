//! Asking a server over HTTP.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::failure::Failure;

/// A larger answer is refused; ask for fewer rows.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// A longer line of a log is cut into several.
const LINE_BYTES_MAX: usize = 1 << 20;
const CONNECT_WAIT_MAX: Duration = Duration::from_secs(10);

/// Where a server is.
#[derive(Debug, Clone)]
pub struct Server {
    address: String,
}

impl Server {
    /// From `HOST:PORT`, with or without `http://`.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        if text.starts_with("https://") {
            return Err(Failure::usage(format!("--server {text}: https is not yet supported; use http://HOST:PORT")));
        }
        let address = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_none() || address.contains(['/', '@', ' ']) {
            return Err(Failure::usage(format!("--server {text}: write HOST:PORT, like 127.0.0.1:5050")));
        }
        Ok(Self { address: address.to_owned() })
    }

    /// The JSON of an answer, and when it was given.
    pub async fn get(&self, path: &str) -> Result<Answer, Failure> {
        let answer = self.send(Method::GET, path, Bytes::new()).await?;
        let date = answer.headers().get("date").and_then(|date| date.to_str().ok()).and_then(date_of);
        Ok(Answer { json: self.whole(answer).await?, date })
    }

    /// The JSON of the answer to a change.
    pub async fn post(&self, path: &str, body: &impl Serialize) -> Result<Value, Failure> {
        let body = serde_json::to_vec(body).map_err(|error| Failure::work(format!("cannot write JSON: {error}")))?;
        self.whole(self.send(Method::POST, path, body.into()).await?).await
    }

    /// The lines of an answer, as they come.
    pub async fn lines(&self, path: &str) -> Result<AnswerLines, Failure> {
        let answer = self.send(Method::GET, path, Bytes::new()).await?;
        if answer.status().is_success() {
            Ok(AnswerLines { server: self.clone(), body: answer.into_body(), buffer: BytesMut::new() })
        } else {
            Err(self.whole(answer).await.err().unwrap_or_else(|| Failure::work("the server answered oddly")))
        }
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>, Failure> {
        let connecting = timeout(CONNECT_WAIT_MAX, TcpStream::connect(&self.address)).await;
        let reason = match connecting {
            Ok(Ok(stream)) => return self.talk(stream, method, path, body).await,
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer in {} s", CONNECT_WAIT_MAX.as_secs()),
        };
        Err(Failure::unreachable(&self.address, &reason))
    }

    async fn talk(
        &self,
        stream: TcpStream,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, Failure> {
        let lost = |error: hyper::Error| Failure::unreachable(&self.address, &error.to_string());
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(lost)?;
        // Its errors come back through the answer.
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.address)
            .header("content-type", "application/json")
            .header("user-agent", concat!("rollcall/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(body))
            .map_err(|error| Failure::usage(format!("cannot ask for {path}: {error}")))?;
        sender.send_request(request).await.map_err(lost)
    }

    async fn whole(&self, answer: Response<Incoming>) -> Result<Value, Failure> {
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| Failure::unreachable(&self.address, &error.to_string()))?.to_bytes();
        if !status.is_success() {
            return Err(Failure::from_answer(status.as_u16(), &body));
        }
        serde_json::from_slice(&body).map_err(|_| Failure::from_answer(status.as_u16(), &body))
    }
}

/// What was read, and when by the server's clock, to the second; no date if it did not say.
#[derive(Debug)]
pub struct Answer {
    pub json: Value,
    pub date: Option<Timestamp>,
}

/// The time of an HTTP date, which is one of mail.
fn date_of(text: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()
}

/// The lines of an answer that may never end.
pub struct AnswerLines {
    server: Server,
    body: Incoming,
    buffer: BytesMut,
}

impl AnswerLines {
    /// The next line without its end; none when the answer has ended. Its bytes may be anything.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        loop {
            let end = self.buffer.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n');
            if let Some(end) = end {
                let line = self.buffer.split_to(end + 1);
                return Ok(Some(line[..end].to_vec()));
            }
            if self.buffer.len() >= LINE_BYTES_MAX {
                return Ok(Some(self.buffer.split_to(LINE_BYTES_MAX).to_vec()));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.buffer.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new())),
                Some(Err(error)) => return Err(Failure::unreachable(&self.server.address, &error.to_string())),
                None if self.buffer.is_empty() => return Ok(None),
                None => {
                    return Ok(Some(std::mem::take(&mut self.buffer).to_vec()));
                }
            }
        }
    }
}

/// A path with a query of those parameters that are there.
pub fn with_query(path: &str, parameters: &[(&str, Option<String>)]) -> String {
    let given =
        parameters.iter().filter_map(|(name, value)| value.as_ref().map(|value| format!("{name}={}", encoded(value))));
    let query = given.collect::<Vec<_>>().join("&");
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// Percent-encoded, all but letters, digits and `-._~`.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::{Server, date_of, with_query};

    #[test]
    fn the_date_of_an_answer_is_read() {
        let expected = "2026-11-30T22:25:18Z".parse().ok();
        assert_eq!(date_of("Mon, 30 Nov 2026 22:25:18 GMT"), expected);
        assert_eq!(date_of("yesterday"), None);
    }

    #[test]
    fn a_server_is_a_host_and_a_port() {
        for (text, address) in
            [("127.0.0.1:5050", "127.0.0.1:5050"), ("http://[::1]:80/", "[::1]:80"), ("n1:1", "n1:1")]
        {
            assert_eq!(Server::parse(text).expect("is an address").address, address);
        }
        for text in ["", "n1", "https://n1:5050", "n1:x", "http://n1:80/v1", "a@b:80", "n1:99999"] {
            assert_eq!(Server::parse(text).expect_err(text).exit_code(), 2);
        }
    }

    #[test]
    fn a_condition_travels_unharmed() {
        let path = with_query(
            "/v1/tasks",
            &[("where", Some("job = 'ü&b'".into())), ("sort", None), ("limit", Some("2".into()))],
        );
        assert_eq!(path, "/v1/tasks?where=job%20%3D%20%27%C3%BC%26b%27&limit=2");
        assert_eq!(with_query("/v1/tasks", &[("sort", None)]), "/v1/tasks");
    }
}
