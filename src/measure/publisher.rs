// SPDX-License-Identifier: Apache-2.0

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Duration,
};

use rclrs::{LoanedMessage, MessageCow, Publisher, RclrsError};
use rosidl_runtime_rs::{Message, RmwMessage};
use tokio::sync::watch;

use super::{
    clock::monotonic,
    size::SerializedSize,
    source::SourceHandle,
    windowed::{Collector, Windowed},
};
use crate::{
    collector::{milliseconds_between, FirstPeriod, PeriodCollector, SummaryCollector},
    health::Health,
    options::TopicStatisticsState,
    window::{Distributions, Metric, Summary, WindowStatistics},
};

/// A publisher whose publications are measured: [`Metric::PublishPeriod`] and [`Metric::PublishDuration`], and
/// [`Metric::MessageSize`] if its [metrics](crate::TopicStatisticsOptions::metrics) contain that.
///
/// Create one using [`NodeStatistics::create_publisher`](crate::NodeStatistics::create_publisher). Like
/// [`rclrs::Publisher`] it is a handle: dropping the last clone ends the publisher and its statistics.
pub type StatsPublisher<T> = Arc<StatsPublisherState<T>>;

/// The inner state of a [`StatsPublisher`].
pub struct StatsPublisherState<T: Message> {
    /// Dropped first: the statistics end before the publisher does.
    source: SourceHandle,
    publications: Arc<Windowed<Publications>>,
    /// None if it is not known or not measured.
    size: Option<Box<SerializedSize<T::RmwMsg>>>,
    /// Of the C layout, which has the lengths; messages are converted as rclrs would.
    publisher: Publisher<T::RmwMsg>,
}

impl<T: Message> fmt::Debug for StatsPublisherState<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatsPublisherState")
            .field("topic_name", &self.topic_name())
            .field("source_name", &self.source_name())
            .field("is_enabled", &self.is_enabled())
            .finish_non_exhaustive()
    }
}

/// The collectors of a publisher.
///
/// Threads that share a publisher may be preempted between the end of a publication and its recording. Then it is recorded after
/// later ones, and the period over it is wrong: that window has no periods.
pub(crate) struct Publications {
    first_period: FirstPeriod,
    period: PeriodCollector,
    duration: SummaryCollector,
    /// None if it is not measured.
    size: Option<SummaryCollector>,
    /// The latest end of a publication, in nanoseconds on the monotonic clock, and what it was when the window started.
    last: i64,
    last_before: i64,
    /// Whether a publication of this window was recorded after a later one.
    is_unordered: bool,
}

impl Publications {
    pub(crate) fn new(first_period: FirstPeriod, measures_size: bool) -> Self {
        let period = PeriodCollector::new(first_period);
        let duration = SummaryCollector::default();
        let size = measures_size.then(SummaryCollector::default);
        let last = i64::MIN;
        Self { first_period, period, duration, size, last, last_before: last, is_unordered: false }
    }
}

/// A publication that has succeeded.
pub(crate) struct Publication {
    /// Its end, in nanoseconds on the monotonic clock.
    end: i64,
    milliseconds: f64,
    /// The size of the message in bytes; 0 if it is not known.
    size: u32,
}

impl Collector for Publications {
    type Sample = Publication;

    const DISTRIBUTIONS: &'static [Metric] =
        &[Metric::PublishPeriod, Metric::PublishDuration, Metric::MessageSize];

    fn accept(&mut self, publication: &Publication, distributions: &mut Distributions) {
        if self.duration.accept(publication.milliseconds) {
            distributions.accept(Metric::PublishDuration, publication.milliseconds);
        }
        if let Some(size) = self.size.as_mut().filter(|_| publication.size != 0) {
            size.accept(publication.size.into());
            distributions.accept(Metric::MessageSize, publication.size.into());
        }
        if publication.end >= self.last {
            self.last = publication.end;
            if let Some(period) = self.period.sample(publication.end) {
                distributions.accept(Metric::PublishPeriod, period);
            }
            self.period.accept(publication.end);
        } else if publication.end >= self.last_before {
            self.is_unordered = true;
        } // else the window before has no periods: this publication was missing
    }

    fn take(&mut self, _length: Duration, has_earlier: bool) -> (u64, Vec<(Metric, Summary)>) {
        let (mut period, duration) = (self.period.take(), self.duration.take());
        if std::mem::take(&mut self.is_unordered) || has_earlier {
            period = Summary::default();
        }
        self.last_before = self.last;
        let mut metrics = vec![(Metric::PublishPeriod, period), (Metric::PublishDuration, duration)];
        metrics.extend(self.size.as_mut().map(|size| (Metric::MessageSize, size.take())));
        (duration.sample_count, metrics)
    }

    fn measures(&self, metric: Metric) -> bool {
        match metric {
            Metric::MessageSize => self.size.is_some(),
            _ => Self::DISTRIBUTIONS.contains(&metric),
        }
    }

    fn clear(&mut self, start: i64) {
        let cleared = Self::new(self.first_period, self.size.is_some());
        *self = Self { last: start, last_before: start, ..cleared };
    }
}

impl<T: Message> StatsPublisherState<T> {
    pub(crate) fn new(
        source: SourceHandle,
        publications: Arc<Windowed<Publications>>,
        size: Option<Box<SerializedSize<T::RmwMsg>>>,
        publisher: Publisher<T::RmwMsg>,
    ) -> Self {
        Self { source, publications, size, publisher }
    }

    /// Publishes a message, owned or borrowed, as [`rclrs::PublisherState::publish`] does.
    ///
    /// Errors as that does. A publication that fails is not measured.
    pub fn publish<'a, M: MessageCow<'a, T>>(&self, message: M) -> Result<(), RclrsError> {
        let publish = || {
            let message = T::into_rmw_message(message.into_cow());
            self.publisher.publish(&*message)?;
            Ok(message)
        };
        self.publications.measure(monotonic, publish, |message| self.size_of(|| message))
    }

    /// Returns the rclrs publisher, of the message's C layout. Publications through it are not measured.
    pub fn publisher(&self) -> &Publisher<T::RmwMsg> {
        &self.publisher
    }

    /// Returns the resolved and remapped topic name of the publisher.
    pub fn topic_name(&self) -> String {
        self.publisher.topic_name()
    }

    /// Returns the number of subscriptions of the publisher.
    ///
    /// Errors if the graph cannot be read.
    pub fn get_subscription_count(&self) -> Result<usize, RclrsError> {
        self.publisher.get_subscription_count()
    }

    /// Returns the `measurement_source_name` of this publisher's messages on `/statistics`.
    pub fn source_name(&self) -> &str {
        &self.source.name
    }

    /// Returns the last finished window; None before the first one.
    pub fn latest(&self) -> Option<Arc<WindowStatistics>> {
        self.source.latest()
    }

    /// Returns a receiver of its health; see [`StatsSubscriptionState::health`](crate::StatsSubscriptionState::health).
    pub fn health(&self) -> watch::Receiver<Health> {
        self.source.health()
    }

    /// Returns a receiver of finished windows; see
    /// [`StatsSubscriptionState::watch`](crate::StatsSubscriptionState::watch).
    pub fn watch(&self) -> watch::Receiver<Option<Arc<WindowStatistics>>> {
        self.source.watch()
    }

    /// Enables or disables the statistics, or leaves that to the node; see
    /// [`StatsSubscriptionState::set_state`](crate::StatsSubscriptionState::set_state).
    pub fn set_state(&self, state: TopicStatisticsState) {
        self.source.set_state(state);
    }

    /// Returns whether the statistics are enabled.
    pub fn is_enabled(&self) -> bool {
        self.publications.is_enabled()
    }

    /// Returns the size of a message in bytes; 0 if it is not known or not measured.
    fn size_of<'a>(&self, message: impl FnOnce() -> &'a T::RmwMsg) -> u32 {
        self.size.as_ref().map_or(0, |size| size.of(message))
    }
}

impl Windowed<Publications> {
    /// Publishes, and records the publication on that clock, unless it fails. `size` returns the size of what was published.
    #[inline]
    pub(crate) fn measure<Published>(
        &self,
        mut clock: impl FnMut() -> i64,
        publish: impl FnOnce() -> Result<Published, RclrsError>,
        size: impl FnOnce(&Published) -> u32,
    ) -> Result<(), RclrsError> {
        if !self.is_enabled() {
            return publish().map(|_| ());
        }
        let started = clock();
        let published = publish()?;
        let milliseconds = milliseconds_between(started, clock());
        let size = size(&published);
        // Read again under the lock, so that the times of two threads are recorded in order.
        self.record(|| Publication { end: clock(), milliseconds, size });
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

/// A loaned message, owned by the middleware, whose publication is measured.
///
/// It dereferences to a `&mut T` (`T::RmwMsg` is `T`). Dropping or publishing the message returns the loan.
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
    /// Publishes the loaned message, falling back to regular publishing if needed; errors as
    /// [`rclrs::LoanedMessage::publish`] does.
    pub fn publish(self) -> Result<(), RclrsError> {
        let Self { message, publisher } = self;
        // The middleware owns the message from its publication on.
        let size = publisher.size_of(|| &message);
        publisher.publications.measure(monotonic, || message.publish(), |()| size)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::measure::{
        clock::{monotonic, HostClock},
        source::WindowedCollector,
    };

    /// Returns the periods and durations of a window.
    fn take(publications: &mut Publications, has_earlier: bool) -> (Summary, Summary) {
        let (_, metrics) = publications.take(Duration::from_secs(1), has_earlier);
        (metrics[0].1, metrics[1].1)
    }

    fn accept(publications: &mut Publications, ends: &[i64]) {
        for end in ends {
            let publication = Publication { end: end * 1_000_000, milliseconds: 0.5, size: 0 };
            publications.accept(&publication, &mut Distributions::default());
        }
    }

    #[test]
    fn a_window_with_a_publication_recorded_after_a_later_one_has_no_periods() {
        let mut publications = Publications::new(FirstPeriod::NoSample, false);
        accept(&mut publications, &[0, 10, 30, 20, 40]);
        let (periods, durations) = take(&mut publications, false);
        assert!(periods.sample_count == 0 && periods.average.is_nan() && periods.maximum.is_nan());
        assert_eq!((durations.sample_count, durations.average), (5, 0.5));
        accept(&mut publications, &[50, 60]);
        let (periods, _) = take(&mut publications, false);
        assert_eq!((periods.sample_count, periods.average), (1, 10.0));
    }

    #[test]
    fn a_publication_of_the_window_before_spoils_that_window_and_not_the_next() {
        for (first_period, expected) in [(FirstPeriod::NoSample, 1), (FirstPeriod::CarriedOver, 2)] {
            let mut publications = Publications::new(first_period, false);
            accept(&mut publications, &[0, 10, 30]);
            let (periods, _) = take(&mut publications, true);
            assert_eq!(periods.sample_count, 0, "one at 20 may be missing");
            accept(&mut publications, &[20, 40, 50]);
            let (periods, durations) = take(&mut publications, false);
            assert_eq!((periods.sample_count, periods.average), (expected, 10.0));
            assert_eq!(durations.sample_count, 3);
        }
    }

    #[test]
    fn a_publication_from_before_a_pause_has_no_period_after_it() {
        let mut publications = Publications::new(FirstPeriod::CarriedOver, false);
        accept(&mut publications, &[0, 10]);
        publications.clear(100_000_000);
        accept(&mut publications, &[20, 110, 120]);
        let (periods, _) = take(&mut publications, false);
        assert_eq!((periods.sample_count, periods.average), (1, 10.0));
    }

    /// A thread is preempted under the lock, before it reads the clock; another one publishes meanwhile.
    #[test]
    fn a_publication_that_overtakes_the_holder_of_the_lock_leaves_no_wrong_period() {
        let publications = Windowed::new(Publications::new(FirstPeriod::NoSample, false));
        publications.enable(&HostClock);
        let publish = || publications.measure(monotonic, || Ok(()), |()| 0).unwrap();
        publish();
        let mut readings = 0;
        let preempted = || {
            readings += 1;
            if readings == 3 {
                publish();
            }
            monotonic()
        };
        publications.measure(preempted, || Ok(()), |()| 0).unwrap();
        publish();
        let window = publications.end_window(&HostClock).unwrap().statistics;
        let samples = |of: Metric| window.get(of).unwrap().sample_count;
        assert_eq!((window.count, samples(Metric::PublishDuration)), (4, 4));
        assert_eq!(samples(Metric::PublishPeriod), 0);
    }

    proptest! {
        /// Publications 1 ms to 20 ms apart in two windows, in an order in which some are late.
        #[test]
        fn periods_are_between_publications_that_follow_each_other_or_there_are_none(
            gaps in prop::collection::vec(1_i64..20, 2..20),
            late in prop::collection::vec(0_usize..3, 20),
            edge in 0_usize..20,
            first_period in prop_oneof![Just(FirstPeriod::NoSample), Just(FirstPeriod::CarriedOver)],
        ) {
            let ends: Vec<i64> = gaps.iter().scan(0, |end, gap| { *end += gap; Some(*end) }).collect();
            let mut recorded: Vec<(usize, i64)> = ends.iter().copied().enumerate().collect();
            // Stable: a late one comes after so many later ones.
            recorded.sort_by_key(|(index, _)| index + late[*index]);
            let recorded: Vec<i64> = recorded.into_iter().map(|(_, end)| end).collect();
            let (first, second) = recorded.split_at(edge.min(recorded.len()));
            let has_earlier = first.iter().any(|end| second.iter().any(|later| later < end));
            let mut publications = Publications::new(first_period, false);
            for (window, has_earlier) in [(first, has_earlier), (second, false)] {
                accept(&mut publications, window);
                let (periods, durations) = take(&mut publications, has_earlier);
                prop_assert_eq!(durations.sample_count, window.len() as u64);
                let count = periods.sample_count as usize;
                if late.iter().all(|late| *late == 0) {
                    let carried = first_period == FirstPeriod::CarriedOver && window == second && !first.is_empty();
                    prop_assert_eq!(count, (window.len() + usize::from(carried)).saturating_sub(1));
                }
                let is_run = |run: &[i64]| {
                    let of_run: Vec<i64> = run.windows(2).map(|pair| pair[1] - pair[0]).collect();
                    let extremes = (of_run.iter().min(), of_run.iter().max());
                    let sum = (run[count] - run[0]) as f64;
                    (periods.average * count as f64 - sum).abs() < 1e-9
                        && extremes == (Some(&(periods.minimum as i64)), Some(&(periods.maximum as i64)))
                };
                prop_assert!(count == 0 || ends.windows(count + 1).any(is_run), "{window:?} of {ends:?}: {periods:?}");
            }
        }
    }
}
