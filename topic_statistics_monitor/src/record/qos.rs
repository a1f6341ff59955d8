// SPDX-License-Identifier: Apache-2.0

//! The QoS of publishers, as rosbag2 writes it.

use std::time::Duration;

use rclrs::{QoSDuration, QoSHistoryPolicy, QoSProfile};
use serde_json::{json, Value};

/// Returns profiles as the value of `offered_qos_profiles`, each one once: JSON, which is YAML.
///
/// Policies are the numbers of `rmw/types.h`: all versions of rosbag2 read these, and later ones names, too.
pub fn offered<'a>(profiles: impl IntoIterator<Item = &'a QoSProfile>) -> String {
    let mut unique: Vec<Value> = vec![];
    for profile in profiles {
        let profile = encode(profile);
        if !unique.contains(&profile) {
            unique.push(profile);
        }
    }
    Value::Array(unique).to_string()
}

fn encode(profile: &QoSProfile) -> Value {
    // RMW_QOS_POLICY_HISTORY_UNKNOWN
    const UNKNOWN: u32 = 3;
    let (history, depth) = match profile.history {
        QoSHistoryPolicy::SystemDefault { depth } => (0, depth),
        // Discovery does not tell a publisher's history: rclrs has it as a depth of 0, rosbag2 as unknown.
        QoSHistoryPolicy::KeepLast { depth: 0 } => (UNKNOWN, 0),
        QoSHistoryPolicy::KeepLast { depth } => (1, depth),
        QoSHistoryPolicy::KeepAll => (2, 0),
    };
    json!({
        "history": history,
        "depth": depth,
        "reliability": profile.reliability as u8,
        "durability": profile.durability as u8,
        "deadline": time(profile.deadline),
        "lifespan": time(profile.lifespan),
        "liveliness": profile.liveliness as u8,
        "liveliness_lease_duration": time(profile.liveliness_lease),
        "avoid_ros_namespace_conventions": profile.avoid_ros_namespace_conventions,
    })
}

/// Returns a `rmw_time_t`: zero is the default of the middleware.
fn time(duration: QoSDuration) -> Value {
    // RMW_DURATION_INFINITE
    const INFINITE: Duration = Duration::from_nanos(i64::MAX as u64);
    let duration = match duration {
        QoSDuration::SystemDefault => Duration::ZERO,
        QoSDuration::Infinite => INFINITE,
        QoSDuration::Custom(duration) => duration,
    };
    json!({ "sec": duration.as_secs(), "nsec": duration.subsec_nanos() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_profile_is_written_once_with_the_numbers_of_rmw() {
        let discovered = QoSProfile::topics_default().keep_last(0);
        let imu = QoSProfile::sensor_data_default().keep_last(5);
        let map = QoSProfile::topics_default().keep_last(1).transient_local();
        let value: Value = serde_json::from_str(&offered([&imu, &map, &imu, &discovered])).unwrap();
        let policies = |profile: &Value| {
            ["history", "depth", "reliability", "durability"].map(|key| profile[key].as_u64().unwrap())
        };
        let profiles = value.as_array().unwrap();
        assert_eq!(profiles.len(), 3);
        assert_eq!(policies(&profiles[0]), [1, 5, 2, 2]);
        assert_eq!(policies(&profiles[1]), [1, 1, 1, 1]);
        assert_eq!(policies(&profiles[2]), [3, 0, 1, 2], "the history is unknown");
        let infinite = time(QoSDuration::Infinite);
        assert_eq!(infinite, json!({ "sec": 9_223_372_036_u64, "nsec": 854_775_807 }));
    }
}
