// SPDX-License-Identifier: Apache-2.0

//! The messages that a subscription received and lost since its creation, as plain values.

use std::time::Duration;

use crate::{
    collector::{Distribution, Followed},
    distributions::Distributions,
    metric::Metric,
    timestamp::Timestamp,
};

/// The messages that a subscription received and lost since its creation.
///
/// `None` means that a total is unknown. `lost`, `out_of_order`, `duplicates` and `publishers` are unknown if
/// [`Metric::PublicationSeqGap`] is not measured. `lost`, `out_of_order` and `duplicates` are also unknown if the
/// middleware does not number messages. All four are unknown after the topic had more publishers than are followed
/// (256), or after messages were counted but not measured
/// ([`WindowStatistics::unrecorded`](crate::WindowStatistics::unrecorded)). `lost` and `bytes` are also unknown after
/// an overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Messages whose callback started while the statistics were enabled.
    pub received: u64,
    /// Messages lost, by the gaps in the publishers' sequence numbers. If a message arrives late, it is no longer
    /// counted as lost.
    pub lost: Option<u64>,
    /// Messages received after a later message of the same publisher.
    pub out_of_order: Option<u64>,
    /// Messages received more than once. These messages are included in `received`.
    pub duplicates: Option<u64>,
    /// Publishers from which messages were received. A publisher that restarts is counted again.
    pub publishers: Option<u64>,
    /// The size of all received messages in bytes, as [`Metric::MessageSize`] counts the size. `None` if sizes are not
    /// measured, if the size of a message is unknown, or after messages were counted but not measured.
    pub bytes: Option<u64>,
    /// The start of the first message's callback, on the system clock, corrected by later steps of the system clock.
    /// This field, `last_message` and `active` ignore messages that were counted but not measured.
    pub first_message: Option<Timestamp>,
    /// The start of the last message's callback, on the system clock, corrected by later steps of the system clock.
    pub last_message: Option<Timestamp>,
    /// The time from the first message to the last message on the monotonic clock, without the time in which the
    /// statistics were disabled.
    pub active: Duration,
    /// The number of intervals between messages in the time `active`; `None` if there are messages that were counted
    /// but not measured, before the first or after the last measured message.
    #[doc(hidden)] // see `rate`
    pub intervals: Option<u64>,
    /// The losses of the publishers that are followed (at most 256 publishers).
    pub(crate) followed: Option<Followed>,
}

impl Totals {
    /// Returns the average rate in Hz while the statistics were enabled. NaN if there are fewer than two messages, or
    /// if the last messages were counted but not measured.
    pub fn rate(&self) -> f64 {
        match self.intervals {
            Some(intervals) if !self.active.is_zero() => intervals as f64 / self.active.as_secs_f64(),
            _ => f64::NAN,
        }
    }

    /// Given earlier totals `before` of the same subscription, returns the messages lost and out of order since then;
    /// `None` if the losses are unknown. If the topic has more publishers than are followed, the result is known until
    /// a message of a further publisher arrives.
    pub(crate) fn losses_since(&self, before: &Self) -> Option<(u64, u64)> {
        if self.received == 0 {
            return Some((0, 0));
        }
        let before = if before.received == 0 { Followed::default() } else { before.followed? };
        let now = self.followed.filter(|now| now.evictions == before.evictions)?;
        // A message that arrives late reduces the losses of an earlier window, so the losses can decrease.
        Some((now.lost.saturating_sub(before.lost), now.out_of_order.saturating_sub(before.out_of_order)))
    }

    /// Returns the sum of two totals. A total that is unknown in either operand is unknown in the sum. If a
    /// subscription received no message, its losses count as 0.
    fn plus(&self, other: &Self) -> Self {
        if self.received == 0 {
            return *other;
        }
        if other.received == 0 {
            return *self;
        }
        let sum = |one: Option<u64>, other: Option<u64>| one?.checked_add(other?);
        Self {
            received: self.received + other.received,
            lost: sum(self.lost, other.lost),
            out_of_order: sum(self.out_of_order, other.out_of_order),
            duplicates: sum(self.duplicates, other.duplicates),
            publishers: sum(self.publishers, other.publishers),
            bytes: sum(self.bytes, other.bytes),
            first_message: [self.first_message, other.first_message].into_iter().flatten().min(),
            last_message: self.last_message.max(other.last_message),
            active: self.active + other.active,
            intervals: sum(self.intervals, other.intervals),
            followed: None, // a sum over subscriptions has no losses by publisher
        }
    }
}

/// The [totals](Totals) of a subscription, or of all ended subscriptions with the same topic and source name.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TopicTotals {
    /// The resolved topic name.
    pub topic_name: String,
    /// The `measurement_source_name` of the subscription on `/statistics`.
    pub source_name: String,
    /// The messages received and lost. For ended subscriptions with the same topic name and source name, this is the
    /// sum of their totals.
    pub totals: Totals,
    pub(crate) distributions: Distributions,
}

#[doc(hidden)] // for code that writes reports
impl TopicTotals {
    /// Creates the totals of a subscription.
    pub fn new(topic_name: &str, source_name: &str, totals: Totals, distributions: Distributions) -> Self {
        Self { topic_name: topic_name.to_owned(), source_name: source_name.to_owned(), totals, distributions }
    }

    /// Returns the distributions of all metrics.
    pub fn distributions(&self) -> &Distributions {
        &self.distributions
    }
}

impl TopicTotals {
    /// Returns the distribution of a metric's samples in all finished windows since the creation of the subscription;
    /// `None` if no window had a distribution of the metric.
    pub fn distribution(&self, metric: Metric) -> Option<&Distribution> {
        self.distributions.get(metric)
    }
}

/// Adds totals to the sum with the same topic name and source name. If there is no such sum, appends the totals to the
/// list.
pub(crate) fn add_up(sums: &mut Vec<TopicTotals>, more: TopicTotals) {
    let has_its_names =
        |sum: &&mut TopicTotals| sum.topic_name == more.topic_name && sum.source_name == more.source_name;
    match sums.iter_mut().find(has_its_names) {
        Some(sum) => {
            sum.totals = sum.totals.plus(&more.totals);
            sum.distributions.merge(&more.distributions);
        }
        None => sums.push(more),
    }
}

/// The messages of one publisher that a subscription received and lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublisherTotals {
    /// The identifier of the publisher. rclrs 0.8 does not report to which node the publisher belongs.
    pub gid: [u8; 16],
    /// Messages received, without the messages that were counted but not measured.
    pub received: u64,
    /// Messages lost. `None` if the middleware does not number messages, after messages were counted but not measured,
    /// or if a `u64` has no room for the number.
    pub lost: Option<u64>,
    /// Messages received after a message that the same publisher had sent later. `None` if the middleware does not
    /// number messages, or after messages were counted but not measured.
    pub out_of_order: Option<u64>,
    /// The start of the last message's callback, on the system clock.
    pub last_message: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric_set::MetricSet;

    #[test]
    fn the_rate_is_over_the_time_from_the_first_message_to_the_last() {
        let totals = |intervals, active| Totals { intervals: Some(intervals), active, ..Totals::default() };
        assert_eq!(totals(10, Duration::from_secs(1)).rate(), 10.0);
        assert!(totals(0, Duration::ZERO).rate().is_nan(), "one message has no rate");
    }

    #[test]
    fn a_sum_is_of_what_is_known_and_has_room() {
        let known = Totals { received: 3, lost: Some(2), ..Totals::default() };
        assert_eq!(known.plus(&Totals::default()), known, "empty totals change nothing");
        assert_eq!(Totals::default().plus(&known), known);
        let one = Totals { received: 1, lost: Some(u64::MAX - 1), duplicates: Some(1), ..Totals::default() };
        assert_eq!((one.plus(&one).lost, one.plus(&one).duplicates), (None, Some(2)));
    }

    #[test]
    fn what_ended_adds_up_by_its_names() {
        let totals = |received, lost, first: Option<i64>, last: Option<i64>| Totals {
            received,
            lost,
            first_message: first.map(Timestamp::from_nanoseconds),
            last_message: last.map(Timestamp::from_nanoseconds),
            ..Totals::default()
        };
        let named = |source: &str, totals, ages: &[f64]| {
            let mut distributions = Distributions::new(MetricSet::of(&[Metric::MessageAge]));
            ages.iter().for_each(|age| distributions.accept(Metric::MessageAge, *age));
            TopicTotals::new("/imu", source, totals, distributions)
        };
        let mut sums = vec![];
        add_up(&mut sums, named("a", totals(3, Some(1), Some(10), Some(20)), &[1.0]));
        add_up(&mut sums, named("b", totals(5, Some(0), None, None), &[]));
        add_up(&mut sums, named("a", totals(4, Some(2), Some(30), Some(40)), &[4.0, 2.0]));
        add_up(&mut sums, named("b", totals(1, None, Some(7), Some(7)), &[]));
        let expected = [
            named("a", totals(7, Some(3), Some(10), Some(40)), &[1.0, 4.0, 2.0]),
            named("b", totals(6, None, Some(7), Some(7)), &[]),
        ];
        assert_eq!(sums, expected);
        assert_eq!(sums[0].distribution(Metric::MessageAge).unwrap().count(), 3);
        assert!(sums[0].distribution(Metric::MessagePeriod).is_none());
    }
}
