// SPDX-License-Identifier: Apache-2.0

//! A preloaded process judges its subscriptions, and publishes their health.

use std::collections::BTreeSet;

use test_support::{domain, Program};

use crate::start;

/// Reads /diagnostics up to an array with exactly these statuses.
fn wait_for_statuses(reader: &Program, expected: &[&str]) {
    let expected: BTreeSet<&str> = expected.iter().copied().collect();
    loop {
        let line = reader.read("statuses");
        let names = line.split("\"name\": \"").skip(1).filter_map(|rest| rest.split('"').next());
        if names.collect::<BTreeSet<_>>() == expected {
            return;
        }
    }
}

#[test]
fn statuses_of_two_nodes_outlive_the_node_with_the_publisher() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "topics: {imu: {}, /not_used_here: {}}").unwrap();
    let reader = Program::start("diagnostics.py", &[], domain());
    let options = [("EXPECT", file.path().to_str().unwrap()), ("PERIOD", "0.3")];
    let mut nodes = start("subscriber.py", &["--nodes", "2", "--destroy-first"], &options);
    wait_for_statuses(&reader, &["subscriber: /imu", "subscriber_1: /imu"]);
    nodes.request("destroy the first one");
    wait_for_statuses(&reader, &["subscriber_1: /imu"]);
}
