// SPDX-License-Identifier: Apache-2.0

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use rclrs::{DynamicMessage, DynamicPublisher, LoanedMessage, MessageCow, Promise, Publisher, RclrsError};
use rosidl_runtime_rs::{Message, RmwMessage};
use topic_statistics_core::record::{
    clock::monotonic, publications::Publications, source::SourceHandle, windowed::Windowed,
};

use super::{
    handle::{stats_handle, SourceStatistics},
    size::SerializedSize,
};

/// A publisher whose publications are measured: [`Metric::PublishPeriod`](crate::Metric::PublishPeriod) and
/// [`Metric::PublishDuration`](crate::Metric::PublishDuration), and [`Metric::MessageSize`](crate::Metric::MessageSize)
/// if the publisher's [metrics](crate::StatisticsOptions::metrics) contain it.
///
/// Create a publisher using [`NodeStatistics::create_publisher`](crate::NodeStatistics::create_publisher). Like
/// [`rclrs::Publisher`], a `StatsPublisher` is a handle: dropping the last clone ends the publisher and its statistics.
pub type StatsPublisher<T> = Arc<StatsPublisherState<T>>;

/// The inner state of a [`StatsPublisher`].
pub struct StatsPublisherState<T: Message> {
    /// This field is dropped first, so the statistics end before the publisher ends.
    statistics: SourceStatistics,
    publications: Arc<Windowed<Publications>>,
    /// `None` if sizes are unknown or not measured.
    size: Option<Box<SerializedSize<T::RmwMsg>>>,
    /// The publisher of messages in the C layout, from which sizes are computed. Messages are converted to this layout
    /// in the same way as by rclrs.
    publisher: Publisher<T::RmwMsg>,
}

stats_handle!(StatsPublisherState<T: Message>);

impl<T: Message> StatsPublisherState<T> {
    pub(crate) fn new(
        source: SourceHandle,
        publications: Arc<Windowed<Publications>>,
        size: Option<Box<SerializedSize<T::RmwMsg>>>,
        publisher: Publisher<T::RmwMsg>,
    ) -> Self {
        Self { statistics: SourceStatistics(source), publications, size, publisher }
    }

    /// Publishes a message, owned or borrowed, as [`rclrs::PublisherState::publish`] does.
    ///
    /// A publication that fails is not measured. Returns the same errors as the method of rclrs.
    pub fn publish<'a, M: MessageCow<'a, T>>(&self, message: M) -> Result<(), RclrsError> {
        let publish = || {
            let message = T::into_rmw_message(message.into_cow());
            self.publisher.publish(&*message)?;
            Ok(message)
        };
        self.publications.measure(monotonic, publish, |message| self.size_of(|| message))
    }

    /// Returns the rclrs publisher of the message's C layout. Publications through this publisher are not measured.
    pub fn publisher(&self) -> &Publisher<T::RmwMsg> {
        &self.publisher
    }

    /// Returns the resolved and remapped topic name of the publisher.
    pub fn topic_name(&self) -> String {
        self.publisher.topic_name()
    }

    /// Returns a promise that is fulfilled when the publisher has a subscription, as
    /// [`rclrs::PublisherState::notify_on_subscriber_ready`] does. The promise is fulfilled only while the executor
    /// spins.
    pub fn notify_on_subscriber_ready(&self) -> Promise<()> {
        self.publisher.notify_on_subscriber_ready()
    }

    /// Returns the number of subscriptions that match this publisher.
    ///
    /// # Errors
    ///
    /// Errors if the graph cannot be read.
    pub fn get_subscription_count(&self) -> Result<usize, RclrsError> {
        self.publisher.get_subscription_count()
    }

    /// Returns the size of a message in bytes; 0 if the size is unknown or not measured.
    fn size_of<'a>(&self, message: impl FnOnce() -> &'a T::RmwMsg) -> u32 {
        self.size.as_ref().map_or(0, |size| size.measure(message))
    }
}

/// A publisher with statistics, for a message type that is known only at run time.
///
/// Create a dynamic publisher using
/// [`NodeStatistics::create_dynamic_publisher`](crate::NodeStatistics::create_dynamic_publisher). A
/// `StatsDynamicPublisher` is a handle like [`StatsPublisher`].
pub type StatsDynamicPublisher = Arc<StatsDynamicPublisherState>;

/// The inner state of a [`StatsDynamicPublisher`].
pub struct StatsDynamicPublisherState {
    /// This field is dropped first, so the statistics end before the publisher ends.
    statistics: SourceStatistics,
    publications: Arc<Windowed<Publications>>,
    publisher: DynamicPublisher,
}

stats_handle!(StatsDynamicPublisherState);

impl StatsDynamicPublisherState {
    pub(crate) fn new(
        source: SourceHandle,
        publications: Arc<Windowed<Publications>>,
        publisher: DynamicPublisher,
    ) -> Self {
        Self { statistics: SourceStatistics(source), publications, publisher }
    }

    /// Publishes a message, as [`rclrs::DynamicPublisherState::publish`] does.
    ///
    /// A publication that fails is not measured. Returns the same errors as the method of rclrs.
    pub fn publish(&self, message: DynamicMessage) -> Result<(), RclrsError> {
        self.publications.measure(monotonic, || self.publisher.publish(message), |()| 0)
    }

    /// Returns the rclrs publisher. Publications through this publisher are not measured.
    pub fn publisher(&self) -> &DynamicPublisher {
        &self.publisher
    }

    /// Returns the resolved and remapped topic name of the publisher.
    pub fn topic_name(&self) -> String {
        self.publisher.topic_name()
    }

    /// Returns the number of subscriptions that match this publisher.
    ///
    /// # Errors
    ///
    /// Errors if the graph cannot be read.
    pub fn get_subscription_count(&self) -> Result<usize, RclrsError> {
        self.publisher.get_subscription_count()
    }
}

impl<T: RmwMessage> StatsPublisherState<T> {
    /// Obtains a writable handle to a message owned by the middleware, as
    /// [`rclrs::PublisherState::borrow_loaned_message`] does, with the same errors.
    pub fn borrow_loaned_message(&self) -> Result<StatsLoanedMessage<'_, T>, RclrsError> {
        Ok(StatsLoanedMessage { message: self.publisher.borrow_loaned_message()?, publisher: self })
    }

    /// Returns true if message loans are possible, false otherwise.
    pub fn can_loan_messages(&self) -> bool {
        self.publisher.can_loan_messages()
    }
}

/// A loaned message, which the middleware owns. The publication of the message is measured.
///
/// The value dereferences to a `&mut T` (`T::RmwMsg` is `T`). Dropping or publishing the message returns the loan.
pub struct StatsLoanedMessage<'a, T: RmwMessage> {
    message: LoanedMessage<'a, T::RmwMsg>,
    publisher: &'a StatsPublisherState<T>,
}

impl<T: RmwMessage> fmt::Debug for StatsLoanedMessage<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatsLoanedMessage").field("publisher", self.publisher).finish_non_exhaustive()
    }
}

impl<T: RmwMessage> Deref for StatsLoanedMessage<'_, T> {
    type Target = T::RmwMsg;

    fn deref(&self) -> &T::RmwMsg {
        &self.message
    }
}

impl<T: RmwMessage> DerefMut for StatsLoanedMessage<'_, T> {
    fn deref_mut(&mut self) -> &mut T::RmwMsg {
        &mut self.message
    }
}

impl<T: RmwMessage> StatsLoanedMessage<'_, T> {
    /// Publishes the loaned message, falling back to regular publishing if needed, with the same errors as
    /// [`rclrs::LoanedMessage::publish`].
    pub fn publish(self) -> Result<(), RclrsError> {
        let Self { message, publisher } = self;
        // The size is read before the publication, because the publication gives the message back to the middleware.
        let size = publisher.size_of(|| &message);
        publisher.publications.measure(monotonic, || message.publish(), |()| size)
    }
}
