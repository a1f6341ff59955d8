// SPDX-License-Identifier: Apache-2.0
//! Runs `tests/serde.rs` with its feature.
//!
//! In a build of its own: with the feature turned on for the workspace, nothing would show any more that the
//! generated crates compile without it, too.

use std::{path::Path, process::Command};

#[test]
fn every_interface_compiles_and_works_with_serde() {
    let run = Command::new(env!("CARGO"))
        .args(["test", "--quiet", "--package", "generated_crates", "--features", "serde", "--test", "serde"])
        .arg("--target-dir")
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("serde"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["--", "--nocapture"])
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{stdout}\n{stderr}");
    print!("{stdout}");
}
