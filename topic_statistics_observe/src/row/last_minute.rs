// SPDX-License-Identifier: Apache-2.0

//! The distributions of a topic's metrics in the last minute.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use topic_statistics_core::{collector::Distribution, Metric, WindowStatistics};

const MINUTE: Duration = Duration::from_secs(60);

/// The distributions of the windows that ended in the last minute, for each metric with a distribution. The memory is
/// limited to [`SLOTS`](Self::SLOTS) distributions for each metric.
///
/// Windows are merged into slots of ten seconds, and a slot is removed as a whole. So the samples are from the last 50
/// to 60 seconds.
#[derive(Clone, Debug, Default)]
pub struct LastMinute(BTreeMap<Metric, VecDeque<Slot>>);

/// The windows that ended within ten seconds.
#[derive(Clone, Debug)]
struct Slot {
    /// When the first window of the slot ended.
    since: Instant,
    /// The merged distribution of the windows. Copies of the row that a view draws share this distribution.
    distribution: Arc<Distribution>,
}

impl LastMinute {
    /// The maximum number of distributions kept for a metric.
    pub const SLOTS: usize = 6;

    pub fn add_window(&mut self, statistics: &WindowStatistics, ended: Instant) {
        for metric in Metric::OF_SUBSCRIPTIONS {
            if let Some(distribution) = statistics.distribution(*metric) {
                self.add(*metric, distribution, ended);
            }
        }
    }

    pub fn add(&mut self, metric: Metric, distribution: &Distribution, ended: Instant) {
        let slots = self.0.entry(metric).or_default();
        slots.retain(|slot| slot.is_in_minute_before(ended));
        let length = MINUTE / Self::SLOTS as u32;
        if let Some(last) = slots.back_mut() {
            // The merge fails if the number of samples overflows; a new slot follows then. Only a malicious message
            // contains so many samples.
            let is_merged = ended.saturating_duration_since(last.since) < length
                && Arc::make_mut(&mut last.distribution).merge(distribution);
            if is_merged {
                return;
            }
        }
        if slots.len() == Self::SLOTS {
            slots.pop_front();
        }
        slots.push_back(Slot { since: ended, distribution: Arc::new(distribution.clone()) });
    }

    /// Returns the distribution of a metric. `None` if there is no sample, or if the number of samples overflows.
    pub fn distribution(&self, metric: Metric, now: Instant) -> Option<Distribution> {
        let slots = self.0.get(&metric)?.iter().filter(|slot| slot.is_in_minute_before(now));
        let mut all = Distribution::default();
        for slot in slots {
            if !all.merge(&slot.distribution) {
                return None;
            }
        }
        (all.count() > 0).then_some(all)
    }

    /// Returns the metrics that have a distribution, in the order of [`Metric::ALL`].
    pub fn metrics(&self, now: Instant) -> impl Iterator<Item = Metric> + '_ {
        let has_slots = move |slots: &VecDeque<Slot>| slots.iter().any(|slot| slot.is_in_minute_before(now));
        self.0.iter().filter(move |(_, slots)| has_slots(slots)).map(|(metric, _)| *metric)
    }
}

impl Slot {
    fn is_in_minute_before(&self, time: Instant) -> bool {
        time.saturating_duration_since(self.since) < MINUTE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, distribution as of};
    use std::time::Duration;

    const AGE: Metric = Metric::MessageAge;

    fn huge() -> Distribution {
        let mut huge = of(&[1.0]);
        (0..62).for_each(|_| assert!(huge.merge(&huge.clone())));
        huge
    }

    #[test]
    fn windows_are_merged_and_their_percentiles_are_not_averaged() {
        let mut minute = LastMinute::default();
        // The p99 of the first window is 1, and the p99 of the second window is 100.
        minute.add(AGE, &of(&[1.0; 1000]), at(1));
        minute.add(AGE, &of(&[[1.0; 90], [100.0; 90]].concat()), at(15));
        let all = minute.distribution(AGE, at(15)).unwrap();
        // 90 of 1180 samples have the value 100, so 92.4 % have the value 1.
        assert!((all.quantile(0.9) - 1.0).abs() <= all.relative_error(), "{all:?}");
        assert!((all.quantile(0.93) - 100.0).abs() <= 100.0 * all.relative_error(), "{all:?}");
        assert_eq!((all.count(), all.minimum(), all.maximum()), (1180, 1.0, 100.0));
        assert!(minute.distribution(Metric::MessagePeriod, at(15)).is_none());
        assert_eq!(minute.metrics(at(15)).collect::<Vec<_>>(), [AGE]);
    }

    #[test]
    fn a_window_leaves_the_last_minute_with_its_slot() {
        let mut minute = LastMinute::default();
        (1..=100).for_each(|second| minute.add(AGE, &of(&[second as f64]), at(second)));
        // A slot begins every ten seconds: at 1 s, 11 s, and so on. At 100 s, only the slots from 41 s on are younger
        // than a minute.
        for (now, first, count) in
            [(100, 41.0, 60), (101, 51.0, 50), (110, 51.0, 50), (111, 61.0, 40), (150, 91.0, 10)]
        {
            let all = minute.distribution(AGE, at(now)).unwrap();
            assert_eq!((all.minimum(), all.count()), (first, count), "at {now}");
        }
        // One minute after its last message, a topic has no percentiles, even if no window ends.
        assert!(minute.distribution(AGE, at(151)).is_none());
        assert_eq!(minute.metrics(at(151)).count(), 0);
        // Windows of 0.1 s are also merged, and are removed with their slot.
        let mut minute = LastMinute::default();
        for tenth in 0..6000 {
            let ended = at(0) + Duration::from_millis(100 * tenth);
            minute.add(AGE, &of(&[tenth as f64]), ended);
            assert!(minute.0[&AGE].len() <= LastMinute::SLOTS);
            let oldest = (ended - at(0)).saturating_sub(Duration::from_secs(60)).as_secs_f64() * 10.0;
            let all = minute.distribution(AGE, ended).unwrap();
            assert!((oldest..=oldest + 101.0).contains(&all.minimum()), "{} at {tenth}", all.minimum());
        }
    }

    #[test]
    fn a_number_of_samples_without_room_has_no_distribution() {
        let huge = huge();
        let mut minute = LastMinute::default();
        minute.add(AGE, &huge, at(1));
        minute.add(AGE, &huge, at(12));
        assert_eq!(minute.distribution(AGE, at(12)).unwrap().count(), 1 << 63);
        minute.add(AGE, &of(&[1.0]), at(23));
        assert!(minute.distribution(AGE, at(23)).is_none(), "the number of samples overflows");
        assert_eq!(minute.distribution(AGE, at(72)).unwrap().count(), 1, "the other windows are too old");
        (0..20).for_each(|_| minute.add(AGE, &huge, at(73)));
        assert_eq!(minute.0[&AGE].len(), LastMinute::SLOTS, "each second one has no room in its slot");
    }
}
