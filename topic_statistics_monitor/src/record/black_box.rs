// SPDX-License-Identifier: Apache-2.0

//! `--last`: the black box. It keeps the messages of the last seconds in memory. After a trigger, the black box writes
//! these messages and the messages that follow to a file. A trigger is a change of a topic's level of health, a service
//! call, or SIGUSR1.
//!
//! ```text
//!  queue ──▶ writer (a thread) ──▶ ring      the last messages
//!              ▲        └────────▶ file      after a trigger: the ring, then each further message
//!  triggers ───┴── schedule                  when a file begins and ends
//! ```

mod files;
mod recover;
mod ring;
mod schedule;
mod service;
mod writer;

pub use service::Service;
pub use writer::Writer;

use std::{
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant, SystemTime},
};

use rclrs::Node;
use rclrs_topic_statistics::health::Level;
use topic_statistics_core::{health::Change, mutex::lock};
use topic_statistics_observe::{arguments::seconds, format};

use super::{file::BagFile, options::Options as RecordOptions, topic::nanoseconds, RecordError};
use crate::process::print_error;
use files::Files;
use schedule::{Cause, Next, Schedule, Trigger};

/// The options of the black box, which are arguments.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Black box")]
#[group(id = "black_box")]
pub struct Options {
    /// Keep the last seconds in memory, and write them when something happens: 30s
    ///
    /// A file is written by the triggers of --on, by SIGUSR1, and by the service ~/write_recording
    /// (std_srvs/srv/Trigger). Its name is that of --record with the time of the trigger: FILE_20261128T133405Z.mcap.
    /// At most one file begins per minute. A later trigger waits, and its file has the seconds before it.
    /// --max-cache-size limits the memory.
    #[arg(
        long, value_name = "SECONDS", value_parser = with_unit, requires = "record", allow_negative_numbers = true,
        conflicts_with_all = ["split", "max_size", "max_duration"]
    )]
    pub last: Option<Duration>,
    /// Also write the messages of this number of seconds after the trigger
    #[arg(
        long, value_name = "SECONDS", value_parser = with_unit, requires = "last", allow_negative_numbers = true
    )]
    pub after: Option<Duration>,
    /// Write a file when the level of a topic of --expect becomes this one: error,stale
    ///
    /// A topic that falls silent becomes STALE, not ERROR, unless its expectations have `silence: error`.
    #[arg(long, value_name = "LEVELS", value_enum, value_delimiter = ',', requires_all = ["last", "expect"])]
    pub on: Vec<On>,
    /// Keep at most this number of files: the oldest one is removed
    ///
    /// Only files whose names have the form above are counted and removed.
    #[arg(
        long, value_name = "NUMBER", default_value = "10", requires = "last",
        value_parser = clap::value_parser!(u32).range(1..=10_000), allow_negative_numbers = true
    )]
    pub max_files: u32,
}

/// A level of health that triggers the black box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum On {
    Warn,
    Error,
    Stale,
}

/// Reads a duration in seconds: `30` or `30s`.
fn with_unit(text: &str) -> Result<Duration, String> {
    seconds(text.strip_suffix('s').unwrap_or(text))
}

/// The part of the black box that its triggers and its writer share.
pub struct BlackBox {
    last: Duration,
    after: Duration,
    on: Vec<On>,
    /// The maximum size of the messages in memory, in bytes.
    max_bytes: u64,
    files: Files,
    schedule: Mutex<Schedule>,
    status: Mutex<Option<String>>,
}

impl BlackBox {
    /// The default of [`max_bytes`](Self::max_bytes).
    const MAX_BYTES: u64 = 256_000_000;

    /// Creates the black box, which keeps the messages of the time `last`. Errors if the directory is not writable.
    pub fn new(options: &RecordOptions, last: Duration) -> Result<Self, RecordError> {
        let Options { after, on, max_files, .. } = &options.black_box;
        let (files, after) = (Files::new(options.path(), *max_files as usize)?, after.unwrap_or_default());
        // The last file of an earlier run counts, so that a restarted program also begins at most one per minute.
        let began = files.age_of_last().and_then(|age| Instant::now().checked_sub(age));
        let schedule = Mutex::new(Schedule::new(last, after, began));
        let max_bytes = options.max_cache_size.unwrap_or(Self::MAX_BYTES);
        let (unfinished, options, on) = (files.all().unwrap_or_default(), options.clone(), on.clone());
        let recover = move || {
            for path in unfinished {
                match recover::complete(&path, BagFile::options(&options)) {
                    Ok(None) => {}
                    Ok(Some(messages)) => print_error(&format!(
                        "completed {}: {messages} messages; its run was killed",
                        shown(&path)
                    )),
                    Err(error) => print_error(&format!("{} cannot be completed: {error}", shown(&path))),
                }
            }
        };
        std::thread::Builder::new().name("recover".to_owned()).spawn(recover).map_err(RecordError::Thread)?;
        Ok(Self { last, after, on, max_bytes, files, schedule, status: Mutex::default() })
    }

    pub fn serve(self: &std::sync::Arc<Self>, node: &Node) -> Option<Service> {
        let black_box = std::sync::Arc::clone(self);
        let service = service::serve(node, move || black_box.trigger(Cause::Service));
        service.map_err(|reason| print_error(&reason)).ok()
    }

    pub fn judged(&self, changes: &[(String, Change)]) {
        for (topic, change) in changes {
            let on = match change.health.level {
                Level::Ok => None,
                Level::Warn => Some(On::Warn),
                Level::Error => Some(On::Error),
                Level::Stale => Some(On::Stale),
            };
            if change.health.level != change.before && on.is_some_and(|on| self.on.contains(&on)) {
                self.trigger(Cause::Level { topic: topic.clone(), change: Box::new(change.clone()) });
            }
        }
    }

    /// Triggers the black box. Returns a line that describes which file is written, and when the file is written.
    fn trigger(&self, cause: Cause) -> String {
        let time = nanoseconds(Some(SystemTime::now())).unwrap_or_default();
        let text = cause.to_string();
        let mut schedule = self.schedule();
        let what = match schedule.trigger(Trigger { at: Instant::now(), time, cause }) {
            // The writer needs the lock to begin the file. So the path in the line is the path that the writer uses.
            Next::Begins(time) => format!("writing {}", shown(&self.files.path(time))),
            Next::LeftOut => return format!("{text}: left out, because too many triggers wait"),
            Next::Joins => "added to the file that is being written".to_owned(),
            Next::Waits(time) => {
                format!("a file begins in {:.0} s: at most one begins per minute", time.as_secs_f64().ceil())
            }
        };
        drop(schedule);
        let line = format!("{text}: {what}");
        self.report(line.clone());
        line
    }

    pub fn status(&self) -> Option<String> {
        lock(&self.status).clone()
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        lock(&self.schedule)
    }

    /// Writes a line to standard error. The live view, which hides standard error, shows the last line.
    fn report(&self, line: String) {
        print_error(&line);
        *lock(&self.status) = Some(line);
    }
}

fn shown(path: &std::path::Path) -> String {
    format::name(&path.display().to_string())
}
