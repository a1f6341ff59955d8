// SPDX-License-Identifier: Apache-2.0

//! The view that writes lines or JSON to standard output, and notices to standard error.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs::File,
    io::BufWriter,
    time::Instant,
};

use topic_statistics_core::health::Health;
use topic_statistics_observe::{
    format,
    pattern::Pattern,
    report::Report,
    require::{self, Condition},
    row::{Kind, Problem, Row},
};

use super::{Polled, View, DISCOVERY, TICK};
use crate::{
    arguments::Arguments,
    process::{print_all, print_error, Failure, FAILED, UNFULFILLED},
    provider::Notices,
};

pub struct Lines<'a> {
    arguments: &'a Arguments,
    conditions: Vec<Condition>,
    report: Report<BufWriter<File>>,
    /// For each topic, the last reported problem: why its messages are not received.
    problems: BTreeMap<String, String>,
    subscriptions: BTreeMap<String, u64>,
    notices: Notices,
    written: BTreeSet<String>,
    was_discovered: bool,
}

impl<'a> Lines<'a> {
    pub fn new(arguments: &'a Arguments, output: File) -> Self {
        Self {
            arguments,
            conditions: arguments.conditions().cloned().collect(),
            report: Report::new(BufWriter::new(output), arguments.json),
            problems: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            notices: Notices::default(),
            written: BTreeSet::new(),
            was_discovered: false,
        }
    }

    fn write(&mut self, polled: &mut Polled<'_>) -> Result<(), Failure> {
        for (topic, change) in polled.changes {
            self.report.write_change(topic, change)?;
            let (before, Health { level, .. }) = (change.before, &change.health);
            print_error(&format!("{}: {before} -> {level}: {}", format::name(topic), change.health));
        }
        for row in resubscribed(&polled.rows, &mut self.subscriptions) {
            self.report.write_resubscribed(row)?;
            let (name, qos) = (format::name(&row.name), &row.qos);
            print_error(&format!(
                "{name}: subscribed again, {qos}, because the last subscription did not serve all its publishers; the \
                 next line is that of the first whole window"
            ));
        }
        for row in polled.new_rows() {
            let is_first = self.written.insert(row.name.clone());
            if is_first || !self.arguments.once {
                polled.record(row);
                self.report.write(row, Instant::now())?;
            }
        }
        if self.written.len() > polled.rows.len() {
            self.written.retain(|name| polled.rows.iter().any(|row| row.name == *name));
        }
        Ok(())
    }

    fn report_problems(&mut self, polled: &Polled<'_>) {
        if polled.elapsed >= DISCOVERY / 2 {
            print_all(&new_problems(&polled.rows, &mut self.problems));
        }
        if let Some(notice) = self.notices.next(polled.notice.clone(), Instant::now()) {
            print_error(&notice);
        }
        let is_discovered = polled.elapsed >= DISCOVERY;
        if is_discovered && !std::mem::replace(&mut self.was_discovered, true) {
            print_all(&unmatched(self.arguments, &polled.rows));
        }
    }

    fn status(&self, polled: &Polled<'_>) -> Option<u8> {
        let Polled { rows, is_over, .. } = polled;
        let is_discovered = polled.elapsed >= DISCOVERY;
        if !self.conditions.is_empty() && polled.recording.is_none() {
            let failures = require::failures(&self.conditions, rows, Instant::now());
            if failures.is_empty() && !polled.new.is_empty() && is_discovered {
                return Some(0);
            }
            if *is_over {
                print_all(&failures);
                return Some(UNFULFILLED);
            }
        }
        let is_failed = |row: &&Row| matches!(row.problem, Some(Problem::Error(_))) && row.window.is_none();
        let is_complete = rows.iter().all(|row| self.written.contains(&row.name) || is_failed(row));
        if self.arguments.once && is_discovered && is_complete && !rows.is_empty() {
            return Some(if rows.iter().any(is_failed) { FAILED } else { 0 });
        }
        if *is_over && self.arguments.once {
            print_all(&unmeasured(rows.iter().copied().filter(|row| !self.written.contains(&row.name))));
            return Some(UNFULFILLED);
        }
        is_over.then_some(0)
    }
}

impl View for Lines<'_> {
    fn show(&mut self, polled: &mut Polled<'_>) -> Result<Option<u8>, Failure> {
        self.write(polled)?;
        self.report_problems(polled);
        let status = self.status(polled);
        if status.is_none() {
            std::thread::sleep(TICK);
        }
        Ok(status)
    }
}

/// Returns the rows of topics with a new subscription. `known` has the numbers of subscriptions at the last call.
fn resubscribed<'r>(rows: &[&'r Row], known: &mut BTreeMap<String, u64>) -> Vec<&'r Row> {
    known.retain(|name, _| rows.iter().any(|row| row.name == *name));
    let is_new = |row: &&&Row| {
        let earlier = row.earlier_subscriptions;
        earlier > 0 && known.insert(row.name.clone(), earlier) != Some(earlier)
    };
    rows.iter().filter(is_new).copied().collect()
}

/// Returns a text for each pattern without a row. A topic given by name has a row, whose problem is reported.
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

/// Returns texts that say that nothing was measured on these rows, or that there was no topic.
pub fn unmeasured<'r>(rows: impl IntoIterator<Item = &'r Row>) -> Vec<String> {
    let text = |row: &Row| {
        let why = row.problem.as_ref().map_or("no message was received in time", Problem::text);
        format!("nothing was measured on {}: {why}", format::name(&row.name))
    };
    let texts: Vec<String> = rows.into_iter().map(text).collect();
    match texts.is_empty() {
        true => vec!["nothing was measured: there was no topic".to_owned()],
        false => texts,
    }
}

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
        let [of_imu, of_nobody] = &unmeasured([&imu, &nobody])[..] else { panic!("two texts") };
        assert_eq!(of_imu, "nothing was measured on /imu: no message was received in time");
        assert_eq!(of_nobody, "nothing was measured on /nobody: there is no topic /nobody yet");

        let mut reported = BTreeMap::new();
        let text = "there is no topic /nobody yet";
        assert_eq!(new_problems(&[&imu, &nobody], &mut reported), [text]);
        assert!(new_problems(&[&imu, &nobody], &mut reported).is_empty());
        nobody.problem = None;
        assert!(new_problems(&[&nobody], &mut reported).is_empty());
        nobody.problem = Some(Problem::Error(text.to_owned()));
        assert_eq!(new_problems(&[&nobody], &mut reported), [text], "the problem is reported again");
    }

    #[test]
    fn a_new_subscription_is_reported_once() {
        let (mut imu, mut known) = (row("/imu", 50.0, 0), BTreeMap::new());
        for (earlier, is_new) in [(0, false), (1, true), (1, false), (2, true)] {
            imu.earlier_subscriptions = earlier;
            assert_eq!(!resubscribed(&[&imu], &mut known).is_empty(), is_new, "{earlier}");
        }
    }
}
