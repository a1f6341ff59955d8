// SPDX-License-Identifier: Apache-2.0

//! The reports during a recording: an event when messages are lost, and totals on request (`service`).
//!
//! The event is a `diagnostic_msgs/DiagnosticArray`, because this type can contain several numbers with names. A
//! `MetricsMessage` contains only the statistics of one metric. A `MessagesLostEvent` contains only one number per
//! topic, but the recorder counts two kinds of losses.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use rclrs::{Clock, Node, Publisher, Timer};
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
    /// The timer of the events. `None` without events.
    _events: Option<Timer>,
}

impl Reports {
    pub fn start(node: &Node, recording: &Arc<Recording>, update_rate: f64) -> Result<Self, RecordError> {
        #[cfg(not(feature = "interfaces"))]
        crate::process::print_error(
            "built without topic_statistics_interfaces: the recording has no service ~/get_topic_statistics",
        );
        #[cfg(feature = "interfaces")]
        let _service = super::service::serve(node, recording)?;
        let events = (update_rate > 0.0).then(|| {
            // The timer has no `Node`: a node that is not dropped before the process ends would keep threads of the
            // middleware while the destructors of the process run.
            let mut events = Events {
                node: node.name(),
                clock: node.get_clock(),
                publisher: node.create_publisher(EVENTS)?,
                started: Instant::now(),
                reported: HashMap::new(),
            };
            let recording = Arc::downgrade(recording);
            node.create_timer_repeating(Duration::from_secs_f64(1.0 / update_rate), move || {
                if let Some(recording) = recording.upgrade() {
                    events.publish(&recording);
                }
            })
        });
        Ok(Self {
            #[cfg(feature = "interfaces")]
            _service,
            _events: events.transpose()?,
        })
    }
}

struct Events {
    node: String,
    clock: Clock,
    publisher: Publisher<DiagnosticArray>,
    started: Instant,
    reported: HashMap<usize, Reported>,
}

struct Reported {
    at: Instant,
    losses: Losses,
    written: Written,
}

impl Events {
    fn publish(&mut self, recording: &Recording) {
        let status = recording.topics().iter().filter_map(|topic| self.status(topic)).collect();
        let mut message = DiagnosticArray { status, ..Default::default() };
        if message.status.is_empty() {
            return;
        }
        // The conversion of a time of the node's clock to a ROS time does not fail.
        message.header.stamp = self.clock.now().to_ros_msg().unwrap_or_default();
        // The totals at the end of the file include the losses of an event that was not published.
        let _lost = self.publisher.publish(message);
    }

    /// Returns the messages recorded and lost since the topic's last event. `None` if no message was lost.
    fn status(&mut self, topic: &RecordedTopic) -> Option<DiagnosticStatus> {
        let now = Reported { at: Instant::now(), losses: topic.losses(), written: topic.written() };
        let start = Reported { at: self.started, losses: Losses::NONE, written: Written::default() };
        let before = self.reported.get(&topic.index).unwrap_or(&start);
        let lost = now.losses.since(before.losses);
        if lost.in_transport.unwrap_or(0) == 0 && lost.in_recorder == 0 {
            return None;
        }
        let messages = now.written.messages - before.written.messages;
        let bytes = now.written.bytes - before.written.bytes;
        let totals = Written { messages, bytes, ..now.written }.totals(&topic.name, Scope::Recording, lost);
        let messages_rate = messages as f64 / (now.at - before.at).as_secs_f64();
        let values = RecordedTotals { messages_rate, ..totals };
        self.reported.insert(topic.index, now);
        let values = values.to_metadata().into_iter().filter(|(key, _)| key != "scope");
        Some(DiagnosticStatus {
            level: DiagnosticStatus::WARN,
            name: format!("{}: {}", self.node, topic.name),
            message: "Messages lost since the last event".to_owned(),
            hardware_id: String::new(),
            values: values.map(|(key, value)| KeyValue { key, value }).collect(),
        })
    }
}
