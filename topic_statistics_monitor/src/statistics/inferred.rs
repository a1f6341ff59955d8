// SPDX-License-Identifier: Apache-2.0

//! Derives the number of messages in a window of a source from the metrics of the window, because a source does not
//! publish this number.

use std::time::{Duration, Instant};

use rclrs_topic_statistics::{Metric, Summary};
use topic_statistics_observe::{
    messages::{messages, whole},
    row::{MetricFigures, Window},
};

/// Derives the number of messages from the metrics of a source's windows. A window without samples does not prove
/// silence: the node may have lost the samples, or the ages may have been unknown.
#[derive(Debug, Default)]
pub struct MessageCount {
    by: By,
    /// The number of consecutive windows with at least two messages each, up to the last window with messages.
    regular: u32,
    /// The number of windows without samples since the last window with messages.
    empty: u32,
    /// Whether the last window with messages had samples that do not depend on the system clock.
    is_independent_of_clock: bool,
    /// After a backward step of the system clock, messages may have no age until this time.
    no_ages_until: Option<Instant>,
}

/// Which metrics of a source show whether the topic had messages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum By {
    #[default]
    Nothing,
    /// Only periods show messages. A window without a period has at most one message.
    Periods,
    /// The source has a metric with one sample for each message.
    Samples,
}

impl MessageCount {
    /// If at least this number of consecutive windows before had two messages or more each, a window without samples
    /// may be one whose samples were lost.
    const REGULAR: u32 = 3;
    /// If a node loses samples at the end of a window, at most this number of consecutive windows has no samples.
    const MAY_BE_LOST: u32 = 2;
    /// How long messages may have no age after a step of the node's system clock.
    const WITHOUT_AGES: Duration = Duration::from_secs(10);
    /// The smallest overlap of two windows that counts as a step of the system clock, in nanoseconds.
    const STEP: i64 = 1_000_000;

    /// Returns the number of messages in a window. `None` if the number is unknown. `last` is the previous window.
    pub fn messages(&mut self, window: &Window, last: Option<&Window>) -> Option<u64> {
        // A node sets start and stop when a window ends, so windows overlap only if its clock was stepped back.
        let start = window.times.start.as_nanoseconds();
        if last.is_some_and(|last| last.times.stop.as_nanoseconds().saturating_sub(start) > Self::STEP) {
            self.no_ages_until = window.ended.checked_add(Self::WITHOUT_AGES + window.length);
        }
        let seconds = window.length.as_secs_f64();
        let is_frequent = |periods: Summary| 1000.0 / periods.average * seconds >= 2.0;
        let (mut samples, mut periods, mut is_known_to_be_empty) = (0, Summary::default(), false);
        let (mut is_independent_of_clock, mut is_counted) = (false, false);
        for MetricFigures { name, figures, .. } in &window.metrics {
            match name.parse::<Metric>() {
                // A window with n messages has n or n - 1 periods.
                Ok(metric) if metric.is_period() && figures.average > 0.0 => {
                    periods = *figures;
                    is_independent_of_clock |= is_frequent(periods);
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
                // These metrics do not show the number of messages: metrics of a clock or of a count have one sample in
                // each window, an executor has no messages, and a hop has samples only of messages that cause a
                // publication.
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
        if samples > 0 {
            self.by = By::Samples;
        } else if is_frequent(periods) && self.by == By::Nothing {
            self.by = By::Periods;
        }
        let messages = messages(samples, periods.sample_count, periods.average / 1e3, window.length);
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
