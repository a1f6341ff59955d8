// SPDX-License-Identifier: Apache-2.0

//! The values that were read from the ROS graph and from messages. The rules read these plain values.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use topic_statistics_core::{incompatible::MatchedQos, record::transport::Gid};
use topic_statistics_observe::pattern::Pattern;

use super::transforms::Transforms;

#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    pub node: String,
    /// The message type as `package/msg/Name`.
    pub message_type: String,
    pub qos: MatchedQos,
}

/// The publishers and subscriptions of a topic, without the endpoints of topic_monitor and of the `ros2` command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ends {
    pub publishers: Vec<Endpoint>,
    pub subscriptions: Vec<Endpoint>,
}

impl Ends {
    /// Returns whether all publishers keep their last messages for later subscriptions.
    pub fn is_latched(&self) -> bool {
        self.publishers.iter().all(|publisher| publisher.qos.is_transient_local == Some(true))
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    pub topics: BTreeMap<String, Ends>,
    /// The nodes, without topic_monitor and the `ros2` command.
    pub nodes: BTreeSet<String>,
    pub lifecycle: BTreeSet<String>,
}

/// The number of messages of a topic, by the GID of the publisher.
pub type Flows = BTreeMap<Gid, u64>;

/// The messages that a node received on a topic, by the statistics that the node publishes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received {
    pub messages: u64,
    pub seconds: f64,
}

/// The graph before and after listening, and the messages received meanwhile.
#[derive(Default)]
pub struct Snapshot {
    pub earlier: Graph,
    pub graph: Graph,
    pub listened: Duration,
    /// The number of messages of each topic that the program listened to, by the GID of the publisher.
    pub flows: BTreeMap<String, Flows>,
    /// Whether the first 12 bytes of a GID are the participant, which all publishers of a node share.
    pub has_participants: bool,
    /// The GID of a publisher of `/rosout` by the name of its logger: `robot.camera` for the node `/robot/camera`.
    pub loggers: BTreeMap<String, Gid>,
    pub transforms: Transforms,
    /// The parameter of the nodes that subscribe to `/clock`. `None` if a node did not answer with a boolean.
    pub sim_time: BTreeMap<String, Option<bool>>,
    /// The messages that nodes received, by node and topic.
    pub received: BTreeMap<(String, String), Received>,
    /// Whether the middleware matches publishers and subscriptions by QoS.
    pub matches_qos: bool,
    pub domain: usize,
    pub other_domains: Vec<usize>,
    /// The topics that the user asked about. Empty for all topics.
    pub asked: Vec<Pattern>,
    /// Sentences that say what could not be determined.
    pub unknown: Vec<String>,
}
