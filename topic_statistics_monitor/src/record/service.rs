// SPDX-License-Identifier: Apache-2.0

//! The service `~/get_topic_statistics` with the totals of a recording. Nodes with statistics have the same service, so
//! a client of this service can also call the recorder.

use std::sync::Arc;

use rclrs::{Node, RclrsError, WorkerService};
use ros_env::{
    builtin_interfaces::msg::Time,
    topic_statistics_interfaces::{
        msg::{MetricTotals, TopicStatistics},
        srv::{GetTopicStatistics, GetTopicStatistics_Request, GetTopicStatistics_Response},
    },
};

use super::topic::{RecordedTopic, Recording};

const SERVICE: &str = "~/get_topic_statistics";

pub fn serve(
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

/// Returns the totals of a topic. The numbers of written messages and of lost messages are returned as counts of
/// metrics.
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
