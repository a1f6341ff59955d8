// SPDX-License-Identifier: Apache-2.0

//! One request to the collector, by OTLP over HTTP or gRPC.

mod answer;
mod grpc;
mod http;
mod options;
mod pem;

use ureq::{config::Config, http::Uri, Agent};

pub use self::{
    answer::{Answer, Failure},
    options::{ClientError, ClientOptions, Protocol},
};
use self::{grpc::GrpcClient, http::HttpClient};

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
