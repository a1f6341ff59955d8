// SPDX-License-Identifier: Apache-2.0

//! Checks a window of the listener.

use std::ops::RangeInclusive;

use crate::listener::{Figures, Range, Window};

/// The tolerance in milliseconds: a busy machine delays threads now and then.
pub const HELD_UP: f64 = 400.0; // less than the smallest step

/// The metrics that depend on the system clock, and whether each compares a time of the talker with a time of the
/// listener.
const AGES: [(&str, bool); 6] = [
    ("message_age", true),
    ("header_to_source_ms", false),
    ("source_to_receive_ms", true),
    ("receive_to_callback_ms", false),
    ("header_to_callback_ms", true),
    ("source_to_callback_ms", true),
];

/// The expected values of a run.
#[derive(Clone, Default)]
pub struct Expected {
    /// The ages by header stamps of simulated time, in ms. No step changes them. `None` if time is not simulated.
    pub simulated_ages: Option<RangeInclusive<f64>>,
    /// Whether ages change by a step of the listener's clock, because the talker's clock is not stepped.
    pub ages_grow: bool,
}

/// A window to be checked. Each check returns descriptions of the wrong values.
pub struct Check<'a> {
    pub window: &'a Window,
    /// The time from the end of the window of the last step to the start of this window, in ms. Negative if the step is
    /// in this window. `None` if there was no step.
    pub since_step: Option<f64>,
    /// For how many ms after the window of the step messages from before the step may be received. They have no age.
    pub on_the_way: f64,
    /// The sum of the steps so far, in ms.
    pub stepped: f64,
    pub expected: &'a Expected,
}

impl Check<'_> {
    /// Checks the values that depend only on elapsed time.
    pub fn figures(&self) -> Vec<String> {
        let Window { truth, count, length, rate, .. } = self.window;
        let mut faults = vec![];
        let is_near = |is: Option<f64>, truth: f64| is.is_some_and(|is| (is - truth).abs() < HELD_UP);

        let period = self.figures_of("message_period");
        let is_right = match truth.periods {
            _ if self.window.lacks_figures() && is_nothing(&period) => true,
            Some(Range { sum, minimum, maximum, count }) => {
                period.count == count
                    && is_near(period.average.map(|average| average * count as f64), sum)
                    && is_near(period.minimum, minimum)
                    && is_near(period.maximum, maximum)
                    && period.minimum >= Some(0.0)
            }
            None => is_nothing(&period),
        };
        if !is_right {
            faults.push(format!("periods {period:?}; truth {:?}", truth.periods));
        }

        let duration = self.figures_of("callback_duration_ms");
        let is_right = match truth.durations {
            _ if duration.count == 0 => is_nothing(&duration),
            Some(Range { minimum, maximum, .. }) => {
                duration.minimum >= Some(minimum - 0.01) && is_near(duration.maximum, maximum)
            }
            None => false,
        };
        if !is_right {
            faults.push(format!("durations {duration:?}; truth {:?}", truth.durations));
        }

        let silence = self.figures_of("time_since_last_message_ms");
        let is_right = match truth.silence {
            _ if self.window.lacks_figures() && is_nothing(&silence) => true,
            // The truth includes the time until the window was seen.
            Some(truth) => silence.average.is_some_and(|silence| {
                (-HELD_UP..HELD_UP + self.window.unseen).contains(&(truth - silence)) && silence >= 0.0
            }),
            None => is_nothing(&silence),
        };
        if !is_right {
            faults.push(format!("silence {silence:?}; truth {:?}", truth.silence));
        }

        let by_length = *count as f64 * 1e9 / *length as f64;
        if !rate.is_some_and(|rate| (rate - by_length).abs() < 1e-6 * by_length.max(1.0)) {
            faults.push(format!("a rate of {rate:?} Hz; truth {by_length} Hz"));
        }
        faults
    }

    /// Checks the length of the window, by the times at which it and the window before it were seen.
    pub fn length(&self, before: &Window) -> Vec<String> {
        let (is, truth) = (self.window.length as f64 / 1e6, self.window.seen - before.seen);
        let (start, stop) = (self.window.start, self.window.stop);
        let mut faults = vec![];
        // Either window may have been seen late.
        if !(-HELD_UP - before.unseen..=HELD_UP + self.window.unseen).contains(&(truth - is)) {
            faults.push(format!("a length of {is:.3} ms; truth {truth:.3} ms"));
        }
        if (stop - start - self.window.length).abs() > 1_000_000 {
            faults.push(format!("{} ns from start to stop; the length is {is:.3} ms", stop - start));
        }
        faults
    }

    /// Checks the stop of the window, by the system clock when it was seen. The clock was not stepped in between.
    pub fn stop(&self) -> Vec<String> {
        let late = (self.window.seen_by_system_clock - self.window.stop) as f64 / 1e6;
        match (-HELD_UP..HELD_UP + self.window.unseen).contains(&late) {
            true => vec![],
            false => vec![format!("the stop is {late:.3} ms before the system clock")],
        }
    }

    /// Checks ages and delays.
    pub fn ages(&self) -> Vec<String> {
        let mut faults = vec![];
        for (name, is_across) in AGES {
            let Some(age) = self.window.metrics.get(name) else { continue };
            let is_of_header = ["message_age", "header_to_callback_ms"].contains(&name);
            // The metric depends on simulated time, not on the system clock.
            let simulated = self.expected.simulated_ages.as_ref().filter(|_| is_of_header);
            let is_untouched = simulated.is_some();
            let messages = match self.since_step {
                _ if name == "header_to_source_ms" && self.expected.simulated_ages.is_some() => 0..=0,
                Some(since) if since < 0.0 && !is_untouched => 0..=0,
                Some(since) if since < self.on_the_way && !is_untouched => {
                    // A long window also has messages from after the step.
                    let is_long = self.window.length as f64 / 1e6 > 2.0 * self.on_the_way;
                    let at_least = if is_long { self.window.count / 4 } else { 0 };
                    at_least..=self.window.count
                }
                _ => self.window.count..=self.window.count,
            };
            // No delay is longer than the longest age. A delay that is wrong by a step would be longer.
            let longest = self.window.truth.ages.map_or(HELD_UP, |ages| ages.maximum + 1.0);
            let range = simulated.cloned().unwrap_or(-50.0..=longest);
            let is_moved = is_across && self.expected.ages_grow && !is_untouched;
            let offset = if is_moved { self.stepped } else { 0.0 };
            let is_in_range =
                |figure: Option<f64>| figure.is_some_and(|figure| range.contains(&(figure - offset)));
            let is_right = match age.count {
                0 => is_nothing(age),
                _ => is_in_range(age.minimum) && is_in_range(age.average) && is_in_range(age.maximum),
            };
            let has_count = messages.contains(&age.count) || self.window.lacks_figures() && age.count == 0;
            if !is_right || !has_count {
                let since = self.since_step;
                faults.push(format!("{name} {age:?} of {messages:?} messages, {since:?} ms after a step"));
            }
        }
        faults
    }

    fn figures_of(&self, metric: &str) -> Figures {
        self.window.metrics[metric]
    }
}

/// Returns how long after a step messages from before it may be received, in ms: twice the longest delay of a window
/// before.
pub fn on_the_way(before: &Window) -> f64 {
    let slowest = AGES.iter().filter_map(|(name, _)| before.metrics.get(*name)?.maximum).fold(0.0, f64::max);
    (2.0 * slowest).clamp(100.0, 10_000.0) + 250.0
}

/// Returns whether these are the values of a metric without samples.
pub fn is_nothing(figures: &Figures) -> bool {
    matches!(figures, Figures { average: None, minimum: None, maximum: None, count: 0 })
}
