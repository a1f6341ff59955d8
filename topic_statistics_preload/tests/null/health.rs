// SPDX-License-Identifier: Apache-2.0

//! The file of expectations, and the conditions in the file that a process cannot judge.

use std::fs;

use crate::{hide_package, output, preloaded, python, run, run_silently, Windows};

const SUBSCRIBE: &str = "subscribe('/imu')\nsubscribe('/own_text', of=type_of('std_msgs', 'msg', 'Int32'))\n";

/// Runs a process with a file of expectations. Returns what the process prints on standard error. Asserts that the
/// process publishes windows.
fn judge(file: &str) -> Option<String> {
    let path = tempfile::NamedTempFile::new().unwrap();
    fs::write(&path, file).unwrap();
    let (windows, errors) = run(SUBSCRIBE, &[("EXPECT", path.path().to_str().unwrap())])?;
    assert!(!windows.samples("/imu", "message_age").is_empty(), "the windows continue");
    Some(errors.replace(path.path().to_str().unwrap(), "FILE"))
}

#[test]
fn a_wrong_file_is_named_once_and_the_windows_continue() {
    let Some(errors) = judge("topics: {imu: {error_unless: rte>=50}}") else { return };
    let expected = "topic_statistics: no health: TOPIC_STATISTICS_EXPECT FILE: line 1, column 30: ";
    assert!(errors.starts_with(expected) && errors.lines().count() == 1, "{errors}");
}

#[test]
fn conditions_of_a_name_that_are_not_judged_are_named() {
    let file = "topics:\n  imu: {warn_unless: 'publishers=1 callback_duration_ms<5 age<5s'}\n  own_text: {error_unless: \
                age<1}\n  '/**': {error_unless: callback_duration_ms<9}\n  /not_here: {error_unless: rate>=1}";
    let Some(errors) = judge(file) else { return };
    let expected = [
        "publishers=1 of /measured:/imu is not judged: a node does not count the publishers of a topic; \
         topic_monitor does",
        "age<1 of /measured:/own_text is not judged: /measured:/own_text does not measure message_age, because its \
         type has no header",
    ];
    let lines: Vec<_> = errors.lines().map(|line| line.strip_prefix("topic_statistics: ").unwrap()).collect();
    assert_eq!(lines, expected);
}

#[test]
fn conditions_choose_the_metrics_that_they_need() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(&file, "topics: {r1/imu: {error_unless: lost=0}, /imu: {error_unless: silent<9s}}").unwrap();
    let path = file.path().to_str().unwrap();
    let gap = |namespace: &str| {
        let options = [("EXPECT", path), ("EXPECT_NAMESPACE", namespace), ("METRICS", "message_age")];
        let windows = run_silently("subscribe('/own_ns/r1/imu')\nsubscribe('/imu')\n", &options)?;
        let has = |source: &str, metric: &str| !windows.samples(source, metric).is_empty();
        assert!(has("/imu", "time_since_last_message_ms") && !has("/imu", "publication_seq_gap"));
        Some(has("/own_ns/r1/imu", "publication_seq_gap"))
    };
    if let (Some(same), Some(other)) = (gap("/own_ns"), gap("/other")) {
        assert_eq!((same, other), (true, false));
    }
}

#[test]
fn without_diagnostic_msgs_nothing_is_judged() {
    let Some(mut command) = python(&[SUBSCRIBE, "\nwait_for_windows()\n"].concat()) else { return };
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(&file, "topics: {imu: {}}").unwrap();
    let _libraries = hide_package(&mut command, "diagnostic_msgs");
    preloaded(&mut command, &[("PERIOD", "0.05"), ("EXPECT", file.path().to_str().unwrap())]);
    let (status, printed, errors) = output(command.env("PRINT_STATISTICS", "1"));
    let missing = "topic_statistics: no health: the package diagnostic_msgs is not found \
                   (libdiagnostic_msgs__rosidl_typesupport_c.so)\n";
    assert_eq!((status, &*errors), (Some(0), missing));
    assert!(!Windows(printed).samples("/imu", "message_age").is_empty(), "the windows continue");
}

#[test]
fn ages_on_simulated_time_raise_nothing() {
    const RECEIVE: &str = "
timed = case('clock')
clock = subscribe('/clock', of=type_of('rosgraph_msgs', 'msg', 'Clock'))
for _ in range(100):
    does('wc', timed)
    time.sleep(0.005)
";
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(&file, "topics: {own_clock_in: {error_unless: age>=0, stale_after: never}}").unwrap();
    let Some(windows) = run_silently(RECEIVE, &[("EXPECT", file.path().to_str().unwrap())]) else { return };
    assert!(windows.total("/own_clock_in", "message_period").0 > 0.0, "messages were judged");
}
