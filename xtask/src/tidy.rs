//! What no compiler checks: front pages, file lengths, words that do not belong.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::commands::root;

/// No source file is longer.
const LINES_MAX: usize = 800;
/// A front page has at least so many lines of text.
const FRONT_PAGE_LINES_MIN: usize = 5;
/// How a crate begins that is only laid out.
const PLACEHOLDER: &str = "//! Placeholder of the room";

/// What no source line contains, and why. In two pieces each, so that this file is tidy too.
const BANNED: [(&str, &str, &str); 8] = [
    ("TO", "DO", "do it, or open an issue"),
    ("FIX", "ME", "fix it, or open an issue"),
    ("XX", "X", "say what is meant"),
    ("db", "g!", "a debugging aid"),
    ("unimplemen", "ted!", "refuse with a typed error"),
    ("#[igno", "re", "a skipped test promises nothing"),
    ("/wo", "rk/", "a path of one machine"),
    ("/ro", "ot/", "a path of one machine"),
];

/// File and module names that say nothing.
const BANNED_NAMES: [&str; 6] = ["utils", "util", "helpers", "helper", "manager", "misc"];

/// Where the word list does not count: texts that are not ours.
const FOREIGN: [&str; 3] = ["Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT"];

/// Reads all files that git knows or would add.
pub fn check() -> anyhow::Result<()> {
    let problems = problems()?;
    if problems.is_empty() {
        eprintln!("tidy: ok");
        return Ok(());
    }
    bail!("not tidy:\n  {}", problems.join("\n  "));
}

fn problems() -> anyhow::Result<Vec<String>> {
    let root = root();
    let list = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(&root)
        .output()
        .context("cannot ask git for the files of the repository")?;
    let list = String::from_utf8(list.stdout).context("a file name is not UTF-8")?;
    let mut problems = Vec::new();
    for path in list.split_terminator('\0') {
        // Listed but deleted, or not text: nothing to read.
        let Ok(text) = std::fs::read_to_string(root.join(path)) else { continue };
        problems.extend(problems_of(path, &text));
    }
    Ok(problems)
}

/// What is wrong with one file.
fn problems_of(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let file = Path::new(path);
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    if BANNED_NAMES.contains(&stem.as_str()) {
        problems.push(format!("{path}: the name says nothing about what is in it"));
    }
    if !FOREIGN.contains(&path) {
        for (number, line) in text.lines().enumerate() {
            let found = BANNED.iter().find(|(head, tail, _)| line.contains(&format!("{head}{tail}")));
            problems.extend(found.map(|(head, tail, why)| format!("{path}:{}: {head}{tail}: {why}", number + 1)));
        }
    }
    if file.extension().is_some_and(|extension| extension == "rs") {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            problems.push(format!("{path}: {lines} lines; at most {LINES_MAX}"));
        }
        if path.ends_with("src/lib.rs") || path.ends_with("src/main.rs") {
            problems.extend(front_page_problem(path, text));
        }
    }
    problems
}

fn front_page_problem(path: &str, text: &str) -> Option<String> {
    if text.starts_with(PLACEHOLDER) {
        return None;
    }
    let page = text.lines().take_while(|line| line.starts_with("//!")).filter(|line| line.len() > 4).count();
    if page < FRONT_PAGE_LINES_MIN {
        return Some(format!("{path}: its front page has {page} lines; say what it is, its model, what it never does"));
    }
    // A room that cannot do without argues for it under a heading of its front page.
    let argues = text.contains("//! ## Unsafe code\n") && text.contains("#![deny(unsafe_code)]");
    let forbids = argues || text.contains("#![forbid(unsafe_code)]");
    (!forbids).then(|| format!("{path}: does not forbid unsafe code"))
}

#[cfg(test)]
mod tests {
    use super::{PLACEHOLDER, problems, problems_of};

    #[test]
    fn this_repository_is_tidy() {
        assert_eq!(problems().expect("git lists the files"), Vec::<String>::new());
    }

    #[test]
    fn each_untidiness_is_found_with_its_place() {
        let page = "//! One.\n//! Two.\n//!\n//! Three.\n//! Four.\n//! Five.\n";
        let whole = format!("{page}\n#![forbid(unsafe_code)]\n");
        let table = [
            ("a/src/lib.rs", whole.clone(), 0),
            ("a/src/lib.rs", page.to_owned(), 1),
            ("a/src/lib.rs", format!("{page}#![deny(unsafe_code)]\n"), 1),
            ("a/src/lib.rs", format!("{page}//! ## Unsafe code\n#![deny(unsafe_code)]\n"), 0),
            ("a/src/lib.rs", "//! One.\n#![forbid(unsafe_code)]\n".to_owned(), 1),
            ("a/src/lib.rs", format!("{PLACEHOLDER} `a`.\n"), 0),
            ("a/src/helpers.rs", String::new(), 1),
            ("a/src/long.rs", "\n".repeat(801), 1),
            ("a/src/b.rs", format!("let a = {}(1);", concat!("db", "g!")), 1),
            ("README.md", format!("see {}x", concat!("/wo", "rk/")), 1),
            ("LICENSE-MIT", concat!("TO", "DO").to_owned(), 0),
        ];
        for (path, text, count) in table {
            assert_eq!(problems_of(path, &text).len(), count, "{path}: {:?}", problems_of(path, &text));
        }
        let found = problems_of("b.rs", &format!("\n// {}\n", concat!("TO", "DO")));
        assert_eq!(found, [format!("b.rs:2: {}: do it, or open an issue", concat!("TO", "DO"))]);
    }
}
