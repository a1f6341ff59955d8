use crate::{collector::Publisher, measured::Measured, probe::Gid};

/// What came to a subscription since its creation, and what did not.
///
/// The bytes of the messages are not among them: rclrs takes messages deserialized, and to count their bytes they would
/// have to be serialized once more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Messages whose callback was called.
    pub received: u64,
    /// Messages that publishers sent and that did not come: lost, or taken by somebody else. None if that is not known: if
    /// [`Metric::PublicationSeqGap`](crate::Metric::PublicationSeqGap) is not measured, or if the middleware does not
    /// number messages. A loss that a late message makes good is taken back.
    pub lost: Option<u64>,
    /// Messages that came after a later one of the same publisher. None if `PublicationSeqGap` is not measured.
    pub out_of_order: Option<u64>,
    /// Publishers seen; one that restarts is a new one. None if `PublicationSeqGap` is not measured.
    pub publishers: Option<u64>,
    /// When the first message's callback started: nanoseconds since the epoch on the system clock.
    pub first_message: Option<i64>,
    /// When the last message's callback started, likewise.
    pub last_message: Option<i64>,
}

impl Totals {
    /// Returns the average rate in Hz, from the first message to the last; NaN before there are two, or if the clock was
    /// stepped back behind the first.
    pub fn rate(&self) -> f64 {
        match (self.first_message, self.last_message) {
            (Some(first), Some(last)) if last > first => {
                (self.received - 1) as f64 * 1e9 / (last - first) as f64
            }
            _ => f64::NAN,
        }
    }

    /// Returns the sum; what is not known of one of them is not known of it.
    fn plus(&self, other: &Self) -> Self {
        let sum = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        Self {
            received: self.received + other.received,
            lost: sum(self.lost, other.lost),
            out_of_order: sum(self.out_of_order, other.out_of_order),
            publishers: sum(self.publishers, other.publishers),
            first_message: [self.first_message, other.first_message].into_iter().flatten().min(),
            last_message: self.last_message.max(other.last_message),
        }
    }
}

/// The [totals](Totals) of a subscription of a node, or of those that have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicTotals {
    /// The topic, resolved.
    pub topic_name: String,
    /// What the messages on `/statistics` call the subscription.
    pub source_name: String,
    /// What came and what did not. Of subscriptions that have ended, with the same names, it is the sum.
    pub totals: Totals,
}

impl TopicTotals {
    /// Returns what came to a subscription; None of what is none.
    pub(crate) fn of(measured: &Measured) -> Option<Self> {
        Some(Self {
            topic_name: measured.request.as_ref()?.topic.clone(),
            source_name: measured.source.clone(),
            totals: measured.recording.totals()?,
        })
    }
}

/// Adds totals to those with the same names, or appends them.
pub(crate) fn add_up(sums: &mut Vec<TopicTotals>, more: TopicTotals) {
    let has_its_names =
        |sum: &&mut TopicTotals| sum.topic_name == more.topic_name && sum.source_name == more.source_name;
    match sums.iter_mut().find(has_its_names) {
        Some(sum) => sum.totals = sum.totals.plus(&more.totals),
        None => sums.push(more),
    }
}

/// What came to a subscription from one publisher, and what did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublisherTotals {
    /// What the middleware identifies it by. The graph of rclrs 0.8 does not tell whose it is.
    pub gid: [u8; 16],
    /// Messages that came.
    pub received: u64,
    /// Messages that were sent and that did not come.
    pub lost: u64,
    /// Messages that came after a later one.
    pub out_of_order: u64,
    /// When the last message's callback started: nanoseconds since the epoch on the system clock.
    pub last_message: i64,
}

impl From<&Publisher<Gid>> for PublisherTotals {
    fn from(publisher: &Publisher<Gid>) -> Self {
        let Publisher { gid, received, lost, out_of_order, last_heard, .. } = *publisher;
        Self { gid, received, lost, out_of_order, last_message: last_heard }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_over_the_time_between_the_first_message_and_the_last() {
        let totals = |received, first, last| Totals {
            received,
            first_message: Some(first),
            last_message: Some(last),
            ..Totals::default()
        };
        assert_eq!(totals(11, 1_000_000_000, 2_000_000_000).rate(), 10.0);
        assert!(totals(1, 5, 5).rate().is_nan(), "one message has no rate");
        assert!(totals(7, 5, 4).rate().is_nan(), "a clock stepped back");
        assert!(Totals::default().rate().is_nan());
    }

    #[test]
    fn what_ended_adds_up_by_its_names() {
        let totals = |received, lost, first, last| Totals {
            received,
            lost,
            first_message: first,
            last_message: last,
            ..Totals::default()
        };
        let named = |source: &str, totals| TopicTotals {
            topic_name: "/imu".to_owned(),
            source_name: source.to_owned(),
            totals,
        };
        let mut sums = vec![];
        add_up(&mut sums, named("a", totals(3, Some(1), Some(10), Some(20))));
        add_up(&mut sums, named("b", totals(5, Some(0), None, None)));
        add_up(&mut sums, named("a", totals(4, Some(2), Some(30), Some(40))));
        add_up(&mut sums, named("b", totals(1, None, Some(7), Some(7))));
        assert_eq!(
            sums,
            [
                named("a", totals(7, Some(3), Some(10), Some(40))),
                named("b", totals(6, None, Some(7), Some(7))),
            ]
        );
    }
}
