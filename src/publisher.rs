// SPDX-License-Identifier: Apache-2.0

use std::{
    ops::{Deref, DerefMut},
    sync::{Arc, Weak},
    time::Duration,
};

use rclrs::{LoanedMessage, MessageCow, Publisher, RclrsError};
use rosidl_runtime_rs::{Message, RmwMessage};
use tokio::sync::watch;

use crate::{
    clock::monotonic,
    collector::{milliseconds_between, FirstPeriod, PeriodCollector, SummaryCollector},
    measured::{Collect, Measured, Windowed},
    options::TopicStatisticsState,
    schedule::Schedule,
    window::{Metric, Summary, WindowStatistics},
};

/// A publisher whose publications are measured: [`Metric::PublishPeriod`] and [`Metric::PublishDuration`].
///
/// Create one using [`NodeStatistics::create_publisher`](crate::NodeStatistics::create_publisher). Like
/// [`rclrs::Publisher`] it is a handle: the publisher ends, and leaves the statistics, when the last clone is dropped.
pub type StatsPublisher<T> = Arc<StatsPublisherState<T>>;

/// The inner state of a [`StatsPublisher`].
pub struct StatsPublisherState<T: Message> {
    publisher: Publisher<T>,
    publications: Arc<Windowed<Publications>>,
    measured: Arc<Measured>,
    schedule: Weak<Schedule>,
}

/// What is collected of publications.
pub(crate) struct Publications {
    first_period: FirstPeriod,
    period: PeriodCollector,
    duration: SummaryCollector,
}

impl Publications {
    pub(crate) fn new(first_period: FirstPeriod) -> Self {
        let period = PeriodCollector::new(first_period);
        Self { first_period, period, duration: SummaryCollector::default() }
    }
}

/// A publication that is done.
pub(crate) struct Publication {
    /// When, in nanoseconds on the monotonic clock.
    done: i64,
    milliseconds: f64,
}

impl Collect for Publications {
    type Sample = Publication;

    fn accept(&mut self, publication: &Publication) {
        self.period.accept(publication.done);
        self.duration.accept(publication.milliseconds);
    }

    fn take(&mut self, _length: Duration) -> (u64, Vec<(Metric, Summary)>) {
        let (period, duration) = (self.period.take(), self.duration.take());
        let metrics = vec![(Metric::PublishPeriod, period), (Metric::PublishDuration, duration)];
        (duration.sample_count, metrics)
    }

    fn clear(&mut self) {
        *self = Self::new(self.first_period);
    }
}

impl<T: Message> Drop for StatsPublisherState<T> {
    fn drop(&mut self) {
        self.measured.leave();
    }
}

impl<T: Message> StatsPublisherState<T> {
    pub(crate) fn new(
        publisher: Publisher<T>,
        publications: Arc<Windowed<Publications>>,
        measured: Arc<Measured>,
        schedule: Weak<Schedule>,
    ) -> Self {
        Self { publisher, publications, measured, schedule }
    }

    /// Publishes a message, owned or borrowed, as [`rclrs::PublisherState::publish`] does.
    ///
    /// Errors as that does; a publication that fails is not measured.
    pub fn publish<'a, M: MessageCow<'a, T>>(&self, message: M) -> Result<(), RclrsError> {
        self.measure(|| self.publisher.publish(message))
    }

    /// Returns rclrs's own publisher, whose publications are not measured.
    pub fn publisher(&self) -> &Publisher<T> {
        &self.publisher
    }

    /// Returns the topic name of the publisher, resolved and remapped.
    pub fn topic_name(&self) -> String {
        self.publisher.topic_name()
    }

    /// Returns the number of subscriptions of the publisher.
    ///
    /// Errors if the graph cannot be read.
    pub fn get_subscription_count(&self) -> Result<usize, RclrsError> {
        self.publisher.get_subscription_count()
    }

    /// Returns what the messages on `/statistics` call this publisher: their `measurement_source_name`.
    pub fn source_name(&self) -> &str {
        &self.measured.source
    }

    /// Returns the last window that was finished; None before there is one.
    pub fn latest(&self) -> Option<Arc<WindowStatistics>> {
        self.measured.latest()
    }

    /// Returns a receiver of the windows as they are finished; see
    /// [`StatsSubscriptionState::watch`](crate::StatsSubscriptionState::watch).
    pub fn watch(&self) -> watch::Receiver<Option<Arc<WindowStatistics>>> {
        self.measured.watch()
    }

    /// Turns the statistics on or off, or leaves that to the node; see
    /// [`StatsSubscriptionState::set_state`](crate::StatsSubscriptionState::set_state).
    pub fn set_state(&self, state: TopicStatisticsState) {
        if let Some(schedule) = self.schedule.upgrade() {
            schedule.set_state(&self.measured, state);
        }
    }

    /// Returns whether publications are measured at present.
    pub fn is_enabled(&self) -> bool {
        self.publications.is_enabled()
    }

    fn measure(&self, publish: impl FnOnce() -> Result<(), RclrsError>) -> Result<(), RclrsError> {
        if !self.publications.is_enabled() {
            return publish();
        }
        let started = monotonic();
        publish()?;
        let milliseconds = milliseconds_between(started, monotonic());
        // Read once more where it is recorded: of two threads that publish, the times are in order.
        self.publications.record(|| Publication { done: monotonic(), milliseconds });
        Ok(())
    }
}

impl<T: RmwMessage> StatsPublisherState<T> {
    /// Obtains a writable handle to a message owned by the middleware, as
    /// [`rclrs::PublisherState::borrow_loaned_message`] does, and errors as that does.
    pub fn borrow_loaned_message(&self) -> Result<StatsLoanedMessage<'_, T>, RclrsError> {
        Ok(StatsLoanedMessage { message: self.publisher.borrow_loaned_message()?, publisher: self })
    }

    /// Returns true if message loans are possible, false otherwise.
    pub fn can_loan_messages(&self) -> bool {
        self.publisher.can_loan_messages()
    }
}

/// A message that is owned by the middleware, loaned for publishing, which is measured.
///
/// It dereferences to a `&mut T`. The loan is returned by dropping the message or publishing it.
pub struct StatsLoanedMessage<'a, T: RmwMessage> {
    message: LoanedMessage<'a, T>,
    publisher: &'a StatsPublisherState<T>,
}

impl<T: RmwMessage> Deref for StatsLoanedMessage<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.message
    }
}

impl<T: RmwMessage> DerefMut for StatsLoanedMessage<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.message
    }
}

impl<T: RmwMessage> StatsLoanedMessage<'_, T> {
    /// Publishes the loaned message, falling back to regular publishing if needed; errors as
    /// [`rclrs::LoanedMessage::publish`] does.
    pub fn publish(self) -> Result<(), RclrsError> {
        let Self { message, publisher } = self;
        publisher.measure(|| message.publish())
    }
}
