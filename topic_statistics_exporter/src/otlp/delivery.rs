// SPDX-License-Identifier: Apache-2.0

//! The fate of each request after the collector's answer, without a thread, a clock or a connection.

use std::{mem, sync::Arc, time::Duration};

use super::{backoff::Backoff, client::Answer, queue::Queue};
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

/// What has been logged, so that nothing is logged twice.
#[derive(Debug, Default)]
struct Reported {
    /// The collector accepts nothing at present.
    failing: bool,
    /// Requests were dropped.
    dropped: bool,
    refused: Option<u16>,
    rejected: bool,
}

impl Delivery {
    /// Nothing was sent yet.
    pub fn new(queue: Queue, backoff: Backoff) -> Self {
        Self { queue, backoff, counts: PushCounts::default(), reported: Reported::default() }
    }

    /// Adds a request, as [`compress`](super::queue::compress) returns it. Returns what to log.
    pub fn push(&mut self, request: Vec<u8>) -> Option<String> {
        self.queue.push(request);
        self.report_of_dropped()
    }

    /// The oldest request. It waits until its answer is [settled](Self::settle).
    pub fn take(&mut self) -> Option<Arc<Vec<u8>>> {
        self.queue.take()
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
            Answer::Later { reason, .. } => {
                self.queue.put_back();
                self.counts.failed_attempts += 1;
                let is_new = !mem::replace(&mut self.reported.failing, true);
                is_new.then(|| {
                    format!("The OTLP collector takes nothing ({reason}). Figures wait, and are sent later")
                })
            }
            Answer::Refused { status, reason } => {
                self.queue.finish();
                self.counts.refused += 1;
                self.reported.failing = false;
                let is_new = self.reported.refused.replace(*status) != Some(*status);
                is_new.then(|| format!("The OTLP collector refuses figures ({reason}). They are lost"))
            }
            Answer::Accepted { rejected, text } => {
                self.queue.finish();
                self.counts.accepted += 1;
                self.counts.rejected_data_points = self.counts.rejected_data_points.saturating_add(*rejected);
                let was_failing = mem::take(&mut self.reported.failing);
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

    /// Returns what to log of dropped requests.
    fn report_of_dropped(&mut self) -> Option<String> {
        let dropped = self.queue.dropped();
        let is_new = dropped != DroppedRequests::default() && !mem::replace(&mut self.reported.dropped, true);
        is_new.then(|| {
            format!("OTLP requests were dropped: {} beyond the limits of the buffer, {} damaged, {} not written to disk", dropped.overflow, dropped.damaged, dropped.unwritten)
        })
    }
}
