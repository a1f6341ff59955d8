// SPDX-License-Identifier: Apache-2.0

//! The verbs of the package ros2topicstats.

use std::process::Command;

use crate::output;

/// Runs the package's own tests. The tests that need ros2cli are skipped on a ROS 2 without ros2cli.
#[test]
fn the_verbs_of_ros2_pass_their_tests() {
    let mut tests = Command::new("python3");
    tests.args(["-B", "-m", "unittest", "discover", "test"]);
    tests.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../ros2topicstats"));
    let (passed, text) = output(&mut tests);
    assert!(passed, "{text}");
}
