//! `cargo xtask test`: everything that a change must pass.

use crate::commands::{cargo, ensure_programs, run as step, succeeds};
use crate::demo::{self, DemoArguments};
use crate::{dependencies, tidy};

pub fn run() -> anyhow::Result<()> {
    ensure_programs()?;
    let cargo = &cargo();
    step(cargo, &["fmt", "--all", "--check"])?;
    tidy::check()?;
    dependencies::check()?;
    step(cargo, &["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"])?;
    if ensure_nextest(cargo) {
        step(cargo, &["nextest", "run", "--workspace", "--locked", "--no-fail-fast"])?;
    } else {
        eprintln!("cargo-nextest is not to be had; running `cargo test`, which runs the same tests");
        step(cargo, &["test", "--workspace", "--all-targets", "--locked", "--no-fail-fast"])?;
    }
    step(cargo, &["test", "--workspace", "--doc", "--locked", "--quiet"])?;
    demo::run(&DemoArguments { once: true, release: false })?;
    eprintln!("all passed");
    Ok(())
}

/// Whether nextest is there, after an attempt to install it when it is not.
fn ensure_nextest(cargo: &str) -> bool {
    if succeeds(cargo, &["nextest", "--version"]) {
        return true;
    }
    eprintln!("cargo-nextest is missing; installing it, which takes some minutes once");
    step(cargo, &["install", "cargo-nextest", "--locked"]).is_ok()
}
