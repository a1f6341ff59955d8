// SPDX-License-Identifier: Apache-2.0
//! Runs `serde.rs` with its feature.
//!
//! By another command of cargo: with the feature enabled for the workspace, nothing would show that the generated
//! crates also compile without it.

use std::process::Command;

#[test]
fn every_interface_compiles_and_works_with_serde() {
    let run = Command::new(env!("CARGO"))
        .args(["test", "--quiet", "--package", "generated_crates", "--features", "serde", "--test", "it"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["--", "--nocapture", "serde::messages_survive_json"])
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && stdout.contains("1 passed"), "{stdout}\n{stderr}");
    print!("{stdout}");
}
