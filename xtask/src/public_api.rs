// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask public-api`: whether the public API of each library to be published is the one in its `public-api.txt`.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path, process::ExitCode};

use anyhow::{bail, Context, Result};

use crate::{
    checks::{passes, reason, Outcome},
    environment::Environment,
    msrv,
    workspace::Workspace,
};

/// rustdoc's JSON is not stable, and its version has to be one that the crate public-api reads. (The compiler's
/// 2026-05-19.)
pub const TOOLCHAIN: &str = "nightly-2026-05-20";

/// The auto traits whose loss breaks no code that somebody writes.
const OMITTED: [&str; 5] = ["Freeze", "Unpin", "UnsafeUnpin", "RefUnwindSafe", "UnwindSafe"];

/// Compares the lists, or rewrites them with `bless`.
pub fn run(environment: &Environment, project: &Path, bless: bool, no_skip: bool) -> Result<ExitCode> {
    let installed = msrv::install(TOOLCHAIN, &["--profile", "minimal"])
        .with_context(|| format!("{TOOLCHAIN} cannot be installed"));
    if let Err(error) = installed {
        eprintln!("skipped: the public API: {}", reason(&error));
        return Ok(ExitCode::from(u8::from(no_skip)));
    }
    let target = project.join("target/public-api");
    let mut has_changed = false;
    for package in Workspace::read(project)?.packages {
        if !package.is_public() || !package.has_library() {
            continue;
        }
        let mut rustdoc = environment.command("rustup");
        rustdoc
            .current_dir(project)
            .args(["run", TOOLCHAIN, "cargo", "rustdoc", "--locked", "--lib", "--package", &package.name])
            .args(["--features", &package.feature_list()])
            .args(["--", "-Z", "unstable-options", "--output-format", "json", "--cap-lints", "allow"])
            .env("CARGO_TARGET_DIR", &target);
        if passes(&mut rustdoc)? == Outcome::Failed {
            bail!("The public API of {} cannot be listed; rustdoc says above why", package.name);
        }
        let json = target.join("doc").join(&package.name).with_extension("json");
        // Without blanket implementations, which are the same for every type.
        let api = public_api::Builder::from_rustdoc_json(&json).omit_blanket_impls(true).build();
        let api = api.with_context(|| format!("{} cannot be read", json.display()))?;
        let new = without_omitted(&api.to_string());
        let file = package.directory().join("public-api.txt");
        if bless {
            fs::write(&file, new).with_context(|| format!("Cannot write {}", file.display()))?;
            continue;
        }
        let changes = changes(&fs::read_to_string(&file).unwrap_or_default(), &new);
        if !changes.is_empty() {
            has_changed = true;
            eprint!(
                "The public API of {} is not that in {}. If the change is meant, put it into CHANGELOG.md and run \
                 `cargo xtask public-api --bless`.\n{changes}",
                package.name,
                file.display()
            );
        }
    }
    Ok(ExitCode::from(u8::from(has_changed)))
}

fn without_omitted(list: &str) -> String {
    let is_omitted = |line: &&str| {
        let path = line.split(" for ").next().unwrap_or_default();
        line.starts_with("impl") && OMITTED.iter().any(|omitted| path.ends_with(&format!("::{omitted}")))
    };
    list.lines().filter(|line| !is_omitted(line)).fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "{line}");
        text
    })
}

/// Removed lines with a minus, added lines with a plus.
fn changes(old: &str, new: &str) -> String {
    let lines = |list: &'_ str| list.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (old, new) = (lines(old), lines(new));
    let mut text = String::new();
    for (sign, from, other) in [('-', &old, &new), ('+', &new, &old)] {
        for line in from.difference(other) {
            let _ = writeln!(text, "{sign}{line}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_and_what_came_is_shown() {
        assert_eq!(changes("a\nb\n", "b\nc\n"), "-a\n+c\n");
        assert_eq!(changes("a\nb\n", "a\nb\n"), "");
    }

    #[test]
    fn a_lost_send_is_seen_and_a_lost_unpin_is_not() {
        let list = "pub struct a::B\nimpl core::marker::Send for a::B\nimpl !core::marker::Unpin for a::B\n\
                    impl<T> core::panic::unwind_safe::UnwindSafe for a::C<T> where T: core::marker::Send\n";
        assert_eq!(without_omitted(list), "pub struct a::B\nimpl core::marker::Send for a::B\n");
    }
}
