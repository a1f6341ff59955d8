// SPDX-License-Identifier: Apache-2.0

//! The program `topic_statistics`.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::library;

/// Returns the program in a directory of its own. It is a link: a file that was written a moment ago may still be open in a
/// child of another test, and then it cannot be executed.
fn program() -> (tempfile::TempDir, PathBuf) {
    let built = Path::new(env!("CARGO_BIN_EXE_topic_statistics"));
    let directory = tempfile::tempdir_in(built.parent().unwrap()).unwrap();
    let program = directory.path().join("topic_statistics");
    std::fs::hard_link(built, &program).unwrap();
    (directory, program)
}

fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let [printed, errors] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    (status.code(), printed, errors)
}

#[test]
fn a_command_runs_with_the_library_beside_the_program_after_what_is_preloaded_already() {
    let (directory, program) = program();
    let beside = directory.path().join("libtopic_statistics_preload.so");
    std::fs::copy(library(), &beside).unwrap();
    let run = |before: Option<&Path>| {
        let mut command = Command::new(&program);
        command.args(["run", "--", "sh", "-c", "echo \"$LD_PRELOAD\"; exit 7"]).env_remove("LD_PRELOAD");
        command.envs(before.map(|before| ("LD_PRELOAD", before)));
        output(&mut command)
    };
    let beside_text = beside.to_str().unwrap();
    assert_eq!(run(None), (Some(7), format!("{beside_text}\n"), String::new()));
    let other = directory.path().join("other.so");
    std::fs::copy(library(), &other).unwrap();
    let expected = format!("{}:{beside_text}\n", other.display());
    assert_eq!(run(Some(&other)), (Some(7), expected, String::new()));
}

#[test]
fn what_cannot_be_run_is_said() {
    let (directory, program) = program();
    let run = |arguments: &[&str]| output(Command::new(&program).args(arguments));
    let (status, _, errors) = run(&["run", "--", "true"]);
    let place = directory.path().join("libtopic_statistics_preload.so");
    assert_eq!(status, Some(125));
    assert!(errors.contains("is not found") && errors.contains(place.to_str().unwrap()), "{errors}");
    std::fs::copy(library(), place).unwrap();
    assert_eq!(run(&["run", "--", "true"]), (Some(0), String::new(), String::new()));
    assert_eq!(run(&["run", "true"]), (Some(0), String::new(), String::new()));
    let (status, _, errors) = run(&["run", "--", "no_such_program"]);
    assert!(status == Some(127) && errors.contains("no_such_program cannot be started"), "{errors}");
    for wrong in [&[][..], &["run"], &["run", "--"], &["walk", "--", "true"]] {
        let (status, printed, errors) = run(wrong);
        assert!(
            status == Some(2) && printed.is_empty() && errors.starts_with("Usage: "),
            "{wrong:?}: {errors}"
        );
    }
    assert!(run(&["--help"]).1.contains("TOPIC_STATISTICS_PERIOD"));
}
