// SPDX-License-Identifier: Apache-2.0

//! Taken messages, and samples that wait for the lock of their subscription.

use std::sync::{Arc, Mutex};

use topic_statistics_core::{
    mutex::lock,
    record::recorder::{ReceivedMessage, Recorder, RunningCallback},
};

use super::middleware::Message;
use crate::{delay::Step, oracle::Stamp};

#[derive(Clone)]
pub struct Taken {
    pub subscription: u64,
    pub recorder: Arc<Recorder>,
    /// `None` if the statistics were disabled when the message was taken.
    pub taken: Option<ReceivedMessage>,
    /// The number of the enabled period (the oracle's epoch) in which the message was taken.
    pub epoch: Option<u32>,
    /// How often stamps had become doubtful or usable again when the message was taken.
    pub steps: u32,
    pub at: i64,
    pub message: Message,
    pub received: Stamp,
    pub is_filtered: bool,
}

pub struct Running {
    pub subscription: u64,
    pub recorder: Arc<Recorder>,
    pub running: Option<RunningCallback>,
    pub epoch: Option<u32>,
    pub started: i64,
}

/// A message whose callback runs while a delayed thread holds the lock. Times count from the start of the delay.
pub struct Waiting {
    pub taken: Taken,
    pub starts: i64,
    /// The time at which the callback ends; `None` if the end is never recorded.
    pub ends: Option<i64>,
    pub has_ended: Arc<Mutex<bool>>,
}

impl Waiting {
    pub fn steps(&self) -> Vec<(i64, Step)> {
        let (recorder, taken) = (Arc::clone(&self.taken.recorder), self.taken.taken);
        let running = Arc::new(Mutex::new(None));
        let started = Arc::clone(&running);
        let start: Step = Box::new(move |now| {
            *lock(&started) = taken.and_then(|taken| recorder.record(&taken, || now));
        });
        let (recorder, has_ended) = (Arc::clone(&self.taken.recorder), Arc::clone(&self.has_ended));
        let end = self.ends.map(|ends| {
            let end: Step = Box::new(move |now| {
                if let Some(running) = lock(&running).take() {
                    recorder.record_end(running, now);
                    *lock(&has_ended) = true;
                }
            });
            (ends, end)
        });
        [(self.starts, start)].into_iter().chain(end).collect()
    }
}

/// For the oracle: a sample that is recorded while another thread holds the lock.
pub struct WaitingSample<'a> {
    /// The time of the sample on the monotonic clock.
    pub time: i64,
    pub taken: &'a Taken,
    /// The duration of the callback in milliseconds. `None` for the start of a callback.
    pub duration: Option<f64>,
    /// Whether the sample is lost because the queue is full.
    pub is_lost: bool,
}

impl WaitingSample<'_> {
    /// The number of samples that the queue of a lock can hold, by docs/reliability.md.
    pub const ROOM: usize = 8;

    pub fn list(waiting: &[Waiting], since: i64) -> Vec<WaitingSample<'_>> {
        let mut samples = vec![];
        for Waiting { taken, starts, ends, has_ended } in
            waiting.iter().filter(|message| message.taken.taken.is_some())
        {
            let mut add = |time: i64, duration| {
                let is_lost = samples.len() >= Self::ROOM;
                samples.push(WaitingSample { time: since + time, taken, duration, is_lost });
            };
            add(*starts, None);
            if let Some(ends) = ends.filter(|_| *lock(has_ended)) {
                add(ends, Some((ends - starts) as f64 / 1e6));
            }
        }
        samples
    }

    /// Returns whether the sample is a message of the enabled period `epoch` that is lost as a sample: the message is
    /// counted, but not measured.
    pub fn is_lost_message_of(&self, epoch: Option<u32>) -> bool {
        self.is_lost && self.duration.is_none() && self.taken.epoch == epoch
    }
}

/// What happens while the next end of a window is delayed.
pub struct DelayedEnd {
    /// The time from the start of the delay to the stop of the window.
    pub stop: i64,
    pub waiting: Vec<Waiting>,
}
