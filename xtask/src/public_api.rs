// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask public-api`: compares the public API of each published library with the file `public-api.txt`, by the
//! library of cargo-public-api.

use std::{collections::BTreeSet, fs, path::Path, process::ExitCode};

use anyhow::{Context, Result};

use crate::{
    checks::skipped,
    commands::{install_toolchain, succeed},
    environment::Environment,
    workspace::Workspace,
};

/// rustdoc's JSON format is not stable, so this toolchain must write the version of the format that the crate
/// public-api reads. (The compiler in this toolchain is of 2026-05-19.)
pub const TOOLCHAIN: &str = "nightly-2026-05-20";

/// Auto traits that are left out, because users' code does not rely on them.
const OMITTED: [&str; 5] = ["::Freeze", "::Unpin", "::UnsafeUnpin", "::RefUnwindSafe", "::UnwindSafe"];

/// Compares the public API with the files. With `bless`, rewrites the files.
pub fn run(environment: &Environment, project: &Path, bless: bool, no_skip: bool) -> Result<ExitCode> {
    if let Err(error) = install_toolchain(TOOLCHAIN, &[]) {
        return Ok(skipped("the public API", &error, no_skip));
    }
    let target = project.join("target/public-api");
    let mut has_changed = false;
    for package in Workspace::read(project)?.packages {
        if !package.is_public() || !package.has_library() {
            continue;
        }
        let mut rustdoc = environment.command("rustup");
        rustdoc.current_dir(project).env("CARGO_TARGET_DIR", &target);
        rustdoc.args(["run", TOOLCHAIN, "cargo", "rustdoc", "--locked", "--lib", "--package", &package.name]);
        rustdoc.args(["--features", &package.feature_list("")]);
        rustdoc.args(["--", "-Z", "unstable-options", "--output-format", "json", "--cap-lints", "allow"]);
        succeed(&mut rustdoc)?;
        let json = target.join("doc").join(&package.name).with_extension("json");
        // Blanket implementations are left out, because every type has them.
        let api = public_api::Builder::from_rustdoc_json(&json).omit_blanket_impls(true).build();
        let api = api.with_context(|| format!("{} cannot be read", json.display()))?.to_string();
        let is_omitted = |line: &&str| {
            let path = line.split(" for ").next().unwrap_or_default();
            line.starts_with("impl") && OMITTED.iter().any(|omitted| path.ends_with(omitted))
        };
        let new: Vec<_> = api.lines().filter(|line| !is_omitted(line)).collect();
        let file = package.directory().join("public-api.txt");
        if bless {
            fs::write(&file, new.join("\n") + "\n")?;
        }
        let old = fs::read_to_string(&file).unwrap_or_default();
        let (old, new): (BTreeSet<_>, BTreeSet<_>) = (old.lines().collect(), new.into_iter().collect());
        if old != new {
            has_changed = true;
            eprintln!("The public API of {} is not that in {}.", package.name, file.display());
            eprintln!(
                "If you mean the change, add it to CHANGELOG.md and run `cargo xtask public-api --bless`."
            );
            old.difference(&new).for_each(|line| eprintln!("-{line}"));
            new.difference(&old).for_each(|line| eprintln!("+{line}"));
        }
    }
    Ok(ExitCode::from(u8::from(has_changed)))
}
