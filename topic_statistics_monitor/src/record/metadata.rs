// SPDX-License-Identifier: Apache-2.0

//! The metadata of a bag in the format of rosbag2: in each file, and in the file metadata.yaml of a split recording.

use std::{
    fs::File,
    io::{self, ErrorKind, Write},
    path::Path,
};

use serde_json::{json, Value};

use super::topic::RecordedTopic;

#[derive(Clone, Debug)]
pub struct FileInfo {
    pub name: String,
    /// The earliest and the latest log time in the file. `None` without a message.
    pub times: Option<(u64, u64)>,
    pub messages: u64,
}

pub struct TopicInfo<'a> {
    pub topic: &'a RecordedTopic,
    /// The QoS of the topic's publishers, in the form of the metadata's version: a text up to version 8, and a list
    /// from version 9 on.
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
    let topics = topics.map(|TopicInfo { topic, qos, messages }| {
        json!({
            "topic_metadata": {
                "name": topic.name,
                "type": topic.message_type,
                "serialization_format": "cdr",
                "offered_qos_profiles": qos,
                "type_description_hash": topic.definition.type_hash.as_deref().unwrap_or_default(),
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

/// Writes metadata.yaml of a split recording, so that `ros2 bag` can read the directory. Returns whether the file was
/// written. An existing metadata.yaml belongs to another bag, so it is not changed.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{queue::Queue, topic::tests};
    use std::{fs, sync::Arc};

    #[test]
    fn a_split_recording_has_the_metadata_of_rosbag2_version_9() {
        let topic = tests::topic(0, &Arc::new(Queue::new(1000)));
        let file = |number: u64, times| FileInfo { name: format!("run_{number}.mcap"), times, messages: 100 };
        let files = [file(0, Some((1000, 2000))), file(1, Some((1900, 3000))), file(2, None)];
        let topics = || {
            let qos = json!([{ "history": "unknown" }]);
            [TopicInfo { topic: &topic, qos, messages: 300 }].into_iter()
        };
        let directory = tempfile::tempdir().unwrap();
        assert!(write(directory.path(), &files, topics()).unwrap());
        let path = directory.path().join("metadata.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let root: Value = serde_json::from_str(&text).unwrap();
        let bag = &root["rosbag2_bagfile_information"];
        assert_eq!((&bag["version"], &bag["message_count"]), (&json!(9), &json!(300)));
        assert_eq!(bag["relative_file_paths"], json!(["run_0.mcap", "run_1.mcap", "run_2.mcap"]));
        assert_eq!(bag["starting_time"]["nanoseconds_since_epoch"], 1000);
        assert_eq!(bag["duration"]["nanoseconds"], 2000);
        assert_eq!(bag["files"][1]["duration"]["nanoseconds"], 1100);
        let listed = bag["topics_with_message_count"].as_array().unwrap();
        assert_eq!((listed.len(), &listed[0]["message_count"]), (1, &json!(300)));
        assert_eq!(listed[0]["topic_metadata"]["offered_qos_profiles"][0]["history"], "unknown");

        fs::write(&path, "another bag").unwrap();
        assert!(!write(directory.path(), &files, topics()).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "another bag");
    }
}
