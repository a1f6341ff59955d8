// SPDX-License-Identifier: Apache-2.0

//! A sparkline: the rates of the last minute as a line of bars.

use std::{collections::VecDeque, time::Instant};

use topic_statistics_observe::row::{HistoryEntry, HISTORY};

/// Returns the rates of the last minute, the latest at the right. A blank means that the row was not watched yet, and
/// `_` means a rate of 0. The highest rate has the highest bar.
pub fn sparkline(history: &VecDeque<HistoryEntry>, now: Instant, width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let ago = |time: Instant| now.saturating_duration_since(time).as_secs_f64();
    let step_length = HISTORY.as_secs_f64() / width.max(1) as f64;
    let rate = |step: usize| {
        let (from, to) = ((width - step) as f64 * step_length, (width - step - 1) as f64 * step_length);
        let is_in = |entry: &&HistoryEntry| ago(entry.began) > to && ago(entry.ended) < from;
        let rates = history.iter().filter(is_in).map(|entry| entry.rate);
        let (sum, number) = rates.fold((0.0, 0), |(sum, number), rate| (sum + rate, number + 1));
        (number > 0).then(|| sum / f64::from(number))
    };
    let rates: Vec<Option<f64>> = (0..width).map(rate).collect();
    let highest = rates.iter().flatten().copied().fold(0.0, f64::max);
    let bar = |rate: Option<f64>| match rate {
        None => ' ',
        Some(rate) if rate.is_nan() || rate <= 0.0 => '_',
        Some(rate) => BARS[((rate / highest * BARS.len() as f64).ceil() as usize).clamp(1, BARS.len()) - 1],
    };
    rates.into_iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use topic_statistics_observe::{
        row::Row,
        testing::{at, window},
    };

    #[test]
    fn a_sparkline_shows_the_last_minute() {
        let mut row = Row::new("/imu");
        for stop in 41..=100 {
            let rate = if stop <= 50 { 0.0 } else { 10.0 * f64::from(if stop <= 70 { 1 } else { 2 }) };
            row.add_window(window(stop, rate, 0));
        }
        assert_eq!(sparkline(&row.history, at(100), 6), "_▄▄███");
        assert_eq!(sparkline(&row.history, at(130), 6), "███   ");
        // The last character averages ten windows, one of which has a much higher rate.
        row.add_window(window(101, 200.0, 0));
        assert_eq!(sparkline(&row.history, at(101), 6), "▁▃▃▅▅█");
        assert_eq!(sparkline(&row.history, at(100), 120).chars().count(), 120);
        assert_eq!(sparkline(&row.history, at(100), 0), "");
    }
}
