// SPDX-License-Identifier: Apache-2.0
//! With the feature `serde`, every message survives a round trip to JSON.

use generated_crates::{for_each_message, sample::Variant};

/// Runs another cargo command, which enables the feature `serde`. If the feature were enabled for the whole workspace,
/// no test would show that the generated crates also compile without this feature.
#[test]
fn every_interface_works_with_serde() {
    let run = std::process::Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "generated_crates", "--features", "serde"])
        .args(["--bin", "with_serde"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    macro_rules! count {
        ($($name:literal => $message:ty,)*) => { [$($name),*].len() };
    }
    let expected = format!("{} messages\n", for_each_message!(count) * Variant::ALL.len());
    assert!(run.status.success() && stdout == expected, "{stdout}\n{stderr}");
}
