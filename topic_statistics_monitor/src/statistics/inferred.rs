// SPDX-License-Identifier: Apache-2.0

//! The number of messages of a source, derived from its metrics.

use std::time::{Duration, Instant};

use rclrs_topic_statistics::Metric;
use topic_statistics_observe::row::{MetricFigures, Window};

/// Reads the number of messages from the metrics of the windows of a source.
///
/// A window without a sample is no evidence of silence by itself. The node may have lost the samples, or not known the
/// ages.
#[derive(Debug, Default)]
pub struct MessageCount {
    by: By,
    /// The windows in a row, until the last one with messages, that had at least two each.
    regular: u32,
    /// The windows without a sample since then.
    empty: u32,
    /// Whether the last window with messages showed them by more than times of the system clock.
    is_independent_of_clock: bool,
    /// Until when messages may have no age, because the system clock was stepped back.
    no_ages_until: Option<Instant>,
}

/// How a source shows whether there are messages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum By {
    #[default]
    Nothing,
    /// By periods, at least two per window: a window without a period has one message at most.
    Periods,
    /// By a sample for each message.
    Samples,
}

impl MessageCount {
    /// After this number of windows with at least two messages each, an empty window is unusual.
    const REGULAR: u32 = 3;
    /// Samples that are lost while a window ends leave it and the next one without figures.
    const MAY_BE_LOST: u32 = 2;
    /// How long a node may leave out ages after a step of its clock.
    const WITHOUT_AGES: Duration = Duration::from_secs(10);
    /// Windows follow each other without a gap; a smaller step is none.
    const STEP: i64 = 1_000_000;

    /// Returns the number of messages in a window; None if unknown. `last` is the window before.
    pub fn messages(&mut self, window: &Window, last: Option<&Window>) -> Option<u64> {
        // Both times of a window are on the clock at its end.
        let start = window.times.start.as_nanoseconds();
        if last.is_some_and(|last| last.times.stop.as_nanoseconds().saturating_sub(start) > Self::STEP) {
            self.no_ages_until = window.ended.checked_add(Self::WITHOUT_AGES + window.length);
        }
        let seconds = window.length.as_secs_f64();
        let (mut samples, mut by_rate, mut is_known_to_be_empty) = (0, None, false);
        let (mut is_independent_of_clock, mut is_counted) = (false, false);
        for MetricFigures { name, figures, .. } in &window.metrics {
            match name.parse::<Metric>() {
                // n messages have n or n - 1 periods.
                Ok(metric) if metric.is_period() && figures.average > 0.0 => {
                    let messages = 1000.0 / figures.average * seconds;
                    by_rate = Some(messages);
                    is_independent_of_clock |= messages >= 2.0;
                }
                Ok(Metric::Frequency) if figures.average >= 0.0 => {
                    (samples, self.by) = (whole(figures.average * seconds), By::Samples);
                    is_known_to_be_empty = samples == 0;
                }
                Ok(Metric::Requests | Metric::Calls | Metric::Goals) if figures.average >= 0.0 => {
                    (samples, self.by) = (whole(figures.average), By::Samples);
                    is_known_to_be_empty = samples == 0;
                    is_counted = true;
                }
                Ok(Metric::TimeSinceLastMessage) => is_known_to_be_empty |= figures.average >= seconds * 1e3,
                // A window has one sample of the clock, or of a count, with and without messages. An executor has no
                // messages. A hop has only the messages that cause a publication.
                Ok(Metric::ReadyToRun | Metric::InputToOutput) => {}
                Ok(metric) if metric.is_period() || !metric.has_distribution() => {}
                Err(_) => {}
                Ok(metric) => {
                    if !is_counted {
                        samples = samples.max(figures.sample_count);
                    }
                    is_independent_of_clock |= !metric.is_of_system_time() && figures.sample_count > 0;
                }
            }
        }
        let by_rate = by_rate.filter(|_| samples == 0);
        if samples > 0 {
            self.by = By::Samples;
        } else if by_rate.is_some_and(|messages| messages >= 2.0) && self.by == By::Nothing {
            self.by = By::Periods;
        }
        let messages = by_rate.map_or(samples, |messages| whole(messages).max(1));
        if messages > 0 {
            self.regular = if messages >= 2 { self.regular.saturating_add(1) } else { 0 };
            (self.empty, self.is_independent_of_clock) = (0, is_independent_of_clock);
            return Some(messages);
        }
        self.empty = self.empty.saturating_add(1);
        let may_be_lost = self.regular >= Self::REGULAR && self.empty <= Self::MAY_BE_LOST;
        let may_have_no_age =
            !self.is_independent_of_clock && self.no_ages_until.is_some_and(|until| window.ended < until);
        let is_known = is_known_to_be_empty || !(may_be_lost || may_have_no_age);
        if self.by == By::Nothing || !is_known {
            return None;
        }
        self.regular = 0;
        Some(0)
    }
}

/// Returns a number of messages. Figures of other nodes can be anything.
fn whole(messages: f64) -> u64 {
    const MOST: f64 = 1e12;
    messages.round().clamp(0.0, MOST) as u64
}
