//! What can be typed.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use rollcall_types::units::{parse_bytes, parse_duration};

use crate::rows::columns_help;

/// Where the server is when nobody says otherwise.
pub const DEFAULT_SERVER: &str = "127.0.0.1:5050";
/// The port of `rollcall dev` when nobody says otherwise.
pub const DEFAULT_PORT: u16 = 5050;

/// Runs services and batch jobs, and answers any question about them at once.
#[derive(Debug, Parser)]
#[command(name = "rollcall", version, disable_help_subcommand = true, subcommand_required = true)]
#[command(after_help = "Start here: rollcall dev")]
pub struct Arguments {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Args)]
pub struct Common {
    /// The server to ask.
    #[arg(long, global = true, env = "ROLLCALL_SERVER", default_value = DEFAULT_SERVER, value_name = "HOST:PORT")]
    pub server: String,
    /// How to print answers.
    #[arg(long, global = true, value_enum, default_value = "table")]
    pub output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Table,
    /// One JSON array of the rows as the server gives them.
    Json,
    /// One JSON object a line.
    Jsonl,
    /// Comma-separated values with a head line.
    Csv,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Starts everything in one process on this machine, to try it.
    Dev(DevArguments),
    /// Makes what runs be as a job file says, and waits until it is.
    Run(RunArguments),
    /// What runs and what ran.
    #[command(after_help = columns_help())]
    Tasks(TasksArguments),
    /// What tasks wrote.
    Logs(LogsArguments),
    /// Stops a job; it stays known.
    Stop(StopArguments),
    /// Prints an example to begin with.
    Example {
        /// Which one; without a name, they are listed.
        name: Option<String>,
    },
    /// Measures what Rollcall costs on this machine, beside the least that the same calls can cost.
    #[cfg(feature = "bench")]
    Bench(rollcall_bench::BenchArguments),
    /// Which version this is.
    Version,
    /// More about a verb, or about the job file: rollcall help job-file.
    Help {
        /// A verb, or `job-file`.
        topic: Option<String>,
    },
    /// The page of the example job.
    #[command(hide = true)]
    ServeExamplePage(PageArguments),
    /// Ends the tasks of a daemon that died.
    #[command(hide = true)]
    SandboxGuard,
    /// Becomes a task when its daemon says so.
    #[command(hide = true)]
    SandboxStage,
    /// Anything else.
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

#[derive(Debug, Args)]
pub struct DevArguments {
    /// The port on loopback; 0 takes a free one.
    #[arg(long, default_value_t = DEFAULT_PORT)]
    pub port: u16,
    /// The address to listen at. Any but loopback is open to everybody who reaches it, and needs --insecure.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_name = "ADDRESS")]
    pub listen: IpAddr,
    /// Listens where everybody may come, without credentials.
    #[arg(long)]
    pub insecure: bool,
    /// Where everything is kept [default: ~/.local/share/rollcall/dev; as root /var/lib/rollcall/dev].
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Forgets what an earlier start kept.
    #[arg(long)]
    pub fresh: bool,
    /// Memory for changes that watchers who are slow or come back can still ask for.
    #[arg(long, default_value = "64M", value_parser = bytes, value_name = "SIZE", hide = true)]
    pub watch_memory: u64,
    /// Not yet supported: leaves the tasks running for the next start.
    #[arg(long, hide = true)]
    pub keep_tasks: bool,
}

#[derive(Debug, Args)]
pub struct RunArguments {
    /// The job file; `-` reads it from standard input.
    pub file: PathBuf,
    /// Returns at once.
    #[arg(long)]
    pub detach: bool,
    /// Stops waiting after so long, with exit code 6; the work goes on.
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct TasksArguments {
    /// A job, an instance or a task.
    pub name: Option<String>,
    /// A condition, as in SQL: "state = 'running'".
    #[arg(long = "where", value_name = "CONDITION")]
    pub condition: Option<String>,
    /// The column to order by; with a dash before it, the other way round.
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    pub sort: Option<String>,
    /// No more rows than this.
    #[arg(long)]
    pub limit: Option<u32>,
    /// Goes on where an earlier answer ended: what it printed behind `next: --after`.
    #[arg(long, value_name = "CURSOR")]
    pub after: Option<String>,
    /// Which columns to show, separated by commas; they are listed below.
    #[arg(long, value_delimiter = ',')]
    pub columns: Vec<String>,
    /// Times in UTC in place of ages.
    #[arg(long)]
    pub time: bool,
}

#[derive(Debug, Args)]
pub struct LogsArguments {
    /// A job, an instance or a task.
    pub name: String,
    /// Goes on printing what comes.
    #[arg(long, short)]
    pub follow: bool,
    /// So many last lines of each task and output.
    #[arg(long, default_value_t = 100)]
    pub lines: u32,
    /// Standard output only.
    #[arg(long, conflicts_with = "err")]
    pub out: bool,
    /// Standard error only.
    #[arg(long)]
    pub err: bool,
    /// The lines alone, without task, output and time.
    #[arg(long)]
    pub raw: bool,
}

#[derive(Debug, Args)]
pub struct StopArguments {
    /// The job.
    pub name: String,
    /// Returns at once.
    #[arg(long)]
    pub detach: bool,
    /// Stops waiting after so long, with exit code 6; the work goes on.
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct PageArguments {
    /// What the page says.
    #[arg(long, default_value = "Hello")]
    pub greeting: String,
    /// The port on loopback; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
}

fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|error| error.to_string())
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Arguments;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }
}
