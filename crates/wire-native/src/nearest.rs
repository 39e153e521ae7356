//! "Did you mean": the one candidate that a mistyped name was most likely meant to be.

/// A name differs from what was meant by at most a third of its letters, and by at least one that may always be wrong.
const LETTERS_PER_MISTAKE: usize = 3;

/// Longer names are not compared: a suggestion for them helps nobody, and the work grows with the square of the length.
const NAME_CHARACTERS_MAX: usize = 64;

/// The candidate closest to `name` by edit distance, if one is close enough to be meant.
///
/// One edit is a letter added, removed, replaced, or swapped with its neighbour. The first of equally close candidates
/// wins, so that an ordered list gives a stable answer.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name: Vec<char> = name.chars().take(NAME_CHARACTERS_MAX + 1).collect();
    if name.is_empty() || name.len() > NAME_CHARACTERS_MAX {
        return None;
    }
    let mut best: Option<(usize, &'a str)> = None;
    for candidate in candidates {
        let letters: Vec<char> = candidate.chars().take(NAME_CHARACTERS_MAX + 1).collect();
        let allowed = (name.len().max(letters.len()) / LETTERS_PER_MISTAKE).max(1);
        // The lengths alone are a lower bound of the distance.
        if letters.len() > NAME_CHARACTERS_MAX || letters.len().abs_diff(name.len()) > allowed {
            continue;
        }
        let distance = edit_distance(&name, &letters);
        let changes_every_letter = distance >= name.len().min(letters.len());
        if distance <= allowed && !changes_every_letter && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// The optimal string alignment distance, with three rows of its table held at a time.
fn edit_distance(left: &[char], right: &[char]) -> usize {
    let mut before_last: Vec<usize> = vec![0; right.len() + 1];
    let mut last: Vec<usize> = (0..=right.len()).collect();
    let mut current: Vec<usize> = vec![0; right.len() + 1];
    for row in 1..=left.len() {
        current[0] = row;
        for column in 1..=right.len() {
            let replaced = last[column - 1] + usize::from(left[row - 1] != right[column - 1]);
            let mut least = replaced.min(last[column] + 1).min(current[column - 1] + 1);
            let swapped =
                row > 1 && column > 1 && left[row - 1] == right[column - 2] && left[row - 2] == right[column - 1];
            if swapped {
                least = least.min(before_last[column - 2] + 1);
            }
            current[column] = least;
        }
        std::mem::swap(&mut before_last, &mut last);
        std::mem::swap(&mut last, &mut current);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn suggests_what_was_meant_and_nothing_far_away() {
        let fields = ["name", "namespace", "instances", "command", "resources", "user"];
        let table = [
            ("instance", Some("instances")),
            ("isntances", Some("instances")),
            ("comand", Some("command")),
            ("commnad", Some("command")),
            ("nmae", Some("name")),
            ("usr", Some("user")),
            ("name_space", Some("namespace")),
            ("colour", None),
            ("x", None),
            ("", None),
        ];
        for (typed, meant) in table {
            assert_eq!(nearest(typed, fields), meant, "typed {typed:?}");
        }
        assert_eq!(nearest("agnet", ["task", "agent"]), Some("agent"));
        assert_eq!(nearest(&"a".repeat(1000), [&*"a".repeat(999)]), None);
    }
}
