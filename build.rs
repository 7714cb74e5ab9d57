//! Puts the commit into `floodmark --version`.

use std::process::Command;

fn main() {
    let version = env!("CARGO_PKG_VERSION");
    // A build without git, such as the one of an image, may name its commit in the environment.
    let commit = std::env::var("FLOODMARK_COMMIT").ok().filter(|commit| !commit.is_empty()).or_else(commit);
    let version = commit.map_or_else(|| version.to_owned(), |commit| format!("{version} ({commit})"));
    println!("cargo::rustc-env=BUILD_VERSION={version}");
    println!("cargo::rerun-if-env-changed=FLOODMARK_COMMIT");
    println!("cargo::rerun-if-changed=.git/HEAD");
    println!("cargo::rerun-if-changed=.git/logs/HEAD");
}

fn commit() -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    let commit = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !commit.is_empty()).then_some(commit)
}
