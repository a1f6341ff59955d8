// SPDX-License-Identifier: Apache-2.0

//! The number of messages in a window of statistics from `/statistics`, where a node does not publish this number.

use std::time::Duration;

/// Returns the number of messages in a window. `samples` is the largest sample count of the metrics that have one
/// sample for each message. `periods` and `mean_period` (in seconds) are of the period metric.
///
/// n messages have n - 1 periods, or n if the first period began in an earlier window. So more periods than `samples`
/// mean that messages without, for example, a header have no sample. Then the mean period decides between the two
/// numbers. The mean alone would prove nothing: a pause at the end of a window is in no period of the window.
pub fn messages(samples: u64, periods: u64, mean_period: f64, length: Duration) -> u64 {
    if samples >= periods {
        return samples;
    }
    whole(length.as_secs_f64() / mean_period).clamp(periods, periods.saturating_add(1))
}

/// Rounds a number of messages, and limits the number, because other nodes can publish any values.
pub fn whole(messages: f64) -> u64 {
    const MOST: f64 = 1e12;
    messages.round().clamp(0.0, MOST) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_at_the_edge_of_a_window_adds_no_message() {
        let count = |samples, periods, mean| messages(samples, periods, mean, Duration::from_secs(1));
        assert_eq!(
            count(56, 55, 0.0135),
            56,
            "each message has an age; the mean period alone means 74 messages"
        );
        assert_eq!(count(0, 55, 0.0135), 56, "messages without header");
        assert_eq!(count(30, 30, 0.2), 30, "the first period is a pause of an earlier window");
        assert_eq!(
            [count(0, 49, 0.02), count(0, 50, 0.02)],
            [50, 50],
            "first periods without and with a sample"
        );
        assert_eq!(count(50, 99, 0.01), 100, "only every second message has a header");
        assert_eq!([count(1, 0, f64::NAN), count(0, 0, f64::NAN)], [1, 0]);
        assert_eq!(count(0, u64::MAX, f64::NAN), u64::MAX, "any process can publish any values");
    }
}
