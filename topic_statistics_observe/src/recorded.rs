// SPDX-License-Identifier: Apache-2.0

//! The metadata that `topic_monitor --record` writes into an MCAP file in addition to the messages: metadata of the
//! channels, from which `bag_statistics` finds lost messages, and the recorder's totals.

use std::collections::BTreeMap;

/// The key in a channel's metadata whose value tells the meaning of the field `sequence` of MCAP messages. The only
/// defined value is [`PUBLICATION_SEQUENCE_NUMBER`].
pub const SEQUENCE: &str = "topic_statistics:sequence";

/// The value of [`SEQUENCE`] if `sequence` is the lower 32 bits of the publication sequence number.
pub const PUBLICATION_SEQUENCE_NUMBER: &str = "publication_sequence_number";

/// The metadata key of the publisher's GID: 16 bytes as 32 hexadecimal digits.
pub const PUBLISHER_GID: &str = "topic_statistics:publisher_gid";

/// The metadata key of the fully qualified name of the publisher's node. The key is missing if the node is unknown.
pub const PUBLISHER_NODE: &str = "topic_statistics:publisher_node";

/// The metadata key of the publishers' QoS: a YAML sequence, as rosbag2 writes it.
pub const OFFERED_QOS: &str = "offered_qos_profiles";

/// The name of a record with a topic's totals. A later record replaces an earlier record of the same topic and scope.
pub const TOTALS: &str = "topic_statistics:totals";

/// The name of the metadata record that describes a file of the black box. A later record replaces an earlier record.
pub const BLACK_BOX: &str = "topic_statistics:black_box";

/// The name of a metadata record about a trigger: why and when the black box (`--last`) had to write messages.
pub const TRIGGER: &str = "topic_statistics:trigger";

/// The files whose messages are counted in totals: one file, or the whole recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    File,
    /// All files of the recording up to the file with the totals.
    Recording,
}

/// The messages of a topic that a recorder has written or lost.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedTotals {
    pub topic: String,
    /// The files whose messages are counted.
    pub scope: Scope,
    pub messages_recorded: u64,
    /// The number of messages that are missing in the publishers' sequence numbers. `None` if the middleware provides
    /// no sequence numbers.
    pub messages_lost_in_transport: Option<u64>,
    /// The number of messages that the recorder received but did not write, because its queue or the disk was full.
    pub messages_lost_in_recorder: u64,
    /// The size of the messages written, in bytes, before compression.
    pub bytes_written: u64,
    /// The rate of the messages written, from the first to the last message, in Hz. NaN with fewer than two messages.
    pub messages_rate: f64,
}

impl Scope {
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Recording => "recording",
        }
    }
}

impl RecordedTotals {
    /// Returns the totals as the metadata of an MCAP record. Unknown values are left out.
    pub fn to_metadata(&self) -> BTreeMap<String, String> {
        let fields = [
            ("topic", Some(self.topic.clone())),
            ("scope", Some(self.scope.name().to_owned())),
            ("messages_recorded", Some(self.messages_recorded.to_string())),
            ("messages_lost_in_transport", self.messages_lost_in_transport.map(|lost| lost.to_string())),
            ("messages_lost_in_recorder", Some(self.messages_lost_in_recorder.to_string())),
            ("bytes_written", Some(self.bytes_written.to_string())),
            ("messages_rate", (!self.messages_rate.is_nan()).then(|| self.messages_rate.to_string())),
        ];
        fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }

    /// Reads totals from the metadata of an MCAP record. `None` if the metadata contains no valid totals.
    pub fn from_metadata(metadata: &BTreeMap<String, String>) -> Option<Self> {
        let text = |key: &str| metadata.get(key).map(String::as_str);
        let number = |key: &str| text(key)?.parse::<u64>().ok();
        let scope =
            [Scope::File, Scope::Recording].into_iter().find(|scope| text("scope") == Some(scope.name()))?;
        let lost = match text("messages_lost_in_transport") {
            Some(lost) => Some(lost.parse().ok()?),
            None => None,
        };
        let rate = text("messages_rate").and_then(|rate| rate.parse().ok());
        Some(Self {
            topic: text("topic")?.to_owned(),
            scope,
            messages_recorded: number("messages_recorded")?,
            messages_lost_in_transport: lost,
            messages_lost_in_recorder: number("messages_lost_in_recorder")?,
            bytes_written: number("bytes_written")?,
            messages_rate: rate.filter(|rate: &f64| rate.is_finite() && *rate >= 0.0).unwrap_or(f64::NAN),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_no_number_is_no_total() {
        let totals = RecordedTotals {
            topic: "/imu".to_owned(),
            scope: Scope::Recording,
            messages_recorded: 1000,
            messages_lost_in_transport: Some(3),
            messages_lost_in_recorder: 2,
            bytes_written: 340_000,
            messages_rate: 99.875,
        };
        let read = |totals: &RecordedTotals| RecordedTotals::from_metadata(&totals.to_metadata());
        assert_eq!(read(&totals).as_ref(), Some(&totals));
        let unknown =
            RecordedTotals { messages_lost_in_transport: None, scope: Scope::File, ..totals.clone() };
        assert_eq!(read(&unknown).as_ref(), Some(&unknown));
        let single = RecordedTotals { messages_rate: f64::NAN, ..totals.clone() };
        assert!(read(&single).unwrap().messages_rate.is_nan());
        for (key, value) in [
            ("messages_lost_in_transport", "some"),
            ("messages_recorded", "-1"),
            ("bytes_written", ""),
            ("scope", "other"),
        ] {
            let mut metadata = totals.to_metadata();
            metadata.insert(key.to_owned(), value.to_owned());
            assert_eq!(RecordedTotals::from_metadata(&metadata), None, "{key}");
        }
        assert_eq!(RecordedTotals::from_metadata(&BTreeMap::new()), None);
    }
}
