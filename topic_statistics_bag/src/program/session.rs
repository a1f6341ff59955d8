// SPDX-License-Identifier: Apache-2.0

//! Processes the windows of a bag while it is read: updates the rows, prints them, compares them with the expectations,
//! and records them for the HTML page.

use std::{
    io::{self, BufWriter, Stdout},
    ops::ControlFlow,
    time::{Duration, Instant, UNIX_EPOCH},
};

use topic_statistics_bag::{compare::Profile, BagStatistics, Progress, TopicWindow, Visitor};
use topic_statistics_core::Timestamp;
use topic_statistics_observe::{
    expect::{ExpectationFile, Expected},
    format,
    pattern::Selection,
    recording::Recording,
    report::Report,
    row::Rows,
};

use super::{
    arguments::Arguments,
    progress::Bar,
    rows::{BagRows, Times},
};

pub struct Session {
    pub rows: BagRows,
    /// The windows of the bag, for conditions and for the HTML page.
    pub recording: Recording,
    /// The windows of the bag, for comparisons.
    pub profile: Profile,
    /// The output of `--plain` or `--json`. `None` if neither argument is given.
    pub report: Option<Report<BufWriter<Stdout>>>,
    pub expected: Option<Expected>,
    bar: Bar,
    /// The length of a window, in nanoseconds.
    period: i64,
    /// The time at which the latest windows ended, and the names of the topics that have a full window with this end.
    batch: (Timestamp, Vec<String>),
    error: Option<io::Error>,
}

impl Session {
    pub fn new(
        arguments: &Arguments,
        selection: &Selection,
        expected: Option<ExpectationFile>,
        bar: Bar,
    ) -> Self {
        let has_lines = arguments.json || arguments.plain;
        Self {
            rows: BagRows::new(selection.names()),
            recording: Recording::new(arguments.window, arguments.conditions().cloned().collect()),
            profile: Profile::new(arguments.window),
            report: has_lines.then(|| Report::new(BufWriter::new(io::stdout()), arguments.json)),
            expected: expected.map(|file| Expected::new(file, arguments.window)),
            bar,
            period: arguments.window.as_nanos().try_into().unwrap_or(i64::MAX),
            batch: (Timestamp::from_nanoseconds(i64::MIN), vec![]),
            error: None,
        }
    }

    /// Ends the session. Processes the last windows, and adds rows for topics without a window.
    pub fn finish(&mut self, read: &BagStatistics) -> io::Result<()> {
        self.bar.finish();
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.end_batch()?;
        self.batch.1 = self.rows.add_losses();
        self.end_batch()?;
        if let Some((start, stop)) = read.times {
            self.start(self.rows.times().unwrap_or_else(|| Times::new(start)));
            self.batch.0 = stop;
        }
        self.rows.finish(&read.topics);
        self.recording.finish(&self.rows.rows(), self.now());
        Ok(())
    }

    /// Returns the time at which the latest windows of the bag ended, as a time of the monotonic clock.
    pub fn now(&self) -> Instant {
        self.rows.times().map_or(self.recording.started, |times| times.instant(self.batch.0))
    }

    fn start(&mut self, times: Times) {
        let start = times.start;
        let since_epoch = Duration::from_nanos(start.as_nanoseconds().try_into().unwrap_or_default());
        self.recording.started = times.instant(start);
        self.recording.started_at = UNIX_EPOCH + since_epoch;
        if let Some(expected) = &mut self.expected {
            expected.set_times(times.instant(start), start.as_nanoseconds());
        }
    }

    /// Compares the time before the first window, which ends at `stop`, with the expectations: no topic that is read has
    /// a message in this time, but other topics of the bag can have some.
    fn judge_before(&mut self, stop: Timestamp) -> io::Result<()> {
        /// The largest number of windows. Of a longer time, the first window is longer.
        const WINDOWS: i64 = 1000;
        let Some(times) = self.rows.times() else { return Ok(()) };
        let before = stop.as_nanoseconds().saturating_sub(times.start.as_nanoseconds());
        for number in (1..=(before / self.period).min(WINDOWS)).rev() {
            self.batch.0 = Timestamp::from_nanoseconds(stop.as_nanoseconds() - number * self.period);
            self.end_batch()?;
        }
        Ok(())
    }

    /// Processes the windows that ended at the same time: compares them with the expectations, records and prints them.
    fn end_batch(&mut self) -> io::Result<()> {
        let (now, new) = (self.now(), std::mem::take(&mut self.batch.1));
        self.judge(&new, now)?;
        for row in new.iter().filter_map(|name| self.rows.row(name)) {
            self.recording.add(row);
            let has_line = row.window.as_ref().is_some_and(|window| !window.has_only_losses);
            if let Some(report) = self.report.as_mut().filter(|_| has_line) {
                report.write(row, now)?;
            }
        }
        Ok(())
    }

    /// Compares the rows with the expectations, sets the health of the rows, and reports changes of their health.
    fn judge(&mut self, new: &[String], now: Instant) -> io::Result<()> {
        let Some(expected) = &mut self.expected else { return Ok(()) };
        for (name, change) in expected.update(new, &mut self.rows, now) {
            if let Some(report) = &mut self.report {
                report.write_change(&name, &change)?;
            }
            let (before, health) = (change.before, &change.health);
            let after = now.saturating_duration_since(self.recording.started).as_secs_f64();
            let name = format::name(&name);
            self.bar.print(&format!("after {after:.1} s, {name}: {before} -> {}: {health}", health.level));
        }
        Ok(())
    }
}

impl Visitor for Session {
    fn start(&mut self, start: Timestamp) {
        self.rows.start(start);
        self.rows.times().into_iter().for_each(|times| self.start(times));
    }

    fn window(&mut self, window: &TopicWindow<'_>) -> ControlFlow<()> {
        let stop = window.statistics.window.stop;
        if stop != self.batch.0 {
            let is_first = self.batch.0 == Timestamp::from_nanoseconds(i64::MIN);
            let ended = self.end_batch();
            if let Err(error) = ended.and_then(|()| if is_first { self.judge_before(stop) } else { Ok(()) }) {
                self.error = Some(error);
                return ControlFlow::Break(());
            }
            self.batch.0 = stop;
        }
        self.profile.add(window);
        let is_first = self.rows.times().is_none();
        if self.rows.add(window) {
            self.batch.1.push(window.topic.name().to_owned());
        }
        if let Some(times) = self.rows.times().filter(|_| is_first) {
            self.start(times);
        }
        ControlFlow::Continue(())
    }

    fn progress(&mut self, progress: Progress) -> ControlFlow<()> {
        self.bar.set(progress);
        ControlFlow::Continue(())
    }
}
