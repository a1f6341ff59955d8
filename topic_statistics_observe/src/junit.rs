// SPDX-License-Identifier: Apache-2.0

//! The file of `--junit`: CI systems show each condition as a test.

use std::time::Instant;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use topic_statistics_core::health::Level;

use crate::{
    expect::Expected,
    format,
    page::PageFile,
    recording::Recording,
    require::{self, Condition, ConditionResult},
    row::Row,
};

/// The tests of one run of a program.
#[derive(Debug)]
pub struct Tests {
    program: &'static str,
    suite: TestSuite,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestResult {
    Passed,
    Failed(String),
    Skipped(String),
}

impl Tests {
    pub fn new(program: &'static str) -> Self {
        Self { program, suite: TestSuite::new(program) }
    }

    /// Adds a test about a topic, or about all topics if `topic` is empty.
    pub fn add(&mut self, topic: &str, name: &str, result: TestResult) {
        let status = match result {
            TestResult::Passed => TestCaseStatus::success(),
            TestResult::Failed(why) => {
                let mut failure = TestCaseStatus::non_success(NonSuccessKind::Failure);
                failure.set_message(why);
                failure
            }
            TestResult::Skipped(why) => {
                let mut skipped = TestCaseStatus::skipped();
                skipped.set_message(why);
                skipped
            }
        };
        let mut test = TestCase::new(name, status);
        test.set_classname(if topic.is_empty() { "all topics".to_owned() } else { format::name(topic) });
        self.suite.add_test_case(test);
    }

    /// Adds a test for each condition of `--require` and each topic: whether the last window fulfils the condition.
    pub fn add_conditions(&mut self, conditions: &[Condition], rows: &[&Row], now: Instant) {
        for ConditionResult { topic, requirement, failure } in require::results(conditions, rows, now) {
            let name = if requirement.is_empty() { "all conditions" } else { &*requirement };
            self.add(&topic, name, failure.map_or(TestResult::Passed, TestResult::Failed));
        }
    }

    /// Adds a test for each condition of `--require` and each topic: whether each window fulfilled the condition.
    pub fn add_recording(&mut self, recording: &Recording) {
        for condition in recording.unmatched() {
            let topic = condition.topic.as_ref().map_or("", |topic| topic.text());
            self.add(topic, &condition.requirement(), TestResult::Failed("no topic matches".to_owned()));
        }
        for (condition, topic, verdict) in recording.verdicts() {
            let result = verdict.text(condition).map_or(TestResult::Passed, TestResult::Failed);
            self.add(&topic.row.name, &condition.requirement(), result);
        }
    }

    /// Adds a test for each row with expectations. The test fails if the row's level is ERROR at the end of the run.
    pub fn add_health(&mut self, expected: &Expected, rows: &[&Row]) {
        for (row, judge) in expected.judged(rows) {
            let health = judge.health();
            let result = match health.level {
                Level::Error => TestResult::Failed(health.to_string()),
                _ => TestResult::Passed,
            };
            self.add(&row.name, "expectations", result);
        }
    }

    pub fn write(self, file: &PageFile) -> Result<(), String> {
        let mut report = Report::new(self.program);
        report.add_test_suite(self.suite);
        file.write(&report.to_string().map_err(|error| error.to_string())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        require::Conditions,
        testing::{at, row},
    };

    #[test]
    fn each_condition_of_each_topic_is_a_test() {
        let Conditions(conditions) = "/imu: rate>=90 age<1\u{b5}s /odom: rate>=1".parse().unwrap();
        let mut tests = Tests::new("topic_monitor");
        tests.add_conditions(&conditions, &[&row("/imu", 100.0, 0)], at(100));
        tests.add("/<b>\u{1b}", "rate", TestResult::Skipped("too few windows".to_owned()));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tests.xml");
        tests.write(&PageFile::new(&path).unwrap()).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        for part in [
            "<testsuite name=\"topic_monitor\" tests=\"4\" skipped=\"1\" errors=\"0\" failures=\"2\">",
            "<testcase name=\"rate&gt;=90\" classname=\"/imu\"/>",
            "<failure message=\"age is 2.500\"/>",
            "classname=\"/odom\">\n            <failure message=\"no topic matches\"/>",
            "classname=\"/&lt;b&gt;\\u{1b}\">\n            <skipped message=\"too few windows\"/>",
        ] {
            assert!(text.contains(part), "no {part} in {text}");
        }
    }
}
