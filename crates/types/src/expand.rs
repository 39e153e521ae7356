//! `${NAME}` in the words of a command, from the environment of the task.

use thiserror::Error;

/// Why a word could not be expanded. Columns count characters from 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExpandError {
    /// The task's environment has no such name.
    #[error("column {column}: ${{{name}}} is not in the task's environment; write $$ for a plain $")]
    Unknown {
        /// What stood between the braces.
        name: String,
        /// Where its `$` stands.
        column: usize,
    },
    /// `${` without its `}`.
    #[error("column {column}: ${{ is never closed; write $$ for a plain $")]
    Unclosed {
        /// Where the `$` stands.
        column: usize,
    },
    /// A `$` that is neither `$$` nor `${NAME}`.
    #[error("column {column}: a lone $; write ${{NAME}} for a value of the environment, $$ for a plain $")]
    Lone {
        /// Where the `$` stands.
        column: usize,
    },
}

/// `text` with each `${NAME}` replaced by what `lookup` knows and each `$$` by `$`. What was put in is not read again.
///
/// # Errors
/// An unknown name, and a `$` that is neither of the two forms: a word that would silently become empty is how a
/// program gets started on the wrong port.
pub fn expand<'a>(text: &str, lookup: impl Fn(&str) -> Option<&'a str>) -> Result<String, ExpandError> {
    let column_of = |byte: usize| text[..byte].chars().count() + 1;
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        let at = text.len() - rest.len() + dollar;
        expanded.push_str(&rest[..dollar]);
        rest = &rest[dollar + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some(after) = rest.strip_prefix('{') {
            let end = after.find('}').ok_or_else(|| ExpandError::Unclosed { column: column_of(at) })?;
            let name = &after[..end];
            let value =
                lookup(name).ok_or_else(|| ExpandError::Unknown { name: name.to_owned(), column: column_of(at) })?;
            expanded.push_str(value);
            rest = &after[end + 1..];
        } else {
            return Err(ExpandError::Lone { column: column_of(at) });
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, proptest};

    use super::{ExpandError, expand};

    fn check(text: &str, expected: Result<&str, ExpandError>) {
        let lookup = |name: &str| match name {
            "PORT" => Some("8080"),
            "MONEY" => Some("${PORT}$"),
            _ => None,
        };
        assert_eq!(expand(text, lookup), expected.map(str::to_owned), "{text:?}");
    }

    #[test]
    fn names_come_from_the_environment_and_two_dollars_are_one() {
        check("", Ok(""));
        check("--port=${PORT}", Ok("--port=8080"));
        check("${PORT}${PORT}", Ok("80808080"));
        check("$${PORT}", Ok("${PORT}"));
        check("a$$b", Ok("a$b"));
        check("${MONEY}", Ok("${PORT}$"));
    }

    #[test]
    fn a_mistake_is_an_error_with_its_place_never_an_empty_word() {
        check("é${PROT}", Err(ExpandError::Unknown { name: "PROT".into(), column: 2 }));
        check("${}", Err(ExpandError::Unknown { name: String::new(), column: 1 }));
        check("x ${PORT", Err(ExpandError::Unclosed { column: 3 }));
        check("$PORT", Err(ExpandError::Lone { column: 1 }));
        check("100$", Err(ExpandError::Lone { column: 4 }));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn any_text_with_its_dollars_doubled_comes_back(text in any::<String>()) {
            let doubled = text.replace('$', "$$");
            assert_eq!(expand(&doubled, |_| None), Ok(text));
        }
    }
}
