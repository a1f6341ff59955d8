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
use topic_statistics_observe::format;

use super::{
    file::BagFile,
    options::{BlackBoxOptions, On, Options},
    topic::nanoseconds,
    RecordError,
};
use crate::process::print_error;
use files::Files;
use schedule::{Cause, Next, Schedule, Trigger};

/// The state that the triggers and the writer thread of the black box share.
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
    pub fn new(options: &Options, last: Duration) -> Result<Self, RecordError> {
        let BlackBoxOptions { after, on, max_files, .. } = &options.black_box;
        let (files, after) = (Files::new(options.path(), *max_files as usize)?, after.unwrap_or_default());
        // The last file of an earlier run counts for the interval between files, so that a restarted program also
        // begins at most one file per minute.
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
            // The writer begins the file only after `schedule` is unlocked, so the path of the file will be the one
            // shown here.
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
