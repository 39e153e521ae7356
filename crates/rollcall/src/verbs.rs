//! The verbs, one function each.

mod dev;
mod help;
mod job;
mod logs;
mod other;
mod page;
mod tasks;
mod waiting;

use serde_json::json;

use crate::arguments::{Arguments, Output, Verb};
use crate::client::Server;
use crate::failure::Failure;
use crate::output::{print, print_line};

/// Does what was typed.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let common = arguments.common;
    let server = || Server::parse(&common.server);
    match arguments.verb {
        Verb::Dev(arguments) => dev::run(arguments, common.output).await,
        Verb::Run(arguments) => job::run(&server()?, common.output, &arguments).await,
        Verb::Stop(arguments) => job::stop(&server()?, common.output, &arguments).await,
        Verb::Tasks(arguments) => tasks::run(&server()?, common.output, arguments).await,
        Verb::Logs(arguments) => logs::run(&server()?, &arguments).await,
        Verb::Example { name } => example(name.as_deref()),
        Verb::Version => version(&server()?, common.output).await,
        Verb::Help { topic } => help::run(topic.as_deref()),
        Verb::ServeExamplePage(arguments) => page::run(&arguments).await,
        #[cfg(feature = "bench")]
        Verb::Bench(arguments) => bench(arguments, common.output),
        Verb::SandboxGuard | Verb::SandboxStage => Err(Failure::work("this runs before any runtime does")),
        Verb::Other(words) => Err(other::refuse(&words)),
    }
}

fn example(name: Option<&str>) -> Result<(), Failure> {
    match name {
        Some("web") => print(rollcall_types::example_web()),
        None => print_line("web   a small web page, three times: rollcall example web > web.toml"),
        Some(other) => {
            Err(Failure::missing(format!("no example `{}`; there is: rollcall example web", other.escape_debug())))
        }
    }
}

/// Runs a benchmark. Its JSON is one object, as `--json` prints it.
#[cfg(feature = "bench")]
pub fn bench(arguments: rollcall_bench::BenchArguments, output: Output) -> Result<(), Failure> {
    if output == Output::Csv {
        return Err(Failure::usage("--output csv is not yet supported here; there is: --output json"));
    }
    if !rollcall_bench::BENCHES.contains(&arguments.name.as_str()) {
        let (name, there) = (arguments.name.escape_debug(), rollcall_bench::BENCHES.join(", "));
        return Err(Failure::missing(format!("no benchmark `{name}`; there is: {there}")));
    }
    let json = arguments.json || output != Output::Table;
    let arguments = rollcall_bench::BenchArguments { json, ..arguments };
    rollcall_bench::print_run(arguments, &mut std::io::stdout())
        .map_err(|error| Failure::work(format!("bench: {error:#}")))
}

/// This program's version, and the server's if one answers.
async fn version(server: &Server, output: Output) -> Result<(), Failure> {
    let binary = env!("CARGO_PKG_VERSION");
    let answer = server.get("/v1/version").await.ok();
    let server = answer.as_ref().and_then(|answer| answer.json["server"].as_str());
    match (output, server) {
        (Output::Table, None) => print_line(&format!("binary {binary}")),
        (Output::Table, Some(server)) => print_line(&format!("binary {binary}   server {server}")),
        (Output::Csv, server) => print_line(&format!("binary,server\n{binary},{}", server.unwrap_or_default())),
        (Output::Json | Output::Jsonl, server) => {
            print_line(&json!({ "binary": binary, "server": server }).to_string())
        }
    }
}
