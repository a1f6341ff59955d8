// SPDX-License-Identifier: Apache-2.0

//! One metric of a source: the last window, and totals.

use std::time::Instant;

use rclrs_topic_statistics::{Distribution, Metric, Summary, Window};

use super::{
    budget::NotAdded,
    first_zero::FirstZero,
    histogram::Histogram,
    life::{Kept, Life},
    now::Now,
    receipt::Receipt,
};
use crate::model::Unit;

/// The quantiles of the last window that are kept.
pub const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// One metric of a source.
#[derive(Debug)]
pub struct MetricState {
    pub(super) receipt: Receipt,
    /// The figures received on `/statistics`.
    pub window: Option<WindowState>,
    /// The samples received on `/statistics/distribution`.
    pub distribution: Option<DistributionState>,
}

/// The figures of one metric.
#[derive(Debug)]
pub struct WindowState {
    /// The figures of the last window, in the base unit.
    pub figures: Summary,
    /// The sum of all windows.
    pub total: Total,
    /// When windows were received.
    pub life: Life,
}

/// The distribution of one metric.
#[derive(Debug)]
pub struct DistributionState {
    /// The [`QUANTILES`] of the last window, in the base unit. `None` with too few samples.
    pub quantiles: [Option<f64>; QUANTILES.len()],
    /// The samples of all windows.
    pub total: Histogram,
    /// When windows were received.
    pub life: Life,
}

/// The samples of all windows since the metric is known. Both fields only grow.
///
/// A sum of negative samples would fall, which a reader takes for a restart. So windows with a negative sample are in
/// neither field; `negative_windows` counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Total {
    /// The number of samples.
    pub count: u64,
    /// Their sum, in the base unit.
    pub sum: f64,
    /// Windows with a negative sample: the clocks of two hosts differ.
    pub negative_windows: FirstZero,
}

impl MetricState {
    /// How many time series a metric is, at most: average, minimum, maximum, standard deviation; sum, count and
    /// negative windows; three quantiles and a histogram. Classic buckets are further ones.
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
        metric: Metric,
        window: Window,
        distribution: &Distribution,
        now: Now,
    ) -> Result<(), NotAdded> {
        let factor = Unit::new(metric.unit()).1;
        let state = match &mut self.distribution {
            Some(state) => {
                state.life.accept(window, now)?;
                state
            }
            none => none.insert(DistributionState {
                quantiles: [None; QUANTILES.len()],
                total: Histogram::new(factor),
                life: Life::new(window, now),
            }),
        };
        state.quantiles = QUANTILES.map(|quantile| {
            let value = distribution.quantile(quantile);
            (!value.is_nan()).then_some(value * factor)
        });
        self.receipt.last = now.monotonic;
        state.total.add(distribution)
    }

    /// A scrape begins.
    pub(super) fn begin_scrape(&mut self) {
        if let Some(window) =
            self.window.as_mut().filter(|window| window.total.negative_windows != FirstZero::default())
        {
            window.total.negative_windows.begin_scrape();
        }
    }

    /// Removes ended figures. Returns whether anything is left.
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
