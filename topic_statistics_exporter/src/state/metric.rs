// SPDX-License-Identifier: Apache-2.0

//! One metric of a source: the figures of the last window, and the totals of all windows.

use std::time::Instant;

use rclrs_topic_statistics::{Summary, Window};
use topic_statistics_observe::ros::wire::MetricDistribution;

use super::{
    budget::{NotAdded, Receipt},
    histogram::Histogram,
    life::{Kept, Life, Now},
};
use crate::model::base_unit;

/// The quantiles that the exporter computes from the distribution of the last window.
pub const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

#[derive(Debug)]
pub struct MetricState {
    pub(super) receipt: Receipt,
    /// The figures received on `/statistics`.
    pub window: Option<WindowState>,
    /// The samples received on `/statistics/distribution`.
    pub distribution: Option<DistributionState>,
}

#[derive(Debug)]
pub struct WindowState {
    /// The figures of the last window, in the base unit of the metric.
    pub figures: Summary,
    pub total: Total,
    pub life: Life,
}

#[derive(Debug)]
pub struct DistributionState {
    /// The [`QUANTILES`] of the last window, in the base unit of the metric. `None` if the window has too few samples.
    pub quantiles: [Option<f64>; QUANTILES.len()],
    pub total: Histogram,
    pub life: Life,
}

/// The totals of a metric's samples since the first window. All fields only grow.
///
/// A negative sample would reduce `sum`, and Prometheus would interpret the lower sum as a restart. So `count` and
/// `sum` do not include windows with a negative sample. `negative_windows` counts these windows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Total {
    pub count: u64,
    /// The sum of the samples in `count`, in the base unit of the metric.
    pub sum: f64,
    /// The number of windows with a negative sample. The usual cause is that the clocks of two hosts differ.
    pub negative_windows: FirstZero,
}

impl MetricState {
    /// The largest number of time series of a metric, without classic buckets: average, minimum, maximum and standard
    /// deviation; sum, count and negative windows; three quantiles; a histogram.
    pub const SERIES: usize = 8 + QUANTILES.len();

    pub(super) fn new(receipt: Receipt) -> Self {
        Self { receipt, window: None, distribution: None }
    }

    pub(super) fn accept_window(
        &mut self,
        window: Window,
        figures: Summary,
        now: Now,
    ) -> Result<(), NotAdded> {
        let state = match &mut self.window {
            Some(state) => {
                state.life.accept(window, now)?;
                state.figures = figures;
                state
            }
            none => {
                none.insert(WindowState { figures, total: Total::default(), life: Life::new(window, now) })
            }
        };
        state.total.add(&figures);
        self.receipt.last = now.monotonic;
        Ok(())
    }

    pub(super) fn accept_distribution(
        &mut self,
        message: &MetricDistribution,
        now: Now,
    ) -> Result<(), NotAdded> {
        let MetricDistribution { metric, window, distribution, .. } = message;
        let factor = base_unit(metric.unit()).1;
        let state = match &mut self.distribution {
            Some(state) => {
                state.life.accept(*window, now)?;
                state
            }
            none => none.insert(DistributionState {
                quantiles: [None; QUANTILES.len()],
                total: Histogram::new(factor),
                life: Life::new(*window, now),
            }),
        };
        state.quantiles = QUANTILES.map(|quantile| {
            let value = distribution.quantile(quantile);
            (!value.is_nan()).then_some(value * factor)
        });
        self.receipt.last = now.monotonic;
        state.total.add(distribution)
    }

    pub(super) fn begin_scrape(&mut self) {
        if let Some(window) =
            self.window.as_mut().filter(|window| window.total.negative_windows != FirstZero::default())
        {
            window.total.negative_windows.begin_scrape();
        }
    }

    /// Removes ended figures. Returns whether the metric still has figures.
    pub(super) fn expire(&mut self, kept: Kept, now: Instant) -> bool {
        self.window.take_if(|state| state.life.is_over(kept, now));
        self.distribution.take_if(|state| state.life.is_over(kept, now));
        self.window.is_some() || self.distribution.is_some()
    }
}

impl Total {
    fn add(&mut self, figures: &Summary) {
        let sum = figures.average * figures.sample_count as f64;
        if sum.is_nan() {
            return;
        }
        if sum < 0.0 || figures.minimum < 0.0 {
            self.negative_windows.add(1);
        } else {
            self.count += figures.sample_count;
            self.sum += sum;
        }
    }
}

/// A counter that is 0 in its first scrape, so that a scraper sees its first increase.
///
/// Prometheus computes an increase from two successive values of a time series. If a counter is already above 0 when it
/// first appears, there is no earlier value, and `increase()` is 0. So the first scrape returns 0, and later scrapes
/// return the count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstZero {
    count: u64,
    /// The number of scrapes since the counter was created. After the second scrape, this number stays 2.
    scrapes: u8,
}

impl FirstZero {
    pub(super) fn add(&mut self, more: u64) {
        self.count = self.count.saturating_add(more);
    }

    pub(super) fn begin_scrape(&mut self) {
        self.scrapes = self.scrapes.saturating_add(1).min(2);
    }

    /// Returns the count, or 0 in the first scrape.
    pub fn scraped(self) -> u64 {
        if self.scrapes == 1 {
            0
        } else {
            self.count
        }
    }

    /// Returns the count. This is for an output such as OTLP, which also sends the time when the counter was 0.
    pub fn count(self) -> u64 {
        self.count
    }
}
