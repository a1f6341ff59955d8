// SPDX-License-Identifier: Apache-2.0

//! Push: the state goes to an OpenTelemetry collector, by OTLP over HTTP with protobuf.
//!
//! ```text
//!  state ──▶ encode ──▶ queue ──▶ sender ──▶ client ──▶ collector
//!           each interval          each request, again and again
//! ```
//!
//! Two threads: one reads the state once per interval, and one waits for the collector. Neither holds up the
//! subscriptions.

mod backoff;
mod client;
mod delivery;
mod encode;
mod environment;
mod queue;
mod samples;
mod sender;
mod url;

use std::{
    io,
    sync::{mpsc, Arc, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use prost::Message;
use thiserror::Error;

pub use self::{
    backoff::Backoff,
    client::{Answer, Client, ClientOptions, Failure},
    delivery::{Delivery, Outcome},
    environment::{disabled, key_values, Endpoint, Environment, Warning, KEY_VALUES},
    queue::{Limits, Queue},
    url::{has_user, shown},
};
use self::{client::ClientError, encode::Encoder, sender::Sender};
use crate::{
    exposition::write_state,
    state::{ProcessFigures, SharedState},
};

/// How long the last requests may take, in all, when the exporter ends.
const FLUSH: Duration = Duration::from_secs(2);

/// How the state is pushed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where and how requests are sent.
    pub client: ClientOptions,
    /// The time from one report to the next.
    pub interval: Duration,
    /// The robot's attributes: names and values.
    pub resource: Vec<(String, String)>,
    /// The longest wait after a first failure.
    pub retry_initial: Duration,
    /// The longest wait after any failure.
    pub retry_max: Duration,
    /// How much may wait while the collector cannot be reached.
    pub buffer_limits: Limits,
}

/// The reason why nothing can be pushed.
#[derive(Debug, Error)]
pub enum PushError {
    /// The endpoint or its options.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A thread.
    #[error("A thread for OTLP cannot be started: {0}")]
    Thread(#[from] io::Error),
}

/// The push side, until it is [stopped](Self::stop).
#[derive(Debug)]
pub struct Push {
    sender: Arc<Sender>,
    /// Ends the reports when it is dropped.
    stop: mpsc::Sender<()>,
    reports: JoinHandle<()>,
}

impl Push {
    /// Starts to push. `log` takes a line where something has changed.
    pub fn start(
        options: &Options,
        state: SharedState,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, PushError> {
        let client = Client::new(&options.client)?;
        let queue = Queue::new(options.buffer_limits);
        let backoff = Backoff::new(options.retry_initial, options.retry_max);
        let sender = Arc::new(Sender::start(queue, client, backoff, log)?);
        let (stop, is_stopped) = mpsc::channel();
        let encoder = Encoder::new(&options.resource);
        let (interval, to) = (options.interval, Arc::clone(&sender));
        let reports = thread::Builder::new()
            .name("otlp reports".to_owned())
            .spawn(move || report_until(&is_stopped, interval, encoder, &state, &to))?;
        Ok(Self { sender, stop, reports })
    }

    /// Sends a last report and the waiting requests, for 2 s at most, and ends.
    ///
    /// Returns the number of requests lost: they still wait.
    pub fn stop(self) -> usize {
        drop(self.stop);
        let end = Instant::now() + FLUSH;
        // It only encodes.
        let _has_ended = self.reports.join();
        self.sender.stop(end.saturating_duration_since(Instant::now())).waiting
    }
}

/// Reports the state once per interval, and at the end.
fn report_until(
    is_stopped: &mpsc::Receiver<()>,
    interval: Duration,
    encoder: Encoder,
    state: &SharedState,
    sender: &Sender,
) {
    let mut next = Instant::now();
    loop {
        // An interval that was missed, as in a suspend, is left out.
        next = Instant::now().max(next + interval).min(Instant::now() + interval);
        let wait = next.saturating_duration_since(Instant::now());
        let is_last = is_stopped.recv_timeout(wait) != Err(mpsc::RecvTimeoutError::Timeout);
        let counts = sender.counts();
        let process = ProcessFigures::read();
        let requests = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let (now, monotonic) = (SystemTime::now(), Instant::now());
            state.set_push(counts);
            state.set_process(process);
            state.expire(monotonic);
            let unix_time = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
            write_state(&state, monotonic, unix_time, encoder.report(now))
        };
        for request in requests {
            sender.push(&request.encode_to_vec());
        }
        if is_last {
            return;
        }
    }
}
