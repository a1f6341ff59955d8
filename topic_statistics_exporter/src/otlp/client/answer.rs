// SPDX-License-Identifier: Apache-2.0

//! The meaning of an answer.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use topic_statistics_core::Escaped;

/// How much of a foreign text is logged, in characters.
pub const MAX_TEXT: usize = 200;

/// The collector's answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The collector has it.
    Accepted {
        /// The data points of the request that the collector does not take.
        rejected: u64,
        /// The reason, or a warning. Empty if there is none.
        text: String,
    },
    /// It does not take this request, and would not take it later.
    Refused {
        /// The status of HTTP.
        status: u16,
        /// The reason that it gave.
        reason: String,
    },
    /// It may take it later, or there was no answer.
    Later {
        /// How long the collector wants us to wait.
        retry_after: Option<Duration>,
        /// The status, or the error.
        reason: String,
        /// The kind of the failure.
        failure: Failure,
    },
}

/// Why a request waits and is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The collector wants it later.
    Busy,
    /// The collector does not accept who sends it, or has no such URL: a token has expired, or a proxy is not ready.
    Denied,
    /// There was no answer.
    Unreachable,
}

/// The answer of a collector that has the request, but for the data points that it rejects.
pub fn accepted(response: ExportMetricsServiceResponse) -> Answer {
    let partial = response.partial_success.unwrap_or_default();
    Answer::Accepted {
        rejected: u64::try_from(partial.rejected_data_points).unwrap_or(0),
        text: printable(&partial.error_message),
    }
}

/// Foreign text as it can stand in a line of the log.
pub fn printable(text: &str) -> String {
    Escaped(text).to_string().chars().take(MAX_TEXT).collect()
}

/// Returns the text of a failure, with a hint where it does not name its usual cause.
pub fn error_text(error: &str) -> String {
    // A certificate that `openssl req -x509` makes is one of an authority. A port of gRPC answers by HTTP/2.
    let hints = [
        (
            "CaUsedAsEndEntity",
            ": the collector's certificate is one of an authority; make it with basicConstraints=CA:FALSE",
        ),
        ("invalid HTTP version", ": it may be a port of gRPC; the port of HTTP is usually 4318"),
    ];
    let hint = hints.iter().find(|(text, _)| error.contains(text)).map_or("", |(_, hint)| hint);
    printable(error) + hint
}
