// SPDX-License-Identifier: Apache-2.0

//! Command-line arguments that several programs have.

use std::time::Duration;

use crate::{expect::ExpectationFile, pattern::Pattern, require::Condition};

/// The description of conditions in the help text of a program, in lines of at most 80 characters.
pub const CONDITIONS_HELP: &str = "\
Conditions:
  Metrics    rate (Hz); bandwidth (bytes/s); age, period, silent (ms);
             gap (messages); received, lost, out_of_order (messages in the
             window); bytes (in the window); publishers; any metrics_source,
             such as source_to_receive_ms
  Figures    mean (default), min, max, std, count; of age, period, silent, gap
             and metrics_sources; p50, p90, p99, p999: percentiles of the last
             minute, which need 2, 10, 100 and 1000 samples
  Operators  < <= > >= = == !=
  Values     90, 50ms, 0.05s, 1.5MB/s; with = and != also 90..110 and 100±10%
             (or 100+-10%)
  A metric without a value in the window fulfils no condition.";

/// Returns the names and patterns of the topics to show: `topics`. If `topics` is empty, returns the topics of the
/// expectations. If there are no expectations either, returns the topics of the conditions, provided that each
/// condition names a topic. An empty result means all topics.
pub fn patterns<'a>(
    topics: &[Pattern],
    expected: Option<&ExpectationFile>,
    conditions: impl Iterator<Item = &'a Condition>,
) -> Vec<Pattern> {
    match expected {
        _ if !topics.is_empty() => topics.to_vec(),
        Some(file) => file.patterns().cloned().collect(),
        None => {
            conditions.map(|condition| condition.topic.clone()).collect::<Option<_>>().unwrap_or_default()
        }
    }
}

/// Reads a duration in seconds. Errors unless the text is a number above 0, and at most 1e9 (32 years).
pub fn seconds(text: &str) -> Result<Duration, String> {
    let duration = Duration::try_from_secs_f64(number(text)?).unwrap_or_default();
    if duration.is_zero() || duration > Duration::from_secs(1_000_000_000) {
        return Err("it has to be more than 0 and at most 1e9 seconds".to_owned());
    }
    Ok(duration)
}

/// Reads the length of a window in seconds. Errors unless the text is a number from 0.1 to 86400.
pub fn window(text: &str) -> Result<Duration, String> {
    let seconds = number(text)?;
    if (0.1..=86400.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("a window has 0.1 to 86400 seconds".to_owned())
    }
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "it has to be a number of seconds: 10 or 0.5".to_owned())
}
