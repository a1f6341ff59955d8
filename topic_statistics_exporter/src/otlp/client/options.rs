// SPDX-License-Identifier: Apache-2.0

//! The options of the HTTP client that sends OTLP requests.

use std::{path::PathBuf, time::Duration};

use thiserror::Error;

/// The header User-Agent of the requests.
pub const USER_AGENT: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));

/// The options of the HTTP client that sends OTLP requests.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The URL for metrics, usually `http://HOST:4318/v1/metrics`.
    pub url: String,
    /// The additional headers of each request: names and values.
    pub headers: Vec<(String, String)>,
    /// The longest time for a request and its answer.
    pub timeout: Duration,
    /// Whether requests are compressed with gzip.
    pub gzip: bool,
    /// A PEM file with certificates to check the collector's certificate. `None` means the system's certificates.
    pub certificate: Option<PathBuf>,
}

/// The reason why no request can be sent with these options.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The URL is not valid. The error shows the URL without parts that can be secrets.
    #[error(
        "The OTLP endpoint {0:?} is no URL: it is http:// or https://, a host, and a port, as http://localhost:4318"
    )]
    Url(String),
    /// The URL contains a user or a password, which the error does not show.
    #[error("The OTLP endpoint has a user or a password: they go into a header, authorization=Basic%20...")]
    UserInfo,
    /// A header is not valid. The error shows only the name of the header, because the value can be a secret.
    #[error("The OTLP header {0:?} has a name or a value that HTTP does not allow")]
    Header(String),
    /// The file of certificates cannot be used.
    #[error("The file {path} for OTLP cannot be used: {reason}")]
    Certificate {
        /// The path of the file.
        path: PathBuf,
        /// The reason why the file cannot be used.
        reason: String,
    },
}
