// SPDX-License-Identifier: Apache-2.0

//! Compares a bag with a baseline: what changed, and what could be chance.
//!
//! A sample is not a message. Messages that follow each other are alike: a late one delays the next, a busy second has
//! many late ones. A test that takes them as independent finds a change in every bag. So a sample is a block of
//! windows: the mean of a quantity over 1, 2, 4, ... windows. Blocks are made longer until they no longer depend on the
//! block before: until their autocorrelation (of ranks, at lag 1) is what chance gives. If fewer than [`MIN_BLOCKS`]
//! are left then, nothing is said of the quantity.
//!
//! Blocks are compared by the two-sided Mann-Whitney U test (Mann and Whitney 1947) with the normal approximation,
//! corrected for ties and for continuity. It needs no distribution: only the order of the blocks counts, so a single
//! outlier does not matter. Many quantities are tested at once, so p-values are adjusted by Holm's method (1979): if
//! nothing has changed, a comparison reports a change in one of a hundred runs at most.
//!
//! ```
//! use topic_statistics_bag::compare::{compare, Profile};
//! use std::time::Duration;
//!
//! // Filled by `Profile::add` in a `Visitor`, or read from JSON.
//! let (baseline, now) = (Profile::new(Duration::from_secs(1)), Profile::new(Duration::from_secs(1)));
//! assert!(compare(&baseline, &now)?.is_empty());
//! # Ok::<(), topic_statistics_bag::compare::DifferentWindows>(())
//! ```

mod blocks;
mod rank_test;

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use topic_statistics_core::Metric;

use crate::session::TopicWindow;
use blocks::Blocks;
pub use blocks::{InvalidBlocks, MAX_BLOCKS};
use rank_test::{rank_test, ranks};

/// The fewest blocks of each side that are compared.
pub const MIN_BLOCKS: usize = 8;

/// The largest adjusted p-value of a change.
pub const SIGNIFICANCE: f64 = 0.01;

/// What is compared of a bag: blocks of windows of each quantity of each topic. Its memory depends on the number of
/// topics, not on the length of the bag. It can be written as JSON, and read again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The length of a window, in nanoseconds.
    window: u64,
    topics: BTreeMap<String, BTreeMap<String, Blocks>>,
}

impl Profile {
    /// Creates an empty profile of windows of that length.
    pub fn new(window: Duration) -> Self {
        Self { window: u64::try_from(window.as_nanos()).unwrap_or(u64::MAX), topics: BTreeMap::new() }
    }

    /// Adds a window. Windows without the whole length are left out.
    pub fn add(&mut self, window: &TopicWindow<'_>) {
        if !window.is_whole {
            return;
        }
        let statistics = &window.statistics;
        let name = window.topic.name();
        if !self.topics.contains_key(name) {
            self.topics.insert(name.to_owned(), BTreeMap::new());
        }
        let Some(quantities) = self.topics.get_mut(name) else { return };
        let mut add = |quantity: &str, value: f64| match quantities.get_mut(quantity) {
            Some(blocks) => blocks.add(value),
            None if value.is_finite() => {
                let mut blocks = Blocks::default();
                blocks.add(value);
                quantities.insert(quantity.to_owned(), blocks);
            }
            None => {}
        };
        add(RATE, statistics.rate());
        add(BANDWIDTH, statistics.bandwidth());
        for (metric, summary) in &statistics.metrics {
            if *metric == Metric::TimeSinceLastMessage {
                continue; // where in its period the window ends
            }
            add(metric.name(), summary.average);
            if has_maximum(*metric) {
                add(&maximum_of(*metric), summary.maximum);
            }
        }
    }
}

/// Messages per second, in Hz.
const RATE: &str = "rate";
/// Bytes per second.
const BANDWIDTH: &str = "bandwidth";

/// Returns whether the largest sample of each window is compared, too.
fn has_maximum(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::MessageAge | Metric::MessagePeriod | Metric::HeaderToSource | Metric::SourceToReceive
    )
}

fn maximum_of(metric: Metric) -> String {
    format!("{}.max", metric.name())
}

/// Profiles have windows of different lengths: their blocks cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "The baseline has windows of {baseline:?}, this bag has windows of {now:?}: both have to be the same"
)]
pub struct DifferentWindows {
    /// Those of the baseline.
    pub baseline: Duration,
    /// Those of the other bag.
    pub now: Duration,
}

/// A quantity of a topic in two bags.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// The topic.
    pub topic: String,
    /// `rate` (Hz), `bandwidth` (bytes per second), the name of a metric (its mean in each window), or that with `.max`
    /// (its largest sample in each window).
    pub quantity: String,
    /// The median of the baseline's blocks; NaN without one.
    pub baseline: f64,
    /// The median of the other bag's blocks; NaN without one.
    pub now: f64,
    /// The number of blocks that are compared: of the baseline, of the other bag.
    pub blocks: (usize, usize),
    /// The windows of a block.
    pub windows: u64,
    /// The probability that a block of the other bag is larger than one of the baseline, from 0 to 1; 0.5 if there is
    /// no difference. NaN if they were not compared.
    pub superiority: f64,
    /// The p-value, adjusted for all comparisons; NaN if they were not compared.
    pub p_value: f64,
    /// What can be said.
    pub verdict: Verdict,
}

/// What can be said of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It is better than in the baseline.
    Better,
    /// It is worse than in the baseline.
    Worse,
    /// It is another one than in the baseline, which is neither better nor worse: bytes.
    Different,
    /// The difference, if there is any, could be chance.
    CouldBeChance,
    /// There are fewer than [`MIN_BLOCKS`] blocks that are independent of each other, in one of the bags.
    TooFew,
}

/// Compares each quantity of each topic of two bags. In the order of topics and quantities.
///
/// Errors if their windows have different lengths.
pub fn compare(baseline: &Profile, now: &Profile) -> Result<Vec<Comparison>, DifferentWindows> {
    if baseline.window != now.window {
        let [baseline, now] = [baseline, now].map(|profile| Duration::from_nanos(profile.window));
        return Err(DifferentWindows { baseline, now });
    }
    let mut names: Vec<(&str, &str)> = vec![];
    for profile in [baseline, now] {
        for (topic, quantities) in &profile.topics {
            names.extend(quantities.keys().map(|quantity| (&**topic, &**quantity)));
        }
    }
    names.sort_unstable();
    names.dedup();
    let none = Blocks::default();
    let blocks = |profile: &Profile, (topic, quantity): (&str, &str)| -> Blocks {
        profile.topics.get(topic).and_then(|quantities| quantities.get(quantity)).unwrap_or(&none).clone()
    };
    let mut comparisons: Vec<_> =
        names.iter().map(|name| one(name.0, name.1, &blocks(baseline, *name), &blocks(now, *name))).collect();
    adjust(&mut comparisons);
    Ok(comparisons)
}

/// Compares one quantity. The p-value is not adjusted.
fn one(topic: &str, quantity: &str, baseline: &Blocks, now: &Blocks) -> Comparison {
    let mut size = baseline.size().max(now.size());
    let (before, after, is_enough) = loop {
        let (before, after) = (baseline.of_size(size), now.of_size(size));
        if before.len().min(after.len()) < MIN_BLOCKS {
            break (before, after, false);
        }
        if is_independent(&before) && is_independent(&after) {
            break (before, after, true);
        }
        size += 1;
    };
    let test = is_enough.then(|| rank_test(&before, &after));
    Comparison {
        topic: topic.to_owned(),
        quantity: quantity.to_owned(),
        // Also of too few.
        baseline: median(baseline.of_size(baseline.size())),
        now: median(now.of_size(now.size())),
        blocks: (before.len(), after.len()),
        windows: 1 << size.min(63),
        superiority: test.map_or(f64::NAN, |test| test.superiority),
        p_value: test.map_or(f64::NAN, |test| test.p_value),
        verdict: if is_enough { Verdict::CouldBeChance } else { Verdict::TooFew },
    }
}

/// Adjusts p-values by Holm's method, and decides.
fn adjust(comparisons: &mut [Comparison]) {
    let mut tested: Vec<_> =
        comparisons.iter_mut().filter(|comparison| comparison.verdict != Verdict::TooFew).collect();
    tested.sort_by(|one, other| one.p_value.total_cmp(&other.p_value));
    let (count, mut largest) = (tested.len(), 0.0_f64);
    for (rank, comparison) in tested.into_iter().enumerate() {
        largest = largest.max(comparison.p_value * (count - rank) as f64).min(1.0);
        comparison.p_value = largest;
        if largest >= SIGNIFICANCE {
            continue;
        }
        let is_larger = comparison.superiority > 0.5;
        comparison.verdict = match &*comparison.quantity {
            RATE if is_larger => Verdict::Better,
            RATE => Verdict::Worse,
            BANDWIDTH => Verdict::Different,
            quantity if quantity == Metric::MessageSize.name() => Verdict::Different,
            _ if is_larger => Verdict::Worse,
            _ => Verdict::Better,
        };
    }
}

/// Returns whether the autocorrelation of ranks at lag 1 is what chance gives to independent blocks, in 97 of 100
/// cases.
fn is_independent(blocks: &[f64]) -> bool {
    let ranks = ranks(blocks);
    let count = ranks.len() as f64;
    let mean = ranks.iter().sum::<f64>() / count;
    let squares: f64 = ranks.iter().map(|rank| (rank - mean).powi(2)).sum();
    if squares == 0.0 {
        return true; // all are equal
    }
    let products: f64 = ranks.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    products / squares <= 2.0 / count.sqrt()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => values[count / 2 - 1] / 2.0 + values[count / 2] / 2.0,
    }
}

#[cfg(test)]
mod tests;
