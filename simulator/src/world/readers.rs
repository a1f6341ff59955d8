// SPDX-License-Identifier: Apache-2.0

//! Who reads what the node publishes, and who keeps the sources that have ended.

use std::sync::{
    atomic::{AtomicBool, Ordering},
    Arc, Mutex,
};

use rclrs::RclrsError;
use ros_env::{
    statistics_msgs::msg::MetricsMessage,
    topic_statistics_interfaces::msg::{MessagesLostEvent, MetricsDistribution},
};

use crate::{
    measure::source::{lock, Source, WindowScheduler},
    options::TopicStatisticsState,
    report::Publish,
};

/// A message on /statistics or /statistics/distribution.
#[derive(Debug)]
pub enum Published {
    Metrics(MetricsMessage),
    Distribution(MetricsDistribution),
}

/// What a reader of these topics has read, and whether it has stopped.
#[derive(Default)]
pub struct Reader {
    messages: Mutex<Vec<Published>>,
    pub is_stopped: AtomicBool,
}

impl Publish<MetricsMessage> for Reader {
    fn publish(&self, message: MetricsMessage) -> Result<(), RclrsError> {
        self.accept(Published::Metrics(message))
    }
}

impl Publish<MetricsDistribution> for Reader {
    fn publish(&self, message: MetricsDistribution) -> Result<(), RclrsError> {
        self.accept(Published::Distribution(message))
    }
}

impl Reader {
    fn accept(&self, message: Published) -> Result<(), RclrsError> {
        lock(&self.messages).push(message);
        match self.is_stopped.load(Ordering::Relaxed) {
            true => Err(RclrsError::AlreadyAddedToWaitSet),
            false => Ok(()),
        }
    }

    pub fn take(&self) -> Vec<Published> {
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

/// Keeps the sources whose handles are dropped, until they are removed from the schedule.
#[derive(Default)]
pub struct Retired(Mutex<Vec<Arc<Source>>>);

impl WindowScheduler for Retired {
    fn set_state(&self, _: &Arc<Source>, _: TopicStatisticsState) {}

    fn remove(&self, source: &Arc<Source>) {
        lock(&self.0).push(Arc::clone(source));
    }
}

impl Retired {
    pub fn take(&self) -> Vec<Arc<Source>> {
        std::mem::take(&mut *lock(&self.0))
    }
}
