// SPDX-License-Identifier: Apache-2.0

//! Counts of the OTLP requests that the exporter sends to a collector.

/// Counts of the OTLP requests to a collector since the exporter's start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PushCounts {
    pub accepted: u64,
    /// The number of requests that the collector refused. A refused request is lost.
    pub refused: u64,
    /// The number of data points in accepted requests that the collector rejected. A rejected data point is lost.
    pub rejected_data_points: u64,
    pub failed_attempts: FailedAttempts,
    /// The requests that were dropped while they waited. A dropped request is lost.
    pub dropped: DroppedRequests,
    /// The number of requests that wait or are being sent.
    pub waiting: usize,
    /// The compressed size of the waiting requests, in bytes.
    pub waiting_bytes: u64,
}

/// The number of failed attempts to send a request, by reason. After such an attempt, the request is sent again.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FailedAttempts {
    pub busy: u64,
    /// The collector did not accept the exporter's credentials, or does not know the URL.
    pub denied: u64,
    pub unreachable: u64,
}

impl FailedAttempts {
    pub fn total(self) -> u64 {
        self.busy + self.denied + self.unreachable
    }
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DroppedRequests {
    /// The number of requests that were dropped because of the limit of bytes. Old requests are dropped to make room
    /// for a new request. A new request is dropped if it does not fit beside the request that is being sent.
    pub overflow: u64,
    /// The number of requests that were dropped because they had waited for too long.
    pub expired: u64,
}
