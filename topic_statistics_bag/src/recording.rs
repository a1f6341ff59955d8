// SPDX-License-Identifier: Apache-2.0

//! Information in a file about the recording itself: compression, types, QoS, and the recorder's own totals.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use topic_statistics_observe::recorded::{RecordedTotals, Scope, TOTALS};

/// The information in the files of a bag about the recording itself.
#[derive(Debug, Default)]
pub struct RecordingInfo {
    /// The compression algorithms of the chunks in MCAP files: `lz4`, `zstd`, or empty for uncompressed chunks.
    pub compressions: BTreeSet<String>,
    pub topics: BTreeMap<String, RecordedTopic>,
    /// The totals that the recorder has written in each file, in the order of the files. A file without such totals is
    /// left out.
    pub totals: Vec<FileTotals>,
}

#[derive(Debug, Default)]
pub struct RecordedTopic {
    /// The encoding of the type's definition: `ros2msg` or `ros2idl`. Empty if there is no definition.
    pub encoding: String,
    /// The QoS of the publishers, as YAML texts that rosbag2 writes. Equal texts occur only once.
    pub offered_qos: Vec<String>,
}

/// The totals that the recorder has written in a file.
#[derive(Debug)]
pub struct FileTotals {
    pub path: PathBuf,
    /// The totals by scope and topic. The scope is this file only, or all files up to this file.
    pub totals: BTreeMap<(Scope, String), RecordedTotals>,
}

impl RecordingInfo {
    /// The largest metadata record that is read, in bytes.
    pub(crate) const MAX_RECORD: u64 = 1 << 16;
    const MAX_COMPRESSIONS: usize = 8;
    const MAX_QOS: usize = 256;
    const MAX_TOTALS: usize = 1 << 13;
    /// The longest stored name of an encoding, in characters.
    const MAX_ENCODING: usize = 32;
    /// The longest stored QoS text, in bytes.
    const MAX_QOS_LENGTH: usize = 1 << 15;

    /// Returns the totals of the whole recording for each topic. In a split recording, each file has the totals of all
    /// files up to this file. So if a topic has several totals, the totals with the most messages are returned.
    pub fn whole(&self) -> Vec<&RecordedTotals> {
        let mut whole: BTreeMap<_, &RecordedTotals> = BTreeMap::new();
        let count = |totals: &RecordedTotals| {
            let lost = totals.messages_lost_in_transport.unwrap_or(0);
            totals.messages_recorded.saturating_add(lost).saturating_add(totals.messages_lost_in_recorder)
        };
        for totals in self.totals.iter().flat_map(|file| file.totals.values()) {
            let is_later = whole.get(&totals.topic).is_none_or(|other| count(totals) >= count(other));
            if totals.scope == Scope::Recording && is_later {
                whole.insert(&totals.topic, totals);
            }
        }
        whole.into_values().collect()
    }

    pub(crate) fn add_compression(&mut self, name: &[u8]) {
        let name = String::from_utf8_lossy(name);
        if self.compressions.len() < Self::MAX_COMPRESSIONS && !self.compressions.contains(&*name) {
            self.compressions.insert(name.into_owned());
        }
    }

    /// Adds the information of a channel whose topic is read. The number of topics that are read is limited, so the
    /// number of entries here is limited too.
    pub(crate) fn add_channel(&mut self, topic: &str, encoding: &str, qos: &str) {
        let topic = self.topics.entry(topic.to_owned()).or_insert_with(|| {
            let encoding = encoding.chars().take(Self::MAX_ENCODING).collect();
            RecordedTopic { encoding, offered_qos: vec![] }
        });
        let has_room = topic.offered_qos.len() < Self::MAX_QOS && qos.len() <= Self::MAX_QOS_LENGTH;
        if !qos.is_empty() && has_room && !topic.offered_qos.iter().any(|other| other == qos) {
            topic.offered_qos.push(qos.to_owned());
        }
    }

    /// Adds the totals in a metadata record. Ignores other records.
    pub(crate) fn add_metadata(&mut self, path: &Path, name: &str, metadata: &BTreeMap<String, String>) {
        let Some(totals) = RecordedTotals::from_metadata(metadata).filter(|_| name == TOTALS) else { return };
        if self.totals.last().is_none_or(|file| file.path != path) {
            self.totals.push(FileTotals { path: path.to_owned(), totals: BTreeMap::new() });
        }
        let Some(file) = self.totals.last_mut() else { return };
        let key = (totals.scope, totals.topic.clone());
        if file.totals.len() < Self::MAX_TOTALS || file.totals.contains_key(&key) {
            file.totals.insert(key, totals);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(topic: &str, scope: Scope, messages: u64) -> BTreeMap<String, String> {
        let totals = RecordedTotals {
            topic: topic.to_owned(),
            scope,
            messages_recorded: messages,
            messages_lost_in_transport: None,
            messages_lost_in_recorder: 0,
            bytes_written: 0,
            messages_rate: f64::NAN,
        };
        totals.to_metadata()
    }

    #[test]
    fn a_later_record_replaces_an_earlier_one_and_the_last_file_has_the_totals_of_all() {
        let mut info = RecordingInfo::default();
        let mut add = |file: &str, topic, scope, messages| {
            info.add_metadata(Path::new(file), TOTALS, &totals(topic, scope, messages));
        };
        add("a", "/imu", Scope::File, 1);
        add("a", "/imu", Scope::File, 5);
        add("a", "/imu", Scope::Recording, 5);
        add("a", "/gone", Scope::Recording, 2);
        add("b", "/imu", Scope::File, 3);
        add("b", "/imu", Scope::Recording, 8);
        info.add_metadata(Path::new("b"), "another", &totals("/imu", Scope::Recording, 9));
        let whole: Vec<_> =
            info.whole().iter().map(|totals| (&*totals.topic, totals.messages_recorded)).collect();
        assert_eq!(whole, [("/gone", 2), ("/imu", 8)]);
        let of_file = |number: usize| &info.totals[number].totals[&(Scope::File, "/imu".to_owned())];
        assert_eq!(
            (info.totals.len(), of_file(0).messages_recorded, of_file(1).messages_recorded),
            (2, 5, 3)
        );
    }

    #[test]
    fn what_a_file_can_claim_has_a_bound() {
        let mut info = RecordingInfo::default();
        for number in 0..10_000_u32 {
            info.add_compression(&number.to_le_bytes());
            info.add_metadata(Path::new("a"), TOTALS, &totals(&number.to_string(), Scope::File, 1));
            info.add_channel("/imu", "ros2msg", &number.to_string());
        }
        assert_eq!(info.compressions.len(), RecordingInfo::MAX_COMPRESSIONS);
        assert_eq!(info.totals[0].totals.len(), RecordingInfo::MAX_TOTALS);
        assert_eq!(info.topics["/imu"].offered_qos.len(), RecordingInfo::MAX_QOS);
    }
}
