// SPDX-License-Identifier: Apache-2.0

//! Publishes events on `/events/messages_lost` when subscriptions of the node lose messages.

use rclrs::Publisher;
use topic_statistics_core::schedule::{
    losses::{MessagesLost, PublishLosses},
    outbox::PublishError,
};

use crate::interfaces::topic_statistics_interfaces::msg::{MessagesLostEvent, MessagesLostEventTopicStat};

pub(crate) const TOPIC: &str = "/events/messages_lost";

pub(crate) struct LossPublisher(pub(crate) Publisher<MessagesLostEvent>);

impl PublishLosses for LossPublisher {
    fn publish(&self, lost: &MessagesLost) -> Result<(), PublishError> {
        self.0.publish(message(lost)).map_err(|error| format!("{TOPIC}: {error}").into())
    }
}

fn message(lost: &MessagesLost) -> MessagesLostEvent {
    let statistic = |(topic, lost): &(String, u64)| MessagesLostEventTopicStat {
        topic_name: topic.clone(),
        messages_lost: *lost,
    };
    MessagesLostEvent {
        node_name: lost.node_name.clone(),
        messages_lost_statistics: lost.topics.iter().map(statistic).collect(),
    }
}
