//! Licence expressions, as packages write them: `(MIT OR Apache-2.0) AND Unicode-3.0`, `MIT/Apache-2.0`.

/// What we may ship without asking anyone: permissive, and no obligation beyond a notice.
const ALLOWED: [&str; 12] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether the expression can be met with allowed licences alone. One that cannot be read is not.
pub fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_ascii_whitespace().collect();
    let mut rest = words.as_slice();
    any_of(&mut rest) == Some(true) && rest.is_empty()
}

/// `a OR b OR c`; none when it is not well-formed.
fn any_of(words: &mut &[&str]) -> Option<bool> {
    let mut allowed = all_of(words)?;
    while take(words, "OR") {
        allowed |= all_of(words)?;
    }
    Some(allowed)
}

/// `a AND b`, which binds closer.
fn all_of(words: &mut &[&str]) -> Option<bool> {
    let mut allowed = one(words)?;
    while take(words, "AND") {
        allowed &= one(words)?;
    }
    Some(allowed)
}

fn one(words: &mut &[&str]) -> Option<bool> {
    if take(words, "(") {
        let allowed = any_of(words)?;
        return take(words, ")").then_some(allowed);
    }
    let (name, rest) = words.split_first()?;
    *words = rest;
    if matches!(*name, ")" | "OR" | "AND" | "WITH") {
        return None;
    }
    if take(words, "WITH") {
        let (exception, rest) = words.split_first()?;
        *words = rest;
        return Some(ALLOWED.contains(&format!("{name} WITH {exception}").as_str()));
    }
    Some(ALLOWED.contains(name))
}

fn take(words: &mut &[&str], expected: &str) -> bool {
    match words.split_first() {
        Some((word, rest)) if *word == expected => {
            *words = rest;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn an_expression_is_allowed_when_one_way_to_meet_it_is() {
        let table = [
            ("MIT", true),
            ("MIT OR Apache-2.0", true),
            ("MIT/Apache-2.0", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 AND MIT", false),
            ("MIT AND (GPL-3.0 OR AGPL-3.0)", false),
            ("GPL-2.0 WITH Classpath-exception-2.0", false),
            ("MIT AND GPL-3.0 OR Zlib", true),
            ("", false),
            ("MIT MIT", false),
            ("MIT OR", false),
            ("(MIT", false),
            (")", false),
        ];
        for (expression, allowed) in table {
            assert_eq!(is_allowed(expression), allowed, "{expression:?}");
        }
    }
}
