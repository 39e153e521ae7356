//! Running the commands that a person would run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// The top of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate is one folder below the top").to_owned()
}

/// Makes the top of the repository the place where all commands run.
pub fn enter_root() -> anyhow::Result<()> {
    let root = root();
    std::env::set_current_dir(&root).with_context(|| format!("cannot go to {}", root.display()))
}

/// The cargo that runs this task, so that a chosen toolchain stays chosen.
pub fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Prints and runs a command; anything but success is an error.
pub fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let name = Path::new(program).file_name().map_or(program.into(), |name| name.to_string_lossy());
    eprintln!("$ {name} {}", arguments.join(" "));
    let status = Command::new(program).args(arguments).status().with_context(|| format!("cannot start {program}"))?;
    if !status.success() {
        bail!("{name} {} ended with {status}", arguments.first().unwrap_or(&""));
    }
    Ok(())
}

/// Whether a command is there and succeeds. It prints nothing.
pub fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Programs that the tasks use beyond cargo, with the Debian package of each.
const PROGRAMS: [(&str, &str); 3] = [("cc", "gcc"), ("curl", "curl"), ("git", "git")];

/// Installs what is missing, with apt where there is one.
pub fn ensure_programs() -> anyhow::Result<()> {
    let missing: Vec<_> = PROGRAMS.into_iter().filter(|(program, _)| !succeeds(program, &["--version"])).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.iter().map(|(program, _)| *program).collect::<Vec<_>>().join(", ");
    if !succeeds("apt-get", &["--version"]) {
        bail!("missing: {names}; install them with this system's package manager");
    }
    eprintln!("missing: {names}; installing with apt-get");
    let (program, mut arguments) =
        if succeeds("test", &["-w", "/var/lib/dpkg"]) { ("apt-get", vec![]) } else { ("sudo", vec!["-n", "apt-get"]) };
    arguments.extend(["install", "--yes", "--no-install-recommends"]);
    arguments.extend(missing.iter().map(|(_, package)| *package));
    run(program, &arguments)
}
