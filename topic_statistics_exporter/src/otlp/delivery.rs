// SPDX-License-Identifier: Apache-2.0

//! The fate of each request after the collector's answer, without a thread, a clock or a connection.

use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    backoff::Backoff,
    client::{Answer, Failure},
    queue::Queue,
};
use crate::state::{DroppedRequests, PushCounts};

/// The waiting requests, and counts of the others.
#[derive(Debug)]
pub struct Delivery {
    queue: Queue,
    backoff: Backoff,
    counts: PushCounts,
    reported: Reported,
}

/// The consequence of an answer.
#[derive(Debug)]
pub struct Outcome {
    /// How long to wait before the request is sent again. None if it is not.
    pub wait: Option<Wait>,
    /// A line for the log, where something has changed.
    pub report: Option<String>,
}

/// A wait before a request is sent again.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// The time.
    pub time: Duration,
    /// Whether the collector demands it.
    pub is_demanded: bool,
}

/// What has been logged, so that nothing is logged with each attempt.
#[derive(Debug, Default)]
struct Reported {
    /// The collector accepts nothing at present: whether it denies.
    failing: Option<bool>,
    dropped: DroppedRequests,
    refused: Option<u16>,
    rejected: bool,
}

impl Delivery {
    /// Nothing was sent yet.
    pub fn new(queue: Queue, backoff: Backoff) -> Self {
        Self { queue, backoff, counts: PushCounts::default(), reported: Reported::default() }
    }

    /// Adds a request, as [`compress`](crate::compression::compress) returns it.
    pub fn push(&mut self, request: Vec<u8>, now: Instant) {
        self.queue.push(request, now);
    }

    /// The oldest request. It waits until its answer is [settled](Self::settle).
    pub fn take(&mut self, now: Instant) -> Option<Arc<Vec<u8>>> {
        self.queue.take(now)
    }

    /// Counts the answer to the request that is taken, and keeps the request only if it is to be sent again.
    ///
    /// `random` is from 0 to 1.
    pub fn settle(&mut self, answer: &Answer, random: f64) -> Outcome {
        let wait = match answer {
            Answer::Later { retry_after, .. } => Some(Wait {
                time: self.backoff.after_failure(*retry_after, random),
                is_demanded: retry_after.is_some(),
            }),
            Answer::Accepted { .. } | Answer::Refused { .. } => {
                self.backoff.reset();
                None
            }
        };
        Outcome { wait, report: self.count(answer) }
    }

    /// The counts of requests so far.
    pub fn counts(&self) -> PushCounts {
        PushCounts {
            dropped: self.queue.dropped(),
            waiting: self.queue.requests(),
            waiting_bytes: self.queue.bytes(),
            ..self.counts
        }
    }

    /// Counts the answer, and finishes the request or puts it back. Returns what to log.
    fn count(&mut self, answer: &Answer) -> Option<String> {
        match answer {
            Answer::Later { reason, failure, .. } => {
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
                is_new.then(|| {
                    format!("The OTLP collector takes nothing ({reason}){advice}. Figures wait, and are sent later")
                })
            }
            Answer::Refused { status, reason } => {
                self.queue.finish();
                self.counts.refused += 1;
                self.reported.failing = None;
                let is_new = self.reported.refused.replace(*status) != Some(*status);
                is_new.then(|| format!("The OTLP collector refuses figures ({reason}). They are lost"))
            }
            Answer::Accepted { rejected, text } => {
                self.queue.finish();
                self.counts.accepted += 1;
                self.counts.rejected_data_points = self.counts.rejected_data_points.saturating_add(*rejected);
                let was_failing = self.reported.failing.take().is_some();
                let is_new =
                    (*rejected > 0 || !text.is_empty()) && !mem::replace(&mut self.reported.rejected, true);
                if is_new {
                    Some(format!(
                        "The OTLP collector rejected {rejected} data points of a request: \"{text}\""
                    ))
                } else {
                    was_failing.then(|| {
                        format!(
                            "The OTLP collector takes figures again. {} requests wait",
                            self.queue.requests()
                        )
                    })
                }
            }
        }
    }

    /// Returns what to log of dropped requests, each time that the number of a reason has doubled.
    pub fn report(&mut self) -> Option<String> {
        let mut lines = vec![];
        let DroppedRequests { overflow, expired } = self.queue.dropped();
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
