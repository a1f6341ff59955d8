// SPDX-License-Identifier: Apache-2.0

use std::{any::Any, fmt, marker::PhantomData, sync::Arc};

use rclrs::{QoSProfile, SubscriptionState, WorkScope};
use rosidl_runtime_rs::Message;
use tokio::sync::watch;
use topic_statistics_core::{
    health::Health,
    record::{
        clock::HostClock,
        recorder::Recorder,
        source::{SourceHandle, WindowedCollector},
    },
    IncompatiblePublisher, MessageTimes, PublisherTotals, TopicStatisticsState, Totals, WindowStatistics,
};

/// A subscription with statistics.
///
/// Create one using [`NodeStatistics`](crate::NodeStatistics), which it keeps alive. Like [`rclrs::Subscription`] it is
/// a handle: dropping the last clone ends the subscription and its statistics. After that nothing more of it is
/// published; the window under way is lost. Its callback cannot be replaced, and
/// [must not capture it](crate::NodeStatistics#drop).
pub type MeasuredSubscription<T> = Arc<MeasuredSubscriptionState<T>>;

/// The inner state of a [`MeasuredSubscription`].
pub struct MeasuredSubscriptionState<T> {
    /// Dropped first: the statistics end before the subscription does.
    source: SourceHandle,
    recorder: Arc<Recorder>,
    subscription: Arc<dyn AnySubscription>,
    message: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for MeasuredSubscriptionState<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeasuredSubscriptionState")
            .field("topic_name", &self.topic_name())
            .field("source_name", &self.source_name())
            .field("is_enabled", &self.is_enabled())
            .finish_non_exhaustive()
    }
}

impl<T> MeasuredSubscriptionState<T> {
    pub(crate) fn new(
        source: SourceHandle,
        recorder: Arc<Recorder>,
        subscription: Arc<dyn AnySubscription>,
    ) -> Self {
        Self { source, recorder, subscription, message: PhantomData }
    }

    /// Returns the resolved and remapped topic name of the subscription.
    pub fn topic_name(&self) -> String {
        self.subscription.topic_name()
    }

    /// Returns the QoS settings of the subscription.
    pub fn qos(&self) -> QoSProfile {
        self.subscription.qos()
    }

    /// Returns the `measurement_source_name` of this subscription's messages on `/statistics`.
    pub fn source_name(&self) -> &str {
        &self.source.name
    }

    /// Returns the rclrs subscription, if it has the type `S`. It is not public, because another callback that is set
    /// through it would not be measured.
    pub(crate) fn rclrs_subscription<S: Any + Send + Sync>(&self) -> Option<Arc<S>> {
        Arc::clone(&self.subscription).into_rclrs().downcast().ok()
    }

    /// Returns the last finished window; None before the first one.
    ///
    /// It is available as soon as the window ends, before it is published.
    pub fn latest(&self) -> Option<Arc<WindowStatistics>> {
        self.source.latest()
    }

    /// Returns a receiver of finished windows, so that a node can act on its own statistics.
    ///
    /// A slow receiver gets the last window, not every one. The channel closes when the subscription is dropped.
    pub fn watch(&self) -> watch::Receiver<Option<Arc<WindowStatistics>>> {
        self.source.watch()
    }

    /// Returns a receiver of the topic's health, so that a node can act on it: whether the topic is as
    /// [expected](crate::TopicStatisticsOptions::expect).
    ///
    /// It starts with the health as of the last window, and receives each change of the level, and of its cause while
    /// the level is not OK. Before the first window, and without expectations, the health is [`Health::default`]. The
    /// channel closes when the subscription is dropped.
    ///
    /// ```
    /// # use rclrs::*;
    /// # use rclrs_topic_statistics::{health::{Expectations, Level}, *};
    /// # use ros_env::sensor_msgs::msg::Imu;
    /// # let executor = Context::default_from_env()?.create_basic_executor();
    /// # let statistics = NodeStatistics::new(&executor.create_node("imu_listener")?)?;
    /// let expected = Expectations::new().error_unless("rate>=90 age<50ms".parse()?);
    /// let options = TopicStatisticsOptions::new().expect(expected);
    /// let imu = statistics.create_subscription("imu".topic_statistics(options), |_: Imu| {})?;
    /// let health = imu.health();
    /// if health.borrow().level == Level::Error { /* slow down */ }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn health(&self) -> watch::Receiver<Health> {
        self.source.health()
    }

    /// Enables or disables the statistics, or leaves that to the node.
    ///
    /// Disabled statistics measure and publish nothing; the window under way is lost. Enabled, a new window starts.
    pub fn set_state(&self, state: TopicStatisticsState) {
        self.source.set_state(state);
    }

    /// Returns whether the statistics are enabled.
    pub fn is_enabled(&self) -> bool {
        self.recorder.is_enabled()
    }

    /// Returns the messages received and lost since the creation, up to now.
    ///
    /// Losses are known if [`Metric::PublicationSeqGap`](crate::Metric::PublicationSeqGap) is measured.
    pub fn totals(&self) -> Totals {
        self.recorder.totals().unwrap_or_default()
    }

    /// Returns the messages received and lost of each publisher, in no order; at most 256 publishers, the latest ones.
    ///
    /// Empty unless [`Metric::PublicationSeqGap`](crate::Metric::PublicationSeqGap) is measured. The losses are None if
    /// the middleware does not number messages.
    pub fn publishers(&self) -> Vec<PublisherTotals> {
        self.recorder.publishers()
    }

    /// Returns the publishers of the topic that cannot serve this subscription because of their QoS or type. That is
    /// the most common reason why nothing is received.
    ///
    /// They are searched when the subscription has received nothing for 15 seconds although there are publishers, while
    /// the statistics are enabled. Each one is reported once by a warning, by `tracing` and in the node's log.
    pub fn incompatible_publishers(&self) -> Vec<IncompatiblePublisher> {
        self.source.incompatible_publishers()
    }

    /// Returns the times of the last measured message; None before the first one.
    ///
    /// Called in the callback, that is the callback's message, unless several callbacks run at the same time.
    pub fn last_message(&self) -> Option<MessageTimes> {
        self.recorder.last_message(&HostClock)
    }
}

/// A subscription of rclrs, of any message type and scope.
pub(crate) trait AnySubscription: Send + Sync {
    fn topic_name(&self) -> String;
    fn qos(&self) -> QoSProfile;

    /// Returns the rclrs subscription itself.
    fn into_rclrs(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<T: Message, Scope: WorkScope + 'static> AnySubscription for SubscriptionState<T, Scope> {
    fn topic_name(&self) -> String {
        self.topic_name()
    }

    fn qos(&self) -> QoSProfile {
        self.qos()
    }

    fn into_rclrs(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}
