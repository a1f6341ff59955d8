// SPDX-License-Identifier: Apache-2.0

//! One run of the program: it polls the rows, and shows, writes or judges them until it is time to end.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs::File,
    io::{BufWriter, Write},
    time::{Duration, Instant},
};

use ratatui::crossterm::event::{Event, KeyEventKind};
use rclrs_topic_statistics::health::{Health, Level};
use topic_statistics_core::health::Change;
use topic_statistics_observe::ros::executor::Spinning;
use topic_statistics_observe::{
    expect::{suggest, ExpectationFile, Expected, JudgedRow},
    format,
    page::{render as render_page, PageFile},
    pattern::Pattern,
    recording::Recording,
    report::Report,
    require::{self, Condition},
    row::{Kind, Problem, Row},
};

use crate::{
    arguments::Arguments,
    diagnostics::Diagnostics,
    error::{print_error, Failure},
    origin,
    provider::{Notices, RowProvider},
    record::Recorder,
    signals::Interrupt,
    views::{Input, LiveTerminal, Screen},
};

/// The exit status if conditions are not fulfilled, or nothing was measured.
pub const UNFULFILLED: u8 = 1;
/// The exit status if the program cannot start or go on.
pub const FAILED: u8 = 3;

/// How often the rows are polled.
const TICK: Duration = Duration::from_millis(50);
/// How often the live view is drawn, unless a key is pressed.
const FRAME: Duration = Duration::from_millis(250);
/// How long the discovery of the graph takes at most.
const DISCOVERY: Duration = Duration::from_secs(2);

/// One run of the program.
pub struct Session<'a> {
    arguments: &'a Arguments,
    /// Standard output.
    output: File,
    spinning: Spinning,
    interrupt: Interrupt,
    started: Instant,
    /// None: no expectations.
    expected: Option<Expected>,
    diagnostics: Option<Diagnostics>,
    /// The content of the report. `None` without a report.
    recording: Option<Recording>,
    /// Records the messages.
    pub recorder: Option<Recorder>,
}

impl<'a> Session<'a> {
    pub fn new(
        arguments: &'a Arguments,
        output: File,
        expected: Option<ExpectationFile>,
        diagnostics: Option<Diagnostics>,
        spinning: Spinning,
        interrupt: Interrupt,
    ) -> Self {
        let conditions = || arguments.conditions().cloned().collect();
        let recording = arguments.report.is_some().then(|| Recording::new(arguments.period, conditions()));
        let expected = expected.map(|file| Expected::new(file, arguments.period));
        let started = Instant::now();
        Self {
            arguments,
            output,
            spinning,
            interrupt,
            started,
            expected,
            diagnostics,
            recording,
            recorder: None,
        }
    }

    /// Shows the live view until the program ends. Returns the exit status.
    pub fn show_live_view(&mut self, provider: &mut RowProvider) -> Result<u8, Failure> {
        let mut live = LiveTerminal::start(&self.output)?;
        let input = Input::start()?;
        let mut screen = Screen::default();
        screen.kind = self.arguments.kind();
        let mut rows: Vec<Row> = vec![];
        let mut drawn: Option<Instant> = None;
        while !self.is_over()? {
            let new = provider.poll()?;
            self.judge(&new, provider)?;
            self.record(provider.rows().into_iter().filter(|row| new.contains(&row.name)));
            if drawn.is_none_or(|drawn| drawn.elapsed() >= FRAME) {
                rows = provider.rows().into_iter().cloned().collect();
                screen.notice = provider.notice();
                live.terminal.draw(|frame| screen.draw(frame, &rows, Instant::now()))?;
                drawn = Some(Instant::now());
            }
            match input.next(TICK)? {
                Some(Event::Key(key))
                    if key.kind != KeyEventKind::Release && screen.key(key, &rows, Instant::now()) =>
                {
                    break
                }
                Some(_) => drawn = None, // Draws at once, after a resize, too.
                None => {}
            }
        }
        Ok(0)
    }

    /// Writes lines until the program ends. Returns the exit status.
    pub fn write_lines(&mut self, provider: &mut RowProvider) -> Result<u8, Failure> {
        let arguments = self.arguments;
        let conditions: Vec<Condition> = arguments.conditions().cloned().collect();
        let mut report = Report::new(BufWriter::new(self.output.try_clone()?), arguments.json);
        let mut reported = BTreeMap::new();
        let mut subscriptions = BTreeMap::new();
        let mut notices = Notices::default();
        let mut written = BTreeSet::new();
        let mut was_discovered = false;
        loop {
            let is_over = self.is_over()?;
            let new = provider.poll()?;
            for (topic, change) in self.judge(&new, provider)? {
                report.write_change(&topic, &change)?;
                let (before, Health { level, .. }) = (change.before, &change.health);
                print_error(&format!("{}: {before} -> {level}: {}", format::name(&topic), change.health));
            }
            let rows = provider.rows();
            for row in resubscribed(&rows, &mut subscriptions) {
                report.write_resubscribed(row)?;
                print_error(&format!(
                    "{}: subscribed again, {}, because the last subscription did not serve all its publishers; the \
                     next line is that of the first whole window",
                    format::name(&row.name),
                    row.qos
                ));
            }
            for row in rows.iter().filter(|row| new.contains(&row.name)) {
                let is_first = written.insert(row.name.clone());
                if is_first || !arguments.once {
                    self.record([*row]);
                    report.write(row, Instant::now())?;
                }
            }
            if self.started.elapsed() >= DISCOVERY / 2 {
                print_all(&new_problems(&rows, &mut reported));
            }
            if let Some(notice) = notices.next(provider.notice(), Instant::now()) {
                print_error(&notice);
            }
            let is_discovered = self.started.elapsed() >= DISCOVERY;
            if is_discovered && !std::mem::replace(&mut was_discovered, true) {
                print_all(&unmatched(arguments, &rows));
            }
            if !conditions.is_empty() && self.recording.is_none() {
                let failures = require::failures(&conditions, &rows, Instant::now());
                if failures.is_empty() && !new.is_empty() && is_discovered {
                    return Ok(0);
                }
                if is_over {
                    print_all(&failures);
                    return Ok(UNFULFILLED);
                }
            }
            let is_failed =
                |row: &&Row| matches!(row.problem, Some(Problem::Error(_))) && row.window.is_none();
            if written.len() > rows.len() {
                written.retain(|name| rows.iter().any(|row| row.name == *name));
            }
            let is_complete = rows.iter().all(|row| written.contains(&row.name) || is_failed(row));
            if arguments.once && is_discovered && is_complete && !rows.is_empty() {
                return Ok(if rows.iter().any(is_failed) { FAILED } else { 0 });
            }
            if is_over && arguments.once {
                print_all(&unmeasured(rows.iter().copied().filter(|row| !written.contains(&row.name))));
                return Ok(UNFULFILLED);
            }
            if is_over {
                return Ok(0);
            }
            std::thread::sleep(TICK);
        }
    }

    /// Watches for the duration, and prints the figures seen as a file for `--expect`. Prints nothing if it saw no
    /// message.
    pub fn print_expectations(&mut self, provider: &mut RowProvider, tolerance: u32) -> Result<u8, Failure> {
        while !self.is_over()? {
            provider.poll()?;
            std::thread::sleep(TICK);
        }
        let (watched, now) = (self.started.elapsed(), Instant::now());
        let rows = provider.rows();
        let Some(file) = suggest("topic_monitor", &rows, tolerance, watched, now) else {
            print_all(&unmeasured(rows));
            return Ok(UNFULFILLED);
        };
        self.output.write_all(file.as_bytes())?;
        Ok(0)
    }

    /// Judges the rows by the expectations, sets their health, and publishes it. Returns the changes of their levels.
    fn judge(
        &mut self,
        new: &[String],
        provider: &mut RowProvider,
    ) -> Result<Vec<(String, Change)>, Failure> {
        let Some(expected) = &mut self.expected else { return Ok(vec![]) };
        let (mut changes, now) = (vec![], Instant::now());
        for JudgedRow { name, health, change } in expected.judge(new, &provider.rows(), now) {
            provider.set_health(&name, health);
            changes.extend(change.map(|change| (name, change)));
        }
        if let Some(diagnostics) = &mut self.diagnostics {
            let is_error = |(_, change): &&(String, Change)| change.health.level == Level::Error;
            let new_errors: Vec<String> =
                changes.iter().filter(is_error).map(|(name, _)| name.clone()).collect();
            diagnostics.publish(expected.judged(&provider.rows()), &new_errors, now)?;
        }
        Ok(changes)
    }

    /// Reports the topics that have an error now. Returns whether there is none.
    pub fn report_errors(&self) -> bool {
        let mut is_healthy = true;
        for (topic, health) in self.expected.iter().flat_map(Expected::errors) {
            print_error(&format!("{}: {}: {health}", format::name(topic), health.level));
            is_healthy = false;
        }
        is_healthy
    }

    /// Returns whether it is time to end.
    fn is_over(&mut self) -> Result<bool, Failure> {
        self.spinning.check()?;
        let elapsed = self.started.elapsed();
        let is_late = self.arguments.duration().is_some_and(|duration| elapsed >= duration);
        let has_recorded = self.recorder.as_ref().is_some_and(Recorder::has_ended);
        Ok(is_late || has_recorded || self.interrupt.is_set())
    }

    /// Ends the recording, and reports on standard error what was recorded.
    pub fn finish_recording(&mut self) -> Result<(), Failure> {
        let Some(recorder) = self.recorder.take() else { return Ok(()) };
        self.interrupt.let_end();
        print_error(&recorder.finish()?);
        Ok(())
    }

    /// Records the last windows of rows for the report.
    fn record<'r>(&mut self, rows: impl IntoIterator<Item = &'r Row>) {
        if let Some(recording) = &mut self.recording {
            rows.into_iter().for_each(|row| recording.add(row));
        }
    }

    /// Writes the report. Returns whether all conditions were fulfilled in each window.
    pub fn write_report(&mut self, file: &PageFile, provider: &RowProvider) -> Result<bool, Failure> {
        let Some(recording) = &mut self.recording else { return Ok(true) };
        self.interrupt.let_end();
        let now = Instant::now();
        recording.finish(&provider.rows(), now);
        file.write(&render_page(recording, &origin::of_this_process(), now))?;
        let failures = recording.failures();
        print_all(&failures);
        Ok(failures.is_empty())
    }
}

/// Returns the topics that were subscribed to again since the last call. `known` has their earlier subscriptions then.
fn resubscribed<'r>(rows: &[&'r Row], known: &mut BTreeMap<String, u64>) -> Vec<&'r Row> {
    known.retain(|name, _| rows.iter().any(|row| row.name == *name));
    let is_new = |row: &&&Row| {
        let earlier = row.earlier_subscriptions;
        earlier > 0 && known.insert(row.name.clone(), earlier) != Some(earlier)
    };
    rows.iter().filter(is_new).copied().collect()
}

fn print_all(texts: &[String]) {
    texts.iter().for_each(|text| print_error(text));
}

/// Returns that patterns have no match. A topic given by name has a row, and its problem is reported.
fn unmatched(arguments: &Arguments, rows: &[&Row]) -> Vec<String> {
    let what = match arguments.kind() {
        Kind::Source => "source of statistics",
        Kind::Service => "service with introspection (configure_introspection of rclcpp, rclpy and rclrs)",
        kind => kind.noun(),
    };
    let patterns = arguments.patterns(None);
    if patterns.is_empty() && rows.is_empty() {
        return vec![format!("there is no {what} yet; waiting for one")];
    }
    let is_unmatched =
        |pattern: &&Pattern| pattern.name().is_none() && !rows.iter().any(|row| pattern.is_match(&row.name));
    let text = |pattern: &Pattern| format!("no {what} matches {} yet; waiting for one", pattern.text());
    patterns.iter().filter(is_unmatched).map(text).collect()
}

/// Returns that nothing was measured of these topics, or that there was no topic.
fn unmeasured<'r>(rows: impl IntoIterator<Item = &'r Row>) -> Vec<String> {
    let text = |row: &Row| {
        let why = row.problem.as_ref().map_or("no message was received in time", Problem::text);
        format!("nothing was measured on {}: {why}", format::name(&row.name))
    };
    let texts: Vec<String> = rows.into_iter().map(text).collect();
    if texts.is_empty() {
        return vec!["nothing was measured: there was no topic".to_owned()];
    }
    texts
}

/// Returns why messages of topics are not received, each reason once.
fn new_problems(rows: &[&Row], reported: &mut BTreeMap<String, String>) -> Vec<String> {
    let has_problem: HashSet<&str> =
        rows.iter().filter(|row| row.problem.is_some()).map(|row| &*row.name).collect();
    reported.retain(|name, _| has_problem.contains(&**name));
    let new = rows.iter().filter_map(|row| {
        let problem = row.problem.as_ref()?.text().to_owned();
        let before = reported.insert(row.name.clone(), problem.clone());
        (before.as_ref() != Some(&problem)).then_some(problem)
    });
    new.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use topic_statistics_observe::testing::row;

    #[test]
    fn what_is_missing_is_said_once() {
        let imu = row("/imu", 50.0, 0);
        let arguments = |line: &[&str]| Arguments::parse_from([&["topic_monitor"], line].concat());
        for (line, rows, expected) in [
            (
                &["/cam*", "nobody", "/im?"][..],
                &[&imu][..],
                &["no topic matches /cam* yet; waiting for one"][..],
            ),
            (&[], &[], &["there is no topic yet; waiting for one"]),
            (&[], &[&imu], &[]),
            (&["--from-statistics"], &[], &["there is no source of statistics yet; waiting for one"]),
            (
                &["--from-statistics", "--require", "*:/odom: rate>5"],
                &[],
                &["no source of statistics matches /*:/odom yet; waiting for one"],
            ),
        ] {
            assert_eq!(unmatched(&arguments(line), rows), expected, "{line:?}");
        }
        let mut nobody = row("/nobody", f64::NAN, 0);
        nobody.problem = Some(Problem::Waiting("there is no topic /nobody yet".to_owned()));
        assert_eq!(unmeasured([]), ["nothing was measured: there was no topic"]);
        assert_eq!(
            unmeasured([&imu, &nobody]),
            [
                "nothing was measured on /imu: no message was received in time",
                "nothing was measured on /nobody: there is no topic /nobody yet",
            ]
        );

        let mut reported = BTreeMap::new();
        let text = "there is no topic /nobody yet";
        assert_eq!(new_problems(&[&imu, &nobody], &mut reported), [text]);
        assert!(new_problems(&[&imu, &nobody], &mut reported).is_empty());
        nobody.problem = None;
        assert!(new_problems(&[&nobody], &mut reported).is_empty());
        nobody.problem = Some(Problem::Error(text.to_owned()));
        assert_eq!(new_problems(&[&nobody], &mut reported), [text], "again");
    }

    #[test]
    fn a_new_subscription_is_told_once() {
        let (mut imu, mut known) = (row("/imu", 50.0, 0), BTreeMap::new());
        for (earlier, is_new) in [(0, false), (1, true), (1, false), (2, true)] {
            imu.earlier_subscriptions = earlier;
            assert_eq!(!resubscribed(&[&imu], &mut known).is_empty(), is_new, "{earlier}");
        }
    }
}
