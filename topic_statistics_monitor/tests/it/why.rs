// SPDX-License-Identifier: Apache-2.0

//! Tests of `--why` with rclpy nodes. The rules have unit tests.

use serde_json::json;
use test_support::{domain, middleware::is_no_dds, Program};

use crate::run::{command, objects, talker, text};

#[test]
fn a_pair_with_incompatible_qos_is_a_problem() {
    if is_no_dds("incompatible QoS") {
        return;
    }
    let mut publisher = Program::start("qos_publisher.py", &[], domain());
    let mut subscriber = Program::start("subscriber.py", &["--ros-args", "-r", "imu:=best_effort"], domain());
    publisher.request("count");
    subscriber.request("count");
    let ended = command(&["--why", "--json"], domain()).output().unwrap();
    let found = objects(&ended.stdout);
    let qos = &found[0];
    assert_eq!((&qos["finding"], &qos["level"]), (&json!("qos"), &json!("problem")), "{found:#?}");
    let nodes = json!(["/subscriber", "/qos_publisher"]);
    assert_eq!((&qos["topic"], &qos["nodes"]), (&json!("/best_effort"), &nodes));
    assert_eq!(found.last().unwrap()["looked_at"]["problems"], 1, "{found:#?}");
    assert_eq!(ended.status.code(), Some(1));
}

#[test]
fn healthy_nodes_give_one_line() {
    let _talker = talker(domain());
    let mut subscriber = Program::start("subscriber.py", &[], domain());
    test_support::wait_for("messages", || subscriber.request("count") != "0");
    let ended = command(&["--why"], domain()).output().unwrap();
    let (output, errors) = (text(&ended.stdout), text(&ended.stderr));
    assert_eq!((output.lines().count(), ended.status.code(), &*errors), (1, Some(0), ""), "{output}{errors}");
    assert!(output.starts_with("no problem: looked at 2 nodes and "), "{output}");
    assert!(output.contains(" s, and listened to 1 of them; --all shows "), "{output}");
}
