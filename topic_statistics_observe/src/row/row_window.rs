// SPDX-License-Identifier: Apache-2.0

//! The conversion of a subscription's window into the window of a row.

use std::{sync::Arc, time::Instant};

use topic_statistics_core::{ClockStep, Metric, Totals, WindowStatistics};

use crate::row::{MetricFigures, Window};

/// Converts a window of a subscription. `before` has the totals at the end of the previous window.
pub fn row_window(window: &WindowStatistics, before: &Totals, ended: Instant) -> Window {
    let totals = window.totals.unwrap_or_default();
    let since = totals.received.saturating_sub(before.received);
    let gap = window.get(Metric::PublicationSeqGap).filter(|gap| gap.sample_count > 0);
    let gaps = gap.map(|gap| (gap.average * gap.sample_count as f64).round() as u64);
    let bytes = match window.get(Metric::MessageSize) {
        _ if window.count == 0 => Some(0),
        Some(sizes) if sizes.sample_count == window.count => {
            Some((sizes.average * window.count as f64).round() as u64)
        }
        _ => None,
    };
    let metrics = window.metrics.iter().map(|(metric, summary)| MetricFigures {
        name: metric.name().to_owned(),
        unit: metric.unit().to_owned(),
        figures: *summary,
    });
    let metrics_of_subscriptions = Metric::OF_SUBSCRIPTIONS.iter().copied();
    let distributions = metrics_of_subscriptions
        .filter_map(|metric| Some((metric, Arc::new(window.distribution(metric)?.clone()))));
    Window {
        clock_step: window.clock_step.map(ClockStep::as_nanoseconds),
        rate: window.rate(),
        received: window.is_count_known.then_some(window.count),
        lost: in_window(totals.lost, before.lost, window.count, since, gaps),
        lost_since: totals.lost.map(|lost| lost.saturating_sub(before.lost.unwrap_or_default())),
        out_of_order: in_window(totals.out_of_order, before.out_of_order, window.count, since, None),
        bytes,
        unstamped: window.unstamped,
        without_clock: window.without_clock,
        other_clock: window.other_clock,
        has_history: window.has_history,
        metrics: metrics.collect(),
        distributions: distributions.collect(),
        ..Window::new(window.window, ended, window.length)
    }
}

/// Returns how many messages were lost (or out of order) in a window of `received` messages. `total` is the total at
/// the end of the window; `before` is the total at the end of the previous window that was read. `since` messages were
/// received since the end of the previous window that was read.
///
/// If `since` is more than `received`, the monitor did not read some windows before this window, because the monitor
/// had no CPU time. In that case, the result is `own`: the number from the metrics of this window, or `None`.
fn in_window(
    total: Option<u64>,
    before: Option<u64>,
    received: u64,
    since: u64,
    own: Option<u64>,
) -> Option<u64> {
    let new = total?.saturating_sub(before.unwrap_or_default());
    match received {
        _ if since == received => Some(new),
        0 => Some(0),
        _ => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_its_own_figures_where_others_were_not_read() {
        assert_eq!(in_window(Some(12), Some(10), 50, 50, Some(3)), Some(2), "one lost message arrived later");
        assert_eq!(in_window(Some(12), None, 50, 50, Some(12)), Some(12), "the first window");
        assert_eq!(in_window(Some(612), Some(10), 50, 2450, Some(1)), Some(1));
        assert_eq!(in_window(Some(612), Some(10), 50, 2450, None), None);
        assert_eq!(in_window(Some(612), Some(10), 0, 2450, None), Some(0), "a window without messages");
        assert_eq!(in_window(None, Some(10), 50, 50, None), None);
    }
}
