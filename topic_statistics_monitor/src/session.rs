// SPDX-License-Identifier: Apache-2.0

//! One run of the program. The run polls the rows, compares the rows with the expectations ("judges" them), and gives
//! the rows to a view, until the run is over.

use std::time::Instant;

use rclrs_topic_statistics::health::Level;
use topic_statistics_core::health::Change;
use topic_statistics_observe::{
    expect::{ExpectationFile, Expected},
    junit::Tests,
    page::{render as render_page, PageFile},
    recording::Recording,
    ros::executor::Spinning,
};

use crate::{
    arguments::Arguments,
    diagnostics::Diagnostics,
    process,
    process::{print_all, print_error, Failure},
    provider::{Provider, RowProvider},
    record::Recorder,
    signals::Interrupt,
    views::{Polled, View},
};

pub struct Session<'a> {
    arguments: &'a Arguments,
    spinning: Spinning,
    interrupt: Interrupt,
    started: Instant,
    expected: Option<Expected>,
    diagnostics: Option<Diagnostics>,
    recording: Option<Recording>,
    pub recorder: Option<Recorder>,
}

impl<'a> Session<'a> {
    pub fn new(
        arguments: &'a Arguments,
        expected: Option<ExpectationFile>,
        diagnostics: Option<Diagnostics>,
        spinning: Spinning,
        interrupt: Interrupt,
    ) -> Self {
        let conditions = || arguments.conditions().cloned().collect();
        let recording = arguments.report.is_some().then(|| Recording::new(arguments.period, conditions()));
        let expected = expected.map(|file| Expected::new(file, arguments.period));
        let started = Instant::now();
        Self { arguments, spinning, interrupt, started, expected, diagnostics, recording, recorder: None }
    }

    /// Polls the rows, judges the rows and shows the rows until the run is over. Returns the exit status.
    pub fn run(&mut self, provider: &mut Provider<'_>, view: &mut dyn View) -> Result<u8, Failure> {
        loop {
            let is_over = self.is_over()?;
            let new = provider.poll()?;
            let changes = self.judge(&new, provider)?;
            let mut polled = Polled {
                rows: provider.rows(),
                new: &new,
                changes: &changes,
                notice: provider.notice(),
                recorder: self.recorder.as_ref().and_then(Recorder::status),
                elapsed: self.started.elapsed(),
                is_over,
                recording: self.recording.as_mut(),
            };
            if let Some(code) = view.show(&mut polled)? {
                return Ok(code);
            }
        }
    }

    /// Compares the rows with the expectations, and publishes their health. Returns the rows whose level changed.
    fn judge(
        &mut self,
        new: &[String],
        provider: &mut Provider<'_>,
    ) -> Result<Vec<(String, Change)>, Failure> {
        let Some(expected) = &mut self.expected else { return Ok(vec![]) };
        let now = Instant::now();
        let changes = expected.update(new, provider, now);
        if let Some(recorder) = &self.recorder {
            recorder.judged(&changes);
        }
        if let Some(diagnostics) = &mut self.diagnostics {
            let is_error = |(_, change): &&(String, Change)| change.health.level == Level::Error;
            let new_errors: Vec<String> =
                changes.iter().filter(is_error).map(|(name, _)| name.clone()).collect();
            diagnostics.publish(expected.judged(&provider.rows()), &new_errors, now)?;
        }
        Ok(changes)
    }

    pub fn report_errors(&self) -> bool {
        self.expected.as_ref().is_none_or(|expected| expected.report_errors(print_error))
    }

    /// Returns whether the run is over: the duration is over, the recorder has ended, or a signal was received.
    fn is_over(&mut self) -> Result<bool, Failure> {
        self.spinning.check()?;
        let elapsed = self.started.elapsed();
        let is_late = self.arguments.duration().is_some_and(|duration| elapsed >= duration);
        let has_recorded = self.recorder.as_ref().is_some_and(|recorder| recorder.recording.has_ended());
        Ok(is_late || has_recorded || self.interrupt.is_set())
    }

    pub fn finish_recording(&mut self) -> Result<(), Failure> {
        let Some(recorder) = self.recorder.take() else { return Ok(()) };
        self.interrupt.let_end();
        print_error(&recorder.finish()?);
        Ok(())
    }

    pub fn write_junit(&self, file: &PageFile, provider: &dyn RowProvider) -> Result<(), Failure> {
        let (mut tests, rows) = (Tests::new("topic_monitor"), provider.rows());
        match &self.recording {
            Some(recording) => tests.add_recording(recording),
            None => {
                let conditions: Vec<_> = self.arguments.conditions().cloned().collect();
                tests.add_conditions(&conditions, &rows, Instant::now());
            }
        }
        if let Some(expected) = &self.expected {
            tests.add_health(expected, &rows);
        }
        Ok(tests.write(file)?)
    }

    /// Writes the page of `--report`. Returns whether all conditions were fulfilled in each window.
    pub fn write_report(&mut self, file: &PageFile, provider: &dyn RowProvider) -> Result<bool, Failure> {
        let Some(recording) = &mut self.recording else { return Ok(true) };
        self.interrupt.let_end();
        let now = Instant::now();
        recording.finish(&provider.rows(), now);
        file.write(&render_page(recording, &process::origin(), now))?;
        let failures = recording.failures();
        print_all(&failures);
        Ok(failures.is_empty())
    }
}
