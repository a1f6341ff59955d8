// SPDX-License-Identifier: Apache-2.0

use std::{any::Any, marker::PhantomData, sync::Arc};

use rclrs::{DynamicMessage, MessageStructure, Node, QoSProfile, SubscriptionState, WorkScope, Worker};
use rosidl_runtime_rs::Message;
use topic_statistics_core::{
    record::{
        clock::HostClock,
        recorder::Recorder,
        source::{SourceHandle, WindowedCollector},
    },
    IncompatiblePublisher, MessageTimes, Metric, PublisherTotals,
};

use super::{
    callback::{InstrumentAsyncCallback, InstrumentCallback, InstrumentWorkerCallback},
    handle::{stats_handle, SourceStatistics},
    probe::Probe,
    size::SerializedSize,
    stamp::StampField,
};
use crate::error::StatisticsError;

/// A subscription with statistics.
///
/// Create a subscription using [`NodeStatistics::create_subscription`](crate::NodeStatistics::create_subscription).
/// Like [`rclrs::Subscription`], a `StatsSubscription` is a handle. The handle keeps the statistics of the node alive.
/// Dropping the last clone ends the subscription and its statistics: the current window is discarded, and nothing more
/// is published. The callback [must not capture the handle](crate::NodeStatistics#drop).
pub type StatsSubscription<T> = Arc<StatsSubscriptionState<T, Node>>;

/// A [`StatsSubscription`] that runs on a worker.
pub type StatsWorkerSubscription<T, Payload> = Arc<StatsSubscriptionState<T, Worker<Payload>>>;

/// The inner state of a [`StatsSubscription`].
pub struct StatsSubscriptionState<T, Scope> {
    /// This field is dropped first, so the statistics end before the subscription ends.
    statistics: SourceStatistics,
    recorder: Arc<Recorder>,
    subscription: Arc<dyn AnySubscription>,
    message: PhantomData<fn() -> (T, Scope)>,
}

stats_handle!(StatsSubscriptionState<T, Scope>);

impl<T, Scope> StatsSubscriptionState<T, Scope> {
    pub(crate) fn new(
        source: SourceHandle,
        recorder: Arc<Recorder>,
        subscription: Arc<dyn AnySubscription>,
    ) -> Self {
        Self { statistics: SourceStatistics(source), recorder, subscription, message: PhantomData }
    }

    /// Returns the resolved and remapped topic name of the subscription.
    pub fn topic_name(&self) -> String {
        self.subscription.topic_name()
    }

    /// Returns the QoS settings of the subscription.
    pub fn qos(&self) -> QoSProfile {
        self.subscription.qos()
    }

    /// Returns the numbers of messages received and lost for each publisher, in no particular order. At most the 256
    /// latest publishers are returned.
    ///
    /// The result is empty unless [`Metric::PublicationSeqGap`](crate::Metric::PublicationSeqGap) is measured. The
    /// losses are `None` if the middleware does not number messages.
    pub fn publishers(&self) -> Vec<PublisherTotals> {
        self.recorder.publishers()
    }

    /// Returns the publishers of the topic that cannot serve this subscription because of their QoS or type. Such a
    /// mismatch is the most common reason why nothing is received.
    ///
    /// The publishers are checked only while the statistics are enabled, and only when the subscription has received
    /// nothing for 15 seconds although the topic has publishers. Each incompatible publisher is reported by one
    /// warning, through `tracing` and in the node's log.
    pub fn incompatible_publishers(&self) -> Vec<IncompatiblePublisher> {
        self.statistics.0.incompatible_publishers()
    }

    /// Returns the times of the last measured message; `None` before the first message.
    ///
    /// Inside a callback, the last message is the callback's message, unless several callbacks run at the same time.
    pub fn last_message(&self) -> Option<MessageTimes> {
        self.recorder.last_message(&HostClock)
    }
}

impl<T: Message> StatsSubscriptionState<T, Node> {
    /// Replaces the callback, as [`rclrs::SubscriptionState::set_callback`] does. The new callback is also measured.
    ///
    /// # Errors
    ///
    /// Returns [`StatisticsError::CallbackForm`] if only one of the two callbacks takes a
    /// [`ReadOnlyLoanedMessage`](rclrs::ReadOnlyLoanedMessage) of an idiomatic message type.
    pub fn set_callback<Args, Callback: InstrumentCallback<T, Args>>(
        &self,
        callback: Callback,
    ) -> Result<(), StatisticsError> {
        let subscription = self.rclrs::<Callback::Subscribed, Node>()?;
        subscription.set_callback(callback.instrument(self.probe()));
        Ok(())
    }

    /// Replaces the callback by an async callback, as [`rclrs::SubscriptionState::set_async_callback`] does. The new
    /// callback is also measured. Returns the same errors as [`set_callback`](Self::set_callback).
    pub fn set_async_callback<Args, Callback: InstrumentAsyncCallback<T, Args>>(
        &self,
        callback: Callback,
    ) -> Result<(), StatisticsError> {
        let subscription = self.rclrs::<Callback::Subscribed, Node>()?;
        subscription.set_callback(callback.instrument_async(self.probe()));
        Ok(())
    }
}

impl<T: Message, Payload: 'static + Send + Sync> StatsSubscriptionState<T, Worker<Payload>> {
    /// Replaces the callback, as [`rclrs::SubscriptionState::set_worker_callback`] does. The new callback is also
    /// measured. Returns the same errors as [`set_callback`](StatsSubscriptionState::set_callback).
    pub fn set_worker_callback<Args, Callback: InstrumentWorkerCallback<T, Payload, Args>>(
        &self,
        callback: Callback,
    ) -> Result<(), StatisticsError> {
        let subscription = self.rclrs::<Callback::Subscribed, Worker<Payload>>()?;
        subscription.set_worker_callback(callback.instrument_worker(self.probe()));
        Ok(())
    }
}

impl<T, Scope> StatsSubscriptionState<T, Scope> {
    /// Returns the subscription of rclrs. Errors if `Subscribed` is not the type of the subscription's messages.
    fn rclrs<Subscribed: Message, S: WorkScope + 'static>(
        &self,
    ) -> Result<&SubscriptionState<Subscribed, S>, StatisticsError> {
        let subscription = self.subscription.as_any().downcast_ref();
        subscription.ok_or_else(|| StatisticsError::CallbackForm { topic: self.topic_name() })
    }

    fn probe<M: Message>(&self) -> Probe<M> {
        let measures_size = self.recorder.measures(Metric::MessageSize);
        let size = measures_size.then(SerializedSize::of_received).and_then(Result::ok);
        Probe::new(StampField::find(), size.map(Box::new), Arc::clone(&self.recorder))
    }
}

impl<Scope> StatsSubscriptionState<DynamicMessage, Scope> {
    /// Returns the structure of the messages.
    pub fn structure(&self) -> &MessageStructure {
        self.subscription.structure().expect("the subscription of a dynamic message is a dynamic one")
    }
}

/// A subscription of rclrs. This trait hides the message type and the scope.
pub(crate) trait AnySubscription: Send + Sync {
    fn topic_name(&self) -> String;
    fn qos(&self) -> QoSProfile;
    fn as_any(&self) -> &dyn Any;

    fn structure(&self) -> Option<&MessageStructure> {
        None
    }
}

impl<T: Message, Scope: WorkScope + 'static> AnySubscription for SubscriptionState<T, Scope> {
    fn topic_name(&self) -> String {
        self.topic_name()
    }

    fn qos(&self) -> QoSProfile {
        self.qos()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
