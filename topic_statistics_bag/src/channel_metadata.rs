// SPDX-License-Identifier: Apache-2.0

//! The metadata of an MCAP channel that make it possible to know how many messages were lost.
//!
//! The field `sequence` of an MCAP message does not prove losses by itself, because most recorders count the messages
//! that they write. So losses are known only if the key [`SEQUENCE`] of the channel says that the numbers come from the
//! publisher, and the key [`PUBLISHER_GID`] says from which publisher. `topic_monitor --record` writes these keys, with
//! one channel for each publisher.

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

    /// Returns the publisher that is named in the metadata of a channel. `None` if the metadata name no publisher, or
    /// an invalid GID.
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
