//! Who may ask at all on a loopback listener.
//!
//! A web page of anywhere can make its visitor's browser send requests to this machine. A browser says in `Host` and `Origin` whom it means
//! and who asks; what does not name this very listener is refused, and so is a change whose content type a plain web form could send.

use super::answer::{Refusal, shown};
use axum::extract::{Request, State};
use axum::http::header::AsHeaderName;
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rollcall_wire_native::ErrorCode;
use std::sync::Arc;

/// The names under which this machine reaches itself.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The port of HTTP, which nobody writes.
const HTTP_PORT: u16 = 80;

/// Checks every request before anything else does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    /// The listener's port.
    pub(crate) port: u16,
    /// Whether only names of this machine are accepted: the listener is on loopback.
    pub(crate) loopback: bool,
}

impl Guard {
    fn refuses(&self, request: &Request) -> Option<Refusal> {
        if self.loopback {
            let host = only(request.headers(), header::HOST);
            // A request line may name a host too; then it is the one that counts.
            let named = request.uri().authority().map(|authority| authority.as_str());
            match host.filter(|host| self.is_ours(host) && named.is_none_or(|named| self.is_ours(named))) {
                Some(_) => {}
                None => return Some(self.foreign_host(named.or(host).unwrap_or("none"))),
            }
            if request.headers().contains_key(header::ORIGIN) {
                let origin = only(request.headers(), header::ORIGIN).unwrap_or("unreadable");
                if !self.is_our_origin(origin) {
                    return Some(foreign_origin(origin));
                }
            }
        } else if let Some(origin) = request.headers().get(header::ORIGIN) {
            // By whatever name it is reached, its own pages have that name too.
            let host = only(request.headers(), header::HOST).unwrap_or_default();
            let origin = origin.to_str().unwrap_or("unreadable");
            if origin.strip_prefix("http://") != Some(host) {
                return Some(foreign_origin(origin));
            }
        }
        let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        (!reads && !says_json(request.headers())).then(wrong_type)
    }

    /// Whether `host` or `host:port` means this listener. Without a port it may be that of HTTP, which a forwarder leaves out.
    fn is_ours(&self, text: &str) -> bool {
        let (name, port) = split_port(text);
        let named = LOOPBACK_NAMES.iter().any(|ours| ours.eq_ignore_ascii_case(name));
        named && port.is_none_or(|port| port.parse() == Ok(self.port))
    }

    fn is_our_origin(&self, origin: &str) -> bool {
        origin.strip_prefix("http://").is_some_and(|rest| {
            let (_, port) = split_port(rest);
            self.is_ours(rest) && (port.is_some() || self.port == HTTP_PORT)
        })
    }

    fn foreign_host(&self, host: &str) -> Refusal {
        let message = format!("this server answers on this machine only, and not to the host `{}`", shown(host));
        Refusal::new(ErrorCode::ForeignOrigin, message)
            .hint(format!("ask http://127.0.0.1:{} or http://localhost:{}", self.port, self.port))
    }
}

fn foreign_origin(origin: &str) -> Refusal {
    let message = format!("a web page of `{}` may not ask this server", shown(origin));
    Refusal::new(ErrorCode::ForeignOrigin, message).hint("programs other than browsers send no Origin")
}

fn wrong_type() -> Refusal {
    let message = "a change must come with `content-type: application/json`";
    Refusal::new(ErrorCode::BadBody, message).hint("curl: -H 'content-type: application/json'")
}

/// The one value of a header; none if it is missing, there twice, or no text.
pub(super) fn only(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(first)
}

fn says_json(headers: &HeaderMap) -> bool {
    let value = only(headers, header::CONTENT_TYPE).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// `name:port` apart, with the brackets of an address of version 6 left on.
fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (text, None),
    }
}

/// The guard as a layer.
pub(crate) async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    match guard.refuses(&request) {
        Some(error) => error.into_response(),
        None => next.run(request).await,
    }
}

#[cfg(test)]
mod tests {
    use super::Guard;
    use axum::body::Body;
    use axum::extract::Request;
    use axum::response::IntoResponse;

    /// The status with which a request is refused; 0 if it is not.
    fn status(guard: Guard, method: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().method(method).uri("/v1/tasks");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).expect("is a request");
        guard.refuses(&request).map_or(0, |error| error.into_response().status().as_u16())
    }

    #[test]
    fn only_names_of_this_listener_are_hosts() {
        let guard = Guard { port: 5050, loopback: true };
        for host in ["localhost", "LOCALHOST:5050", "127.0.0.1:5050", "[::1]:5050", "[::1]"] {
            assert_eq!(status(guard, "GET", &[("host", host)]), 0, "{host}");
        }
        for host in
            ["", "evil.example", "localhost:80", "127.0.0.1.evil.example:5050", "[::2]", "localhost:5050x", "::1"]
        {
            assert_eq!(status(guard, "GET", &[("host", host)]), 403, "{host}");
        }
        assert_eq!(status(guard, "GET", &[]), 403);
        assert_eq!(status(guard, "GET", &[("host", "localhost"), ("host", "localhost")]), 403);
        let open = Guard { loopback: false, ..guard };
        assert_eq!(status(open, "GET", &[("host", "n1.example")]), 0);
        assert_eq!(status(open, "GET", &[("host", "n1.example"), ("origin", "http://n1.example")]), 0);
        assert_eq!(status(open, "GET", &[("host", "n1.example"), ("origin", "http://evil.example")]), 403);
    }

    #[test]
    fn only_pages_of_this_listener_are_origins() {
        let guard = Guard { port: 5050, loopback: true };
        let with = |origin| status(guard, "GET", &[("host", "localhost"), ("origin", origin)]);
        assert_eq!((with("http://localhost:5050"), with("http://127.0.0.1:5050")), (0, 0));
        for origin in
            ["null", "http://localhost", "http://localhost:20000", "https://localhost:5050", "http://evil.example"]
        {
            assert_eq!(with(origin), 403, "{origin}");
        }
    }

    #[test]
    fn a_change_says_that_it_is_json() {
        let guard = Guard { port: 5050, loopback: true };
        let with = |kind| status(guard, "POST", &[("host", "localhost"), ("content-type", kind)]);
        assert_eq!((with("application/json"), with("Application/JSON; charset=utf-8")), (0, 0));
        assert_eq!((with("text/plain"), with("application/jsonx"), with("")), (400, 400, 400));
        assert_eq!(status(guard, "DELETE", &[("host", "localhost")]), 400);
    }
}
