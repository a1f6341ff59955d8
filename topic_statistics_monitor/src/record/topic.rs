// SPDX-License-Identifier: Apache-2.0

//! A recorded topic. The callback of the subscription gives each message to the topic.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use rclrs::{
    DynamicMessage, MessageInfo, MessageTypeName, QoSDurabilityPolicy, QoSProfile, TopicEndpointInfo,
};
use topic_statistics_core::{collector::SequenceTracker, mutex::lock, record::transport::Gid};
use topic_statistics_observe::recorded::{
    OFFERED_QOS, PUBLICATION_SEQUENCE_NUMBER, PUBLISHER_GID, PUBLISHER_NODE, SEQUENCE,
};

use super::{
    definition::{Definition, Prefixes},
    error::RecordError,
    qos,
    queue::{Queue, Queued},
    serialize::Serializer,
    time::{SimulatedClock, Times},
    totals::{Losses, Written},
};

/// The node name that the middleware reports for a publisher whose node is not discovered yet.
const UNKNOWN_NODE: &str = "_NODE_NAME_UNKNOWN_";

/// A message that waits to be written. Times are in nanoseconds since the Unix epoch.
pub struct QueuedMessage {
    pub topic: Arc<RecordedTopic>,
    pub publisher: Gid,
    /// The publication sequence number. `None` if the middleware provides no sequence numbers.
    pub number: Option<u64>,
    /// The received timestamp of the message. If the node uses simulated time, the time of the callback.
    pub log_time: u64,
    /// The source timestamp of the message. If the source timestamp is unknown, or if the node uses simulated time,
    /// this is the log time. Source timestamps are never on simulated time.
    pub publish_time: u64,
    /// When the callback got the message, on the monotonic clock.
    pub received: Instant,
    pub data: Vec<u8>,
    /// The losses of the topic up to this message.
    pub losses: Losses,
}

impl Queued for QueuedMessage {
    fn bytes(&self) -> usize {
        self.data.len()
    }
}

/// A recorded topic.
pub struct RecordedTopic {
    pub name: String,
    pub message_type: String,
    pub definition: Definition,
    /// The number of the topic in the recording, counted from 0.
    pub index: usize,
    queue: Arc<Queue<QueuedMessage>>,
    clock: Option<SimulatedClock>,
    received: Mutex<Received>,
    publishers: Mutex<Publishers>,
    /// The messages that the writer has written.
    written: Mutex<Written>,
}

/// The state of the reception: counts of received and lost messages.
struct Received {
    serializer: Option<Serializer>,
    numbers: SequenceTracker<Gid>,
    messages: u64,
    lost_in_recorder: u64,
    is_closed: bool,
}

/// The publishers of the topic at the last reading of the ROS graph.
#[derive(Default)]
struct Publishers {
    /// The node that all publishers belong to. `None` if the publishers belong to several nodes. In this case, the node
    /// of each publisher is unknown, because the graph of rclrs 0.8 has no GIDs.
    node: Option<String>,
    qos: Vec<QoSProfile>,
}

impl RecordedTopic {
    pub fn new(
        name: &str,
        message_type: &MessageTypeName,
        index: usize,
        queue: &Arc<Queue<QueuedMessage>>,
        clock: Option<SimulatedClock>,
    ) -> Result<Self, RecordError> {
        let serializer = Serializer::new(message_type)?;
        let definition = Definition::new(&Prefixes::new(), message_type);
        let message_type = message_type.to_string();
        Ok(Self::with_serializer(name, message_type, definition, Some(serializer), index, queue, clock))
    }

    /// Creates a topic whose messages cannot be serialized.
    #[cfg(test)]
    pub fn without_type(
        name: &str,
        message_type: &str,
        definition: Definition,
        queue: &Arc<Queue<QueuedMessage>>,
    ) -> Self {
        Self::with_serializer(name, message_type.to_owned(), definition, None, 0, queue, None)
    }

    fn with_serializer(
        name: &str,
        message_type: String,
        definition: Definition,
        serializer: Option<Serializer>,
        index: usize,
        queue: &Arc<Queue<QueuedMessage>>,
        clock: Option<SimulatedClock>,
    ) -> Self {
        let received = Received {
            serializer,
            numbers: SequenceTracker::default(),
            messages: 0,
            lost_in_recorder: 0,
            is_closed: false,
        };
        Self {
            name: name.to_owned(),
            message_type,
            definition,
            index,
            queue: Arc::clone(queue),
            clock,
            received: Mutex::new(received),
            publishers: Mutex::default(),
            written: Mutex::default(),
        }
    }

    /// Puts a message in the queue to the writer. Does not wait for the disk.
    pub fn record(self: &Arc<Self>, message: &DynamicMessage, info: &MessageInfo) {
        let (now, at) = (nanoseconds(Some(SystemTime::now())).unwrap_or_default(), Instant::now());
        let mut received = lock(&self.received);
        if received.is_closed {
            return;
        }
        let (publisher, number) = (gid(info), info.publication_sequence_number);
        received.messages += 1;
        received.numbers.accept(publisher, number, now as i64);
        let data = received.serializer.as_mut().and_then(|serializer| serializer.serialize(&message.view()));
        let times = Times::new(
            self.clock.as_ref().map(|clock| clock.now()),
            nanoseconds(info.received_timestamp).unwrap_or(now),
            nanoseconds(info.source_timestamp),
        );
        let losses = received.losses();
        let queue = |(data, Times { log_time, publish_time })| {
            self.queue.push(QueuedMessage {
                topic: Arc::clone(self),
                publisher,
                number: (number != u64::MAX).then_some(number),
                log_time,
                publish_time,
                received: at,
                data,
                losses,
            })
        };
        if !data.zip(times).is_some_and(queue) {
            received.lost_in_recorder += 1;
        }
    }

    /// Tells the topic that it has no subscription until the next message is received. Messages that are sent before
    /// the next received message do not count as lost.
    pub fn pause(&self) {
        lock(&self.received).numbers.pause();
    }

    /// Ends the recording of the topic. Later messages are ignored.
    pub fn close(&self) {
        lock(&self.received).is_closed = true;
    }

    /// Counts a received message as lost, because the message could not be written.
    pub fn lose(&self) {
        lock(&self.received).lost_in_recorder += 1;
    }

    /// Returns the losses up to now.
    pub fn losses(&self) -> Losses {
        lock(&self.received).losses()
    }

    /// Returns the counts of messages that the writer has written so far.
    pub fn written(&self) -> Written {
        *lock(&self.written)
    }

    /// Counts a message as written.
    pub fn add_written(&self, log_time: u64, bytes: usize) {
        lock(&self.written).add(log_time, bytes);
    }

    /// Sets the publishers of the topic in the ROS graph.
    pub fn set_publishers(&self, all: &[TopicEndpointInfo]) {
        /// The maximum number of publishers whose sequence numbers a subscription tracks.
        const MAX: usize = SequenceTracker::<Gid>::PUBLISHERS;
        if all.is_empty() {
            return; // The earlier publishers are kept, because their messages may still be in the queue.
        }
        let node = node_of(all);
        let qos = all.iter().take(MAX).map(|publisher| publisher.qos_profile).collect();
        *lock(&self.publishers) = Publishers { node, qos };
    }

    /// Returns the metadata of a publisher's channel. `qos` is the result of [`offered_qos`](Self::offered_qos).
    pub fn channel_metadata(
        &self,
        publisher: &Gid,
        is_numbered: bool,
        qos: &str,
    ) -> BTreeMap<String, String> {
        let node = lock(&self.publishers).node.clone();
        let gid = publisher.iter().map(|byte| format!("{byte:02x}")).collect();
        let fields = [
            (OFFERED_QOS, Some(qos.to_owned())),
            ("topic_type_hash", self.definition.type_hash.clone()),
            (PUBLISHER_GID, Some(gid)),
            (PUBLISHER_NODE, node),
            (SEQUENCE, is_numbered.then(|| PUBLICATION_SEQUENCE_NUMBER.to_owned())),
        ];
        fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }

    /// Returns the QoS of all present publishers, as rosbag2 writes it up to version 8 of its metadata.
    pub fn offered_qos(&self) -> String {
        qos::offered(&lock(&self.publishers).qos)
    }

    /// Returns the QoS of all present publishers, as rosbag2 writes it from version 9 of its metadata on.
    pub fn offered_qos_by_name(&self) -> serde_json::Value {
        qos::offered_by_name(&lock(&self.publishers).qos)
    }

    /// Returns whether a present publisher is transient local, so that it keeps its last messages for later
    /// subscriptions.
    pub fn is_latched(&self) -> bool {
        let is_latched = |qos: &QoSProfile| qos.durability == QoSDurabilityPolicy::TransientLocal;
        lock(&self.publishers).qos.iter().any(is_latched)
    }

    /// Returns the number of received messages.
    #[cfg(feature = "interfaces")]
    pub fn received(&self) -> u64 {
        lock(&self.received).messages
    }
}

impl Received {
    fn losses(&self) -> Losses {
        let in_transport = match self.messages {
            0 => Some(0),
            _ => self.numbers.totals().lost,
        };
        Losses { in_transport, in_recorder: self.lost_in_recorder }
    }
}

/// Returns the GID of a message's publisher.
fn gid(info: &MessageInfo) -> Gid {
    let mut gid = Gid::default();
    gid.iter_mut().zip(&info.publisher_gid.data).for_each(|(to, from)| *to = *from);
    gid
}

/// Returns a time in nanoseconds since the Unix epoch. `None` without a time, or if the time is before 1970.
pub fn nanoseconds(time: Option<SystemTime>) -> Option<u64> {
    time?.duration_since(UNIX_EPOCH).ok()?.as_nanos().try_into().ok()
}

/// Returns the fully qualified name of the node that all these publishers belong to. `None` if the publishers belong to
/// several nodes, or if the node of a publisher is unknown.
fn node_of(all: &[TopicEndpointInfo]) -> Option<String> {
    let name = |publisher: &TopicEndpointInfo| {
        let is_known = publisher.node_name != UNKNOWN_NODE;
        is_known
            .then(|| format!("{}/{}", publisher.node_namespace.trim_end_matches('/'), publisher.node_name))
    };
    let mut nodes = all.iter().map(name);
    let first = nodes.next().flatten();
    first.filter(|first| nodes.all(|node| node.as_ref() == Some(first)))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns the information that the middleware reports with a message of this sequence number.
    pub fn info(number: u64) -> MessageInfo {
        let implementation_identifier = std::ptr::null();
        MessageInfo {
            source_timestamp: None,
            received_timestamp: None,
            publication_sequence_number: number,
            reception_sequence_number: u64::MAX,
            publisher_gid: rclrs::PublisherGid { data: Default::default(), implementation_identifier },
        }
    }

    #[test]
    fn what_cannot_be_recorded_is_lost_in_the_recorder() {
        let (queue, name) = (Arc::new(Queue::new(1000)), "std_msgs/msg/Empty");
        let topic = Arc::new(RecordedTopic::without_type("/topic", name, Definition::default(), &queue));
        let message = DynamicMessage::new(name.try_into().unwrap()).unwrap();
        let record = |number| {
            topic.record(&message, &info(number));
            topic.losses()
        };
        let losses = |in_recorder| Losses { in_transport: Some(2), in_recorder };
        assert_eq!(topic.losses(), Losses::NONE);
        record(1);
        assert_eq!(record(4), losses(2));
        topic.pause();
        assert_eq!(record(100), losses(3), "messages before it were not subscribed");
        topic.close();
        assert_eq!(record(200), losses(3));
    }

    #[test]
    fn a_channel_has_the_node_of_all_publishers_if_it_is_known() {
        let publisher = |(node_namespace, node_name): &(&str, &str)| TopicEndpointInfo {
            node_name: (*node_name).to_owned(),
            node_namespace: (*node_namespace).to_owned(),
            topic_type: "sensor_msgs/msg/Imu".to_owned(),
            qos_profile: QoSProfile::topics_default(),
        };
        let (talker, other) = (("/", "talker"), ("/r1", "talker"));
        let unknown = ("_NODE_NAMESPACE_UNKNOWN_", "_NODE_NAME_UNKNOWN_");
        for (names, node) in [
            (&[talker][..], Some("/talker")),
            (&[other, other], Some("/r1/talker")),
            (&[talker, other], None),
            (&[talker, unknown], None),
            (&[unknown, unknown], None),
        ] {
            let all: Vec<_> = names.iter().map(publisher).collect();
            assert_eq!(node_of(&all).as_deref(), node, "{names:?}");
        }
    }
}
