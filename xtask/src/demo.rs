//! `cargo xtask demo`: the first minute with the binary, for real.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail};
use clap::Args;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::commands::{cargo, ensure_programs, run as step};

/// How the line begins in which `rollcall dev` says where it listens.
const ADDRESS_LABEL: &str = "API";
/// How the last line of its greeting begins.
const LAST_LINE_LABEL: &str = "Ctrl-C";

#[derive(Debug, Args)]
pub struct DemoArguments {
    /// Stop after the example was shown.
    #[arg(long)]
    pub once: bool,
    /// Build with all optimisations, as users get it.
    #[arg(long)]
    pub release: bool,
}

pub fn run(arguments: &DemoArguments) -> anyhow::Result<()> {
    ensure_programs()?;
    let mut build = vec!["build", "--package", "rollcall", "--locked"];
    build.extend(arguments.release.then_some("--release"));
    step(&cargo(), &build)?;
    let binary = binary(arguments.release);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start a runtime")?;
    runtime.block_on(demo(&binary, arguments.once))
}

/// Where cargo puts what it builds: beside this program, which it built too.
fn binary(release: bool) -> PathBuf {
    let ours = std::env::current_exe().unwrap_or_default();
    let target = ours.parent().and_then(Path::parent).unwrap_or(Path::new("target")).to_owned();
    target.join(if release { "release" } else { "debug" }).join("rollcall")
}

async fn demo(binary: &Path, once: bool) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("cannot make a folder for the data")?;
    let (mut dev, mut lines) = start(binary, folder.path())?;
    let address = address(&mut lines).await?;
    // The rest of what the server says goes on to the terminal.
    let echo = tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            println!("{line}");
        }
    });
    let shown = tokio::select! {
        shown = example(binary, folder.path(), &address) => shown,
        status = dev.wait() => bail!("rollcall dev ended too early: {}", status?),
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(Into::into),
    };
    if shown.is_ok() && !once {
        println!("\nIt runs until Ctrl-C. In another terminal:");
        println!("  export ROLLCALL_SERVER={address} PATH={}:$PATH", binary.parent().unwrap_or(binary).display());
        println!("  rollcall tasks");
        println!("  rollcall logs -f web");
        println!("  rollcall stop web");
        // The terminal tells both of us; the server ends by itself.
        tokio::select! {
            status = dev.wait() => bail!("rollcall dev ended: {}", status?),
            interrupted = tokio::signal::ctrl_c() => interrupted?,
        }
    } else {
        interrupt(&dev).await;
    }
    let status = dev.wait().await?;
    echo.await?;
    shown?;
    if !status.success() {
        bail!("rollcall dev ended with {status}");
    }
    Ok(())
}

fn start(binary: &Path, folder: &Path) -> anyhow::Result<(Child, Lines<BufReader<ChildStdout>>)> {
    println!("$ rollcall dev --port 0 --data {}", folder.display());
    let mut dev = Command::new(binary);
    dev.args(["dev", "--port", "0", "--data"]).arg(folder).stdin(Stdio::null()).stdout(Stdio::piped());
    // When this program is killed, so is the server, and with the server its tasks.
    dev.kill_on_drop(true);
    let mut dev = dev.spawn().with_context(|| format!("cannot start {}", binary.display()))?;
    let out = dev.stdout.take().context("standard output was asked to be a pipe")?;
    Ok((dev, BufReader::new(out).lines()))
}

/// Prints the server's greeting and finds its address in it.
async fn address(lines: &mut Lines<BufReader<ChildStdout>>) -> anyhow::Result<String> {
    let mut address = None;
    while let Some(line) = lines.next_line().await? {
        println!("{line}");
        if let Some(text) = line.trim_start().strip_prefix(ADDRESS_LABEL) {
            address = Some(text.trim().to_owned());
        }
        if line.starts_with(LAST_LINE_LABEL) {
            return address.context("rollcall dev did not say where it listens");
        }
    }
    bail!("rollcall dev ended before it was ready")
}

async fn example(binary: &Path, folder: &Path, address: &str) -> anyhow::Result<()> {
    let file = folder.join("web.toml");
    println!("\n$ rollcall example web > {}", file.display());
    let example = Command::new(binary).args(["example", "web"]).output().await?;
    std::fs::write(&file, example.stdout).with_context(|| format!("cannot write {}", file.display()))?;
    let file = file.to_string_lossy().into_owned();
    for arguments in [vec!["run", &file], vec!["tasks"], vec!["logs", "web"]] {
        println!("\n$ rollcall {}", arguments.join(" "));
        let status = Command::new(binary).args(&arguments).env("ROLLCALL_SERVER", address).status().await?;
        if !status.success() {
            bail!("rollcall {} ended with {status}", arguments[0]);
        }
    }
    Ok(())
}

/// As Ctrl-C does.
async fn interrupt(process: &Child) {
    if let Some(process) = process.id() {
        let _ = Command::new("kill").args(["-INT", &process.to_string()]).status().await;
    }
}
