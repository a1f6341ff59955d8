// SPDX-License-Identifier: Apache-2.0

//! Pushes the state to an OpenTelemetry collector, by OTLP requests over HTTP that are encoded with protobuf.
//!
//! ```text
//!  state ──▶ encode ──▶ queue ──▶ sender ──▶ client ──▶ collector
//!           each interval          each request, again and again
//! ```
//!
//! The push side has two threads. One thread reads the state once per interval and encodes requests. The other thread
//! sends the requests and waits for the collector's answers. Neither thread delays the subscriptions.

mod backoff;
mod client;
mod delivery;
mod encode;
mod queue;
mod sender;

use std::{
    io,
    sync::{mpsc, Arc, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use thiserror::Error;

pub use self::{
    backoff::Backoff,
    client::{parse_url, shown, Answer, Client, ClientOptions, Failure},
    delivery::{Delivery, Outcome},
    queue::{Limits, Queue},
};
use self::{
    client::ClientError,
    encode::{resource, Report},
    sender::Sender,
};
use crate::{
    exposition::write_state,
    state::{ProcessFigures, SharedState},
};

/// The longest time for sending all remaining requests when the exporter ends.
const FLUSH: Duration = Duration::from_secs(2);

/// The options for pushing the state to a collector.
#[derive(Clone, Debug)]
pub struct Options {
    pub client: ClientOptions,
    pub interval: Duration,
    /// The attributes of the OpenTelemetry resource, which describe the robot: names and values.
    pub resource: Vec<(String, String)>,
    /// The longest wait before the first retry of a request.
    pub retry_initial: Duration,
    /// The longest wait before any retry of a request.
    pub retry_max: Duration,
    /// The limits of the requests that wait while the collector cannot be reached.
    pub buffer_limits: Limits,
}

#[derive(Debug, Error)]
pub enum PushError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("A thread for OTLP cannot be started: {0}")]
    Thread(#[from] io::Error),
}

/// The running push side. [`stop`](Self::stop) ends the push side.
#[derive(Debug)]
pub struct Push {
    sender: Arc<Sender>,
    /// The thread that makes the reports stops when this end of the channel is dropped.
    stop: mpsc::Sender<()>,
    reports: JoinHandle<()>,
}

impl Push {
    /// Starts to push. `log` is called with each line for the log, for example when requests begin to fail.
    pub fn start(
        options: &Options,
        state: SharedState,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, PushError> {
        let client = Client::new(&options.client)?;
        let queue = Queue::new(options.buffer_limits);
        let backoff = Backoff::new(options.retry_initial, options.retry_max);
        let sender = Sender::start(queue, client, backoff, log)?;
        let (stop, is_stopped) = mpsc::channel();
        let resource = resource(&options.resource);
        let (interval, to) = (options.interval, Arc::clone(&sender));
        let reports = thread::Builder::new()
            .name("otlp reports".to_owned())
            .spawn(move || report_until(&is_stopped, interval, &resource, &state, &to))?;
        Ok(Self { sender, stop, reports })
    }

    /// Sends a last report and all waiting requests, but stops after 2 s at the latest.
    ///
    /// Returns the number of requests that could not be sent and are lost.
    pub fn stop(self) -> usize {
        drop(self.stop);
        let end = Instant::now() + FLUSH;
        // The thread that makes reports ends soon, because it only encodes and never waits for the collector.
        let _has_ended = self.reports.join();
        self.sender.stop(end.saturating_duration_since(Instant::now())).waiting
    }
}

/// Makes a report of the state once per interval, and a last report when `is_stopped` is disconnected.
fn report_until(
    is_stopped: &mpsc::Receiver<()>,
    interval: Duration,
    resource: &Resource,
    state: &SharedState,
    sender: &Sender,
) {
    let mut next = Instant::now();
    loop {
        // If intervals were missed, for example while the computer was suspended, no reports are made for them.
        next = Instant::now().max(next + interval).min(Instant::now() + interval);
        let wait = next.saturating_duration_since(Instant::now());
        let is_last = is_stopped.recv_timeout(wait) != Err(mpsc::RecvTimeoutError::Timeout);
        let counts = sender.counts();
        let process = ProcessFigures::read();
        let requests = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let (now, monotonic) = (SystemTime::now(), Instant::now());
            state.push = Some(counts);
            state.process = process;
            state.expire(monotonic);
            let unix_time = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
            write_state(&state, monotonic, unix_time, Report::new(resource, now))
        };
        for request in requests {
            sender.push(&request.encode_to_vec());
        }
        if is_last {
            return;
        }
    }
}
