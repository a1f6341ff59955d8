use crate::{collector::Publisher, probe::Gid};

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
}
