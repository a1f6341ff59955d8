// SPDX-License-Identifier: Apache-2.0

//! Decides what happens to a request after the collector's answer: the request is finished, or it is sent again. This
//! module uses no thread, no clock and no connection, so tests can call it directly.

use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use topic_statistics_observe::format::number_of;

use super::{
    backoff::Backoff,
    client::{Answer, Failure},
    queue::Queue,
};
use crate::state::{DroppedRequests, PushCounts};

/// The waiting requests, and the counts of all requests so far.
#[derive(Debug)]
pub struct Delivery {
    queue: Queue,
    backoff: Backoff,
    counts: PushCounts,
    reported: Reported,
}

#[derive(Debug)]
pub struct Outcome {
    /// How long to wait before the request is sent again. `None` if the request is finished.
    pub wait: Option<Wait>,
    /// A line for the log. `None` if there is nothing new to log.
    pub report: Option<String>,
}

/// A wait before a request is sent again.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    pub time: Duration,
    /// Whether the collector demands this wait.
    pub is_demanded: bool,
}

/// The problems that have already been logged, so that a problem is not logged again at each attempt.
#[derive(Debug, Default)]
struct Reported {
    /// `Some` while the collector accepts no requests. The value is whether the failure that was logged last is
    /// [`Failure::Denied`].
    failing: Option<bool>,
    dropped: DroppedRequests,
    refused: Option<u16>,
    rejected: bool,
}

impl Delivery {
    pub fn new(queue: Queue, backoff: Backoff) -> Self {
        Self { queue, backoff, counts: PushCounts::default(), reported: Reported::default() }
    }

    pub fn push(&mut self, request: Vec<u8>, now: Instant) {
        self.queue.push(request, now);
    }

    /// Takes the oldest request. The request counts towards the queue's limits until [`settle`](Self::settle).
    pub fn take(&mut self, now: Instant) -> Option<Arc<Vec<u8>>> {
        self.queue.take(now)
    }

    /// Counts the answer to the taken request. Finishes the request, or puts it back into the queue.
    ///
    /// `random` is a random number from 0 to 1 for the jitter of the wait.
    pub fn settle(&mut self, answer: &Answer, random: f64) -> Outcome {
        let Answer::Later { retry_after, reason, failure } = answer else {
            self.backoff.reset();
            self.queue.finish();
            return Outcome { wait: None, report: self.finished(answer) };
        };
        let time = self.backoff.after_failure(*retry_after, random);
        self.queue.put_back();
        let attempts = &mut self.counts.failed_attempts;
        let (counter, is_denied) = match failure {
            Failure::Busy => (&mut attempts.busy, false),
            Failure::Denied => (&mut attempts.denied, true),
            Failure::Unreachable => (&mut attempts.unreachable, false),
        };
        *counter += 1;
        let is_new = self.reported.failing.replace(is_denied) != Some(is_denied);
        let advice = if is_denied { ": check the endpoint and the headers" } else { "" };
        let report = is_new.then(|| {
            format!("The OTLP collector takes nothing ({reason}){advice}. Figures wait, and are sent later")
        });
        Outcome { wait: Some(Wait { time, is_demanded: retry_after.is_some() }), report }
    }

    pub fn counts(&self) -> PushCounts {
        PushCounts {
            dropped: self.queue.dropped,
            waiting: self.queue.requests(),
            waiting_bytes: self.queue.bytes,
            ..self.counts
        }
    }

    /// Counts the answer to a finished request. Returns a line for the log, if there is anything new to log.
    fn finished(&mut self, answer: &Answer) -> Option<String> {
        match answer {
            Answer::Refused { status, reason } => {
                self.counts.refused += 1;
                self.reported.failing = None;
                let is_new = self.reported.refused.replace(*status) != Some(*status);
                is_new.then(|| format!("The OTLP collector refuses figures ({reason}). They are lost"))
            }
            Answer::Accepted { rejected, text } => {
                self.counts.accepted += 1;
                self.counts.rejected_data_points = self.counts.rejected_data_points.saturating_add(*rejected);
                let was_failing = self.reported.failing.take().is_some();
                let is_partial = *rejected > 0 || !text.is_empty();
                if is_partial && !mem::replace(&mut self.reported.rejected, true) {
                    return Some(format!(
                        "The OTLP collector rejected {rejected} data points of a request: \"{text}\""
                    ));
                }
                let waiting = self.queue.requests();
                let waiting = number_of(waiting as u64, "waiting request");
                was_failing.then(|| format!("The OTLP collector takes figures again: {waiting}"))
            }
            Answer::Later { .. } => None,
        }
    }

    /// Returns a line for the log if the number of dropped requests for a reason has doubled since the last line.
    pub fn report(&mut self) -> Option<String> {
        let mut lines = vec![];
        let DroppedRequests { overflow, expired } = self.queue.dropped;
        let reported = &mut self.reported.dropped;
        for (now, reported, reason) in [
            (overflow, &mut reported.overflow, "beyond the size of the buffer"),
            (expired, &mut reported.expired, "that have waited for too long"),
        ] {
            if now > 0 && now >= 2 * *reported {
                *reported = now;
                lines.push(format!("OTLP requests were dropped: {now} {reason}"));
            }
        }
        (!lines.is_empty()).then(|| lines.join(". "))
    }
}
