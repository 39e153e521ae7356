//! The job file: what an owner writes to say what shall run.
//!
//! [`JobFile::parse`] is a pure function from text to a job or to *all* of its mistakes, each with its line and column.
//! A field that a later release will know is refused by name, never ignored: a job that was accepted does what it says.

use crate::JobKind;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

mod reader;
#[cfg(test)]
mod tests;

/// A longer job file is refused before it is read.
pub const JOB_FILE_BYTES_MAX: usize = 64 * 1024;
/// More words in one command are refused.
pub const COMMAND_WORDS_MAX: usize = 1024;
/// More names in one environment are refused.
pub const ENVIRONMENT_NAMES_MAX: usize = 1024;
/// More instances of one job are refused.
pub const INSTANCES_MAX: u32 = 1000;
/// A job, namespace or user name has at most so many characters.
pub const NAME_CHARACTERS_MAX: usize = 63;
/// No task gets more than so many whole thousandths of a cpu: 1,024 cpus.
pub const CPUS_MAX: u32 = 1024 * crate::units::CPU_THOUSANDTHS;
/// No task gets more memory than so many bytes: 64T.
pub const MEMORY_BYTES_MAX: u64 = 64 << 40;
/// No task gets more disk than so many bytes: 1024T.
pub const DISK_BYTES_MAX: u64 = 1024 << 40;
/// The namespace of a job that names none.
pub const DEFAULT_NAMESPACE: &str = "default";
/// What a task gets that does not say how many thousandths of a cpu it needs.
pub const DEFAULT_CPUS: u32 = 250;
/// What a task gets that does not say how much memory it needs, in bytes: 256M.
pub const DEFAULT_MEMORY_BYTES: u64 = 256 << 20;

/// One job as its owner wrote it, with defaults filled in. Its JSON has the same fields, cpus in whole thousandths and
/// memory and disk in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobFile {
    /// The job's name, unique in its namespace.
    pub name: String,
    /// The owner of the job.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Kept running, or run to its end.
    #[serde(default)]
    pub kind: JobKind,
    /// How many copies run: 1 to [`INSTANCES_MAX`].
    #[serde(default = "default_instances")]
    pub instances: u32,
    /// What runs.
    pub command: Command,
    /// Added to the task's environment, which otherwise holds PATH, HOME and LANG only.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The user of the agent's machine that the task runs as; none: the agent's `task_user`.
    #[serde(default)]
    pub user: Option<String>,
    /// What is reserved for each instance.
    #[serde(default)]
    pub resources: Resources,
}

/// What a task runs: in the file and in JSON a list, or a string.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Command {
    /// A program and its arguments; `${NAME}` comes from the task's environment.
    Argv(Vec<String>),
    /// A line that `/bin/sh -c` runs.
    Shell(String),
}

/// What is reserved for one instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Resources {
    /// Whole thousandths of a cpu.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of disk.
    pub disk: u64,
}

impl Default for Resources {
    fn default() -> Self {
        Self { cpus: DEFAULT_CPUS, memory: DEFAULT_MEMORY_BYTES, disk: 0 }
    }
}

fn default_namespace() -> String {
    DEFAULT_NAMESPACE.to_owned()
}

fn default_instances() -> u32 {
    1
}

/// One mistake in a job file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFileError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong and what to write instead.
    pub message: String,
}

/// All mistakes of one job file, in the order of their places. Its text is what a person sees.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct JobFileErrors {
    /// The file as the person named it.
    pub file_name: String,
    /// At least one mistake.
    pub errors: Vec<JobFileError>,
}

impl fmt::Display for JobFileErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |error: &JobFileError| format!("{}:{}:{}", self.file_name, error.line, error.column);
        let width = self.errors.iter().map(|error| place(error).chars().count()).max().unwrap_or(0);
        for error in &self.errors {
            writeln!(formatter, "{:width$}  {}", place(error), error.message)?;
        }
        let (count, plural) = (self.errors.len(), if self.errors.len() == 1 { "" } else { "s" });
        write!(formatter, "{count} error{plural}, nothing changed. All fields: rollcall help job-file")
    }
}

impl JobFile {
    /// Reads a job file. `file_name` is only for the messages.
    ///
    /// # Errors
    /// All mistakes at once. When the text is not TOML, those of the syntax alone: the rest would be guesses.
    pub fn parse(text: &str, file_name: &str) -> Result<Self, JobFileErrors> {
        reader::read(text).map_err(|errors| JobFileErrors { file_name: file_name.to_owned(), errors })
    }

    /// What is wrong with a job that did not come from a file, as sentences; empty when nothing is.
    ///
    /// A job that came as JSON obeys the same rules as one that came as a file.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        problems.extend(name_problem("name", &self.name));
        problems.extend(name_problem("namespace", &self.namespace));
        problems.extend(instances_problem(i128::from(self.instances)));
        problems.extend(command_problem(&self.command));
        problems.extend(self.environment.iter().filter_map(|(name, value)| environment_problem(name, value)));
        if self.environment.len() > ENVIRONMENT_NAMES_MAX {
            problems.push(format!("environment: more than {ENVIRONMENT_NAMES_MAX} names"));
        }
        problems.extend(self.user.as_deref().and_then(user_problem));
        let Resources { cpus, memory, disk } = self.resources;
        problems.extend(amount_problem("cpus", u64::from(cpus), 1, u64::from(CPUS_MAX)));
        problems.extend(amount_problem("memory", memory, 1, MEMORY_BYTES_MAX));
        problems.extend(amount_problem("disk", disk, 0, DISK_BYTES_MAX));
        problems
    }
}

/// The text that `rollcall example web` prints: a job that needs nothing but the rollcall binary.
pub fn example_web() -> &'static str {
    include_str!("job_file/web.toml")
}

/// Why a text is not a job or namespace name, as a sentence; none when it is one.
pub fn name_problem(field: &str, name: &str) -> Option<String> {
    let letters = name.chars().all(|letter| matches!(letter, 'a'..='z' | '0'..='9' | '-' | '_'));
    // A leading dash would be taken for a flag by every verb.
    let fits = (1..=NAME_CHARACTERS_MAX).contains(&name.len()) && letters && !name.starts_with('-');
    (!fits).then(|| {
        format!(
            "{field} = {}: a name is 1 to {NAME_CHARACTERS_MAX} of a-z 0-9 - _, no dots, no dash first",
            quoted(name)
        )
    })
}

fn instances_problem(instances: i128) -> Option<String> {
    let fits = (1..=i128::from(INSTANCES_MAX)).contains(&instances);
    (!fits).then(|| format!("instances = {instances}: must be 1 to {INSTANCES_MAX}"))
}

fn command_problem(command: &Command) -> Option<String> {
    let nul = |text: &str| text.contains('\0');
    match command {
        Command::Shell(line) if line.trim().is_empty() => Some("command is empty".to_owned()),
        Command::Shell(line) if nul(line) => Some("command holds a NUL character".to_owned()),
        Command::Argv(words) if words.first().is_none_or(String::is_empty) => {
            Some("command is empty; its first word is the program".to_owned())
        }
        Command::Argv(words) if words.len() > COMMAND_WORDS_MAX => {
            Some(format!("command has {} words; at most {COMMAND_WORDS_MAX}", words.len()))
        }
        Command::Argv(words) if words.iter().any(|word| nul(word)) => Some("command holds a NUL character".to_owned()),
        Command::Argv(_) | Command::Shell(_) => None,
    }
}

fn environment_problem(name: &str, value: &str) -> Option<String> {
    let first = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    let letters = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if !first || !letters {
        let name = quoted(name);
        return Some(format!("environment {name}: a name is letters, digits and _, and starts with no digit"));
    }
    value.contains('\0').then(|| format!("environment {name}: the value holds a NUL character"))
}

fn user_problem(user: &str) -> Option<String> {
    let letters = user.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.'));
    let fits = (1..=NAME_CHARACTERS_MAX).contains(&user.len()) && letters && !user.starts_with('-');
    (!fits).then(|| format!("user = {}: not the name of a user", quoted(user)))
}

fn amount_problem(field: &str, amount: u64, least: u64, most: u64) -> Option<String> {
    let show = |amount: u64| match field {
        "cpus" => crate::units::format_cpus(u32::try_from(amount).unwrap_or(u32::MAX)),
        _ => crate::units::format_bytes(amount),
    };
    let fits = (least..=most).contains(&amount);
    (!fits).then(|| format!("{field} = {}: must be {} to {}", show(amount), show(least), show(most)))
}

/// A foreign text for a message: quoted, escaped, and cut when long.
fn quoted(text: &str) -> String {
    const SHOWN_CHARACTERS_MAX: usize = 40;
    let cut: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
    if cut.len() < text.len() { format!("{cut:?}...") } else { format!("{cut:?}") }
}
