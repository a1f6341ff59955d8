// SPDX-License-Identifier: Apache-2.0

//! The program `topic_statistics`.

use std::{path::Path, process::Command};

use test_support::preload;

use crate::output;

#[test]
fn the_launcher_runs_a_command_with_the_library_beside_it() {
    // In a directory of its own. It is a link: a file that was written a moment ago may still be open in a child of
    // another test, and then it cannot be executed.
    let built = Path::new(env!("CARGO_BIN_EXE_topic_statistics"));
    let directory = tempfile::tempdir_in(built.parent().unwrap()).unwrap();
    let program = directory.path().join("topic_statistics");
    std::fs::hard_link(built, &program).unwrap();
    let run = |arguments: &[&str]| output(Command::new(&program).args(arguments).env_remove("LD_PRELOAD"));

    let beside = directory.path().join("libtopic_statistics_preload.so");
    let (status, _, errors) = run(&["run", "--", "true"]);
    assert_eq!(status, Some(125));
    assert!(errors.contains("is not found") && errors.contains(beside.to_str().unwrap()), "{errors}");
    std::fs::copy(preload::statistics(), &beside).unwrap();

    let print = ["run", "--", "sh", "-c", "echo \"$LD_PRELOAD\"; exit 7"];
    assert_eq!(run(&print), (Some(7), format!("{}\n", beside.display()), String::new()));
    // After what is preloaded already.
    let other = directory.path().join("other.so");
    std::fs::copy(&beside, &other).unwrap();
    let expected = format!("{}:{}\n", other.display(), beside.display());
    let with_other = output(Command::new(&program).args(print).env("LD_PRELOAD", &other));
    assert_eq!(with_other, (Some(7), expected, String::new()));

    assert_eq!(run(&["run", "true"]), (Some(0), String::new(), String::new()));
    let (status, _, errors) = run(&["run", "--", "no_such_program"]);
    assert!(status == Some(127) && errors.contains("no_such_program cannot be started"), "{errors}");
    for wrong in [&[][..], &["run"], &["run", "--"], &["walk", "--", "true"]] {
        let (status, printed, errors) = run(wrong);
        assert!(errors.starts_with("Usage: "), "{wrong:?}: {errors}");
        assert_eq!((status, &*printed), (Some(2), ""), "{wrong:?}");
    }
    assert!(run(&["--help"]).1.contains("TOPIC_STATISTICS_PERIOD"));
    assert!(run(&["--generate", "man"]).1.contains(".TH TOPIC_STATISTICS 1"));
}
