// SPDX-License-Identifier: Apache-2.0

use std::process::Command;

use test_support::preload;

/// Preloads the library, with these options, into the program that a command runs.
pub fn preloaded(command: &mut Command, options: &[(&str, &str)]) {
    preload::preload(command, &preload::statistics());
    for (name, value) in options {
        command.env(format!("TOPIC_STATISTICS_{name}"), value);
    }
}

/// Runs a command to its end. Returns its exit code, and what it prints on standard output and standard error.
pub fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    let [printed, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), printed, errors)
}
