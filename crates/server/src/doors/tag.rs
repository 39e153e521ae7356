//! ETags of rows: who asks again and again is told that nothing changed, without anything being read.
//!
//! A tag is made of the form, the question in its canonical text, and the version that last changed what is read. So it is the same for any
//! spelling of the question and through all changes of other tables. It is a weak one: an answer also says at which version and time it was
//! read, and these move on while its rows stay. Version numbers mean something within one server's data only, so the tag also holds when
//! the server was started.

use crate::specs::hash;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use rollcall_schema::Time;
use rollcall_store::Snapshot;
use rollcall_wire_native::{JsonRow, ListRequest, print_cursor, print_sort, print_where};

/// The tag of one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tag(String);

impl Tag {
    /// The tag of the answer to this request out of this snapshot.
    pub(super) fn of<R: JsonRow>(request: &ListRequest, snapshot: &Snapshot, started: Time) -> Tag {
        let table = snapshot.table::<R>();
        let changed = table.changed_at_for(None);
        Tag(format!("W/\"json-{:x}-{changed}-{}\"", started.micros(), hash(&question(request))))
    }

    /// Whether the client has an answer with this tag.
    pub(super) fn is_among(&self, headers: &HeaderMap) -> bool {
        // Two tags name the same rows whether one of them is called weak or not.
        let bare = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        known.flat_map(|value| value.split(',')).any(|tag| tag.trim() == "*" || bare(tag) == bare(&self.0))
    }

    /// Puts it into the head of an answer, which may be kept, but not used without asking.
    pub(super) fn put(&self, headers: &mut HeaderMap) {
        if let Ok(value) = HeaderValue::from_str(&self.0) {
            headers.insert(header::ETAG, value);
        }
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
}

/// Says that the client has these rows.
pub(super) fn unchanged(tag: &Tag) -> Response {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::NOT_MODIFIED;
    tag.put(answer.headers_mut());
    answer
}

/// What is asked, in its canonical text. The version that is asked for is not part of it: the rows of two versions are the same if none of them
/// changed in between.
fn question(request: &ListRequest) -> String {
    let ListRequest { schema, condition, sorts, limit, after, as_of: _ } = request;
    let condition = condition.as_ref().map(|condition| print_where(condition, schema)).unwrap_or_default();
    // A cursor that was read can be printed.
    let after = after.as_ref().and_then(|cursor| print_cursor(request.scope(), cursor).ok()).unwrap_or_default();
    let (sorts, limit) = (print_sort(sorts, schema), limit.unwrap_or_default());
    format!("{}\n{condition}\n{sorts}\n{limit}\n{after}", schema.name)
}

#[cfg(test)]
mod tests {
    use super::{Tag, question};
    use axum::http::{HeaderMap, header};
    use rollcall_schema::{Row, Time};
    use rollcall_store::StoreLimits;
    use rollcall_types::Task;
    use rollcall_wire_native::ListRequest;

    fn asked(query: &str) -> ListRequest {
        ListRequest::parse(query, Task::schema()).expect("can be asked")
    }

    #[test]
    fn a_question_is_the_same_however_it_is_spelled_and_another_is_not() {
        let plain = question(&asked("where=job='web'%20and%20instance=3&sort=-started&limit=5"));
        assert_eq!(question(&asked("limit=05&sort=-started&where=(job%20=%20'web')%20AND%20instance%20=%203")), plain);
        let others =
            ["", "where=job='web'", "sort=-started", "limit=5", "where=job='web'&limit=5", "where=job='limit'"];
        let mut all: Vec<String> = others.iter().map(|query| question(&asked(query))).chain([plain]).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), others.len() + 1);
    }

    #[test]
    fn a_tag_is_known_in_a_list_weak_or_strong_or_by_a_star() {
        let (store, _writer) = crate::builder(StoreLimits::default()).build();
        let tag = Tag::of::<Task>(&asked("limit=5"), &store.snapshot(), Time::EPOCH);
        let strong = tag.0.trim_start_matches("W/").to_owned();
        let among = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, value.parse().expect("is a header"));
            tag.is_among(&headers)
        };
        assert!(among(&tag.0) && among(&strong) && among(&format!("\"a\", {strong}")) && among("*"));
        assert!(!among("\"a\"") && !among("") && !among(&strong.replace('-', "")));
        assert!(!tag.is_among(&HeaderMap::new()));
        let later = Tag::of::<Task>(&asked("limit=5"), &store.snapshot(), Time::from_micros(1));
        assert_ne!(later, tag, "another server's versions are others");
    }
}
