// SPDX-License-Identifier: Apache-2.0

//! Whether the rows are as the file of `--expect` expects.

mod diagnostics;
mod file;
mod suggest;

pub use diagnostics::Diagnostics;
pub use file::ExpectationFile;
pub use suggest::suggest;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rclrs_topic_statistics::{
    condition::Quantity,
    health::{Change, Health, Judge, JudgedWindow, Level},
    Window,
};

use crate::{
    require::{missing_samples, value_of},
    row::Row,
};

/// Judges the windows of the rows.
pub struct Expected {
    file: ExpectationFile,
    /// The length of a window of a row that has none.
    period: Duration,
    /// By the name of a row; None: nothing is expected of it.
    sources: BTreeMap<String, Option<Source>>,
}

/// A row that was judged.
pub struct JudgedRow {
    pub name: String,
    pub health: Health,
    /// The change of its level.
    pub change: Option<Change>,
}

/// A row of which something is expected.
struct Source {
    judge: Judge,
    /// When the last judged window ended.
    judged_until: Instant,
}

impl Expected {
    pub fn new(file: ExpectationFile, period: Duration) -> Self {
        Self { file, period, sources: BTreeMap::new() }
    }

    /// Judges the rows: each new window, and a row without windows as silent. Returns what was judged.
    pub fn judge(&mut self, new: &[String], rows: &[&Row], now: Instant) -> Vec<JudgedRow> {
        if self.sources.len() > rows.len() {
            self.sources.retain(|name, _| rows.iter().any(|row| row.name == *name));
        }
        let mut judged = vec![];
        for row in rows {
            let source = self.sources.entry(row.name.clone()).or_insert_with(|| {
                let judge = Judge::new(self.file.expectations(&row.name)?);
                Some(Source { judge, judged_until: now })
            });
            let Some(source) = source else { continue };
            let window = if new.contains(&row.name) { source.window_of(row) } else { None };
            let period = row.window.as_ref().map_or(self.period, |window| window.length);
            let Some(window) = window.or_else(|| source.silent_window(period, now)) else { continue };
            let change = source.judge.accept(&window, |quantity: Quantity| {
                missing_samples(quantity, row, now).is_none().then(|| value_of(quantity, row, now))
            });
            judged.push(JudgedRow { name: row.name.clone(), health: source.judge.health().clone(), change });
        }
        judged
    }

    /// Returns those of the rows of which something is expected, with their judges.
    pub fn judged<'a>(&'a self, rows: &'a [&Row]) -> impl Iterator<Item = (&'a Row, &'a Judge)> {
        rows.iter().filter_map(|row| Some((*row, &self.sources.get(&row.name)?.as_ref()?.judge)))
    }

    /// Returns the names of the rows that have an error now, with their health.
    pub fn errors(&self) -> impl Iterator<Item = (&str, &Health)> {
        let judged = self.sources.iter().filter_map(|(name, source)| Some((&**name, source.as_ref()?)));
        judged.map(|(name, source)| (name, source.judge.health())).filter(|(_, of)| of.level == Level::Error)
    }
}

impl Source {
    /// A row without a window for so many periods is silent: its node has ended, or it has no publisher yet.
    const LATE: u32 = 3;

    /// Returns the last window of a row.
    fn window_of(&mut self, row: &Row) -> Option<JudgedWindow> {
        let window = row.window.as_ref()?;
        self.judged_until = window.ended;
        let samples = window.metrics.iter().map(|metric| metric.figures.count).max();
        Some(JudgedWindow {
            window: Window { start: window.start, stop: window.stop },
            length: window.length,
            // Of a source that does not tell its messages, each has a sample of some metric.
            messages: window.received.or(samples).unwrap_or_default(),
        })
    }

    /// Returns the time since the last window as one without a message, once a new one is overdue.
    fn silent_window(&mut self, period: Duration, now: Instant) -> Option<JudgedWindow> {
        let silent = now.saturating_duration_since(self.judged_until);
        if silent < period.saturating_mul(Self::LATE) {
            return None;
        }
        self.judged_until = now;
        let nanoseconds = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        let stop = nanoseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let window = Window { start: stop.saturating_sub(nanoseconds(silent)), stop };
        Some(JudgedWindow { window, length: silent, messages: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::{at, row, window};

    fn expected(text: &str) -> Expected {
        Expected::new(ExpectationFile::parse(text).unwrap(), Duration::from_secs(1))
    }

    /// Judges a new window of /imu at that rate which ends at that time (s). Returns its level and the change.
    fn judge_window(expected: &mut Expected, stop: i64, rate: f64) -> (Level, Option<Change>) {
        let mut row = row("/imu", 100.0, 0);
        row.add_window(window(stop, rate, 0));
        let mut judged = expected.judge(&["/imu".to_owned()], &[&row], at(stop));
        assert_eq!(judged.len(), 1);
        let JudgedRow { health, change, .. } = judged.remove(0);
        (health.level, change)
    }

    #[test]
    fn a_topic_is_raised_and_cleared_by_its_windows() {
        let mut expected = expected("topics: {/imu: {warn_unless: rate=100±10%, error_unless: rate>=50}}");
        for stop in 100..105 {
            assert_eq!(judge_window(&mut expected, stop, 100.0).0, Level::Ok);
        }
        assert_eq!(judge_window(&mut expected, 105, 40.0).0, Level::Ok);
        let (level, change) = judge_window(&mut expected, 106, 40.0);
        assert_eq!((level, change.unwrap().before), (Level::Error, Level::Ok));
        assert_eq!(expected.errors().map(|(name, _)| name).collect::<Vec<_>>(), ["/imu"]);
        for (stop, level) in [(107, Level::Error), (108, Level::Error), (109, Level::Ok)] {
            assert_eq!(judge_window(&mut expected, stop, 100.0).0, level, "{stop}");
        }
        assert_eq!(expected.errors().count(), 0);
    }

    #[test]
    fn a_row_without_windows_becomes_silent_once_and_only_if_something_is_expected_of_it() {
        let mut expected = expected("topics: {/imu: {error_unless: rate>=50, silence: error}}");
        judge_window(&mut expected, 100, 100.0);
        judge_window(&mut expected, 101, 100.0);
        let (mut imu, other) = (row("/imu", 100.0, 0), row("/odom", 100.0, 0));
        imu.add_window(window(101, 100.0, 0));
        let mut judge = |at: Instant| expected.judge(&["/odom".to_owned()], &[&imu, &other], at);
        assert!(judge(at(102)).is_empty(), "its next window may come yet");
        let judged = judge(at(104)).remove(0);
        assert_eq!((&*judged.name, judged.health.level), ("/imu", Level::Error));
        assert_eq!(judged.health.lasting, Duration::from_secs(3));
        assert!(judged.change.is_some() && judge(at(105)).is_empty());
        assert!(judge(at(107)).remove(0).change.is_none());
    }

    #[test]
    fn a_topic_that_appears_late_has_the_time_of_one_that_was_there() {
        let mut expected = expected("topics: {'/**': {error_unless: rate>=50}}");
        let new = Row::new("/new");
        let mut judge = |time: i64| {
            let judged = expected.judge(&[], &[&new], at(time));
            judged.first().map(|judged| judged.health.level)
        };
        assert_eq!((judge(1000), judge(1003), judge(1006)), (None, Some(Level::Ok), Some(Level::Ok)));
        assert_eq!((judge(1009), judge(1012)), (Some(Level::Ok), Some(Level::Stale)));
    }

    #[test]
    fn a_source_that_does_not_tell_its_messages_has_those_of_its_samples() {
        let mut expected = expected("topics: {/imu: {error_unless: age<50ms}}");
        let mut row = row("/imu", 100.0, 0);
        for stop in 100..110 {
            row.add_window(crate::row::Window { received: None, ..window(stop, 100.0, 0) });
            let judged = expected.judge(&["/imu".to_owned()], &[&row], at(stop)).remove(0);
            assert_eq!(judged.health.level, Level::Ok);
        }
        let (name, silent) = ("/imu".to_owned(), window(110, 100.0, 0));
        let metrics = vec![];
        row.add_window(crate::row::Window {
            received: None,
            metrics,
            length: Duration::from_secs(10),
            ..silent
        });
        let judged = expected.judge(&[name], &[&row], at(120)).remove(0);
        assert_eq!(judged.health.level, Level::Stale);
    }

    #[test]
    fn rows_that_are_gone_are_forgotten() {
        let mut expected = expected("topics: {'/**': {error_unless: rate>=50}}");
        let rows: Vec<Row> = (0..100).map(|number| Row::new(&format!("/topic{number}"))).collect();
        expected.judge(&[], &rows.iter().collect::<Vec<_>>(), at(0));
        expected.judge(&[], &[&rows[0]], at(1));
        assert_eq!(expected.sources.len(), 1);
    }
}
