// SPDX-License-Identifier: Apache-2.0

//! The meaning of a collector's answer.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use topic_statistics_core::Escaped;

/// If a text comes from outside the exporter, at most this number of its characters is logged.
pub const MAX_TEXT: usize = 200;

/// The collector's answer to a request, or the reason why there is no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The collector has accepted the request.
    Accepted {
        /// The number of data points in the request that the collector rejected.
        rejected: u64,
        /// The reason for the rejection, or a warning. Empty if the collector gave neither.
        text: String,
    },
    /// The collector has refused the request, and would also refuse the same request later.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The status, with the reason that the collector gave.
        reason: String,
    },
    /// The collector may accept the request later, or did not answer.
    Later {
        /// The wait that the collector demands.
        retry_after: Option<Duration>,
        /// The HTTP status, or the error of the connection.
        reason: String,
        /// The kind of the failure.
        failure: Failure,
    },
}

/// The reason why a request waits and is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The collector asked to send the request later.
    Busy,
    /// The collector did not accept the exporter's credentials, or does not know the URL. For example, a token has
    /// expired, or a proxy is not ready.
    Denied,
    /// The collector did not answer.
    Unreachable,
}

/// Returns the answer of a collector that has accepted the request, possibly without the data points that it rejected.
pub fn accepted(response: ExportMetricsServiceResponse) -> Answer {
    let partial = response.partial_success.unwrap_or_default();
    Answer::Accepted {
        rejected: u64::try_from(partial.rejected_data_points).unwrap_or(0),
        text: printable(&partial.error_message),
    }
}

/// Returns a text from outside the exporter in a form that is safe in the log: escaped and shortened.
pub fn printable(text: &str) -> String {
    Escaped(text).to_string().chars().take(MAX_TEXT).collect()
}

/// Returns the text of an error. Adds a hint at the usual cause, if the error text does not name this cause.
pub fn error_text(error: &str) -> String {
    // By default, `openssl req -x509` makes a certificate of an authority. A gRPC port answers with HTTP/2.
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
