// SPDX-License-Identifier: Apache-2.0

//! The interface package statistics_msgs of the sourced ROS 2, or of this project if ROS 2 has none.

use std::{env, fs};

#[test]
fn metrics_message_has_upstreams_type_hash() {
    let prefixes = env::var_os("AMENT_PREFIX_PATH").expect("a sourced ROS 2");
    let file = env::split_paths(&prefixes)
        .map(|prefix| prefix.join("share/statistics_msgs/msg/MetricsMessage.json"))
        .find(|file| file.is_file())
        .expect("statistics_msgs in a prefix on AMENT_PREFIX_PATH");

    let description: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();

    let hashes = description["type_hashes"].as_array().unwrap();
    let own = hashes.iter().find(|hash| hash["type_name"] == "statistics_msgs/msg/MetricsMessage").unwrap();
    assert_eq!(
        own["hash_string"],
        "RIHS01_36a67fb499fc2a11b8b9ff9ac735ed76e8d5a1f7775d6d5b97b625188ec68e20",
        "{}",
        file.display()
    );
}
