// SPDX-License-Identifier: Apache-2.0

//! The program `topic_statistics`.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use test_support::preload;

use crate::output;

/// Makes a directory with the launcher, without the library. The launcher is a hard link, not a copy: a child of
/// another test may still have a new copy open for writing, and then the copy cannot be executed.
fn directory_with_launcher() -> (tempfile::TempDir, PathBuf) {
    let built = Path::new(env!("CARGO_BIN_EXE_topic_statistics"));
    let directory = tempfile::tempdir_in(built.parent().unwrap()).unwrap();
    let program = directory.path().join("topic_statistics");
    std::fs::hard_link(built, &program).unwrap();
    (directory, program)
}

#[test]
fn the_launcher_runs_a_command_with_the_library_beside_it() {
    let (directory, program) = directory_with_launcher();
    let run = |arguments: &[&str]| output(Command::new(&program).args(arguments).env_remove("LD_PRELOAD"));

    let beside = directory.path().join("libtopic_statistics_preload.so");
    let (status, _, errors) = run(&["run", "--", "true"]);
    assert_eq!(status, Some(125));
    assert!(errors.contains("is not found") && errors.contains(beside.to_str().unwrap()), "{errors}");
    std::fs::copy(preload::statistics(), &beside).unwrap();

    let print = ["run", "--", "sh", "-c", "echo \"$LD_PRELOAD\"; exit 7"];
    assert_eq!(run(&print), (Some(7), format!("{}\n", beside.display()), String::new()));
    // The library comes after the libraries that are already in LD_PRELOAD.
    let other = directory.path().join("other.so");
    std::fs::copy(&beside, &other).unwrap();
    let expected = format!("{}:{}\n", other.display(), beside.display());
    let with_other = output(Command::new(&program).args(print).env("LD_PRELOAD", &other));
    assert_eq!(with_other, (Some(7), expected, String::new()));

    assert_eq!(run(&["run", "true"]), (Some(0), String::new(), String::new()));
    let (status, _, errors) = run(&["run", "--", "no_such_program"]);
    assert!(status == Some(127) && errors.contains("no_such_program cannot be started"), "{errors}");
    for (wrong, error) in [
        (&[][..], "no argument is given"),
        (&["run"], "run needs a command"),
        (&["run", "--"], "run needs a command"),
        (&["walk", "--", "true"], "\"walk\" is unknown: run is expected"),
        (&["run", "--expect"], "\"--expect\" needs a value"),
        (&["run", "--expect", "x"], "run needs a command"),
        (&["run", "--expects", "x", "--", "true"], "run has no option \"--expects\""),
    ] {
        let (status, printed, errors) = run(wrong);
        let starts = errors.starts_with(&format!("topic_statistics: {error}"));
        assert!(starts && errors.contains("\n\nUsage: "), "{wrong:?}: {errors}");
        assert_eq!((status, &*printed), (Some(2), ""), "{wrong:?}");
    }
    assert!(run(&["--help"]).1.contains("TOPIC_STATISTICS_PERIOD"));
    assert!(run(&["--generate", "man"]).1.contains(".TH TOPIC_STATISTICS 1"));
    assert!(run(&["--generate", "complete-zsh"]).1.starts_with("#compdef topic_statistics"));
    assert!(run(&["--generate", "complete-fish"]).1.contains("complete -c topic_statistics"));
    assert_eq!(run(&["--generate", "other"]).0, Some(2));
    let complete = "eval \"$0\"; COMP_WORDS=(topic_statistics run --e) COMP_CWORD=2; _topic_statistics; echo ${COMPREPLY[*]}";
    let (_, completed, _) =
        output(Command::new("bash").args(["-c", complete, &run(&["--generate", "complete-bash"]).1]));
    assert_eq!(completed, "--expect --expect-namespace\n");
}

#[test]
fn the_launcher_checks_the_file_of_expectations_before_the_command() {
    let (directory, program) = directory_with_launcher();
    let directory = directory.path();
    std::fs::copy(preload::statistics(), directory.join("libtopic_statistics_preload.so")).unwrap();
    std::fs::write(directory.join("robot.yaml"), "topics: {imu: {error_unless: rate>=50}}").unwrap();
    std::fs::write(directory.join("wrong.yaml"), "topics: {imu: {error_unless: rte>=50}}").unwrap();
    let run = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = Command::new(&program);
        let print = "echo $TOPIC_STATISTICS_EXPECT $TOPIC_STATISTICS_EXPECT_NAMESPACE";
        command.arg("run").args(arguments).args(["--", "sh", "-c", print]).current_dir(directory);
        output(command.env_remove("LD_PRELOAD").envs(variables.iter().copied()))
    };
    let absolute = directory.join("robot.yaml").display().to_string();
    let printed = |text: &str| (Some(0), format!("{absolute}{text}\n"), String::new());
    assert_eq!(run(&["--expect", "robot.yaml"], &[]), printed(""));
    let with_namespace = ["--expect-namespace", "/r1", "--expect", "robot.yaml"];
    assert_eq!(run(&with_namespace, &[]), printed(" /r1"));
    let variable = [("TOPIC_STATISTICS_EXPECT", "robot.yaml")];
    assert_eq!(run(&[], &variable), printed(""), "the variable is the same as the option");

    for (arguments, variables, reason) in [
        (&["--expect", "wrong.yaml"][..], &[][..], "--expect wrong.yaml: line 1, column 30: "),
        (&["--expect", "none.yaml"], &[], "--expect none.yaml: No such file"),
        (&[], &[("TOPIC_STATISTICS_EXPECT", "wrong.yaml")], "TOPIC_STATISTICS_EXPECT wrong.yaml: line 1"),
        (&["--expect-namespace", "r 1"], &[], "--expect-namespace \"r 1\": a namespace has letters"),
        (
            &[],
            &[("TOPIC_STATISTICS_EXPECT_NAMESPACE", "/r/")],
            "TOPIC_STATISTICS_EXPECT_NAMESPACE \"/r/\": a namespace has no part without",
        ),
    ] {
        let (status, printed, errors) = run(arguments, variables);
        assert_eq!((status, &*printed), (Some(2), ""), "{arguments:?}");
        assert!(errors.starts_with(&format!("topic_statistics: {reason}")), "{errors}");
    }
}
