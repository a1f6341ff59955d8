// SPDX-License-Identifier: Apache-2.0

//! Who reads what the node publishes, and who keeps the totals of ended subscriptions.

use std::sync::{
    atomic::{AtomicBool, Ordering},
    Arc, Mutex,
};

use rclrs::RclrsError;
use ros_env::{statistics_msgs::msg::MetricsMessage, topic_statistics_interfaces::msg::MessagesLostEvent};

use crate::{
    measure::source::{lock, Source, WindowScheduler},
    options::TopicStatisticsState,
    report::Publish,
    totals::TopicTotals,
};

/// What a reader of /statistics has read, and whether it has stopped.
#[derive(Default)]
pub struct Reader {
    messages: Mutex<Vec<MetricsMessage>>,
    pub is_stopped: AtomicBool,
}

impl Publish<MetricsMessage> for Reader {
    fn publish(&self, message: MetricsMessage) -> Result<(), RclrsError> {
        lock(&self.messages).push(message);
        match self.is_stopped.load(Ordering::Relaxed) {
            true => Err(RclrsError::AlreadyAddedToWaitSet),
            false => Ok(()),
        }
    }
}

impl Reader {
    pub fn take(&self) -> Vec<MetricsMessage> {
        std::mem::take(&mut *lock(&self.messages))
    }
}

/// A reader of /events/messages_lost.
#[derive(Default)]
pub struct EventReader(Mutex<Vec<MessagesLostEvent>>);

impl Publish<MessagesLostEvent> for EventReader {
    fn publish(&self, message: MessagesLostEvent) -> Result<(), RclrsError> {
        lock(&self.0).push(message);
        Ok(())
    }
}

impl EventReader {
    pub fn take(&self) -> Vec<MessagesLostEvent> {
        std::mem::take(&mut *lock(&self.0))
    }
}

/// Keeps the totals of sources that are dropped, until the schedule gets them.
#[derive(Default)]
pub struct Retired(Mutex<Vec<TopicTotals>>);

impl WindowScheduler for Retired {
    fn set_state(&self, _: &Arc<Source>, _: TopicStatisticsState) {}

    fn keep_totals(&self, source: &Source) {
        lock(&self.0).extend(source.totals());
    }
}

impl Retired {
    pub fn take(&self) -> Vec<TopicTotals> {
        std::mem::take(&mut *lock(&self.0))
    }
}
