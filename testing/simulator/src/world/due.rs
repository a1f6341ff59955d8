// SPDX-License-Identifier: Apache-2.0

//! A message that has to be published.

use std::sync::Arc;

use topic_statistics_core::{
    record::{host, source::Source},
    Metric, WindowStatistics,
};

use super::readers::{Figures, Published};
use crate::same::is_same;

/// A message that has to be published.
pub struct Due {
    pub source: Arc<Source>,
    pub metric: Metric,
    /// Whether it is the metric's distribution.
    pub is_distribution: bool,
    pub statistics: Arc<WindowStatistics>,
}

/// Compares a message with the window that it is of.
pub fn check_message(message: &Published, due: &Due) -> Result<(), String> {
    let is_of_host = due.metric == Metric::ClockOffset;
    let name = if is_of_host { host::name() } else { due.source.name.to_string() };
    let has_figures = match &message.figures {
        Figures::Summary(summary) if !due.is_distribution => {
            let expected = due.statistics.get(due.metric).copied().unwrap_or_default();
            summary.sample_count == expected.sample_count
                && [
                    (summary.average, expected.average),
                    (summary.maximum, expected.maximum),
                    (summary.minimum, expected.minimum),
                    (summary.standard_deviation, expected.standard_deviation),
                ]
                .into_iter()
                .all(|(figure, expected)| is_same(figure, expected, 1.0))
        }
        Figures::Distribution(distribution) if due.is_distribution => {
            due.statistics.distribution(due.metric) == Some(&**distribution)
        }
        _ => false,
    };
    if message.source != name
        || message.metric != due.metric
        || message.window != due.statistics.window
        || !has_figures
    {
        return Err(format!("message {message:?}, expected {} of {:?}", due.metric, due.statistics));
    }
    Ok(())
}
