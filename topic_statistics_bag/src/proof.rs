// SPDX-License-Identifier: Apache-2.0

//! The metadata of an MCAP channel that make it possible to know how many messages were lost.
//!
//! The field `sequence` of an MCAP message does not prove losses by itself. rosbag2 writes 0. The libraries of Foxglove
//! and MCAP count the messages that they write, per channel or over all channels, from 0 or from 1. A message that was
//! lost before the recorder got it has no such number, and a missing number can belong to another channel. So losses
//! are known only if the key [`SEQUENCE`] of the channel says that the numbers come from the publisher, and the key
//! [`PUBLISHER_GID`] says from which publisher.
//!
//! `topic_monitor --record` is a recorder that writes these keys, with one channel for each publisher.

use std::collections::BTreeMap;

use topic_statistics_core::record::transport::Gid;
pub use topic_statistics_observe::recorded::{
    PUBLICATION_SEQUENCE_NUMBER, PUBLISHER_GID, PUBLISHER_NODE, SEQUENCE,
};

/// The publisher of a channel's messages.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Publisher {
    pub(crate) gid: Gid,
    pub(crate) node: Option<String>,
    /// Whether the sequence numbers come from the publisher.
    pub(crate) is_numbered: bool,
}

impl Publisher {
    /// The largest length of a node name, in bytes. A longer name is ignored.
    const MAX_NODE: usize = 256;

    /// Returns the publisher that the metadata of a channel name. `None` if they name no publisher, or an invalid GID.
    pub(crate) fn of_metadata(metadata: &BTreeMap<String, String>) -> Option<Self> {
        let gid = gid(metadata.get(PUBLISHER_GID)?)?;
        let node = metadata.get(PUBLISHER_NODE).filter(|node| node.len() <= Self::MAX_NODE).cloned();
        let is_numbered =
            metadata.get(SEQUENCE).is_some_and(|sequence| sequence == PUBLICATION_SEQUENCE_NUMBER);
        Some(Self { gid, node, is_numbered })
    }
}

/// Parses a GID of 32 hexadecimal digits.
fn gid(text: &str) -> Option<Gid> {
    let is_gid = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    // The first digits are the first byte of the GID.
    Some(u128::from_str_radix(text, 16).ok().filter(|_| is_gid)?.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publisher(keys: &[(&str, &str)]) -> Option<Publisher> {
        let metadata = keys.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Publisher::of_metadata(&metadata)
    }

    const GID: &str = "010f2a00000000000000000000000aFF";

    #[test]
    fn a_number_without_a_publisher_or_of_another_kind_proves_nothing() {
        assert_eq!(publisher(&[(SEQUENCE, PUBLICATION_SEQUENCE_NUMBER)]), None);
        assert!(!publisher(&[(PUBLISHER_GID, GID), (SEQUENCE, "writer")]).unwrap().is_numbered);
        assert!(!publisher(&[(PUBLISHER_GID, GID)]).unwrap().is_numbered);
        for wrong in [
            "",
            "01",
            "g10f2a00000000000000000000000aff",
            "+10f2a00000000000000000000000aff",
            "ä0f2a0000000000000000000000aff",
        ] {
            assert_eq!(publisher(&[(PUBLISHER_GID, wrong)]), None, "{wrong}");
        }
    }
}
