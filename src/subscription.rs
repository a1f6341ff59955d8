// SPDX-License-Identifier: Apache-2.0

use std::{
    marker::PhantomData,
    sync::{Arc, Weak},
};

use rclrs::{QoSProfile, SubscriptionState, WorkScope};
use rosidl_runtime_rs::Message;
use tokio::sync::watch;

use crate::{
    compatibility::IncompatiblePublisher,
    measured::{Measured, Recording},
    options::TopicStatisticsState,
    recorder::Recorder,
    schedule::Schedule,
    totals::{PublisherTotals, Totals},
    window::{MessageTimes, WindowStatistics},
};

/// A subscription whose messages are measured.
///
/// Create one using [`NodeStatistics`](crate::NodeStatistics). Like [`rclrs::Subscription`] it is a handle: the
/// subscription ends, and leaves the statistics, when the last clone is dropped. Once that is done nothing more is
/// published of it: the window that was under way is not. Its callback cannot be replaced.
pub type StatsSubscription<T> = Arc<StatsSubscriptionState<T>>;

/// The inner state of a [`StatsSubscription`].
pub struct StatsSubscriptionState<T> {
    subscription: Arc<dyn AnySubscription>,
    recorder: Arc<Recorder>,
    measured: Arc<Measured>,
    schedule: Weak<Schedule>,
    message: PhantomData<fn() -> T>,
}

impl<T> Drop for StatsSubscriptionState<T> {
    fn drop(&mut self) {
        self.measured.leave();
        if let Some(schedule) = self.schedule.upgrade() {
            schedule.retire(&self.measured);
        }
    }
}

impl<T> StatsSubscriptionState<T> {
    pub(crate) fn new(
        subscription: Arc<dyn AnySubscription>,
        recorder: Arc<Recorder>,
        measured: Arc<Measured>,
        schedule: Weak<Schedule>,
    ) -> Self {
        Self { subscription, recorder, measured, schedule, message: PhantomData }
    }

    /// Returns the topic name of the subscription, resolved and remapped.
    pub fn topic_name(&self) -> String {
        self.subscription.topic_name()
    }

    /// Returns the QoS settings of the subscription.
    pub fn qos(&self) -> QoSProfile {
        self.subscription.qos()
    }

    /// Returns what the messages on `/statistics` call this subscription: their `measurement_source_name`.
    pub fn source_name(&self) -> &str {
        &self.measured.source
    }

    /// Returns the last window that was finished; None before there is one.
    ///
    /// It is there as soon as the window ends, before it is published.
    pub fn latest(&self) -> Option<Arc<WindowStatistics>> {
        self.measured.latest()
    }

    /// Returns a receiver of the windows as they are finished, so that a node can act on its own statistics.
    ///
    /// It sees the last window, not every one, if it is slower than they are finished. It is closed when the
    /// subscription is dropped.
    pub fn watch(&self) -> watch::Receiver<Option<Arc<WindowStatistics>>> {
        self.measured.watch()
    }

    /// Turns the statistics on or off, or leaves that to the node.
    ///
    /// While they are off nothing is measured and nothing published; the window that was under way is not. Turned
    /// on, a new window starts. This does nothing once the [`NodeStatistics`](crate::NodeStatistics) is dropped.
    pub fn set_state(&self, state: TopicStatisticsState) {
        if let Some(schedule) = self.schedule.upgrade() {
            schedule.set_state(&self.measured, state);
        }
    }

    /// Returns whether messages are measured at present.
    pub fn is_enabled(&self) -> bool {
        self.recorder.is_enabled()
    }

    /// Returns what came and what did not since the creation; it waits for no window.
    ///
    /// Losses are known if [`Metric::PublicationSeqGap`](crate::Metric::PublicationSeqGap) is measured.
    pub fn totals(&self) -> Totals {
        self.recorder.totals().unwrap_or_default()
    }

    /// Returns what came and what did not of each publisher that was heard, in no order; of at most 64, those heard last.
    ///
    /// They are known if [`Metric::PublicationSeqGap`](crate::Metric::PublicationSeqGap) is measured and the middleware
    /// numbers messages; otherwise this is empty.
    pub fn publishers(&self) -> Vec<PublisherTotals> {
        self.recorder.publishers()
    }

    /// Returns the publishers of the topic that cannot serve this subscription, because of their QoS or type: the
    /// commonest reason why nothing is received.
    ///
    /// They are looked for when the subscription has received nothing for 15 seconds although there are publishers, while the
    /// executor spins and the statistics are on; each is reported once by a warning, by `tracing` and in the node's log, until it
    /// leaves.
    pub fn incompatible_publishers(&self) -> Vec<IncompatiblePublisher> {
        self.measured.incompatible_publishers()
    }

    /// Returns when the last measured message passed each point of its way; None before there is one.
    ///
    /// In the callback that is the message that it was called with, unless callbacks run side by side.
    pub fn last_message(&self) -> Option<MessageTimes> {
        self.recorder.last_message()
    }
}

/// A subscription of rclrs's, whatever its message type and scope.
pub(crate) trait AnySubscription: Send + Sync {
    fn topic_name(&self) -> String;
    fn qos(&self) -> QoSProfile;
}

impl<T: Message, Scope: WorkScope> AnySubscription for SubscriptionState<T, Scope> {
    fn topic_name(&self) -> String {
        self.topic_name()
    }

    fn qos(&self) -> QoSProfile {
        self.qos()
    }
}
