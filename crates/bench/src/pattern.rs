//! Names of cases: patterns with `*`, and sizes such as `100k`.

/// Whether `name` matches a pattern in which `*` stands for any text.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(head) else { return false };
    (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| matches(tail, &rest[at..]))
}

/// The size in a case name: `10k`, `1M`, or digits.
pub(crate) fn size_of(text: &str) -> Option<usize> {
    let (digits, factor) = match text.strip_suffix(['k', 'M']) {
        Some(digits) if text.ends_with('k') => (digits, 1_000),
        Some(digits) => (digits, 1_000_000),
        None => (text, 1),
    };
    digits.parse::<usize>().ok()?.checked_mul(factor).filter(|size| *size > 0)
}

/// The same size as it is written in a case name.
pub(crate) fn size_text(size: usize) -> String {
    match size {
        _ if size > 0 && size.is_multiple_of(1_000_000) => format!("{}M", size / 1_000_000),
        _ if size > 0 && size.is_multiple_of(1_000) => format!("{}k", size / 1_000),
        _ => size.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{matches, size_of, size_text};

    #[test]
    fn a_star_stands_for_any_text_and_nothing_else_does() {
        for (pattern, name) in [
            ("*", ""),
            ("*", "indexed:1M"),
            ("indexed:*", "indexed:1M"),
            ("*:1M", "indexed:1M"),
            ("i*x*d:1M", "indexed:1M"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("", "a"), ("indexed", "indexed:1M"), ("indexed:*", "indexed100:1M"), ("*k", "indexed:1M")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for (size, text) in [(10_000, "10k"), (1_000_000, "1M"), (64, "64"), (1_024, "1024"), (1_500_000, "1500k")] {
            assert_eq!(size_text(size), text);
            assert_eq!(size_of(text), Some(size));
        }
        for wrong in ["", "k", "0", "1G", "-1", "99999999999999999999M"] {
            assert_eq!(size_of(wrong), None, "{wrong}");
        }
    }
}
