// SPDX-License-Identifier: Apache-2.0

//! Requests by OTLP over gRPC.
//!
//! Source: OTLP specification 1.10, <https://opentelemetry.io/docs/specs/otlp/#otlpgrpc>.

use std::{error::Error, path::Path, time::Duration};

use opentelemetry_proto::tonic::collector::metrics::v1::{
    metrics_service_client::MetricsServiceClient, ExportMetricsServiceRequest,
};
use prost::Message;
use tokio::{
    runtime::{self, Runtime},
    time::timeout,
};
use tonic::{
    codec::CompressionEncoding,
    metadata::{Ascii, MetadataKey, MetadataMap, MetadataValue},
    transport::{Certificate, Channel, ClientTlsConfig, Identity},
    Code, Request, Status,
};
use tonic_types::StatusExt;
use ureq::http::Uri;

use super::{
    answer::{accepted, error_text, printable, Answer, Failure},
    options::{ClientError, ClientOptions, USER_AGENT},
    pem,
};
use crate::{compression::decompress, otlp::shown};

/// Sends requests to one collector, and keeps the connection.
#[derive(Debug)]
pub struct GrpcClient {
    client: MetricsServiceClient<Channel>,
    metadata: MetadataMap,
    timeout: Duration,
    /// Its thread answers the collector between two requests, too. It ends after the client.
    runtime: Runtime,
}

impl GrpcClient {
    /// A client. It connects with the first request.
    pub fn new(options: &ClientOptions, url: Uri) -> Result<Self, ClientError> {
        let mut metadata = MetadataMap::new();
        for (name, value) in &options.headers {
            let key = MetadataKey::<Ascii>::from_bytes(name.as_bytes()).ok();
            let pair = key.zip(MetadataValue::try_from(value).ok());
            let (key, value) = pair.ok_or_else(|| ClientError::Header(name.clone()))?;
            metadata.append(key, value);
        }
        let is_https = url.scheme_str() == Some("https");
        let no_url = |_| ClientError::Url(shown(&options.url));
        let mut endpoint = Channel::builder(url).user_agent(USER_AGENT).map_err(no_url)?;
        if is_https {
            endpoint = endpoint.tls_config(tls(options)?).map_err(|error| {
                let files = options.client.as_ref().map(|(certificate, _)| certificate);
                let path = options.certificate.as_ref().or(files);
                pem::unusable(path.map_or(Path::new("of the system"), |path| path), cause(&error))
            })?;
        }
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("otlp grpc")
            .enable_all()
            .build()
            .map_err(ClientError::Thread)?;
        let channel = {
            let _entered = runtime.enter();
            endpoint.connect_lazy()
        };
        let mut client = MetricsServiceClient::new(channel);
        if options.gzip {
            client = client.send_compressed(CompressionEncoding::Gzip);
        }
        client = client.accept_compressed(CompressionEncoding::Gzip);
        Ok(Self { client, metadata, timeout: options.timeout, runtime })
    }

    /// Sends a request that [`compress`](crate::compression::compress) has compressed, and waits for the answer.
    pub fn post(&self, compressed: &[u8]) -> Answer {
        let message = decompress(compressed).ok();
        let Some(message) = message.and_then(|bytes| ExportMetricsServiceRequest::decode(&*bytes).ok())
        else {
            // Not reached: requests in memory are whole, and requests from disk have been checked.
            return Answer::Refused { status: 0, reason: "it is no request".to_owned() };
        };
        let mut request = Request::new(message);
        *request.metadata_mut() = self.metadata.clone();
        let mut client = self.client.clone();
        let sent = async { timeout(self.timeout, client.export(request)).await };
        match self.runtime.block_on(sent) {
            Ok(Ok(response)) => accepted(response.into_inner()),
            Ok(Err(status)) => failed(&status),
            Err(_) => Answer::Later {
                retry_after: None,
                reason: format!("no answer within {:?}", self.timeout),
                failure: Failure::Unreachable,
            },
        }
    }
}

fn failed(status: &Status) -> Answer {
    let unreachable = status.source();
    let text = printable(status.message());
    let colon = if text.is_empty() { "" } else { ": " };
    let reason = format!("gRPC status {:?}{colon}{text}", status.code());
    // A wait of zero is none, as in HTTP.
    let retry = status.get_details_retry_info().map(|retry| retry.retry_delay.unwrap_or_default());
    let later = |reason, failure| Answer::Later {
        retry_after: retry.filter(|wait| !wait.is_zero()),
        reason,
        failure,
    };
    match status.code() {
        // A status of this side, not of the collector.
        _ if unreachable.is_some() => later(error_text(&cause(status)), Failure::Unreachable),
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss => later(reason, Failure::Busy),
        // Without RetryInfo, the collector will not recover by waiting, says the specification.
        Code::ResourceExhausted if retry.is_some() => later(reason, Failure::Busy),
        // As 401, 403 and 404 in HTTP. A collector or a proxy that does not know the service answers "unimplemented".
        Code::Unauthenticated | Code::PermissionDenied | Code::Unimplemented | Code::NotFound => {
            later(reason, Failure::Denied)
        }
        code => Answer::Refused { status: code as u16, reason },
    }
}

/// The first cause of an error, which names what happened.
fn cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

fn tls(options: &ClientOptions) -> Result<ClientTlsConfig, ClientError> {
    let mut tls = ClientTlsConfig::new();
    tls = match &options.certificate {
        Some(path) => {
            // tonic takes a file without any.
            pem::certificates(path)?;
            tls.ca_certificate(Certificate::from_pem(pem::read(path)?))
        }
        None => tls.with_native_roots(),
    };
    if let Some((certificate, key)) = &options.client {
        pem::certificates(certificate)?;
        pem::private_key(key)?;
        tls = tls.identity(Identity::from_pem(pem::read(certificate)?, pem::read(key)?));
    }
    Ok(tls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_retried_if_otlp_says_so_or_a_token_may_be_new() {
        for code in 1..=16 {
            let status = Status::new(Code::from_i32(code), "why\n");
            let expected = match code {
                1 | 4 | 10 | 11 | 14 | 15 => Some(Failure::Busy),
                5 | 7 | 12 | 16 => Some(Failure::Denied),
                _ => None,
            };
            match (failed(&status), expected) {
                (Answer::Later { retry_after: None, reason, failure }, Some(expected)) => {
                    assert_eq!(failure, expected, "{code}");
                    assert!(reason.ends_with(r": why\u{a}"), "{reason}");
                }
                (Answer::Refused { status, .. }, None) => assert_eq!(i32::from(status), code),
                (answer, expected) => panic!("{code}: {answer:?}, not {expected:?}"),
            }
        }
    }
}
