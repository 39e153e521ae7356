//! `cargo xtask check-dependencies`: what we depend on may be shipped, and is there once.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::commands::cargo;
use crate::licences::is_allowed;

/// What may be there in several versions, and why.
const DUPLICATES: [(&str, &str); 1] =
    [("syn", "build time only; its third version is spreading among the macro crates")];

/// The platform that we ship for.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Reads the lock file through cargo, without the network.
pub fn check() -> anyhow::Result<()> {
    let output = Command::new(cargo())
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", PLATFORM])
        .output()
        .context("cannot start cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata did not write JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata named no packages")?;
    let problems = problems(packages);
    if !problems.is_empty() {
        bail!("dependencies:\n  {}", problems.join("\n  "));
    }
    eprintln!("dependencies: {} packages, licences and versions ok", packages.len());
    Ok(())
}

fn problems(packages: &[Value]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    // Our own packages have no source.
    for package in packages.iter().filter(|package| !package["source"].is_null()) {
        let name = package["name"].as_str().unwrap_or("?");
        let version = package["version"].as_str().unwrap_or("?");
        versions.entry(name).or_default().insert(version);
        let licence = package["license"].as_str().unwrap_or("none");
        if !is_allowed(licence) {
            problems.push(format!("{name} {version}: its licence is not on the list: {licence}"));
        }
    }
    for (name, versions) in &versions {
        let listed = DUPLICATES.iter().any(|(known, _)| known == name);
        if versions.len() > 1 && !listed {
            let versions = versions.iter().copied().collect::<Vec<_>>().join(", ");
            problems.push(format!("{name} is there in several versions: {versions}"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::problems;

    #[test]
    fn foreign_licences_and_duplicates_are_found() {
        let package = |name: &str, version: &str, licence: Option<&str>, ours: bool| {
            let source = if ours { None } else { Some("registry") };
            json!({ "name": name, "version": version, "license": licence, "source": source })
        };
        let packages = [
            package("ours", "0.1.0", None, true),
            package("a", "1.0.0", Some("MIT"), false),
            package("a", "2.0.0", Some("MIT"), false),
            package("b", "1.0.0", Some("GPL-3.0"), false),
            package("c", "1.0.0", None, false),
            package("syn", "2.0.0", Some("MIT"), false),
            package("syn", "3.0.0", Some("MIT"), false),
        ];
        let expected = [
            "b 1.0.0: its licence is not on the list: GPL-3.0",
            "c 1.0.0: its licence is not on the list: none",
            "a is there in several versions: 1.0.0, 2.0.0",
        ];
        assert_eq!(problems(&packages), expected);
    }
}
