//! Tables for people: aligned columns, no line over 100 columns.

/// No line of a table is wider, in characters.
pub const LINE_CHARACTERS_MAX: usize = 100;
/// Between two columns.
const GAP: &str = "  ";
/// No column is made narrower than this to fit a line.
const COLUMN_CHARACTERS_MIN: usize = 8;
const CUT: char = '…';

/// Lays out a head and rows of as many cells. Control characters are escaped, since what tasks and users wrote must not
/// move the cursor of a terminal. Where a line would be too wide, the last column gives way first, then the widest.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
    let mut widths: Vec<usize> = head.iter().map(|title| title.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    fit(&mut widths);
    let mut text = line(head.iter().copied(), &widths);
    for row in &rows {
        text.push_str(&line(row.iter().map(String::as_str), &widths));
    }
    text
}

/// Rows without a head, each indented by two.
pub fn indented(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let text = table(&vec![""; columns], rows);
    text.lines().skip(1).map(|line| format!("  {line}\n")).collect()
}

fn line<'a>(cells: impl Iterator<Item = &'a str>, widths: &[usize]) -> String {
    let cells = cells.zip(widths).map(|(cell, width)| {
        let cell = cut(cell, *width);
        let fill = width - cell.chars().count();
        cell + &" ".repeat(fill)
    });
    let line = cells.collect::<Vec<_>>().join(GAP);
    format!("{}\n", line.trim_end())
}

fn fit(widths: &mut [usize]) {
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    let mut last_first = widths.len().checked_sub(1);
    loop {
        let excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(LINE_CHARACTERS_MAX);
        let widest = || (0..widths.len()).max_by_key(|column| widths[*column]);
        let Some(column) = last_first.take().or_else(widest).filter(|_| excess > 0) else { return };
        let narrower = widths[column].saturating_sub(excess).max(COLUMN_CHARACTERS_MIN.min(widths[column]));
        if narrower == widths[column] && Some(column) == widest() {
            // So many columns that none can give way; the person asked for them.
            return;
        }
        widths[column] = narrower;
    }
}

fn cut(cell: &str, width: usize) -> String {
    if cell.chars().count() <= width {
        return cell.to_owned();
    }
    cell.chars().take(width.saturating_sub(1)).chain([CUT]).collect()
}

/// The text with control characters escaped.
pub fn printable(text: &str) -> String {
    if text.chars().any(char::is_control) {
        text.chars()
            .flat_map(|letter| if letter.is_control() { letter.escape_debug().collect() } else { vec![letter] })
            .collect()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE_CHARACTERS_MAX, indented, table};

    fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect()
    }

    #[test]
    fn columns_align_and_no_line_ends_in_spaces() {
        let rows = rows(&[&["api.0.11", "failed", "n1", "exit_nonzero: exit code 1"], &["ü.0.1", "running", "n1", ""]]);
        let expected = "\
TASK      STATE    AGENT  CAUSE
api.0.11  failed   n1     exit_nonzero: exit code 1
ü.0.1     running  n1
";
        assert_eq!(table(&["TASK", "STATE", "AGENT", "CAUSE"], &rows), expected);
        assert_eq!(indented(&rows[1..]), "  ü.0.1  running  n1\n");
        assert_eq!((table(&["A"], &[]).as_str(), indented(&[]).as_str()), ("A\n", ""));
    }

    #[test]
    fn no_line_is_wider_than_a_hundred_columns() {
        let long = "x".repeat(90);
        for row in [vec!["web.0.1", "running", long.as_str()], vec![&long, &long, &long], vec![&long, "a", "b"]] {
            let text = table(&["A", "B", "C"], &rows(&[&row]));
            assert!(text.lines().all(|line| line.chars().count() <= LINE_CHARACTERS_MAX), "{text}");
        }
        let text = table(&["TASK", "STATE", "CAUSE"], &rows(&[&["web.0.1", "running", &long]]));
        assert!(text.contains("web.0.1  running  xxx"), "the last column gives way: {text}");
        // Two hundred columns cannot fit; they are printed all the same.
        let many = vec!["abcdefghij"; 200];
        assert_eq!(table(&many, &rows(&[&many])).lines().count(), 2);
    }

    #[test]
    fn what_a_task_wrote_cannot_move_the_cursor() {
        assert_eq!(table(&["A"], &rows(&[&["a\x1b[2Jb\nc"]])), "A\na\\u{1b}[2Jb\\nc\n");
    }
}
