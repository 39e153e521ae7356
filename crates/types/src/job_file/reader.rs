//! From TOML with places to a job or to its mistakes.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{
    CPUS_MAX, Command, DISK_BYTES_MAX, ENVIRONMENT_NAMES_MAX, JOB_FILE_BYTES_MAX, JobFile, JobFileError,
    MEMORY_BYTES_MAX, Resources, amount_problem, command_problem, environment_problem, instances_problem, name_problem,
    quoted, user_problem,
};
use crate::JobKind;
use crate::nearest::nearest;
use crate::units::{UnitError, parse_bytes, parse_cpus};

/// What this release takes.
const FIELDS: [&str; 8] = ["name", "namespace", "kind", "instances", "command", "environment", "user", "resources"];

/// What the job file will have and this release refuses by name.
const FIELDS_LATER: [&str; 22] = [
    "working_dir",
    "env_file",
    "labels",
    "stop_signal",
    "stop_grace",
    "at_most_one",
    "self_stop_after",
    "lost_after",
    "ports",
    "restart",
    "place",
    "update",
    "logs",
    "image",
    "volumes",
    "secrets",
    "schedule",
    "time_zone",
    "overlap",
    "missed",
    "health",
    "priority",
];

const RESOURCE_FIELDS: [&str; 3] = ["cpus", "memory", "disk"];
const RESOURCE_FIELDS_LATER: [&str; 2] = ["pids", "cpu_limit"];

/// Kinds of jobs that a later release will run.
const KINDS_LATER: [&str; 2] = ["cron", "daemon"];

type Value<'i> = Spanned<DeValue<'i>>;

/// Collects mistakes, so that a person corrects all of them in one go.
struct Reader<'i> {
    text: &'i str,
    errors: Vec<(usize, String)>,
}

pub(super) fn read(text: &str) -> Result<JobFile, Vec<JobFileError>> {
    let mut reader = Reader { text, errors: Vec::new() };
    let job = reader.document();
    let mut errors = reader.errors;
    errors.sort_by_key(|(at, _)| *at);
    match job {
        Some(job) if errors.is_empty() => Ok(job),
        _ => Err(errors.into_iter().map(|(at, message)| located(text, at, message)).collect()),
    }
}

/// A mistake with its byte turned into line and column, both from 1.
fn located(text: &str, at: usize, message: String) -> JobFileError {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    JobFileError { line, column: before[line_start..].chars().count() + 1, message }
}

impl<'i> Reader<'i> {
    fn wrong(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.errors.push((span.start, message.into()));
    }

    fn wrong_if(&mut self, span: Range<usize>, problem: Option<String>) {
        self.errors.extend(problem.map(|message| (span.start, message)));
    }

    /// The job as far as it could be read; it counts only when no mistake was found.
    fn document(&mut self) -> Option<JobFile> {
        if self.text.len() > JOB_FILE_BYTES_MAX {
            let message = format!("the file has {} bytes; at most {JOB_FILE_BYTES_MAX}", self.text.len());
            self.wrong(0..0, message);
            return None;
        }
        let (document, syntax) = DeTable::parse_recoverable(self.text);
        if !syntax.is_empty() {
            for error in syntax {
                let first_line = error.message().lines().next().unwrap_or("not TOML").to_owned();
                self.wrong(error.span().unwrap_or(0..0), first_line);
            }
            return None;
        }
        let document = document.into_inner();
        self.refuse_unknown(&document, "", &FIELDS, &FIELDS_LATER);
        let name = self.required(&document, "name").and_then(|value| self.name("name", value));
        let command = self.required(&document, "command").and_then(|value| self.command(value));
        let namespace = match document.get("namespace") {
            Some(value) => self.name("namespace", value),
            None => Some(super::default_namespace()),
        };
        let kind = document.get("kind").map_or(Some(JobKind::Service), |value| self.kind(value));
        let instances = document.get("instances").map_or(Some(1), |value| self.instances(value));
        let environment = document.get("environment").map_or_else(BTreeMap::new, |value| self.environment(value));
        let user = document.get("user").and_then(|value| self.user(value));
        let resources = document.get("resources").map_or_else(Resources::default, |value| self.resources(value));
        Some(JobFile {
            name: name?,
            namespace: namespace?,
            kind: kind?,
            instances: instances?,
            command: command?,
            environment,
            user,
            resources,
        })
    }

    fn refuse_unknown(&mut self, table: &DeTable<'i>, prefix: &str, known: &[&'static str], later: &[&'static str]) {
        for key in table.keys() {
            let (name, span) = (key.get_ref().as_ref(), key.span());
            if known.contains(&name) {
                continue;
            }
            if later.contains(&name) {
                self.wrong(span, format!("`{prefix}{name}` is not yet supported"));
                continue;
            }
            let candidates = known.iter().chain(later).copied();
            let hint = nearest(name, candidates).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
            let shown: String = name.chars().take(super::NAME_CHARACTERS_MAX).collect();
            self.wrong(span, format!("unknown field `{prefix}{}`{hint}", shown.escape_debug()));
        }
    }

    fn required<'t>(&mut self, document: &'t DeTable<'i>, field: &str) -> Option<&'t Value<'i>> {
        let value = document.get(field);
        if value.is_none() {
            self.wrong(0..0, format!("`{field}` is missing"));
        }
        value
    }

    /// The text of a string field, or a mistake that shows what would do.
    fn string<'t>(&mut self, field: &str, value: &'t Value<'i>, example: &str) -> Option<&'t str> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            let kind = value.get_ref().type_str();
            self.wrong(value.span(), format!("{field} is {}; write a string: {field} = {example}", with_article(kind)));
        }
        text
    }

    fn name(&mut self, field: &str, value: &Value<'i>) -> Option<String> {
        let name = self.string(field, value, "\"web\"")?;
        self.wrong_if(value.span(), name_problem(field, name));
        Some(name.to_owned())
    }

    fn user(&mut self, value: &Value<'i>) -> Option<String> {
        let user = self.string("user", value, "\"www-data\"")?;
        self.wrong_if(value.span(), user_problem(user));
        Some(user.to_owned())
    }

    fn kind(&mut self, value: &Value<'i>) -> Option<JobKind> {
        match self.string("kind", value, "\"service\"")? {
            "service" => Some(JobKind::Service),
            "batch" => Some(JobKind::Batch),
            later if KINDS_LATER.contains(&later) => {
                self.wrong(value.span(), format!("kind = \"{later}\" is not yet supported"));
                None
            }
            other => {
                let kinds = ["service", "batch"];
                let hint = nearest(other, kinds).map(|meant| format!("; did you mean \"{meant}\"?"));
                let hint = hint.unwrap_or_else(|| "; kinds are \"service\" and \"batch\"".to_owned());
                self.wrong(value.span(), format!("kind = {}: unknown kind{hint}", quoted(other)));
                None
            }
        }
    }

    fn instances(&mut self, value: &Value<'i>) -> Option<u32> {
        let Some(number) = value.get_ref().as_integer() else {
            let kind = value.get_ref().type_str();
            self.wrong(value.span(), format!("instances is {}; write a whole number", with_article(kind)));
            return None;
        };
        let number = i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(i128::MAX);
        self.wrong_if(value.span(), instances_problem(number));
        u32::try_from(number).ok()
    }

    fn command(&mut self, value: &Value<'i>) -> Option<Command> {
        let command = match value.get_ref() {
            DeValue::String(line) => Command::Shell(line.to_string()),
            DeValue::Array(words) => {
                let mut argv = Vec::new();
                for word in words.iter() {
                    match word.get_ref().as_str() {
                        Some(text) => argv.push(text.to_owned()),
                        None => self.wrong(word.span(), "command: each word of the list must be a string"),
                    }
                }
                if argv.len() < words.len() {
                    return None;
                }
                Command::Argv(argv)
            }
            other => {
                let kind = with_article(other.type_str());
                self.wrong(value.span(), format!("command is {kind}; write a list of words, or a string for /bin/sh"));
                return None;
            }
        };
        self.wrong_if(value.span(), command_problem(&command));
        Some(command)
    }

    fn environment(&mut self, value: &Value<'i>) -> BTreeMap<String, String> {
        let mut environment = BTreeMap::new();
        let Some(table) = value.get_ref().as_table() else {
            self.wrong(value.span(), "environment must be a table: environment = { LOG_LEVEL = \"info\" }");
            return environment;
        };
        if table.len() > ENVIRONMENT_NAMES_MAX {
            self.wrong(value.span(), format!("environment has more than {ENVIRONMENT_NAMES_MAX} names"));
        }
        for (name, value) in table {
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                other => {
                    let (name, plain) = (quoted(name.get_ref()), plain_text(other));
                    let hint = plain.map(|plain| format!("; did you mean \"{plain}\"?")).unwrap_or_default();
                    self.wrong(value.span(), format!("environment {name}: the value must be a string{hint}"));
                    continue;
                }
            };
            self.wrong_if(name.span(), environment_problem(name.get_ref(), &text));
            environment.insert(name.get_ref().to_string(), text);
        }
        environment
    }

    fn resources(&mut self, value: &Value<'i>) -> Resources {
        let mut resources = Resources::default();
        let Some(table) = value.get_ref().as_table() else {
            self.wrong(value.span(), "resources must be a table: [resources]");
            return resources;
        };
        self.refuse_unknown(table, "resources.", &RESOURCE_FIELDS, &RESOURCE_FIELDS_LATER);
        if let Some(cpus) = table.get("cpus").and_then(|value| self.cpus(value)) {
            resources.cpus = cpus;
        }
        if let Some(memory) = table.get("memory").and_then(|value| self.bytes("memory", value, 1, MEMORY_BYTES_MAX)) {
            resources.memory = memory;
        }
        if let Some(disk) = table.get("disk").and_then(|value| self.bytes("disk", value, 0, DISK_BYTES_MAX)) {
            resources.disk = disk;
        }
        resources
    }

    fn cpus(&mut self, value: &Value<'i>) -> Option<u32> {
        let Some(number) = plain_text(value.get_ref()) else {
            let kind = with_article(value.get_ref().type_str());
            self.wrong(value.span(), format!("cpus is {kind}; write a number: cpus = 0.25"));
            return None;
        };
        match parse_cpus(&number) {
            Ok(cpus) => {
                self.wrong_if(value.span(), amount_problem("cpus", u64::from(cpus), 1, u64::from(CPUS_MAX)));
                Some(cpus)
            }
            Err(error) => {
                self.wrong(value.span(), format!("cpus = {number}: {error}"));
                None
            }
        }
    }

    fn bytes(&mut self, field: &str, value: &Value<'i>, least: u64, most: u64) -> Option<u64> {
        let (shown, amount) = match value.get_ref() {
            DeValue::String(text) => (quoted(text), parse_bytes(text)),
            other => match plain_text(other) {
                Some(number) => {
                    let suggestion = format!("{number}M");
                    (number, Err(UnitError::UnitMissing { suggestion }))
                }
                None => {
                    let kind = with_article(other.type_str());
                    self.wrong(value.span(), format!("{field} is {kind}; write a string: {field} = \"64M\""));
                    return None;
                }
            },
        };
        match amount {
            Ok(bytes) => {
                self.wrong_if(value.span(), amount_problem(field, bytes, least, most));
                Some(bytes)
            }
            Err(error) => {
                self.wrong(value.span(), format!("{field} = {shown}: {error}"));
                None
            }
        }
    }
}

/// A number as it was written.
fn plain_text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(truth) => Some(truth.to_string()),
        _ => None,
    }
}

fn with_article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {kind}")
}
