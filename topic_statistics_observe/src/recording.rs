// SPDX-License-Identifier: Apache-2.0

//! The content of the report of a run: the windows of each topic, merged so that the memory is limited, and the failed
//! conditions.

mod merged;
mod timeline;
mod verdict;

pub use merged::Merged;
pub use timeline::{Slot, Timeline};
pub use verdict::{Failure, Verdict};

use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime},
};

use topic_statistics_core::collector::Distribution;

use crate::{
    require::Condition,
    row::{LastMinute, Row},
};

/// The windows of a run of a program, which the report shows.
///
/// The size of a recording in memory depends on the number of topics, not on the length of the run. A recording has at
/// most [`MAX_TOPICS`](Self::MAX_TOPICS) topics, and one [`Timeline`] for each topic.
#[derive(Debug)]
pub struct Recording {
    /// When the run started, on the monotonic clock.
    pub started: Instant,
    /// When the run started, on the system clock.
    pub started_at: SystemTime,
    /// The length of a timeline's slots (ranges of time) at the start of the run.
    slot: Duration,
    /// The conditions that the windows are checked against.
    pub conditions: Vec<Condition>,
    topics: BTreeMap<String, RecordedTopic>,
    /// The number of windows that were not recorded, because the recording had no room for their topics.
    pub left_out: u64,
}

/// The windows of a topic, or of a source of statistics.
#[derive(Debug)]
pub struct RecordedTopic {
    /// The topic's row when its last window was recorded. If the topic had no window, the row at the end of the run.
    pub row: Row,
    pub windows: u64,
    /// The number of windows in which the system clock was stepped.
    pub stepped: u64,
    /// The rates of all windows in Hz, weighted by the lengths of the windows.
    pub rate: Merged,
    /// The metrics of all windows, at most 16 metrics.
    pub metrics: Vec<RecordedMetric>,
    pub timeline: Timeline,
    /// For each condition about the topic, its index in [`Recording::conditions`], and the verdict.
    verdicts: Vec<(usize, Verdict)>,
}

/// The samples of a metric in all windows.
#[derive(Debug)]
pub struct RecordedMetric {
    pub name: String,
    pub unit: String,
    pub figures: Merged,
    /// The samples of all windows that have a distribution. Windows of other nodes may have no distribution.
    pub distribution: Distribution,
}

impl Recording {
    /// The maximum number of recorded topics. By default, the monitor also has at most this number of sources of
    /// statistics.
    const MAX_TOPICS: usize = 1000;

    /// Starts a recording of windows of the length `window`.
    pub fn new(window: Duration, conditions: Vec<Condition>) -> Self {
        Self {
            started: Instant::now(),
            started_at: SystemTime::now(),
            slot: window,
            conditions,
            topics: BTreeMap::new(),
            left_out: 0,
        }
    }

    pub fn add(&mut self, row: &Row) {
        let is_known = self.topics.contains_key(&row.name);
        if !is_known && self.topics.len() >= Self::MAX_TOPICS {
            self.left_out += 1;
            return;
        }
        let topic = self
            .topics
            .entry(row.name.clone())
            .or_insert_with(|| RecordedTopic::new(row, self.slot, &self.conditions));
        topic.add(row, self.started, &self.conditions);
    }

    /// Adds the rows that never had a window, and takes the totals at the end. Marks the conditions that never had a
    /// value as failed.
    pub fn finish(&mut self, rows: &[&Row], now: Instant) {
        for row in rows {
            if let Some(RecordedTopic { row: last, .. }) = self.topics.get_mut(&row.name) {
                (last.received, last.lost, last.out_of_order) = (row.received, row.lost, row.out_of_order);
                last.publishers.clone_from(&row.publishers);
            } else if self.topics.len() < Self::MAX_TOPICS {
                self.topics.insert(row.name.clone(), RecordedTopic::new(row, self.slot, &self.conditions));
            }
        }
        for topic in self.topics.values_mut() {
            for (_, verdict) in &mut topic.verdicts {
                verdict.finish(&topic.row, now);
            }
        }
    }

    /// Returns the topics, sorted: topics with failed conditions first, then from the worst state to the best state.
    pub fn topics(&self, now: Instant) -> Vec<&RecordedTopic> {
        let mut topics: Vec<_> = self.topics.values().collect();
        topics.sort_by_cached_key(|topic| (!topic.is_failed(), topic.row.status(now)));
        topics
    }

    /// Returns the verdict of each condition for each topic that the condition is about, ordered by condition.
    pub fn verdicts(&self) -> Vec<(&Condition, &RecordedTopic, &Verdict)> {
        let mut verdicts = vec![];
        for (number, condition) in self.conditions.iter().enumerate() {
            for topic in self.topics.values() {
                let verdict = topic.verdicts.iter().find(|(of, _)| *of == number);
                verdicts.extend(verdict.map(|(_, verdict)| (condition, topic, verdict)));
            }
        }
        verdicts
    }

    /// Returns the conditions that match none of the recorded topics.
    pub fn unmatched(&self) -> impl Iterator<Item = &Condition> {
        let is_about =
            |condition: &Condition| self.topics.values().any(|topic| condition.is_about(&topic.row));
        self.conditions.iter().filter(move |condition| !is_about(condition))
    }

    /// Returns a line for each condition that failed.
    pub fn failures(&self) -> Vec<String> {
        let unmatched = self.unmatched().map(|condition| format!("{condition} fails: no topic matches"));
        let failed = self.verdicts().into_iter().filter_map(|(condition, topic, verdict)| {
            verdict.text(condition).map(|text| format!("{}: {text}", crate::format::name(&topic.row.name)))
        });
        unmatched.chain(failed).collect()
    }
}

impl RecordedTopic {
    /// The maximum number of metrics recorded for a topic. Only sources of statistics can have more metrics.
    const MAX_METRICS: usize = 16;

    fn new(row: &Row, slot: Duration, conditions: &[Condition]) -> Self {
        let verdicts = conditions.iter().enumerate().filter(|(_, condition)| condition.is_about(row));
        Self {
            row: row.clone(),
            windows: 0,
            stepped: 0,
            rate: Merged::NONE,
            metrics: vec![],
            timeline: Timeline::new(slot),
            verdicts: verdicts.map(|(number, _)| (number, Verdict::default())).collect(),
        }
    }

    fn add(&mut self, row: &Row, started: Instant, conditions: &[Condition]) {
        let Some(window) = &row.window else { return };
        // The report does not need the distributions of the last minute, so they are not stored: only the conditions
        // need them.
        self.row = Row { last_minute: LastMinute::default(), ..row.clone() };
        self.windows += 1;
        self.stepped += u64::from(window.clock_step.is_some());
        let rate = Merged::of_rate(window.rate, window.length);
        self.rate.merge(&rate);
        let mut slot = Slot::new(window, started, rate);
        for measured in &window.metrics {
            let figures = Merged::from(&measured.figures);
            let known = self.metrics.iter().position(|metric| metric.name == measured.name);
            if known.is_none() && self.metrics.len() >= Self::MAX_METRICS {
                continue;
            }
            let position = known.unwrap_or_else(|| {
                self.metrics.push(RecordedMetric::new(&measured.name, &measured.unit));
                self.metrics.len() - 1
            });
            slot.set_metric(position, figures);
            let metric = &mut self.metrics[position];
            let distribution = window.distributions.iter().find(|(metric, _)| metric.name() == measured.name);
            metric.add(&figures, distribution.map(|(_, distribution)| &**distribution));
        }
        let ended = slot.ended;
        self.timeline.add(slot);
        for (number, verdict) in &mut self.verdicts {
            verdict.judge(&conditions[*number], row, window, ended);
        }
    }

    /// Returns the metric with the `metrics_source` `name`. `None` if no window had this metric.
    pub fn metric(&self, name: &str) -> Option<&RecordedMetric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// Returns the index of a metric, which is the same in each slot of the timeline.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.metrics.iter().position(|metric| metric.name == name)
    }

    pub fn is_failed(&self) -> bool {
        self.verdicts.iter().any(|(_, verdict)| verdict.is_failed())
    }
}

impl RecordedMetric {
    pub fn new(name: &str, unit: &str) -> Self {
        Self {
            name: name.to_owned(),
            unit: unit.to_owned(),
            figures: Merged::NONE,
            distribution: Distribution::default(),
        }
    }

    pub fn add(&mut self, figures: &Merged, distribution: Option<&Distribution>) {
        self.figures.merge(figures);
        if let Some(distribution) = distribution {
            // The merge fails if the number of samples overflows. In that case, the page shows how many samples the
            // percentiles include.
            let _has_room = self.distribution.merge(distribution);
        }
    }

    /// Returns a quantile of the distribution. NaN if the distribution has too few samples.
    pub fn quantile(&self, quantile: f64) -> f64 {
        self.distribution.quantile(quantile)
    }
}

#[cfg(test)]
mod tests;
