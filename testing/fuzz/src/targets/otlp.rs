// SPDX-License-Identifier: Apache-2.0

//! Passes answers of an OpenTelemetry collector to the exporter's push client, with the HTTP client ureq, and checks
//! what the push client decides.
//!
//! Some answers are any bytes. Others are built here, so that the right decision is known (docs/fleet.md, "While the
//! collector is away"). The target uses no socket and no thread, and does not wait.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceResponse,
};
use prost::Message;
use topic_statistics_exporter::testing::{
    compress, Answer, Backoff, Client, ClientOptions, Delivery, Failure, Outcome, Queue, QueueLimits,
};
use ureq::{
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{ArrayVec, ResolvedSocketAddrs, Resolver},
        transport::{Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport},
    },
    Agent, Error,
};

use crate::{check::has_no_control, input::Input};

/// The largest number of answers in an input. Each answer answers one request.
const REQUESTS: u8 = 16;
/// The largest number of bytes that a collector sends before the timeout. This is more than the exporter may read of an
/// answer: a header, a body in chunks, and a buffer.
const MAX_SENT: usize = 320 << 10;
/// The largest number of bytes of a body that the exporter reads.
const MAX_BODY: usize = 64 << 10;
/// The largest length of a line in the log, in characters.
const MAX_LINE: usize = 400;
/// The longest wait that a collector can demand.
const MAX_DEMAND: Duration = Duration::from_secs(3600);

/// Each request must get an answer in bounded time and memory. Only the answer to a request may decide whether this
/// request is sent again. Waits must be bounded. Redirects must not be followed. Lines of the log must be short and
/// printable.
pub fn otlp(bytes: &[u8]) {
    let mut input = Input(bytes);
    let line = Arc::new(Line::default());
    let options = ClientOptions {
        url: "http://collector:4318/v1/metrics".to_owned(),
        headers: vec![("api-key".to_owned(), "x".to_owned())],
        // The simulated connection reports timeouts. This timeout is in real time, and so long that it never ends a
        // request, even on a busy machine.
        timeout: Duration::from_secs(86_400),
        gzip: true,
        certificate: None,
    };
    let connector = Collector(Arc::clone(&line));
    let agent = |config| Agent::with_parts(config, connector, Address);
    let client = Client::with_agent(&options, agent).expect("valid options");
    let initial = Duration::from_millis(input.u16().into());
    let max = initial + Duration::from_millis(input.u32().into());
    let queue = Queue::new(QueueLimits { bytes: 1 << 20, age: Duration::MAX });
    let mut delivery = Delivery::new(queue, Backoff::new(initial, max));
    let requests: Vec<_> =
        (0..REQUESTS).map(|number| compress(&b"request".repeat(1 + usize::from(number)))).collect();
    let now = Instant::now();
    requests.iter().for_each(|request| delivery.push(request.clone(), now));

    let mut expected = delivery.counts();
    let mut failures = 0;
    for _ in 0..REQUESTS {
        if input.is_empty() {
            break;
        }
        let is_any = input.below(4) == 0;
        let (sent, meaning) = if is_any { (any_bytes(&mut input), None) } else { answer(&mut input) };
        let random = f64::from(input.u16()) / f64::from(u16::MAX);
        let text = String::from_utf8_lossy(&sent.bytes).into_owned();
        line.begin(sent);
        let next = &requests[(expected.accepted + expected.refused) as usize];
        let request = delivery.take(now).expect("a request that waits");
        assert_eq!(&*request, next, "requests are sent in order");
        let answer = client.post(&request);
        line.is_one_request(next);
        let Outcome { wait, report } = delivery.settle(&answer, random);

        // The delivery's counts and the lines of the log must agree with the answer.
        let reason = match &answer {
            Answer::Accepted { rejected, text: reason } => {
                expected.accepted += 1;
                expected.rejected_data_points = expected.rejected_data_points.saturating_add(*rejected);
                assert!(has_status(&text, "2"), "accepted: {text}");
                reason
            }
            Answer::Refused { status, reason } => {
                expected.refused += 1;
                assert!(has_status(&text, &status.to_string()), "refused by {status}: {text}");
                reason
            }
            Answer::Later { reason, failure, .. } => {
                let attempts = &mut expected.failed_attempts;
                match failure {
                    Failure::Busy => attempts.busy += 1,
                    Failure::Denied => attempts.denied += 1,
                    Failure::Unreachable => attempts.unreachable += 1,
                }
                reason
            }
        };
        for line in report.iter().chain([reason]) {
            has_no_control(line, "a line");
            assert!(line.chars().count() <= MAX_LINE, "{line:?}");
        }
        let left = &requests[(expected.accepted + expected.refused) as usize..];
        expected.waiting = left.len();
        expected.waiting_bytes = left.iter().map(|request| request.len() as u64).sum();
        assert_eq!(delivery.counts(), expected, "{answer:?} to {text}");

        // The wait before the next attempt must agree with the answer and with the number of failures.
        let is_later = matches!(answer, Answer::Later { .. });
        assert_eq!(wait.is_some(), is_later, "{answer:?}");
        if let Some(wait) = wait {
            let doubled = initial.saturating_mul(1 << failures.min(30)).min(max);
            let is_demanded = meaning.as_ref().is_none_or(|meaning| meaning.demands);
            let most = if is_demanded { max.max(MAX_DEMAND + initial) } else { doubled };
            assert!(wait.time <= most + Duration::from_nanos(10), "{wait:?}, not {most:?}: {text}");
        }
        failures = if is_later { failures + 1 } else { 0 };
        // If the meaning of the answer is known, the exporter's decision must agree with this meaning.
        if let Some(meaning) = &meaning {
            assert!(meaning.fits(&answer), "{answer:?} to {meaning:?}, {text}");
            assert!(line.lock().sent < MAX_SENT, "it reads without a limit: {text}");
        }
    }
}

/// Returns whether a text contains the start of an answer whose status begins with these digits.
fn has_status(text: &str, status: &str) -> bool {
    text.match_indices("HTTP/1.")
        .any(|(at, _)| text[at..].get(8..).is_some_and(|rest| rest.trim_start().starts_with(status)))
}

#[derive(Debug, Default)]
struct Sent {
    bytes: Vec<u8>,
    piece: usize,
    /// Whether the collector closes the connection after it has sent the bytes.
    is_closed: bool,
    /// How many of the last bytes the collector sends again and again, without an end.
    repeated: usize,
}

#[derive(Debug)]
struct Meaning {
    status: u16,
    demands: bool,
    /// The number of data points that the collector has rejected, and the reason.
    rejected: (u64, String),
    /// Whether the whole body arrives and is not larger than [`MAX_BODY`].
    is_whole: bool,
}

impl Meaning {
    /// Returns whether the exporter's decision is the decision that OTLP's specification demands. The exporter also
    /// tries again after errors that an operator can repair.
    fn fits(&self, answer: &Answer) -> bool {
        let is_accepted = (200..300).contains(&self.status);
        let is_later = [401, 403, 404, 407, 429, 502, 503, 504].contains(&self.status);
        match answer {
            Answer::Accepted { rejected, text } => {
                let (count, reason) = &self.rejected;
                let has_read = rejected == count && reason.is_empty() == text.is_empty();
                is_accepted && (has_read || (!self.is_whole && *rejected == 0 && text.is_empty()))
            }
            Answer::Later { .. } => is_later,
            Answer::Refused { status, .. } => *status == self.status && !is_accepted && !is_later,
        }
    }
}

fn any_bytes(input: &mut Input<'_>) -> Sent {
    let length = usize::from(input.u16()) % 2048;
    let (bytes, rest) = input.0.split_at(length.min(input.0.len()));
    input.0 = rest;
    sent(bytes.to_vec(), bytes.len(), input)
}

/// Returns an answer that arrives in pieces of a random size. The last `repeated` bytes may be repeated without an end.
fn sent(bytes: Vec<u8>, repeated: usize, input: &mut Input<'_>) -> Sent {
    let (piece, end) = (usize::from(input.u8()), input.below(4));
    let repeated = if end == 3 { repeated } else { 0 };
    // A large answer arrives in larger pieces, because the HTTP client parses the header again for each piece.
    let piece = match piece {
        0 => usize::MAX,
        piece if repeated > 0 => 1024 * (3 + piece),
        piece => piece.max(bytes.len() / 500),
    };
    Sent { bytes, piece, is_closed: end >= 2 && repeated == 0, repeated }
}

/// Returns a valid HTTP answer, whose body may be cut, and the meaning of the answer.
fn answer(input: &mut Input<'_>) -> (Sent, Option<Meaning>) {
    const OTHERS: [u16; 16] =
        [202, 204, 205, 206, 300, 301, 302, 304, 307, 400, 405, 408, 413, 422, 500, 501];
    let status = match input.below(4) {
        0 => 200,
        1 => [401, 403, 404, 407, 429, 502, 503, 504][input.below(8)],
        2 => OTHERS[input.below(16)],
        _ => 200 + input.u16() % 800,
    };
    let phrase: String = input.text().chars().take(40).flat_map(char::escape_default).collect();
    let retry_after = match input.below(4) {
        0 => input.u64().to_string(),
        1 => format!("{}0", u64::MAX),
        2 => format!("-{}", input.u32()),
        _ => String::new(),
    };
    let demands = retry_after.starts_with(|c: char| c.is_ascii_digit());
    let (mut body, mut rejected) = (vec![], (0, String::new()));
    match input.below(4) {
        0 | 1 => {
            let (rejected_data_points, error_message) = (input.i64(), input.text());
            rejected = (rejected_data_points.max(0).unsigned_abs(), error_message.clone());
            let partial = ExportMetricsPartialSuccess { rejected_data_points, error_message };
            body = ExportMetricsServiceResponse { partial_success: Some(partial) }.encode_to_vec();
        }
        // In this body, a google.rpc.Status, the field with this number has another meaning, so the answer is not a
        // partial success.
        2 => body = [0x08, input.u8() % 128, 0x12, 3, b'b', b'a', b'd'].to_vec(),
        // A field that the exporter skips, and that is longer than the exporter reads.
        _ => body.resize(2 * usize::from(input.u16()), 0x18),
    }
    let has_length = input.bool();
    let head =
        if has_length { format!("Content-Length: {}", body.len()) } else { "Connection: close".to_owned() };
    let redirect = if input.below(4) == 0 { "Location: http://collector:4318/other\r\n" } else { "" };
    let head =
        format!("HTTP/1.1 {status} {phrase}\r\nRetry-After: {retry_after}\r\n{redirect}{head}\r\n\r\n");
    let cut = if input.below(8) == 0 { body.len() / 2 } else { 0 };
    let is_whole = body.len() <= MAX_BODY && cut == 0;
    let bytes = [head.as_bytes(), &body[..body.len() - cut]].concat();
    let mut sent = sent(bytes, 0, input);
    // If the header has no length, the body ends when the connection is closed.
    sent.is_closed |= !has_length;
    if matches!(status, 204 | 304) {
        rejected = (0, String::new()); // an answer with this status has no body
    }
    (sent, Some(Meaning { status, demands, rejected, is_whole }))
}

/// The state of the connection: the bytes that the collector sends, and the bytes that it has received.
#[derive(Debug, Default)]
struct Line(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    answer: Sent,
    at: usize,
    sent: usize,
    received: Vec<u8>,
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic")
    }

    /// Sets the collector's answer to the next request.
    fn begin(&self, answer: Sent) {
        *self.lock() = State { answer, ..State::default() };
    }

    /// Panics if the collector has not received exactly one request with this body.
    fn is_one_request(&self, body: &[u8]) {
        let received = &self.lock().received;
        let text = String::from_utf8_lossy(received);
        let (head, _) = text.split_once("\r\n\r\n").expect("a header");
        assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
        assert!(received[head.len() + 4..].starts_with(body), "{text}");
        let length = format!("\r\ncontent-length: {}", received.len() - head.len() - 4);
        assert!(head.to_ascii_lowercase().contains(&length), "more than one request: {text}");
    }
}

#[derive(Debug)]
struct Collector(Arc<Line>);

impl Connector for Collector {
    type Out = Connection;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Connection>, Error> {
        let buffers =
            LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Connection { line: Arc::clone(&self.0), buffers, is_closed: false }))
    }
}

/// A connection in memory instead of a TCP socket. If no more bytes will arrive, the connection reports a timeout.
#[derive(Debug)]
struct Connection {
    line: Arc<Line>,
    buffers: LazyBuffers,
    is_closed: bool,
}

impl Transport for Connection {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), Error> {
        let output = &self.buffers.output()[..amount];
        self.line.lock().received.extend_from_slice(output);
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let mut line = self.line.lock();
        let State { answer, at, sent, .. } = &mut *line;
        let input = self.buffers.input_append_buf();
        let piece = answer.piece.min(input.len());
        let mut filled = 0;
        while filled < piece {
            let length = (answer.bytes.len() - *at).min(piece - filled);
            input[filled..filled + length].copy_from_slice(&answer.bytes[*at..*at + length]);
            filled += length;
            *at += length;
            if answer.repeated == 0 || *at < answer.bytes.len() || *sent >= MAX_SENT {
                break;
            }
            *at -= answer.repeated;
        }
        *sent += filled;
        self.buffers.input_appended(filled);
        if answer.is_closed {
            self.is_closed = filled == 0;
        } else if filled == 0 && piece > 0 {
            return Err(Error::Timeout(timeout.reason));
        }
        Ok(filled > 0)
    }

    fn is_open(&mut self) -> bool {
        let line = self.line.lock();
        !self.is_closed && line.at == line.answer.bytes.len() && !line.answer.is_closed
    }
}

#[derive(Debug)]
struct Address;

impl Resolver for Address {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let address = SocketAddr::from(([127, 0, 0, 1], 4318));
        let mut addresses = ArrayVec::from_fn(|_| address);
        addresses.push(address);
        Ok(addresses)
    }
}
