// SPDX-License-Identifier: Apache-2.0

//! The HTTP client that sends one OTLP request to the collector, encoded with protobuf.
//!
//! Source: OTLP specification 1.10, <https://opentelemetry.io/docs/specs/otlp/#otlphttp>.

use std::{
    error, fs,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message;
use thiserror::Error;
use topic_statistics_core::Escaped;
use ureq::{
    config::Config,
    http::{
        header::{CONTENT_TYPE, RETRY_AFTER},
        HeaderName, HeaderValue, StatusCode, Uri,
    },
    tls::{parse_pem, Certificate, PemItem, RootCerts, TlsConfig},
    Agent, Body,
};

use super::backoff::retry_after;
use crate::compression::decompress;

/// The largest number of bytes that are read from an answer's body.
const MAX_ANSWER: u64 = 64 << 10;
/// If a text comes from outside the exporter, at most this number of its characters is logged.
const MAX_TEXT: usize = 200;

#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The URL for metrics, usually `http://HOST:4318/v1/metrics`.
    pub url: String,
    pub headers: Vec<(String, String)>,
    /// The longest time for a request and its answer.
    pub timeout: Duration,
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
    #[error("The file {path} for OTLP cannot be used: {reason}")]
    Certificate { path: PathBuf, reason: String },
}

/// The collector's answer to a request, or the reason why there is no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Accepted {
        /// The number of data points in the request that the collector rejected.
        rejected: u64,
        /// The reason for the rejection, or a warning. Empty if the collector gave neither.
        text: String,
    },
    /// The collector has refused the request, and would also refuse the same request later.
    Refused { status: u16, reason: String },
    /// The collector may accept the request later, or did not answer.
    Later {
        /// The wait that the collector demands.
        retry_after: Option<Duration>,
        reason: String,
        failure: Failure,
    },
}

/// The reason why a request waits and is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The collector asked to send the request later.
    Busy,
    /// The collector did not accept the credentials, or does not know the URL. A user may repair this.
    Denied,
    /// The collector did not answer.
    Unreachable,
}

/// A client that sends requests to one URL. The client keeps the connection open between requests.
#[derive(Debug)]
pub struct Client {
    agent: Agent,
    url: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    gzip: bool,
}

impl Client {
    pub fn new(options: &ClientOptions) -> Result<Self, ClientError> {
        Self::with_agent(options, Agent::new_with_config)
    }

    pub fn with_agent(
        options: &ClientOptions,
        agent: impl FnOnce(Config) -> Agent,
    ) -> Result<Self, ClientError> {
        let url = parse_url(&options.url)?;
        let headers = options.headers.iter().map(|(name, value)| {
            let header = HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value).ok());
            header.ok_or_else(|| ClientError::Header(name.clone()))
        });
        let headers = headers.collect::<Result<_, _>>()?;
        let mut config = Agent::config_builder()
            .timeout_global(Some(options.timeout))
            .http_status_as_error(false)
            // Redirects are not followed, because a redirect would change the POST request to a GET request.
            .max_redirects(0)
            .user_agent(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")));
        if url.host().is_some_and(is_loopback) {
            config = config.proxy(None);
        }
        if url.scheme_str() == Some("https") {
            config = config.tls_config(tls(options)?);
        }
        Ok(Self { agent: agent(config.build()), url, headers, gzip: options.gzip })
    }

    /// Sends a request that [`compress`](crate::compression::compress) has compressed. Waits for the answer.
    pub fn post(&self, compressed: &[u8]) -> Answer {
        let mut answer = self.send(compressed);
        // An answer or an error text may repeat the URL's query, which can be a secret. So the query is replaced.
        if let Some(query) = self.url.query().filter(|query| !query.is_empty()) {
            let (Answer::Accepted { text, .. }
            | Answer::Refused { reason: text, .. }
            | Answer::Later { reason: text, .. }) = &mut answer;
            *text = text.replace(query, "...");
        }
        answer
    }

    fn send(&self, compressed: &[u8]) -> Answer {
        let mut request = self.agent.post(&self.url).header("Content-Type", "application/x-protobuf");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let response = if self.gzip {
            request.header("Content-Encoding", "gzip").send(compressed)
        } else {
            match decompress(compressed) {
                Ok(plain) => request.send(&plain),
                // This error never occurs, because waiting requests are never damaged.
                Err(error) => return Answer::Refused { status: 0, reason: error.to_string() },
            }
        };
        match response {
            Ok(response) => answer(response),
            // The error text is escaped, because it can contain names from a certificate.
            Err(error) => Answer::Later {
                retry_after: None,
                reason: error_text(&error.to_string()),
                failure: Failure::Unreachable,
            },
        }
    }
}

/// Errors unless the URL has http:// or https:// and a host, and has no user.
pub fn parse_url(url: &str) -> Result<Uri, ClientError> {
    if has_user(url) {
        return Err(ClientError::UserInfo);
    }
    let is_usable = |url: &Uri| {
        matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some_and(|host| !host.is_empty())
    };
    url.parse().ok().filter(is_usable).ok_or_else(|| ClientError::Url(shown(url)))
}

fn answer(response: ureq::http::Response<Body>) -> Answer {
    let (parts, body) = response.into_parts();
    let wait = parts
        .headers
        .get(RETRY_AFTER)
        .and_then(|header| retry_after(header.to_str().ok()?, SystemTime::now()));
    // Even if the body cannot be read, the HTTP status decides how the answer is handled.
    let body = body.into_with_config().limit(MAX_ANSWER).read_to_vec().unwrap_or_default();
    match parts.status {
        status if status.is_success() => {
            let response = ExportMetricsServiceResponse::decode(&*body).unwrap_or_default();
            let partial = response.partial_success.unwrap_or_default();
            Answer::Accepted {
                rejected: u64::try_from(partial.rejected_data_points).unwrap_or(0),
                text: printable(&partial.error_message),
            }
        }
        status @ (StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT) => {
            Answer::Later { retry_after: wait, reason: format!("status {status}"), failure: Failure::Busy }
        }
        // The exporter retries after these statuses, although OTLP does not require retries. So when a user has renewed
        // a token or repaired a proxy, the collector also gets the figures from before the repair.
        status @ (StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::NOT_FOUND
        | StatusCode::PROXY_AUTHENTICATION_REQUIRED) => {
            Answer::Later { retry_after: wait, reason: format!("status {status}"), failure: Failure::Denied }
        }
        status => {
            let content_type = parts.headers.get(CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
            let text = if content_type.starts_with(b"text/plain") {
                // If the collector is Prometheus, it answers with plain text instead of OTLP's `Status` message.
                printable(String::from_utf8_lossy(&body).trim())
            } else {
                Status::decode(&*body).map(|status| printable(&status.message)).unwrap_or_default()
            };
            let text = if text.is_empty() { text } else { format!(": {text}") };
            Answer::Refused { status: status.as_u16(), reason: format!("status {status}{text}") }
        }
    }
}

/// The field that is read from `google.rpc.Status`, which is the body of an answer that reports a failure.
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
}

/// Returns whether a host name or address is the loopback interface. No proxy is used for such a host.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn tls(options: &ClientOptions) -> Result<TlsConfig, ClientError> {
    let certificates = match &options.certificate {
        Some(path) => certificates(path)
            .map_err(|reason| ClientError::Certificate { path: path.clone(), reason: reason.to_string() })?,
        // System certificates that cannot be read are ignored, so they are not trusted.
        None => {
            let found = rustls_native_certs::load_native_certs().certs;
            found.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect()
        }
    };
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&certificates))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

/// Reads a file of certificates in PEM. Returns an error if the file has no certificate.
fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, Box<dyn error::Error>> {
    let pem = fs::read(path)?;
    let items = parse_pem(&pem).collect::<Result<Vec<_>, _>>()?.into_iter();
    let certificates: Vec<_> = items
        .filter_map(|item| match item {
            PemItem::Certificate(certificate) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err("it has no certificate in PEM".into());
    }
    Ok(certificates)
}

/// Returns a text from outside the exporter in a form that is safe in the log: escaped and shortened.
fn printable(text: &str) -> String {
    Escaped(text).to_string().chars().take(MAX_TEXT).collect()
}

/// Returns the text of an error. Adds a hint at the usual cause, if the error text does not name this cause.
fn error_text(error: &str) -> String {
    // Two usual causes: by default, `openssl req -x509` makes a certificate of an authority, which rustls refuses for a
    // server. A port of gRPC answers with HTTP/2 instead of HTTP/1.1.
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

/// Returns the URL without user, password, query and fragment, which can be secrets. The result is safe to show.
pub fn shown(url: &str) -> String {
    let [scheme, authority, path] = parts(url);
    let host = authority.rsplit('@').next().unwrap_or_default();
    Escaped(&[scheme, host, path].concat()).to_string()
}

pub fn has_user(url: &str) -> bool {
    parts(url)[1].contains('@')
}

fn parts(url: &str) -> [&str; 3] {
    let url = &url[..url.find(['?', '#']).unwrap_or(url.len())];
    let (scheme, rest) = url.find("://").map_or(("", url), |end| url.split_at(end + 3));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    [scheme, authority, path]
}
