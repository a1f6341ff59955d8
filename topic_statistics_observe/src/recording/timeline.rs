// SPDX-License-Identifier: Apache-2.0

//! The windows of a topic in chronological order, in constant memory.

use std::time::{Duration, Instant};

use super::merged::Merged;
use crate::row::Window;

/// The windows of a topic, merged into at most [`SLOTS`](Self::SLOTS) slots of the same length.
///
/// When a window ends after the last slot, pairs of neighbouring slots are merged, so that all slots become twice as
/// long. So the timeline includes all windows of a run of any length.
#[derive(Clone, Debug)]
pub struct Timeline {
    length: Duration,
    /// The slots, one for each range of time. `None` if the range has no window.
    slots: Vec<Option<Slot>>,
}

/// The merged windows of one range of time. Times are relative to the start of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    pub began: Duration,
    pub ended: Duration,
    /// The length of the shortest window in the slot.
    pub window: Duration,
    pub rate: Merged,
    /// The number of messages lost. `None` if the number is unknown in every window.
    pub lost: Option<u64>,
    /// The statistics of each metric, by the position of the metric in the topic's list of metrics.
    metrics: Vec<Merged>,
}

impl Timeline {
    /// The maximum number of slots.
    pub const SLOTS: usize = 200;

    /// Creates a timeline whose slots have the length `length` at first, but at least 1 ms.
    pub fn new(length: Duration) -> Self {
        Self { length: length.max(Duration::from_millis(1)), slots: vec![] }
    }

    pub fn add(&mut self, slot: Slot) {
        // The middle of a window selects its slot, because the end can be just before or after a slot's boundary.
        let time = slot.ended.saturating_sub(slot.window / 2);
        while self.index(time) >= Self::SLOTS {
            self.halve();
        }
        let index = self.index(time);
        if index >= self.slots.len() {
            self.slots.resize(index + 1, None);
        }
        merge(&mut self.slots[index], slot);
    }

    fn index(&self, time: Duration) -> usize {
        usize::try_from(time.as_nanos() / self.length.as_nanos()).unwrap_or(usize::MAX)
    }

    fn halve(&mut self) {
        self.length = self.length.saturating_mul(2);
        let slots = std::mem::take(&mut self.slots);
        self.slots = vec![None; slots.len().div_ceil(2)];
        for (index, slot) in slots.into_iter().enumerate() {
            slot.into_iter().for_each(|slot| merge(&mut self.slots[index / 2], slot));
        }
    }

    /// Returns the slots with windows, divided into parts at gaps in time.
    pub fn parts(&self) -> Vec<Vec<&Slot>> {
        let mut parts: Vec<Vec<&Slot>> = vec![];
        for slot in self.slots.iter().flatten() {
            match parts.last_mut() {
                Some(part) if part.last().is_some_and(|last| last.is_followed_by(slot)) => part.push(slot),
                _ => parts.push(vec![slot]),
            }
        }
        parts
    }
}

fn merge(into: &mut Option<Slot>, slot: Slot) {
    match into {
        Some(before) => before.merge(&slot),
        None => *into = Some(slot),
    }
}

impl Slot {
    pub fn new(window: &Window, started: Instant, rate: Merged) -> Self {
        let ended = window.ended.saturating_duration_since(started);
        Self {
            began: ended.saturating_sub(window.length),
            ended,
            window: window.length,
            rate,
            lost: window.lost,
            metrics: vec![],
        }
    }

    pub fn set_metric(&mut self, position: usize, figures: Merged) {
        if position >= self.metrics.len() {
            self.metrics.resize(position + 1, Merged::NONE);
        }
        self.metrics[position] = figures;
    }

    /// Returns the statistics of the metric at a position, which are empty if the slot has no such metric.
    pub fn metric(&self, position: usize) -> Merged {
        self.metrics.get(position).copied().unwrap_or(Merged::NONE)
    }

    fn merge(&mut self, other: &Self) {
        self.began = self.began.min(other.began);
        self.ended = self.ended.max(other.ended);
        self.window = self.window.min(other.window);
        self.rate.merge(&other.rate);
        self.lost = match (self.lost, other.lost) {
            (Some(lost), Some(more)) => Some(lost.saturating_add(more)),
            (lost, more) => lost.or(more),
        };
        for (position, figures) in other.metrics.iter().enumerate() {
            let mut merged = self.metric(position);
            merged.merge(figures);
            self.set_metric(position, merged);
        }
    }

    /// Returns whether no window is missing between this slot and the next slot. The check tolerates a gap of half a
    /// window, because the monitor notices the end of a window only when it polls the rows.
    fn is_followed_by(&self, next: &Self) -> bool {
        next.began <= self.ended.saturating_add(next.window.max(self.window) / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, window};

    const PERIOD: usize = 0;

    /// Returns the slot of a window of one second that ends `stop` seconds after the start of the run.
    fn slot(stop: i64, rate: f64, period: f64, lost: Option<u64>) -> Slot {
        let window = Window { lost, ..window(stop, rate, 0) };
        let mut slot = Slot::new(&window, at(0), Merged::of_rate(rate, window.length));
        let figures = topic_statistics_core::Summary::new(period, period - 1.0, period + 1.0, 0.5, 10);
        slot.set_metric(PERIOD, Merged::from(&figures));
        slot
    }

    fn timeline(slots: impl IntoIterator<Item = Slot>) -> Timeline {
        let mut timeline = Timeline::new(Duration::from_secs(1));
        for slot in slots {
            timeline.add(slot);
            assert!(timeline.slots.len() <= Timeline::SLOTS);
        }
        timeline
    }

    #[test]
    fn no_window_is_left_out_however_long_the_run_is() {
        let rate = |stop| if stop == 5000 { 3.0 } else { 10.0 };
        let timeline = timeline((1..=86_400).map(|stop| slot(stop, rate(stop), stop as f64, Some(1))));
        assert_eq!(timeline.length, Duration::from_secs(512));
        let parts = timeline.parts();
        assert_eq!((parts.len(), parts[0].len()), (1, 169), "86400 / 512, rounded up");
        assert_eq!(parts[0].iter().filter_map(|slot| slot.lost).sum::<u64>(), 86_400);
        assert_eq!(parts[0].iter().map(|slot| slot.metric(PERIOD).count()).sum::<u64>(), 864_000);
        let first = parts[0][0];
        assert_eq!((first.began, first.ended), (Duration::ZERO, Duration::from_secs(512)));
        assert_eq!((first.metric(PERIOD).min(), first.metric(PERIOD).max()), (0.0, 513.0));
        assert!((first.metric(PERIOD).mean() - 256.5).abs() < 1e-9);
        // A peak in one window is still visible in the merged slot.
        assert_eq!(parts[0].iter().map(|slot| slot.rate.min()).fold(f64::NAN, f64::min), 3.0);
    }

    #[test]
    fn only_windows_that_are_missing_are_a_gap() {
        let missing = timeline([1, 2, 3, 7, 8, 20].map(|stop| slot(stop, 10.0, 100.0, None)));
        let lengths: Vec<usize> = missing.parts().iter().map(Vec::len).collect();
        assert_eq!((lengths, missing.parts()[0][0].lost), (vec![3, 2, 1], None), "unknown losses are not 0");
        // Windows that are longer than a slot, and windows that end late, cause no gap.
        let long = (1..=20).map(|number| {
            let five = slot(5 * number, 10.0, 100.0, Some(0));
            Slot { window: Duration::from_secs(5), began: five.ended - Duration::from_secs(5), ..five }
        });
        assert_eq!(timeline(long).parts().len(), 1);
        let late = (1..=100).map(|number| {
            let late = slot(number, 10.0, 100.0, Some(0));
            Slot { ended: late.ended + Duration::from_millis(number as u64 * 77 % 90), ..late }
        });
        assert_eq!(timeline(late).parts().len(), 1);
        // A window without samples has no period, instead of a period of zero.
        let silent = window(2, 0.0, 0);
        let silent = Slot::new(&silent, at(0), Merged::of_rate(0.0, silent.length));
        let silent = timeline([slot(1, 10.0, 100.0, Some(0)), silent]);
        let last = silent.parts()[0][1];
        assert!(last.rate.mean() == 0.0 && last.metric(PERIOD).is_none());
    }
}
