// SPDX-License-Identifier: Apache-2.0

//! Counts of pushed requests.

/// Counts of the requests to a collector since the start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PushCounts {
    /// Requests that the collector accepted.
    pub accepted: u64,
    /// Requests that the collector refused. They are lost.
    pub refused: u64,
    /// Data points in accepted requests that the collector rejected. They are lost.
    pub rejected_data_points: u64,
    /// Attempts after which a request waits and is sent again.
    pub failed_attempts: FailedAttempts,
    /// Requests that were dropped while they waited. They are lost.
    pub dropped: DroppedRequests,
    /// Requests that wait, or are being sent.
    pub waiting: usize,
    /// Their bytes, compressed.
    pub waiting_bytes: u64,
}

/// Attempts after which a request waits and is sent again, by reason.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FailedAttempts {
    /// The collector wants it later.
    pub busy: u64,
    /// The collector does not accept who sends it, or has no such URL.
    pub denied: u64,
    /// There was no answer.
    pub unreachable: u64,
}

impl FailedAttempts {
    /// Returns their number.
    pub fn total(self) -> u64 {
        self.busy + self.denied + self.unreachable
    }
}

/// Requests that were dropped, by reason.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DroppedRequests {
    /// Dropped because of the limit of bytes: the oldest, to make room for a new one; or one that does not fit beside
    /// the one being sent.
    pub overflow: u64,
    /// Dropped because they had waited for too long.
    pub expired: u64,
}
