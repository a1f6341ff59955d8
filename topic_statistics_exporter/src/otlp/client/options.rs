// SPDX-License-Identifier: Apache-2.0

//! Where and how requests are sent.

use std::{path::PathBuf, time::Duration};

use thiserror::Error;

/// The name of this program in requests.
pub const USER_AGENT: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));

/// Where and how requests are sent.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The URL that takes metrics, usually `http://HOST:4318/v1/metrics`.
    pub url: String,
    /// Headers of each request, as name and value.
    pub headers: Vec<(String, String)>,
    /// How long a request may take, with its answer.
    pub timeout: Duration,
    /// Whether requests are sent compressed.
    pub gzip: bool,
    /// A file of certificates (PEM) to check a collector's certificate. None: the system's certificates.
    pub certificate: Option<PathBuf>,
}

/// Why no request can be sent with these options.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The URL, without what can be a secret.
    #[error(
        "The OTLP endpoint {0:?} is no URL: it is http:// or https://, a host, and a port, as http://localhost:4318"
    )]
    Url(String),
    /// A URL with a user or a password, which are not shown.
    #[error("The OTLP endpoint has a user or a password: they go into a header, authorization=Basic%20...")]
    UserInfo,
    /// A header. Its value can be a secret.
    #[error("The OTLP header {0:?} has a name or a value that HTTP does not allow")]
    Header(String),
    /// A file of certificates.
    #[error("The file {path} for OTLP cannot be used: {reason}")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}
