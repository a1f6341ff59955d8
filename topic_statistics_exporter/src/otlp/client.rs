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
use super::{has_user, shown};

/// Sends requests to one collector, and keeps the connection.
#[derive(Debug)]
pub struct Client {
    transport: Transport,
    /// The query of the URL, which can be a secret. A collector, or an error, may repeat it.
    query: Option<String>,
}

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
        if has_user(&options.url) {
            return Err(ClientError::UserInfo);
        }
        let is_usable = |url: &Uri| {
            matches!(url.scheme_str(), Some("http" | "https"))
                && url.host().is_some_and(|host| !host.is_empty())
        };
        let url: Option<Uri> = options.url.parse().ok().filter(is_usable);
        let url = url.ok_or_else(|| ClientError::Url(shown(&options.url)))?;
        let query = url.query().filter(|query| !query.is_empty()).map(str::to_owned);
        let transport = match options.protocol {
            Protocol::HttpProtobuf => Transport::Http(HttpClient::new(options, url, agent)?),
            Protocol::Grpc => Transport::Grpc(Box::new(GrpcClient::new(options, url)?)),
        };
        Ok(Self { transport, query })
    }

    /// Sends a request that [`compress`](crate::compression::compress) has compressed, and waits for the answer.
    pub fn post(&self, compressed: &[u8]) -> Answer {
        let mut answer = match &self.transport {
            Transport::Http(client) => client.post(compressed),
            Transport::Grpc(client) => client.post(compressed),
        };
        if let Some(query) = &self.query {
            let (Answer::Accepted { text, .. }
            | Answer::Refused { reason: text, .. }
            | Answer::Later { reason: text, .. }) = &mut answer;
            *text = text.replace(query, "...");
        }
        answer
    }
}
