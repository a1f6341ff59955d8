// SPDX-License-Identifier: Apache-2.0

//! Counts the messages of the last window, of the last two windows, and so on. The counts need little memory, because
//! old windows are joined to spans of several windows.

use std::{collections::VecDeque, time::Duration};

/// The messages of several windows that follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Span {
    pub(super) messages: u64,
    /// The bytes of the messages; NaN if the bytes are unknown.
    pub(super) bytes: f64,
    pub(super) seconds: f64,
    /// The number of windows in the span is 2 to this power.
    power: u8,
}

/// The latest windows, as spans without gaps between them. To save memory, spans of old windows are joined: for each
/// power of two, there are at most four spans with this number of windows.
#[derive(Clone, Debug, Default)]
pub(super) struct Spans {
    /// The newest span is first. Each further span has the same power or a higher power.
    spans: VecDeque<Span>,
}

impl Spans {
    /// The largest number of spans with the same number of windows.
    const OF_A_POWER: usize = 4;

    /// Adds a window. Discards windows older than the last `longest` seconds.
    pub(super) fn add(&mut self, messages: u64, bytes: f64, length: Duration, longest: f64) {
        self.spans.push_front(Span { messages, bytes, seconds: length.as_secs_f64(), power: 0 });
        let mut start = 0;
        while let Some(power) = self.spans.get(start).map(|span| span.power) {
            let joinable = self.spans.iter().skip(start).take_while(|span| span.power == power).count();
            if joinable <= Self::OF_A_POWER {
                break;
            }
            start += joinable - 2;
            let Some(newer) = self.spans.remove(start) else { break };
            let Some(joined) = self.spans.get_mut(start) else { break };
            joined.messages = joined.messages.saturating_add(newer.messages);
            joined.bytes += newer.bytes;
            joined.seconds += newer.seconds;
            joined.power = joined.power.saturating_add(1);
        }
        let mut kept: f64 = self.spans.iter().map(|span| span.seconds).sum();
        while let Some(oldest) = self.spans.back() {
            kept -= oldest.seconds;
            if self.spans.len() == 1 || kept < longest {
                break;
            }
            self.spans.pop_back();
        }
    }

    pub(super) fn clear(&mut self) {
        self.spans.clear();
    }

    /// Returns sums of spans up to now: the last span, the sum of the last two spans, and so on.
    pub(super) fn up_to_now(&self) -> impl Iterator<Item = Span> + '_ {
        self.spans.iter().scan(Span::default(), |sum, span| {
            sum.messages = sum.messages.saturating_add(span.messages);
            sum.bytes += span.bytes;
            sum.seconds += span.seconds;
            Some(*sum)
        })
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_span_is_a_sum_of_windows_and_memory_is_logarithmic() {
        let (mut spans, mut windows) = (Spans::default(), vec![]);
        for window in 0..5000 {
            windows.push(window * window % 7);
            spans.add(window * window % 7, 1.0, Duration::from_secs(1), f64::INFINITY);
            for span in spans.up_to_now() {
                let last = &windows[windows.len() - span.seconds as usize..];
                assert_eq!(span.messages, last.iter().sum::<u64>());
                assert_eq!(span.bytes, span.seconds);
            }
            let longest = spans.up_to_now().last().unwrap();
            assert_eq!(longest.seconds as u64, window + 1, "no window is missing in the longest span");
        }
        assert!(spans.len() <= 4 * 13, "{}", spans.len());
        assert!(
            spans.up_to_now().map(|span| span.seconds).take(4).eq([1.0, 2.0, 3.0, 4.0]) || spans.len() > 4
        );
    }

    #[test]
    fn what_is_older_than_needed_is_forgotten() {
        let mut spans = Spans::default();
        (0..1000).for_each(|_| spans.add(1, 1.0, Duration::from_secs(1), 0.5));
        assert_eq!(spans.up_to_now().map(|span| span.messages).collect::<Vec<_>>(), [1]);
        let mut spans = Spans::default();
        (0..1000).for_each(|_| spans.add(1, 1.0, Duration::from_secs(1), 100.0));
        let longest = spans.up_to_now().last().unwrap().seconds;
        assert!((100.0..200.0).contains(&longest), "{longest}");
    }
}
