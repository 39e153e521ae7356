//! Query strings: each parameter once, and none that is not known.

use super::answer::{ApiError, shown};
use axum::extract::Query;
use axum::http::Uri;
use rollcall_types::nearest;
use std::str::FromStr;

/// More parameters are refused before they are read.
const PARAMETERS_MAX: usize = 32;

/// The parameters of one request.
pub(crate) struct Parameters {
    pairs: Vec<(String, String)>,
}

impl Parameters {
    /// From a request's address, of which only `known` ones may be there.
    pub(crate) fn of(uri: &Uri, known: &[&'static str]) -> Result<Parameters, ApiError> {
        let unreadable = |_| ApiError::wrong("bad_parameter", "the part of the address after `?` cannot be read");
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(unreadable)?;
        if pairs.len() > PARAMETERS_MAX {
            return Err(ApiError::wrong("bad_parameter", format!("more than {PARAMETERS_MAX} parameters")));
        }
        for (position, (name, _)) in pairs.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let message = format!("no parameter `{}`", shown(name));
                let meant = nearest(name, known.iter().copied());
                let hint = meant.map_or_else(
                    || format!("there are: {}", known.join(", ")),
                    |meant| format!("did you mean `{meant}`?"),
                );
                return Err(ApiError::wrong("bad_parameter", message).hint(hint));
            }
            if pairs[..position].iter().any(|(other, _)| other == name) {
                return Err(ApiError::wrong("bad_parameter", format!("parameter `{name}` is there twice")));
            }
        }
        Ok(Parameters { pairs })
    }

    /// One parameter as text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// One parameter as a value; `example` says what it should look like.
    pub(crate) fn value<T: FromStr>(&self, name: &str, example: &str) -> Result<Option<T>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let wrong =
            |_| ApiError::wrong("bad_parameter", format!("{name}={}: should be like {name}={example}", shown(text)));
        text.parse().map(Some).map_err(wrong)
    }
}
