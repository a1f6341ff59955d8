// SPDX-License-Identifier: Apache-2.0

//! The service `~/get_topic_statistics`, which returns the numbers of messages received and lost by a node's
//! subscriptions.

use crate::interfaces::topic_statistics_interfaces::{
    msg::{MetricTotals, TopicStatistics},
    srv::{GetTopicStatistics, GetTopicStatistics_Request, GetTopicStatistics_Response},
};
use rclrs::{Node, RclrsError, WorkerService};
use topic_statistics_core::totals::TopicTotals;

use super::message::time;

pub(crate) const NAME: &str = "~/get_topic_statistics";

/// The service. Dropping this value ends the service.
pub(crate) type TopicStatisticsService = WorkerService<GetTopicStatistics, ()>;

/// Creates the service on a separate worker, so that the service still answers while a callback blocks the executor.
pub(crate) fn create(
    node: &Node,
    totals: impl Fn() -> Vec<TopicTotals> + Send + Sync + 'static,
) -> Result<TopicStatisticsService, RclrsError> {
    let node_name = node.fully_qualified_name();
    node.create_worker(()).create_service(NAME, move |_: GetTopicStatistics_Request| {
        GetTopicStatistics_Response {
            node_name: node_name.clone(),
            topic_statistics: totals().iter().map(message).collect(),
        }
    })
}

/// Converts the totals of a subscription to a message of the service's response.
fn message(subscription: &TopicTotals) -> TopicStatistics {
    let TopicTotals { topic_name, source_name, totals, .. } = subscription;
    let metrics = subscription.distributions().iter().map(|(metric, distribution)| MetricTotals {
        metrics_source: metric.name().to_owned(),
        unit: metric.unit().to_owned(),
        count: distribution.count(),
        p50: distribution.quantile(0.5),
        p99: distribution.quantile(0.99),
        maximum: distribution.maximum(),
    });
    TopicStatistics {
        topic_name: topic_name.clone(),
        measurement_source_name: source_name.clone(),
        messages_received: totals.received,
        messages_lost: totals.lost.unwrap_or(TopicStatistics::UNKNOWN),
        messages_out_of_order: totals.out_of_order.unwrap_or(TopicStatistics::UNKNOWN),
        bytes_received: totals.bytes.unwrap_or(TopicStatistics::UNKNOWN),
        messages_rate: totals.rate(),
        first_message: totals.first_message.map(|first| time(first.as_nanoseconds())).unwrap_or_default(),
        last_message: totals.last_message.map(|last| time(last.as_nanoseconds())).unwrap_or_default(),
        metrics: metrics.collect(),
    }
}
