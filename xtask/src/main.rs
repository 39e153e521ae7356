//! Every developer task, as `cargo xtask NAME`.
//!
//! - `test`: format, lints, dependencies, tidiness, all tests and the demo; what a change must pass.
//! - `demo`: builds the binary, starts it, runs the example job, and leaves it to be tried.
//! - `check-dependencies`: licences and duplicate versions of what we depend on.
//!
//! Tasks run the same commands that a person would, and print them. They need nothing but cargo: what is missing is
//! installed, and said.

#![forbid(unsafe_code)]

mod commands;
mod demo;
mod dependencies;
mod licences;
mod tests;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Every developer task.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Everything that a change must pass.
    Test,
    /// Builds the binary, starts `rollcall dev`, and runs the example job.
    Demo(demo::DemoArguments),
    /// Licences and duplicate versions of the dependencies.
    CheckDependencies,
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> anyhow::Result<()> {
    commands::enter_root()?;
    match task {
        Task::Test => tests::run(),
        Task::Demo(arguments) => demo::run(&arguments),
        Task::CheckDependencies => dependencies::check(),
    }
}
