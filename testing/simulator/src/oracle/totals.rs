// SPDX-License-Identifier: Apache-2.0

//! Messages received and lost since the creation of a subscription.

use super::Bounds;

/// Messages received and lost since the creation of a subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    pub received: u64,
    pub lost: Option<u64>,
    pub out_of_order: Option<u64>,
    pub duplicates: Option<u64>,
    pub publishers: Option<u64>,
    pub bytes: Option<u64>,
    pub first: Option<Bounds>,
    pub last: Option<Bounds>,
    /// The time from the first message to the last message while the statistics were enabled, in nanoseconds.
    pub active: i64,
    pub intervals: Option<u64>,
}

impl Totals {
    pub fn rate(&self) -> f64 {
        match self.intervals {
            Some(intervals) if self.active > 0 => intervals as f64 / (self.active as f64 * 1e-9),
            _ => f64::NAN,
        }
    }

    /// Returns the sum of subscriptions with the same names. A subscription that received nothing lost nothing.
    pub fn sum(all: &[Self]) -> Option<Self> {
        let receiving: Vec<&Self> = all.iter().filter(|totals| totals.received > 0).collect();
        if receiving.is_empty() {
            return all.last().cloned();
        }
        let sum = |count: fn(&Self) -> Option<u64>| {
            receiving.iter().map(|totals| count(totals)).sum::<Option<u64>>()
        };
        let firsts = || receiving.iter().filter_map(|totals| totals.first);
        let lasts = || receiving.iter().filter_map(|totals| totals.last);
        let bounds = |earliest: Option<i64>, latest: Option<i64>| {
            earliest.zip(latest).map(|(earliest, latest)| Bounds { earliest, latest })
        };
        Some(Self {
            received: receiving.iter().map(|totals| totals.received).sum(),
            lost: sum(|totals| totals.lost),
            out_of_order: sum(|totals| totals.out_of_order),
            duplicates: sum(|totals| totals.duplicates),
            publishers: sum(|totals| totals.publishers),
            bytes: sum(|totals| totals.bytes),
            first: bounds(
                firsts().map(|first| first.earliest).min(),
                firsts().map(|first| first.latest).min(),
            ),
            last: bounds(lasts().map(|last| last.earliest).max(), lasts().map(|last| last.latest).max()),
            active: receiving.iter().map(|totals| totals.active).sum(),
            intervals: sum(|totals| totals.intervals),
        })
    }
}
