//! `tasks`: what runs and what ran.

use crate::arguments::{Output, TasksArguments};
use crate::client::{Server, with_query};
use crate::failure::Failure;
use crate::names::Name;
use crate::output::print;
use crate::rows::TaskRows;

/// So many rows are asked for at a time when nobody says how many to show.
const PAGE_ROWS: u32 = 1000;
/// More rows are not gathered without an explicit limit.
const ROWS_MAX: usize = 200_000;

pub async fn run(server: &Server, output: Output, arguments: TasksArguments) -> Result<(), Failure> {
    // A name is joined to the condition, which then begins behind a parenthesis.
    let shift = usize::from(arguments.name.is_some());
    let condition = condition(arguments.name.as_deref(), arguments.condition)?;
    let mut gathered = TaskRows { next: arguments.after, ..TaskRows::default() };
    loop {
        let parameters = [
            ("where", condition.clone()),
            ("sort", arguments.sort.clone()),
            ("limit", Some(arguments.limit.unwrap_or(PAGE_ROWS).to_string())),
            ("after", gathered.next.take()),
        ];
        let mut page = {
            let answer = server.get(&with_query("/v1/tasks", &parameters)).await;
            TaskRows::from_answer(answer.map_err(|failure| failure.of_options(shift))?)
        };
        gathered.rows.append(&mut page.rows);
        gathered = TaskRows { rows: gathered.rows, ..page };
        if arguments.limit.is_some() || gathered.next.is_none() || gathered.rows.len() >= ROWS_MAX {
            break;
        }
    }
    gathered.check_columns(&arguments.columns)?;
    print(&gathered.print(output, &arguments.columns, arguments.time))?;
    if let Some(next) = &gathered.next {
        let read = gathered.read.as_ref().map(|read| format!(", {read}")).unwrap_or_default();
        eprintln!("{} shown; next: --after {next}    (version {}{read})", gathered.rows.len(), gathered.version);
    } else if gathered.rows.is_empty() && output == Output::Table {
        eprintln!("no tasks    (version {})", gathered.version);
    }
    Ok(())
}

/// A name and a condition are both met.
fn condition(name: Option<&str>, condition: Option<String>) -> Result<Option<String>, Failure> {
    let name = name.map(Name::parse).transpose()?.map(|name| name.condition());
    Ok(match (name, condition) {
        (Some(name), Some(condition)) => Some(format!("({condition}) and {name}")),
        (name, condition) => name.or(condition),
    })
}

#[cfg(test)]
mod tests {
    use super::condition;

    #[test]
    fn a_name_narrows_a_condition() {
        let check = |name, where_: Option<&str>| condition(name, where_.map(str::to_owned)).expect("is right");
        assert_eq!(check(None, None), None);
        assert_eq!(check(None, Some("a = 1")).as_deref(), Some("a = 1"));
        let both = check(Some("web"), Some("a = 1 or b = 2"));
        assert_eq!(both.as_deref(), Some("(a = 1 or b = 2) and namespace = 'default' and job = 'web'"));
    }
}
