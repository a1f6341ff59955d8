// SPDX-License-Identifier: Apache-2.0

//! The library does not change what its host (the preloaded process) does. After an error, the library prints one line.

use std::process::Command;

use crate::{hide_package, output, preloaded, python, run_silently};

#[test]
fn a_process_without_ros_is_untouched() {
    // In a process without ROS, the library does not read its options, so it does not report a wrong option.
    for (program, arguments) in [("true", &[][..]), ("python3", &["-c", "import rclpy; raise SystemExit(5)"])]
    {
        let mut command = Command::new(program);
        let plain = output(command.args(arguments));
        preloaded(&mut command, &[("PERIOD", "0")]);
        assert_eq!(output(&mut command), plain);
    }
    let mut command = Command::new("python3");
    preloaded(command.args(["-c", "import os; print(len(os.listdir('/proc/self/task')))"]), &[]);
    assert_eq!(output(&mut command), (Some(0), "1\n".to_owned(), String::new()));
}

#[test]
fn what_is_wrong_is_said_in_one_line_and_the_process_runs() {
    let script = "does('wcp', case('in'))\nrmw.call(long(1), 0)\nprint('done')";
    let assert_said = |mut command: Command, options: &[(&str, &str)], expected: &str| {
        preloaded(&mut command, options);
        let (status, printed, errors) = output(&mut command);
        assert_eq!((status, &*printed), (Some(0), "done\n"), "{errors}");
        let is_begun =
            expected.is_empty() || errors.starts_with("topic_statistics: no topic statistics in process ");
        assert!(is_begun && errors.contains(expected), "{expected}: {errors}");
        assert_eq!(errors.lines().count(), usize::from(!expected.is_empty()), "{errors}");
    };
    let Some(command) = python(script) else { return };
    let expected = "TOPIC_STATISTICS_PERIOD is \"-1\": a number of seconds is expected, 0.001 to 86400";
    assert_said(command, &[("PERIOD", "-1")], expected);
    assert_said(python(script).unwrap(), &[], "");
    let mut without = python(script).unwrap();
    let _libraries = hide_package(&mut without, "statistics_msgs");
    assert_said(without, &[], "the package statistics_msgs is not found");
}

#[test]
fn a_fork_at_any_moment_and_an_exit_while_windows_end() {
    // If a message is published while the middleware ends, the middleware aborts the process. If a child waits forever
    // for a lock of the statistics, the child's alarm kills the child.
    let script = "
import signal
publisher = advertise('/own_out')
for _ in range(1000):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        rmw.publish(publisher, long(1000))
        os._exit(len(os.listdir('/proc/self/task')))
    rmw.publish(publisher, long(100))
    status = os.waitpid(child, 0)[1]
    assert os.waitstatus_to_exitcode(status) == 1, status
";
    let Some(windows) = run_silently(script, &[("PERIOD", "0.001")]) else { return };
    let published = windows.total("/own_out", "publish_duration_ms").0;
    assert_eq!(published, 100_000.0, "the statistics of the parent go on");
}
