//! The query part of an address: from bytes to named parameters.

use crate::error::{ApiError, ErrorCode};
use rollcall_types::nearest;

/// The longest query part of an address, in bytes: a condition of the greatest length, every byte of it percent-encoded, and the rest.
pub const QUERY_BYTES_MAX: usize = 32 * 1024;

/// The parameters of a request, each taken out by the part that understands it.
#[derive(Debug)]
pub struct Parameters {
    /// Name and value, in the order in which they came.
    pairs: Vec<(String, String)>,
}

impl Parameters {
    /// Reads the query part of an address, without its question mark: `where=job%20%3D%20'web'&limit=10`. Every parameter must be one of
    /// `known`.
    ///
    /// # Errors
    /// If it is too long, badly encoded, or has a parameter twice or one that is not known.
    pub fn parse(query: &str, known: &[&str]) -> Result<Parameters, ApiError> {
        if query.len() > QUERY_BYTES_MAX {
            let message = format!(
                "the query part of the address has {} bytes, at most {QUERY_BYTES_MAX} are possible",
                query.len()
            );
            return Err(ApiError::new(ErrorCode::QueryTooLong, message).hint("ask several times, each for a part"));
        }
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name)?;
            if !known.contains(&name.as_str()) {
                let meant = nearest(&name, known.iter().copied());
                let meant = meant.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
                let shown: String = name.chars().take(64).collect();
                let message = format!("no parameter `{shown}`{meant}");
                let hint = format!("parameters: {}", known.join(", "));
                return Err(ApiError::new(ErrorCode::BadParameter, message).hint(hint));
            }
            if pairs.iter().any(|(other, _)| *other == name) {
                let message = format!("{name}: this parameter is there twice");
                return Err(ApiError::new(ErrorCode::BadParameter, message).hint("give it once"));
            }
            pairs.push((name, decode(value)?));
        }
        Ok(Parameters { pairs })
    }

    /// The value of a parameter, if it is there.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

/// The text that percent signs and plus signs stand for.
fn decode(text: &str) -> Result<String, ApiError> {
    let bad = |what: &str| {
        let error = ApiError::new(ErrorCode::BadParameter, format!("the query part of the address {what}"));
        error.hint("encode each byte outside A-Z a-z 0-9 - . _ ~ as % and two hexadecimal digits, in UTF-8")
    };
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || bytes.next().and_then(|digit| char::from(digit).to_digit(16));
                match (digit(), digit()) {
                    (Some(high), Some(low)) => (high << 4 | low) as u8,
                    _ => return Err(bad("has a percent sign without two hexadecimal digits")),
                }
            }
            byte => byte,
        });
    }
    String::from_utf8(out).map_err(|_| bad("is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::{Parameters, QUERY_BYTES_MAX};
    use proptest::prelude::{any, prop_assert_eq, proptest};

    const KNOWN: &[&str] = &["where", "limit", "as_of"];

    #[test]
    fn parameters_are_read_or_refused_with_the_reason() {
        for (query, expected) in [
            ("", Ok(r#"[]"#)),
            ("where=job%20%3d+'%C3%BC%26b'&limit=2", Ok(r#"[("where", "job = 'ü&b'"), ("limit", "2")]"#)),
            ("&limit=1&&", Ok(r#"[("limit", "1")]"#)),
            ("limit", Ok(r#"[("limit", "")]"#)),
            ("where=a=b", Ok(r#"[("where", "a=b")]"#)),
            ("limt=2", Err("no parameter `limt`; did you mean `limit`?")),
            ("Limit=2", Err("no parameter `Limit`; did you mean `limit`?")),
            ("columns=a", Err("no parameter `columns`")),
            ("limit=1&limit=2", Err("limit: this parameter is there twice")),
            ("limit=%4", Err("the query part of the address has a percent sign without two hexadecimal digits")),
            ("limit=%+f", Err("the query part of the address has a percent sign without two hexadecimal digits")),
            ("limit=%ff", Err("the query part of the address is not UTF-8")),
        ] {
            let found = Parameters::parse(query, KNOWN);
            let found = found.map(|found| format!("{:?}", found.pairs)).map_err(|error| error.message);
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{query}");
        }
        let long = format!("where={}", "a".repeat(QUERY_BYTES_MAX));
        assert_eq!(Parameters::parse(&long, KNOWN).unwrap_err().status(), 414);
    }

    proptest! {
        #[test]
        fn every_text_arrives_as_it_was_sent(text in any::<String>()) {
            let encoded: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let parameters = Parameters::parse(&format!("where={encoded}"), KNOWN).unwrap();
            prop_assert_eq!(parameters.get("where"), Some(text.as_str()));
        }

        #[test]
        fn no_query_does_harm(query in any::<String>()) {
            let _ = Parameters::parse(&query, KNOWN);
        }
    }
}
