// SPDX-License-Identifier: Apache-2.0

//! Bags that cannot be read, or not whole, and exit statuses.

use std::{fs, process::Command};

use super::{
    bag_file::{mcap, regular, sqlite},
    run::run,
};

#[test]
fn a_file_that_cannot_be_read_ends_it_with_3_and_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("text.mcap"), "no bag").unwrap();
    fs::create_dir(path("empty")).unwrap();
    for name in ["missing.mcap", "text.mcap", "empty"] {
        let ended = run(&path(name), &[]);
        assert_eq!((ended.status, &*ended.output), (Some(3), ""), "{ended:?}");
        assert!(ended.errors.starts_with("bag_statistics: ") && ended.errors.contains(name), "{ended:?}");
    }
}

#[test]
fn a_bag_without_a_message_ends_it_with_1() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for bag in [mcap(&path("a.mcap"), &[]), sqlite(&path("a.db3"), &[])] {
        for arguments in [&[][..], &["--json"], &["--print-expectations"], &["--require", "rate>1"]] {
            let ended = run(&bag, arguments);
            assert_eq!((ended.status, ended.errors.is_empty()), (Some(1), false), "{arguments:?}: {ended:?}");
        }
    }
    let imu = mcap(&path("imu.mcap"), &regular("/imu", 10, 0, 3, 5));
    let ended = run(&imu, &["--topics", "/scan"]);
    assert_eq!(ended.status, Some(1), "{ended:?}");
    assert!(ended.errors.contains("there is no topic /scan in the bag"), "{ended:?}");
}

#[test]
fn a_file_that_is_cut_off_has_the_figures_of_what_can_be_read_and_ends_it_with_3() {
    let directory = tempfile::tempdir().unwrap();
    let bag = mcap(&directory.path().join("a.mcap"), &regular("/imu", 100, 0, 30, 5));
    let whole = fs::read(&bag).unwrap();
    fs::write(&bag, &whole[..whole.len() / 2]).unwrap();
    let ended = run(&bag, &["--json", "--require", "/imu: rate>=90"]);
    assert_eq!(ended.status, Some(3), "{ended:?}");
    assert!(ended.errors.contains("a.mcap: "), "{ended:?}");
    let received = ended.recording("/imu")["received"].as_u64().unwrap();
    assert!((500..2500).contains(&received), "{received}");
    assert!(ended.windows("/imu").iter().all(|window| window["rate"] == 100.0), "{ended:?}");
    assert!(!ended.errors.contains("rate>=90 failed"), "a missing end is no slow topic: {ended:?}");
}

#[test]
fn a_report_that_cannot_be_written_ends_it_with_3_before_the_bag_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let bag = mcap(&directory.path().join("a.mcap"), &regular("/imu", 10, 0, 3, 5));
    let page = directory.path().join("missing/page.html");
    let ended = run(&bag, &["--report", page.to_str().unwrap()]);
    assert_eq!((ended.status, &*ended.output), (Some(3), ""), "{ended:?}");
    assert!(ended.errors.contains("cannot write the report"), "{ended:?}");
}

#[test]
fn wrong_usage_ends_it_with_2() {
    let directory = tempfile::tempdir().unwrap();
    let bag = mcap(&directory.path().join("a.mcap"), &regular("/imu", 10, 0, 3, 5));
    for arguments in
        [&["--require", "rte>1"][..], &["--clock", "wall"], &["--window", "0"], &["--from", "soon"]]
    {
        let ended = run(&bag, arguments);
        assert_eq!((ended.status, &*ended.output), (Some(2), ""), "{arguments:?}: {ended:?}");
    }
    let none = Command::new(env!("CARGO_BIN_EXE_bag_statistics")).output().unwrap();
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn a_name_in_a_bag_reaches_no_terminal_unescaped() {
    let directory = tempfile::tempdir().unwrap();
    let bag = mcap(&directory.path().join("a.mcap"), &regular("/x\u{1b}[2J\u{202e}", 10, 0, 5, 5));
    for arguments in [&[][..], &["--plain"], &["--json"], &["--info"], &["--require", "rate>100"]] {
        let ended = run(&bag, arguments);
        assert!(!ended.output.contains(['\u{1b}', '\u{202e}']), "{arguments:?}: {ended:?}");
        assert!(!ended.errors.contains(['\u{1b}', '\u{202e}']), "{arguments:?}: {ended:?}");
        assert!(
            ended.output.contains("u{1b}") || ended.output.contains("\\u001b"),
            "{arguments:?}: {ended:?}"
        );
    }
}

#[test]
#[cfg(unix)]
fn a_reader_that_goes_away_is_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let bag = mcap(&directory.path().join("a.mcap"), &regular("/imu", 100, 0, 30, 5));
    let script = "\"$0\" \"$1\" --json --window 0.1 | head -n 1; exit ${PIPESTATUS[0]}";
    let output = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_bag_statistics"), bag.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
}
