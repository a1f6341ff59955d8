// SPDX-License-Identifier: Apache-2.0

//! The output after the bag was read: tables, reports and comparisons.

use std::{
    env,
    io::{self, BufWriter, Write},
    path::Path,
};

use topic_statistics_bag::{Bag, BagStatistics, BagTime, Stamps, Topic, METRICS};
use topic_statistics_core::{Metric, Timestamp};
use topic_statistics_observe::{
    expect::suggest,
    format,
    junit::{TestResult, Tests},
    overall::{write_table, Overall},
    page::{self, Origin},
    pattern::Selection,
    recording::{Merged, RecordedMetric},
    row::{LastMinute, Problem, Row, Rows},
};

use super::{
    arguments::Arguments,
    comparison::{write_profile, Changes},
    error::{print_error, Failure, UNFULFILLED},
    rows::unmeasured,
    session::Session,
};

/// A bag that was read, with the data for the output.
pub struct Outcome<'a> {
    pub arguments: &'a Arguments,
    pub selection: Selection,
    pub bag: &'a Bag,
    pub read: BagStatistics,
    pub session: Session,
}

impl Outcome<'_> {
    /// Reports problems on standard error: topics that were not found, and data that could not be read or measured.
    pub fn report_problems(&self) {
        let rows = self.session.rows.rows();
        for row in &rows {
            if let Some(Problem::Error(problem)) = &row.problem {
                print_error(problem);
            }
        }
        for pattern in self.selection.patterns.iter().filter(|pattern| pattern.name().is_none()) {
            if !rows.iter().any(|row| pattern.is_match(&row.name)) {
                print_error(&format!("no topic of the bag matches {}", pattern.text()));
            }
        }
        for topic in &self.read.topics {
            unmeasured(topic, self.arguments.clock).iter().for_each(|line| print_error(line));
            if topic.stamps() == Stamps::Unknown && topic.messages() > 0 {
                let name = format::name(topic.name());
                let of_type = topic.message_type().map_or_else(|| "its type".to_owned(), format::name);
                let why = format!("the bag has no definition of {of_type} that can be read");
                print_error(&format!("{name} has no ages: {why}"));
            }
        }
        for note in &self.read.notes {
            print_error(&note.to_string());
        }
    }

    pub fn tests(&self, changes: Option<&Changes>) -> Tests {
        let mut tests = Tests::new("bag_statistics");
        tests.add_recording(&self.session.recording);
        if let Some(expected) = &self.session.expected {
            tests.add_health(expected, &self.session.rows.rows());
        }
        for topic in self.read.topics.iter().filter(|topic| self.is_judged_in_part(topic)) {
            let lines = unmeasured(topic, self.arguments.clock).join("; ");
            tests.add(topic.name(), "all messages are measured", TestResult::Failed(lines));
        }
        if let Some(changes) = changes {
            changes.add_to(&mut tests);
        }
        tests
    }

    /// Writes the results to standard output. Returns the exit status that follows from these results.
    pub fn show(&mut self, changes: Option<&Changes>) -> Result<u8, Failure> {
        let report = self.session.report.take();
        let mut output = BufWriter::new(io::stdout());
        let mut code = 0;
        let topics = self.topics();
        if self.read.messages == 0 {
            print_error(&format!("nothing was measured: {}", self.why_nothing()?));
            code = UNFULFILLED;
        }
        if let Some(tolerance) = self.arguments.print_expectations {
            if let Some(text) = self.expectations(tolerance, &topics) {
                output.write_all(text.as_bytes())?;
            }
        } else if let Some(mut report) = report {
            for (row, overall) in &topics {
                report.write_overall(row, overall)?;
            }
            if self.arguments.json {
                write_profile(&mut output, &self.session.profile)?;
            }
        } else if !topics.is_empty() {
            write_table(&mut output, &topics, self.session.now())?;
        }
        if let Some(changes) = changes {
            match self.arguments.json {
                true => changes.write(&mut io::stderr())?,
                false => changes.write(&mut output)?,
            }
            if changes.is_worse() {
                code = UNFULFILLED;
            }
        }
        output.flush()?;
        Ok(code)
    }

    /// Returns why the selection has no message. Names the times of the bag if only a part of it was read.
    fn why_nothing(&self) -> Result<String, Failure> {
        let is_part = self.arguments.from.or(self.arguments.to).is_some();
        let times = if is_part { self.bag.times(self.arguments.unpack_all)? } else { None };
        let Some((first, last)) = times.filter(|(first, last)| last > first) else {
            return Ok("the bag has no message of these topics".to_owned());
        };
        let [start, stop] = [first, last].map(|time| BagTime::At(Timestamp::from_nanoseconds(time)));
        let seconds = last.abs_diff(first) as f64 / 1e9;
        Ok(format!(
            "no message of these topics is between --from and --to: the bag is from {start} to {stop} ({seconds:.3} s)"
        ))
    }

    /// Returns the topics of the bag with the figures of all their messages, sorted by name.
    fn topics(&self) -> Vec<(&Row, Overall)> {
        let mut topics: Vec<_> = self
            .read
            .topics
            .iter()
            .filter_map(|topic| Some((self.session.rows.row(topic.name())?, self.overall(topic))))
            .collect();
        topics.sort_by(|one, other| one.0.name.cmp(&other.0.name));
        topics
    }

    fn overall(&self, topic: &Topic) -> Overall {
        let totals = topic.totals();
        let metrics = METRICS.iter().map(|metric| RecordedMetric {
            name: metric.name().to_owned(),
            unit: metric.unit().to_owned(),
            figures: Merged::from(&topic.summary(*metric)),
            distribution: topic.distributions().get(*metric).cloned().unwrap_or_default(),
        });
        Overall {
            times: self.read.times.map(|(start, stop)| (start.as_nanoseconds(), stop.as_nanoseconds())),
            rate: totals.rate(),
            bytes: totals.bytes,
            unmeasured: topic.without_time() + topic.misplaced(),
            metrics: metrics.collect(),
        }
    }

    /// Returns the text of a file for `--expect`. `None` if the bag has no message.
    fn expectations(&self, tolerance: u32, topics: &[(&Row, Overall)]) -> Option<String> {
        let now = self.session.now();
        // `suggest` uses the figures of the last minute. Here, the figures of the whole bag replace them.
        let rows = topics.iter().map(|(row, overall)| {
            let mut last_minute = LastMinute::default();
            let age = overall.metrics.iter().find(|metric| metric.name == Metric::MessageAge.name());
            if let Some(age) = age {
                last_minute.add(Metric::MessageAge, &age.distribution, now);
            }
            Row { last_minute, ..(*row).clone() }
        });
        let rows: Vec<Row> = rows.collect();
        let watched = now.saturating_duration_since(self.session.recording.started);
        suggest("bag_statistics", &rows.iter().collect::<Vec<_>>(), tolerance, watched, now)
    }

    pub fn page(&self) -> String {
        let files = &self.arguments.files;
        let name = |path: &Path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let names: Vec<String> = files.iter().map(|path| name(path)).collect();
        let paths: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
        let mut facts = vec![("Bag", paths.join(" ")), ("Clock", self.arguments.clock.to_string())];
        let unmeasured = self.read.topics.iter().flat_map(|topic| unmeasured(topic, self.arguments.clock));
        facts.extend(unmeasured.map(|line| ("Not measured", line)));
        facts.extend(self.read.notes.iter().map(|note| ("Note", note.to_string())));
        let origin = Origin {
            title: format!("ROS 2 topics in {}", names.join(", ")),
            facts,
            program: "bag_statistics",
            arguments: env::args_os()
                .skip(1)
                .map(|argument| argument.to_string_lossy().into_owned())
                .collect(),
        };
        page::render(&self.session.recording, &origin, self.session.now())
    }

    /// Reports failed conditions, and topics with the state ERROR at the end of the bag. Returns true if no condition
    /// failed, no topic has this state, and all messages of the topics with conditions or expectations were measured.
    pub fn is_fulfilled(&self) -> bool {
        let failures = self.session.recording.failures();
        failures.iter().for_each(|failure| print_error(failure));
        let is_measured = !self.read.topics.iter().any(|topic| self.is_judged_in_part(topic));
        let expected = self.session.expected.as_ref();
        let has_error = expected.is_some_and(|expected| !expected.report_errors(print_error));
        failures.is_empty() && is_measured && !has_error
    }

    /// Returns whether a topic has conditions or expectations, but not all of its messages were measured.
    fn is_judged_in_part(&self, topic: &Topic) -> bool {
        let Some(row) = self.session.rows.row(topic.name()) else { return false };
        let is_judged =
            row.health.is_some() || self.arguments.conditions().any(|condition| condition.is_about(row));
        is_judged && topic.without_time() + topic.misplaced() > 0
    }
}
