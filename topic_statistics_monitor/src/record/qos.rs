// SPDX-License-Identifier: Apache-2.0

//! The QoS of publishers, in the form that rosbag2 writes.

use std::time::Duration;

use rclrs::{QoSDuration, QoSHistoryPolicy, QoSProfile};
use serde_json::{json, Value};

/// Returns QoS profiles, without duplicates, as the value of `offered_qos_profiles`, which is also valid YAML.
///
/// Policies are written as the numbers of `rmw/types.h`, because all versions of rosbag2 can read numbers, or with
/// `has_names` as names, which newer versions of rosbag2 can read.
pub fn offered<'a>(profiles: impl IntoIterator<Item = &'a QoSProfile>, has_names: bool) -> Value {
    let names: [(&str, &[&str]); 4] = [
        ("history", &["system_default", "keep_last", "keep_all", "unknown"]),
        ("reliability", &["system_default", "reliable", "best_effort", "unknown", "best_available"]),
        ("durability", &["system_default", "transient_local", "volatile", "unknown", "best_available"]),
        (
            "liveliness",
            &["system_default", "automatic", "unknown", "manual_by_topic", "unknown", "best_available"],
        ),
    ];
    let mut unique: Vec<Value> = vec![];
    for profile in profiles {
        let mut profile = encode(profile);
        for (key, names) in names.into_iter().filter(|_| has_names) {
            let number = profile[key].as_u64().and_then(|number| usize::try_from(number).ok());
            profile[key] = number.and_then(|number| names.get(number)).copied().unwrap_or("unknown").into();
        }
        if !unique.contains(&profile) {
            unique.push(profile);
        }
    }
    unique.into()
}

fn encode(profile: &QoSProfile) -> Value {
    // RMW_QOS_POLICY_HISTORY_UNKNOWN
    const UNKNOWN: u32 = 3;
    let (history, depth) = match profile.history {
        QoSHistoryPolicy::SystemDefault { depth } => (0, depth),
        // Discovery does not report a publisher's history, so rclrs returns a depth of 0. rosbag2 writes an unknown
        // history in this case.
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

/// Returns a duration as a `rmw_time_t`. Zero means the default of the middleware.
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
        let value = offered([&imu, &map, &imu, &discovered], false);
        let policies = |profile: &Value| {
            ["history", "depth", "reliability", "durability"].map(|key| profile[key].as_u64().unwrap())
        };
        let profiles = value.as_array().unwrap();
        assert_eq!(profiles.len(), 3);
        assert_eq!(policies(&profiles[0]), [1, 5, 2, 2]);
        assert_eq!(policies(&profiles[1]), [1, 1, 1, 1]);
        assert_eq!(policies(&profiles[2]), [3, 0, 1, 2], "the history is unknown");
        let named = offered([&imu, &map, &imu, &discovered], true);
        let policies = ["history", "reliability", "durability", "liveliness"].map(|key| &named[2][key]);
        assert_eq!(policies, ["unknown", "reliable", "volatile", "system_default"]);
        assert_eq!((&named[1]["durability"], &named[0]["depth"]), (&json!("transient_local"), &json!(5)));
        let infinite = time(QoSDuration::Infinite);
        assert_eq!(infinite, json!({ "sec": 9_223_372_036_u64, "nsec": 854_775_807 }));
    }
}
