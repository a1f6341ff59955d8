// SPDX-License-Identifier: Apache-2.0

//! Requests by OTLP over HTTP with protobuf.
//!
//! Source: OTLP specification 1.10, <https://opentelemetry.io/docs/specs/otlp/#otlphttp>.

use std::{net::IpAddr, sync::Arc, time::SystemTime};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message;
use ureq::{
    config::Config,
    http::{
        header::{CONTENT_TYPE, RETRY_AFTER},
        HeaderName, HeaderValue, StatusCode, Uri,
    },
    tls::{Certificate, ClientCert, RootCerts, TlsConfig},
    Agent, Body,
};

use super::{
    answer::{accepted, error_text, printable, Answer, Failure},
    options::{ClientError, ClientOptions, USER_AGENT},
    pem,
};
use crate::{compression::decompress, otlp::backoff::retry_after};

/// How much of an answer is read, in bytes.
const MAX_ANSWER: u64 = 64 << 10;

/// Sends requests to one URL, and keeps the connection.
#[derive(Debug)]
pub struct HttpClient {
    agent: Agent,
    url: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    gzip: bool,
}

impl HttpClient {
    /// A client with the agent that `agent` makes, and so with its connections. Nothing is sent yet.
    pub fn new(
        options: &ClientOptions,
        url: Uri,
        agent: impl FnOnce(Config) -> Agent,
    ) -> Result<Self, ClientError> {
        let headers = options.headers.iter().map(|(name, value)| {
            let header = HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value).ok());
            header.ok_or_else(|| ClientError::Header(name.clone()))
        });
        let headers = headers.collect::<Result<_, _>>()?;
        let mut config = Agent::config_builder()
            .timeout_global(Some(options.timeout))
            .http_status_as_error(false)
            // By a redirect, a POST would become a GET.
            .max_redirects(0)
            .user_agent(USER_AGENT);
        if url.host().is_some_and(is_loopback) {
            config = config.proxy(None);
        }
        if url.scheme_str() == Some("https") {
            config = config.tls_config(tls(options)?);
        }
        Ok(Self { agent: agent(config.build()), url, headers, gzip: options.gzip })
    }

    /// Sends a request that [`compress`](crate::compression::compress) has compressed, and waits for the answer.
    pub fn post(&self, compressed: &[u8]) -> Answer {
        let mut request = self.agent.post(&self.url).header("Content-Type", "application/x-protobuf");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let response = if self.gzip {
            request.header("Content-Encoding", "gzip").send(compressed)
        } else {
            match decompress(compressed) {
                Ok(plain) => request.send(&plain),
                // Not reached: requests in memory are whole, and requests from disk have been checked.
                Err(error) => return Answer::Refused { status: 0, reason: error.to_string() },
            }
        };
        match response {
            Ok(response) => answer(response),
            // It can have names of a certificate.
            Err(error) => Answer::Later {
                retry_after: None,
                reason: error_text(&error.to_string()),
                failure: Failure::Unreachable,
            },
        }
    }
}

fn answer(response: ureq::http::Response<Body>) -> Answer {
    let (parts, body) = response.into_parts();
    let wait = parts
        .headers
        .get(RETRY_AFTER)
        .and_then(|header| retry_after(header.to_str().ok()?, SystemTime::now()));
    // The status is the answer, even if the rest fails.
    let body = body.into_with_config().limit(MAX_ANSWER).read_to_vec().unwrap_or_default();
    match parts.status {
        status if status.is_success() => {
            accepted(ExportMetricsServiceResponse::decode(&*body).unwrap_or_default())
        }
        status @ (StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT) => {
            Answer::Later { retry_after: wait, reason: format!("status {status}"), failure: Failure::Busy }
        }
        // OTLP does not retry these statuses. But somebody can renew a token or repair a proxy, and then the figures
        // of the time until then are there.
        status @ (StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::NOT_FOUND
        | StatusCode::PROXY_AUTHENTICATION_REQUIRED) => {
            Answer::Later { retry_after: wait, reason: format!("status {status}"), failure: Failure::Denied }
        }
        status => {
            let content_type = parts.headers.get(CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
            let text = if content_type.starts_with(b"text/plain") {
                // Prometheus's, instead of OTLP's.
                printable(String::from_utf8_lossy(&body).trim())
            } else {
                Status::decode(&*body).map(|status| printable(&status.message)).unwrap_or_default()
            };
            let text = if text.is_empty() { text } else { format!(": {text}") };
            Answer::Refused { status: status.as_u16(), reason: format!("status {status}{text}") }
        }
    }
}

/// The fields used of a failure's body, `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
}

/// Whether a host is this one. No proxy can reach it.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn tls(options: &ClientOptions) -> Result<TlsConfig, ClientError> {
    let certificates = match &options.certificate {
        Some(path) => pem::certificates(path)?,
        // Unreadable certificates are not trusted.
        None => {
            let found = rustls_native_certs::load_native_certs().certs;
            found.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect()
        }
    };
    let client = options.client.as_ref().map(|(certificate, key)| {
        Ok(ClientCert::new_with_certs(&pem::certificates(certificate)?, pem::private_key(key)?))
    });
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&certificates))
        .client_cert(client.transpose()?)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}
