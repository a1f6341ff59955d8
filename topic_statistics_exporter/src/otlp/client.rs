// SPDX-License-Identifier: Apache-2.0

//! One request to the collector, by OTLP over HTTP or gRPC, and the meaning of the answer.

mod grpc;
mod http;

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use thiserror::Error;
use topic_statistics_core::Escaped;
use ureq::{config::Config, http::Uri, Agent};

use self::{grpc::GrpcClient, http::HttpClient};

/// How much of a foreign text is logged, in characters.
const MAX_TEXT: usize = 200;

const USER_AGENT: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));

/// How requests are sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Protocol {
    /// OTLP over HTTP, with protobuf.
    #[default]
    HttpProtobuf,
    /// OTLP over gRPC.
    Grpc,
}

impl Protocol {
    /// The protocol with OpenTelemetry's name for it.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "http/protobuf" => Some(Self::HttpProtobuf),
            "grpc" => Some(Self::Grpc),
            _ => None,
        }
    }
}

/// Where and how requests are sent.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// How requests are sent.
    pub protocol: Protocol,
    /// The URL that takes metrics, usually `http://HOST:4318/v1/metrics`. By gRPC it has no path: `http://HOST:4317`.
    pub url: String,
    /// Headers of each request, as name and value.
    pub headers: Vec<(String, String)>,
    /// How long a request may take, with its answer.
    pub timeout: Duration,
    /// Whether requests are sent compressed.
    pub gzip: bool,
    /// A file of certificates (PEM) to check a collector's certificate. None: the system's certificates.
    pub certificate: Option<PathBuf>,
    /// The files (PEM) of the exporter's own certificate and its key, which the collector checks.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// Why no request can be sent with these options.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The URL.
    #[error("The OTLP endpoint {0:?} is no URL: it is http:// or https://, a host, and a port, as http://localhost:4318")]
    Url(String),
    /// A URL with a user or a password, which are not shown.
    #[error("The OTLP endpoint has a user or a password: they go into a header, authorization=Basic%20...")]
    UserInfo,
    /// A header. Its value can be a secret.
    #[error("The OTLP header {0:?} has a name or a value that HTTP does not allow")]
    Header(String),
    /// A file of certificates, or of a key.
    #[error("The file {path} for OTLP cannot be used: {reason}")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The thread of gRPC.
    #[error("A thread for OTLP cannot be started: {0}")]
    Thread(io::Error),
}

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
        /// The status of HTTP or gRPC.
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

/// Sends requests to one collector, and keeps the connection.
#[derive(Debug)]
pub struct Client(Transport);

#[derive(Debug)]
enum Transport {
    Http(HttpClient),
    Grpc(Box<GrpcClient>),
}

impl Client {
    /// A client. Nothing is sent yet.
    pub fn new(options: &ClientOptions) -> Result<Self, ClientError> {
        Self::with_agent(options, Agent::new_with_config)
    }

    /// A client with the agent that `agent` makes for HTTP, and so with its connections.
    pub fn with_agent(
        options: &ClientOptions,
        agent: impl FnOnce(Config) -> Agent,
    ) -> Result<Self, ClientError> {
        if options.url.contains('@') {
            return Err(ClientError::UserInfo);
        }
        let is_usable = |url: &Uri| {
            matches!(url.scheme_str(), Some("http" | "https"))
                && url.host().is_some_and(|host| !host.is_empty())
        };
        let url = options.url.parse().ok().filter(is_usable);
        let url = url.ok_or_else(|| ClientError::Url(options.url.clone()))?;
        Ok(Self(match options.protocol {
            Protocol::HttpProtobuf => Transport::Http(HttpClient::new(options, url, agent)?),
            Protocol::Grpc => Transport::Grpc(Box::new(GrpcClient::new(options, url)?)),
        }))
    }

    /// Sends a request that [`compress`](crate::compression::compress) has compressed, and waits for the answer.
    pub fn post(&self, compressed: &[u8]) -> Answer {
        match &self.0 {
            Transport::Http(client) => client.post(compressed),
            Transport::Grpc(client) => client.post(compressed),
        }
    }
}

fn accepted(response: ExportMetricsServiceResponse) -> Answer {
    let partial = response.partial_success.unwrap_or_default();
    Answer::Accepted {
        rejected: u64::try_from(partial.rejected_data_points).unwrap_or(0),
        text: printable(&partial.error_message),
    }
}

/// Foreign text as it can stand in a line of the log.
fn printable(text: &str) -> String {
    Escaped(text).to_string().chars().take(MAX_TEXT).collect()
}

fn read(path: &Path) -> Result<Vec<u8>, ClientError> {
    fs::read(path).map_err(|error| unusable(path, error))
}

fn unusable(path: &Path, reason: impl ToString) -> ClientError {
    ClientError::Certificate { path: path.to_owned(), reason: reason.to_string() }
}

/// Returns the text of a failure. A certificate that `openssl req -x509` makes is one of an authority.
fn error_text(error: &str) -> String {
    let reason = printable(error);
    match error.contains("CaUsedAsEndEntity") {
        true => format!(
            "{reason}: the collector's certificate is one of an authority; make it with basicConstraints=CA:FALSE"
        ),
        false => reason,
    }
}
