// SPDX-License-Identifier: Apache-2.0

//! The reports during a recording: an event when messages are lost, and totals on request (`service`).
//!
//! The event is a `diagnostic_msgs/DiagnosticArray`, because this type can contain several numbers with names. A
//! `MetricsMessage` contains only the statistics of one metric. A `MessagesLostEvent` contains only one number per
//! topic, but the recorder counts two kinds of losses.

use std::{
    collections::HashMap,
    sync::{
        mpsc::{self, RecvTimeoutError},
        Arc, Weak,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rclrs::{Node, Publisher};
use ros_env::diagnostic_msgs::msg::{DiagnosticArray, DiagnosticStatus, KeyValue};
use topic_statistics_observe::recorded::{RecordedTotals, Scope};

use super::{
    topic::{RecordedTopic, Recording},
    totals::{Losses, Written},
    RecordError,
};

const EVENTS: &str = "~/messages_lost";
pub fn events_topic(node: &Node) -> String {
    EVENTS.replace('~', &node.fully_qualified_name())
}

pub struct Reports {
    #[cfg(feature = "interfaces")]
    _service: rclrs::WorkerService<ros_env::topic_statistics_interfaces::srv::GetTopicStatistics, ()>,
    /// The thread of the events, and the sender that ends this thread when dropped. `None` without events.
    events: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Reports {
    pub fn start(node: &Node, recording: &Arc<Recording>, update_rate: f64) -> Result<Self, RecordError> {
        #[cfg(not(feature = "interfaces"))]
        crate::process::print_error(
            "built without topic_statistics_interfaces: the recording has no service ~/get_topic_statistics",
        );
        #[cfg(feature = "interfaces")]
        let _service = super::service::serve(node, recording)?;
        let events = if update_rate > 0.0 {
            let (node, publisher) = (Arc::clone(node), node.create_publisher(EVENTS)?);
            let events = Events { node, publisher, started: Instant::now(), reported: HashMap::new() };
            let (sender, end) = mpsc::channel();
            let (recording, period) = (Arc::downgrade(recording), Duration::from_secs_f64(1.0 / update_rate));
            let thread = std::thread::Builder::new().name("recorder_events".to_owned());
            let run = move || events.run(&recording, period, &end);
            Some((sender, thread.spawn(run).map_err(RecordError::Thread)?))
        } else {
            None
        };
        Ok(Self {
            #[cfg(feature = "interfaces")]
            _service,
            events,
        })
    }
}

impl Drop for Reports {
    /// Waits for the thread, because the thread keeps the node alive. The node must be dropped before the process ends.
    /// Otherwise threads of the middleware would still run while the destructors of the process run at its exit.
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.events.take() {
            drop(sender);
            let _panicked = thread.join();
        }
    }
}

struct Events {
    node: Node,
    publisher: Publisher<DiagnosticArray>,
    started: Instant,
    /// For each topic, by its number, the data of its last event.
    reported: HashMap<usize, Reported>,
}

/// The state of a topic at the time of an event.
struct Reported {
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
            // `to_ros_msg` never fails for a time of the node's clock.
            message.header.stamp = self.node.get_clock().now().to_ros_msg().unwrap_or_default();
            // An error is ignored, because the totals at the end of the file include the losses of an event that was
            // not published.
            let _lost = self.publisher.publish(message);
        }
    }

    /// Returns the numbers of recorded and lost messages of a topic since its last event. `None` if no message was
    /// lost.
    fn status(&mut self, topic: &RecordedTopic) -> Option<DiagnosticStatus> {
        let now = Reported { at: Instant::now(), losses: topic.losses(), written: topic.written() };
        let start = Reported { at: self.started, losses: Losses::NONE, written: Written::default() };
        let before = self.reported.get(&topic.index).unwrap_or(&start);
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
        self.reported.insert(topic.index, now);
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
