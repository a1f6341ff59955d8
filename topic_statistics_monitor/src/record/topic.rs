// SPDX-License-Identifier: Apache-2.0

//! The recorded topics. The callback of a subscription gives each message to its topic.

use std::{
    collections::BTreeMap,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex,
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use rclrs::{
    Clock, DynamicMessage, MessageInfo, MessageTypeName, QoSDurabilityPolicy, QoSProfile, TopicEndpointInfo,
};
use topic_statistics_core::{collector::SequenceTracker, mutex::lock, record::transport::Gid};
use topic_statistics_observe::recorded::{
    OFFERED_QOS, PUBLICATION_SEQUENCE_NUMBER, PUBLISHER_GID, PUBLISHER_NODE, SEQUENCE,
};

use super::{
    definition::Definition,
    metadata::{offered_qos, TopicInfo},
    queue::Queue,
    serialize::Serializer,
    totals::{Losses, Written},
    RecordError,
};
use crate::graph::{gid, node_name};

/// A message that waits to be written. Times are in nanoseconds since the Unix epoch.
pub struct QueuedMessage {
    pub topic: Arc<RecordedTopic>,
    pub publisher: Gid,
    /// The publication sequence number. `None` if the middleware provides no sequence numbers.
    pub number: Option<u64>,
    /// The time at which the middleware received the message. If the node uses simulated time: the simulated time when
    /// the callback was called.
    pub log_time: u64,
    /// The source timestamp. The log time if the node uses simulated time, or if the message has no source timestamp.
    pub publish_time: u64,
    /// When the callback got the message, on the monotonic clock.
    pub received: Instant,
    pub data: Vec<u8>,
    pub losses: Losses,
}

impl QueuedMessage {
    /// The bytes that a message needs in addition to its data: at least the size of its entry in the queue.
    const OVERHEAD: u64 = 256;

    /// Returns the size of the message in memory, in bytes.
    pub fn size(&self) -> u64 {
        self.data.len() as u64 + Self::OVERHEAD
    }
}

pub struct RecordedTopic {
    pub name: String,
    pub message_type: String,
    pub definition: Definition,
    /// The number of the topic in the recording, counted from 0.
    pub index: usize,
    queue: Arc<Queue<QueuedMessage>>,
    /// The clock of the log times. `None` without simulated time.
    clock: Option<Clock>,
    received: Mutex<Received>,
    publishers: Mutex<Publishers>,
    /// The messages that the writer has written.
    written: Mutex<Written>,
}

struct Received {
    serializer: Serializer,
    numbers: SequenceTracker<Gid>,
    messages: u64,
    lost_in_recorder: u64,
    is_closed: bool,
}

#[derive(Default)]
struct Publishers {
    /// The node that has all publishers of the topic. `None` if several nodes have publishers, because the graph of
    /// rclrs 0.8 has no GIDs to tell them apart.
    node: Option<String>,
    qos: Vec<QoSProfile>,
}

impl RecordedTopic {
    pub fn new(
        name: &str,
        message_type: &MessageTypeName,
        index: usize,
        queue: &Arc<Queue<QueuedMessage>>,
        clock: Option<Clock>,
    ) -> Result<Self, RecordError> {
        let received = Received {
            serializer: Serializer::new(message_type)?,
            numbers: SequenceTracker::default(),
            messages: 0,
            lost_in_recorder: 0,
            is_closed: false,
        };
        Ok(Self {
            name: name.to_owned(),
            message_type: message_type.to_string(),
            definition: Definition::new(message_type),
            index,
            queue: Arc::clone(queue),
            clock,
            received: Mutex::new(received),
            publishers: Mutex::default(),
            written: Mutex::default(),
        })
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
        let data = received.serializer.serialize(&message.view());
        let times = times(
            self.clock.as_ref().map(|clock| clock.now().nsec.try_into().unwrap_or_default()),
            nanoseconds(info.received_timestamp).unwrap_or(now),
            nanoseconds(info.source_timestamp),
        );
        let losses = received.losses();
        let queue = |(data, (log_time, publish_time))| {
            let message = QueuedMessage {
                topic: Arc::clone(self),
                publisher,
                number: (number != u64::MAX).then_some(number),
                log_time,
                publish_time,
                received: at,
                data,
                losses,
            };
            self.queue.push(message.size(), message)
        };
        if !data.zip(times).is_some_and(queue) {
            received.lost_in_recorder += 1;
        }
    }

    /// Call this when the subscription ends: messages that are sent after that, and before the next received message,
    /// then do not count as lost.
    pub fn pause(&self) {
        lock(&self.received).numbers.pause();
    }

    pub fn close(&self) {
        lock(&self.received).is_closed = true;
    }

    pub fn lose(&self) {
        lock(&self.received).lost_in_recorder += 1;
    }

    pub fn losses(&self) -> Losses {
        lock(&self.received).losses()
    }

    pub fn written(&self) -> Written {
        *lock(&self.written)
    }

    pub fn add_written(&self, log_time: u64, bytes: usize) {
        lock(&self.written).add(log_time, bytes);
    }

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

    /// Returns the QoS of all present publishers, as rosbag2 writes it: with names from version 9 of its metadata on.
    pub fn offered_qos(&self, has_names: bool) -> serde_json::Value {
        offered_qos(&lock(&self.publishers).qos, has_names)
    }

    /// Returns the topic's entry for the metadata of a bag; `qos` is the result of [`offered_qos`](Self::offered_qos).
    pub fn info(&self, qos: serde_json::Value, messages: u64) -> TopicInfo<'_> {
        let type_hash = self.definition.type_hash.as_deref();
        TopicInfo { name: &self.name, message_type: &self.message_type, type_hash, qos, messages }
    }

    pub fn is_latched(&self) -> bool {
        let is_latched = |qos: &QoSProfile| qos.durability == QoSDurabilityPolicy::TransientLocal;
        lock(&self.publishers).qos.iter().any(is_latched)
    }

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

/// Returns the log time and the publish time of a message. `None` before simulated time begins. `simulated` is the
/// simulated time of the callback; it is 0 before the first message on `/clock`. As in rosbag2, both times are then on
/// the simulated clock, so the source timestamp, which is on the system clock, is not used.
fn times(simulated: Option<u64>, received: u64, source: Option<u64>) -> Option<(u64, u64)> {
    match simulated {
        Some(0) => None,
        Some(now) => Some((now, now)),
        None => Some((received, source.unwrap_or(received))),
    }
}

/// Returns a time in nanoseconds since the Unix epoch. `None` without a time, or if the time is before 1970.
pub fn nanoseconds(time: Option<SystemTime>) -> Option<u64> {
    time?.duration_since(UNIX_EPOCH).ok()?.as_nanos().try_into().ok()
}

/// Returns the node to which all these publishers belong. `None` if they belong to several nodes, or if a node is
/// unknown.
fn node_of(all: &[TopicEndpointInfo]) -> Option<String> {
    /// The node name that the middleware reports for a publisher whose node is not discovered yet.
    const UNKNOWN: &str = "_NODE_NAME_UNKNOWN_";
    let first = all.first()?;
    let is_known = all.iter().all(|other| other.node_name != UNKNOWN && node_name(other) == node_name(first));
    is_known.then(|| node_name(first))
}

pub struct Recording {
    pub queue: Arc<Queue<QueuedMessage>>,
    /// The clock of the log times. `None` without simulated time.
    clock: Option<Clock>,
    topics: Mutex<BTreeMap<(String, String), Arc<RecordedTopic>>>,
    has_ended: AtomicBool,
}

impl Recording {
    /// The maximum number of recorded topics. This is also the maximum number of topics that the monitor can watch.
    const MAX_TOPICS: usize = 10_000;

    /// Creates a recording whose queue has room for `max_cache` bytes. `clock` is the clock of a node that uses
    /// simulated time.
    pub fn new(max_cache: u64, clock: Option<Clock>) -> Self {
        let queue = Arc::new(Queue::new(max_cache));
        Self { queue, clock, topics: Mutex::default(), has_ended: AtomicBool::new(false) }
    }

    /// Returns the recorded topic with this name and type, for a new subscription. Adds the topic if it is new.
    pub fn topic(
        &self,
        name: &str,
        message_type: &MessageTypeName,
    ) -> Result<Arc<RecordedTopic>, RecordError> {
        let mut topics = lock(&self.topics);
        let key = (name.to_owned(), message_type.to_string());
        if let Some(topic) = topics.get(&key) {
            topic.pause();
            return Ok(Arc::clone(topic));
        }
        if topics.len() >= Self::MAX_TOPICS {
            return Err(RecordError::TooManyTopics { limit: Self::MAX_TOPICS });
        }
        let topic = RecordedTopic::new(name, message_type, topics.len(), &self.queue, self.clock.clone())?;
        let topic = Arc::new(topic);
        if self.queue.is_closed() {
            topic.close();
        }
        topics.insert(key, Arc::clone(&topic));
        Ok(topic)
    }

    pub fn topics(&self) -> Vec<Arc<RecordedTopic>> {
        lock(&self.topics).values().cloned().collect()
    }

    /// Ends the recording of all topics. Messages received after this call are neither recorded nor counted as lost.
    pub fn close(&self) {
        self.topics().iter().for_each(|topic| topic.close());
        self.queue.close();
    }

    pub fn set_ended(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// Returns whether the recording has ended: at a limit, by an error, or at the end of the run.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns a topic of the type `std_msgs/msg/Empty`, number `index` of a recording.
    pub fn topic(index: usize, queue: &Arc<Queue<QueuedMessage>>) -> RecordedTopic {
        let empty = "std_msgs/msg/Empty".try_into().unwrap();
        RecordedTopic::new("/topic", &empty, index, queue, None).unwrap()
    }

    /// Returns message `number` of a publisher, with this number of bytes.
    pub fn message(topic: &Arc<RecordedTopic>, publisher: u8, number: u64, bytes: usize) -> QueuedMessage {
        QueuedMessage {
            topic: Arc::clone(topic),
            publisher: [publisher; 16],
            number: Some(number),
            log_time: number,
            publish_time: number,
            received: Instant::now(),
            data: vec![0; bytes],
            losses: Losses { in_transport: Some(number), in_recorder: 0 },
        }
    }

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
        let queue = Arc::new(Queue::new(1000));
        queue.close();
        let topic = Arc::new(topic(0, &queue));
        let message = DynamicMessage::new("std_msgs/msg/Empty".try_into().unwrap()).unwrap();
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
    fn a_recording_has_one_clock() {
        const S: u64 = 1_000_000_000;
        let (received, source) = (1_795_802_456 * S, 1_795_802_456 * S - 300_000);
        assert_eq!(times(None, received, Some(source)), Some((received, source)));
        assert_eq!(times(None, received, None), Some((received, received)));
        // If the publish time were on the system clock, a message stamped at 99.9 s would have an age of 57 years.
        assert_eq!(times(Some(100 * S), received, Some(source)), Some((100 * S, 100 * S)));
        assert_eq!(times(Some(0), received, Some(source)), None, "no message on /clock yet");
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

    #[test]
    fn topics_are_bounded_and_known_ones_go_on() {
        let recording = Recording::new(1000, None);
        let text: MessageTypeName = "std_msgs/msg/String".try_into().unwrap();
        let topic = |name: &str| recording.topic(name, &text);
        let first = topic("/0").unwrap();
        for index in 1..Recording::MAX_TOPICS {
            lock(&recording.topics).insert((format!("/{index}"), text.to_string()), Arc::clone(&first));
        }
        let error = topic("/new").err().unwrap();
        assert!(matches!(error, RecordError::TooManyTopics { limit: Recording::MAX_TOPICS }), "{error}");
        assert!(Arc::ptr_eq(&topic("/1").unwrap(), &first));
    }
}
