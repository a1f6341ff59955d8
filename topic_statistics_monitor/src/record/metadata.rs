// SPDX-License-Identifier: Apache-2.0

//! The metadata of a bag in the format of rosbag2. This module creates it for each MCAP file, and for the file
//! metadata.yaml of a split recording.

use std::{
    fs::File,
    io::{self, ErrorKind, Write},
    path::Path,
    time::Duration,
};

use rclrs::{QoSDuration, QoSHistoryPolicy, QoSProfile};
use serde_json::{json, Value};

#[derive(Clone, Debug)]
pub struct FileInfo {
    pub name: String,
    /// The earliest and the latest log time in the file. `None` without a message.
    pub times: Option<(u64, u64)>,
    pub messages: u64,
}

pub struct TopicInfo<'a> {
    pub name: &'a str,
    pub message_type: &'a str,
    pub type_hash: Option<&'a str>,
    /// The QoS of the topic's publishers: a text up to version 8 of the metadata, a list from version 9 on.
    pub qos: Value,
    pub messages: u64,
}

/// Returns the metadata of a bag as JSON, which is also valid YAML. Up to version 8, the policies of a QoS are numbers.
pub fn encode<'a>(version: u32, files: &[FileInfo], topics: impl Iterator<Item = TopicInfo<'a>>) -> Value {
    let duration = |start: u64, stop: u64| json!({ "nanoseconds": stop - start });
    let time = |time: u64| json!({ "nanoseconds_since_epoch": time });
    let times = files.iter().filter_map(|file| file.times);
    let all = times.reduce(|(start, stop), (first, last)| (start.min(first), stop.max(last)));
    let (start, stop) = all.unwrap_or_default();
    let topics = topics.map(|TopicInfo { name, message_type, type_hash, qos, messages }| {
        json!({
            "topic_metadata": {
                "name": name,
                "type": message_type,
                "serialization_format": "cdr",
                "offered_qos_profiles": qos,
                "type_description_hash": type_hash.unwrap_or_default(),
            },
            "message_count": messages,
        })
    });
    let information = |file: &FileInfo| {
        let (start, stop) = file.times.unwrap_or_default();
        json!({
            "path": file.name,
            "starting_time": time(start),
            "duration": duration(start, stop),
            "message_count": file.messages,
        })
    };
    json!({
        "version": version,
        "storage_identifier": "mcap",
        "duration": duration(start, stop),
        "starting_time": time(start),
        "message_count": files.iter().map(|file| file.messages).sum::<u64>(),
        "topics_with_message_count": topics.collect::<Vec<_>>(),
        "compression_format": "",
        "compression_mode": "",
        "relative_file_paths": files.iter().map(|file| &file.name).collect::<Vec<_>>(),
        "files": files.iter().map(information).collect::<Vec<_>>(),
        "custom_data": {},
        "ros_distro": distribution(),
    })
}

pub fn distribution() -> String {
    std::env::var("ROS_DISTRO").unwrap_or_default()
}

/// Writes metadata.yaml of a split recording. Returns `false` if the directory has a metadata.yaml of another bag.
pub fn write<'a>(
    directory: &Path,
    files: &[FileInfo],
    topics: impl Iterator<Item = TopicInfo<'a>>,
) -> io::Result<bool> {
    const VERSION: u32 = 9;
    let mut file = match File::options().write(true).create_new(true).open(directory.join("metadata.yaml")) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
        opened => opened?,
    };
    let metadata = json!({ "rosbag2_bagfile_information": encode(VERSION, files, topics) });
    writeln!(file, "{metadata:#}")?;
    file.sync_all()?;
    Ok(true)
}

/// Returns QoS profiles without duplicates, as the value of rosbag2's `offered_qos_profiles`: JSON, which is also valid
/// YAML. Policies are the numbers of `rmw/types.h`, which all versions of rosbag2 can read. With `has_names`, policies
/// are names.
pub fn offered_qos<'a>(profiles: impl IntoIterator<Item = &'a QoSProfile>, has_names: bool) -> Value {
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
        let mut profile = encode_qos(profile);
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

fn encode_qos(profile: &QoSProfile) -> Value {
    // RMW_QOS_POLICY_HISTORY_UNKNOWN
    const UNKNOWN: u32 = 3;
    let (history, depth) = match profile.history {
        QoSHistoryPolicy::SystemDefault { depth } => (0, depth),
        // Discovery does not report the history policy, so rclrs returns a depth of 0, and rosbag2 writes that the
        // policy is unknown.
        QoSHistoryPolicy::KeepLast { depth: 0 } => (UNKNOWN, 0),
        QoSHistoryPolicy::KeepLast { depth } => (1, depth),
        QoSHistoryPolicy::KeepAll => (2, 0),
    };
    json!({
        "history": history,
        "depth": depth,
        "reliability": profile.reliability as u8,
        "durability": profile.durability as u8,
        "deadline": qos_time(profile.deadline),
        "lifespan": qos_time(profile.lifespan),
        "liveliness": profile.liveliness as u8,
        "liveliness_lease_duration": qos_time(profile.liveliness_lease),
        "avoid_ros_namespace_conventions": profile.avoid_ros_namespace_conventions,
    })
}

/// Returns a duration as a `rmw_time_t`. Zero means the default of the middleware.
fn qos_time(duration: QoSDuration) -> Value {
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
    use std::fs;

    #[test]
    fn a_split_recording_has_the_metadata_of_rosbag2_version_9() {
        let file = |number: u64, times| FileInfo { name: format!("run_{number}.mcap"), times, messages: 100 };
        let files = [file(0, Some((1000, 2000))), file(1, Some((1900, 3000))), file(2, None)];
        let topics = || {
            let qos = json!([{ "history": "unknown" }]);
            let (name, message_type) = ("/topic", "std_msgs/msg/Empty");
            [TopicInfo { name, message_type, type_hash: Some("RIHS01_0"), qos, messages: 300 }].into_iter()
        };
        let directory = tempfile::tempdir().unwrap();
        assert!(write(directory.path(), &files, topics()).unwrap());
        let path = directory.path().join("metadata.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let root: Value = serde_json::from_str(&text).unwrap();
        for (value, expected) in [
            ("/version", json!(9)),
            ("/message_count", json!(300)),
            ("/relative_file_paths", json!(["run_0.mcap", "run_1.mcap", "run_2.mcap"])),
            ("/starting_time/nanoseconds_since_epoch", json!(1000)),
            ("/duration/nanoseconds", json!(2000)),
            ("/files/1/duration/nanoseconds", json!(1100)),
            ("/topics_with_message_count/0/message_count", json!(300)),
            ("/topics_with_message_count/0/topic_metadata/offered_qos_profiles/0/history", json!("unknown")),
            ("/topics_with_message_count/0/topic_metadata/type_description_hash", json!("RIHS01_0")),
            ("/topics_with_message_count/1", Value::Null),
        ] {
            let found = root["rosbag2_bagfile_information"].pointer(value).unwrap_or(&Value::Null);
            assert_eq!(*found, expected, "{value}");
        }
        fs::write(&path, "another bag").unwrap();
        assert!(!write(directory.path(), &files, topics()).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "another bag");
    }

    #[test]
    fn each_profile_is_written_once_with_the_numbers_of_rmw() {
        let discovered = QoSProfile::topics_default().keep_last(0);
        let imu = QoSProfile::sensor_data_default().keep_last(5);
        let map = QoSProfile::topics_default().keep_last(1).transient_local();
        let value = offered_qos([&imu, &map, &imu, &discovered], false);
        let policies = |profile: &Value| {
            ["history", "depth", "reliability", "durability"].map(|key| profile[key].as_u64().unwrap())
        };
        let profiles = value.as_array().unwrap();
        assert_eq!(profiles.len(), 3);
        assert_eq!(policies(&profiles[0]), [1, 5, 2, 2]);
        assert_eq!(policies(&profiles[1]), [1, 1, 1, 1]);
        assert_eq!(policies(&profiles[2]), [3, 0, 1, 2], "the history is unknown");
        let named = offered_qos([&imu, &map, &imu, &discovered], true);
        let policies = ["history", "reliability", "durability", "liveliness"].map(|key| &named[2][key]);
        assert_eq!(policies, ["unknown", "reliable", "volatile", "system_default"]);
        assert_eq!((&named[1]["durability"], &named[0]["depth"]), (&json!("transient_local"), &json!(5)));
        let infinite = qos_time(QoSDuration::Infinite);
        assert_eq!(infinite, json!({ "sec": 9_223_372_036_u64, "nsec": 854_775_807 }));
    }
}
