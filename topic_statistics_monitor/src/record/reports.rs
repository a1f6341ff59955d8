// SPDX-License-Identifier: Apache-2.0

//! What a recording reports while it is under way: an event when messages are lost, and totals on request.
//!
//! - The event is a `diagnostic_msgs/DiagnosticArray`. It is the one type that the library publishes already and that
//!   has room for several numbers with names; a `MetricsMessage` is the distribution of one metric, and the
//!   `MessagesLostEvent` of nodes has one number per topic, where two kinds of losses are to be told apart.
//! - The service is the one of nodes with statistics, `~/get_topic_statistics`, so who asks nodes can ask the recorder.

use std::{
    collections::HashMap,
    sync::{
        mpsc::{self, RecvTimeoutError},
        Arc, Weak,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rclrs::{Node, Publisher, RclrsError, WorkerService};
use ros_env::{
    builtin_interfaces::msg::Time,
    diagnostic_msgs::msg::{DiagnosticArray, DiagnosticStatus, KeyValue},
    topic_statistics_interfaces::{
        msg::{MetricTotals, TopicStatistics},
        srv::{GetTopicStatistics, GetTopicStatistics_Request, GetTopicStatistics_Response},
    },
};
use topic_statistics_views::recorded::{RecordedTotals, Scope};

use super::{
    error::RecordError,
    recording::Recording,
    topic::RecordedTopic,
    totals::{Losses, Written},
};

/// The topic of the events, relative to the node.
const EVENTS: &str = "~/messages_lost";
/// Returns the topic of the events of a node.
pub fn events_topic(node: &Node) -> String {
    EVENTS.replace('~', &node.fully_qualified_name())
}

/// The service, relative to the node.
const SERVICE: &str = "~/get_topic_statistics";

/// The events and the service, until this is dropped.
pub struct Reports {
    _service: WorkerService<GetTopicStatistics, ()>,
    /// What ends the thread of the events when it is dropped, and the thread. `None` without events.
    events: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Reports {
    pub fn start(node: &Node, recording: &Arc<Recording>, update_rate: f64) -> Result<Self, RecordError> {
        let service = serve(node, recording)?;
        let events = if update_rate > 0.0 {
            let (node, publisher) = (Arc::clone(node), node.create_publisher(EVENTS)?);
            let events = Events { node, publisher, started: Instant::now(), told: HashMap::new() };
            let (sender, end) = mpsc::channel();
            let (recording, period) = (Arc::downgrade(recording), Duration::from_secs_f64(1.0 / update_rate));
            let thread = std::thread::Builder::new().name("recorder_events".to_owned());
            let run = move || events.run(&recording, period, &end);
            Some((sender, thread.spawn(run).map_err(RecordError::Thread)?))
        } else {
            None
        };
        Ok(Self { _service: service, events })
    }
}

impl Drop for Reports {
    /// Waits for the thread, which keeps the node alive. The middleware must be gone when the process ends: otherwise
    /// its own threads and destructors would meet.
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.events.take() {
            drop(sender);
            let _panicked = thread.join();
        }
    }
}

/// Publishes the losses since the last event.
struct Events {
    node: Node,
    publisher: Publisher<DiagnosticArray>,
    started: Instant,
    /// The last event of each topic, by its number.
    told: HashMap<usize, Told>,
}

/// What an event has told of a topic.
struct Told {
    at: Instant,
    losses: Losses,
    written: Written,
}

impl Events {
    fn run(mut self, recording: &Weak<Recording>, period: Duration, end: &mpsc::Receiver<()>) {
        while end.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
            let Some(recording) = recording.upgrade() else { return };
            let status = recording.topics().iter().filter_map(|topic| self.status(topic)).collect();
            let mut message = DiagnosticArray { status, ..Default::default() };
            if message.status.is_empty() {
                continue;
            }
            // Every time of the node's clock fits a message.
            message.header.stamp = self.node.get_clock().now().to_ros_msg().unwrap_or_default();
            // A reader that is gone loses an event. The totals at the end have it.
            let _lost = self.publisher.publish(message);
        }
    }

    /// Returns the increments of a topic since the last event of it. `None` if nothing was lost.
    fn status(&mut self, topic: &RecordedTopic) -> Option<DiagnosticStatus> {
        let now = Told { at: Instant::now(), losses: topic.losses(), written: topic.written() };
        let start = Told { at: self.started, losses: Losses::NONE, written: Written::default() };
        let before = self.told.get(&topic.index).unwrap_or(&start);
        let lost = now.losses.since(before.losses);
        if lost.in_transport.unwrap_or(0) == 0 && lost.in_recorder == 0 {
            return None;
        }
        let messages = now.written.messages - before.written.messages;
        let values = RecordedTotals {
            topic: topic.name.clone(),
            scope: Scope::Recording,
            messages_recorded: messages,
            messages_lost_in_transport: lost.in_transport,
            messages_lost_in_recorder: lost.in_recorder,
            bytes_written: now.written.bytes - before.written.bytes,
            messages_rate: messages as f64 / (now.at - before.at).as_secs_f64(),
        };
        self.told.insert(topic.index, now);
        let values = values.to_metadata().into_iter().filter(|(key, _)| key != "scope");
        Some(DiagnosticStatus {
            level: DiagnosticStatus::WARN,
            name: format!("{}: {}", self.node.name(), topic.name),
            message: "Messages lost since the last event".to_owned(),
            hardware_id: String::new(),
            values: values.map(|(key, value)| KeyValue { key, value }).collect(),
        })
    }
}

/// Creates the service on a worker of its own.
fn serve(
    node: &Node,
    recording: &Arc<Recording>,
) -> Result<WorkerService<GetTopicStatistics, ()>, RclrsError> {
    let (node_name, recording) = (node.fully_qualified_name(), Arc::downgrade(recording));
    node.create_worker(()).create_service(SERVICE, move |_: GetTopicStatistics_Request| {
        let topics = recording.upgrade().map(|recording| recording.topics()).unwrap_or_default();
        let source = |topic: &str| format!("{node_name}:{topic}");
        GetTopicStatistics_Response {
            node_name: node_name.clone(),
            topic_statistics: topics.iter().map(|topic| answer(topic, source(&topic.name))).collect(),
        }
    })
}

/// Returns the totals of a topic. What the recorder has written and lost are counts of metrics with these names.
fn answer(topic: &RecordedTopic, measurement_source_name: String) -> TopicStatistics {
    let (losses, written) = (topic.losses(), topic.written());
    let metric = |name: &str, unit: &str, count| MetricTotals {
        metrics_source: name.to_owned(),
        unit: unit.to_owned(),
        count,
        p50: f64::NAN,
        p99: f64::NAN,
        maximum: f64::NAN,
    };
    TopicStatistics {
        topic_name: topic.name.clone(),
        measurement_source_name,
        messages_received: topic.received(),
        messages_lost: losses.in_transport.unwrap_or(TopicStatistics::UNKNOWN),
        messages_out_of_order: TopicStatistics::UNKNOWN,
        bytes_received: TopicStatistics::UNKNOWN,
        messages_rate: written.rate(),
        first_message: time(written.first),
        last_message: time(written.last),
        metrics: vec![
            metric("messages_recorded", "messages", written.messages),
            metric("messages_lost_in_recorder", "messages", losses.in_recorder),
            metric("bytes_written", "bytes", written.bytes),
        ],
    }
}

fn time(nanoseconds: u64) -> Time {
    Time { sec: (nanoseconds / 1_000_000_000) as i32, nanosec: (nanoseconds % 1_000_000_000) as u32 }
}
