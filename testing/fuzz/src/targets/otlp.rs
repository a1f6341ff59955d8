// SPDX-License-Identifier: Apache-2.0

//! Any answers of an OpenTelemetry collector into the push side of the exporter: ureq, the client, and the consequence
//! of an answer.
//!
//! An answer is any bytes, or one written here with a known result (docs/fleet.md, "While the collector is away"). No
//! socket and no thread is used, and nothing waits.

use std::{
    net::SocketAddr,
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard, OnceLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceResponse,
};
use prost::{encoding::encode_varint, Message};
use topic_statistics_exporter::testing::{
    compress, Answer, Backoff, Client, ClientOptions, Delivery, Failure, Outcome, Protocol, Queue,
    QueueLimits,
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

/// How many answers an input has at most, and so requests.
const REQUESTS: u8 = 16;
/// How much a collector sends at most until the time for an answer is over, in bytes. More than the exporter may read
/// of one: a header, a body in chunks, and a buffer.
const MAX_SENT: usize = 320 << 10;
/// How much of an answer's body the exporter reads.
const MAX_BODY: usize = 64 << 10;
/// How long a line of the log may be, in characters.
const MAX_LINE: usize = 400;
/// The longest wait that a collector can demand.
const MAX_DEMAND: Duration = Duration::from_secs(3600);

/// Each request has an answer, in bounded time and memory. Only the collector's answer decides the fate of the request.
/// A wait is bounded. No redirect is followed. The log has short lines without control characters.
pub fn otlp(bytes: &[u8]) {
    let mut input = Input(bytes);
    let gzip = input.bool();
    let line = Arc::new(Line::default());
    let options = ClientOptions {
        protocol: Protocol::HttpProtobuf,
        url: "http://collector:4318/v1/metrics".to_owned(),
        headers: vec![("api-key".to_owned(), "x".to_owned())],
        // The time is over where the connection says so, and not where this process waits for a processor.
        timeout: Duration::from_secs(86_400),
        gzip,
        certificate: None,
        client: None,
    };
    let connector = Collector(Arc::clone(&line));
    let agent = |config| Agent::with_parts(config, connector, Address);
    let client = Client::with_agent(&options, agent).expect("valid options");

    let (initial, max) = match input.bool() {
        true => (Duration::from_millis(input.u16().into()), Duration::from_millis(input.u32().into())),
        false => (Duration::from_secs(1), Duration::from_secs(60)),
    };
    let initial = initial.min(max);
    let queue = Queue::in_memory(QueueLimits { bytes: 1 << 20, age: Duration::MAX });
    let mut delivery = Delivery::new(queue, Backoff::new(initial, max));
    let requests = requests();
    for request in requests {
        delivery.push(request.clone());
    }
    assert_eq!(delivery.report(), None);

    let mut expected = delivery.counts();
    let mut failures = 0;
    let mut refused = None;
    // Whether it denies.
    let mut failing = None;
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
        let request = delivery.take().expect("memory").expect("a request that waits");
        assert_eq!(&*request, next, "requests are sent in order");
        let before = SystemTime::now();
        let answer = client.post(&request);
        let after = SystemTime::now();
        line.is_one_request(if gzip { next } else { b"request" });
        let Outcome { wait, report } = delivery.settle(&answer, random);

        // The exporter's possible decisions.
        match &answer {
            Answer::Accepted { rejected, text: reason } => {
                expected.accepted += 1;
                expected.rejected_data_points = expected.rejected_data_points.saturating_add(*rejected);
                assert!(*rejected <= i64::MAX as u64, "{rejected} data points");
                is_short(reason);
                assert!(has_status(&text, "2"), "accepted: {text}");
            }
            Answer::Refused { status, reason } => {
                expected.refused += 1;
                is_short(reason);
                assert!(has_status(&text, &status.to_string()), "refused by {status}: {text}");
            }
            Answer::Later { reason, failure, .. } => {
                let attempts = &mut expected.failed_attempts;
                match failure {
                    Failure::Busy => attempts.busy += 1,
                    Failure::Denied => attempts.denied += 1,
                    Failure::Unreachable => attempts.unreachable += 1,
                }
                is_short(reason);
            }
        }
        expected.waiting = requests.len() - (expected.accepted + expected.refused) as usize;
        expected.in_memory = expected.waiting;
        expected.waiting_bytes =
            requests[requests.len() - expected.waiting..].iter().map(|r| r.len() as u64).sum();
        assert_eq!(delivery.counts(), expected, "{answer:?} to {text}");

        // How long it waits.
        let is_later = matches!(answer, Answer::Later { .. });
        assert_eq!(wait.is_some(), is_later, "{answer:?}");
        if let Some(wait) = wait {
            let doubled = initial.saturating_mul(1 << failures.min(30)).min(max);
            let by_chance = doubled / 2..=doubled;
            let demanded = meaning.as_ref().and_then(|meaning| meaning.retry_after);
            let allowed = match (&meaning, demanded) {
                (None, _) => Duration::ZERO..=max.max(MAX_DEMAND + initial),
                (Some(_), None) => by_chance,
                (Some(_), Some(demanded)) => demanded.range(before, after, initial, by_chance),
            };
            let rounding = Duration::from_nanos(10);
            assert!(
                (allowed.start().saturating_sub(rounding)..=*allowed.end() + rounding).contains(&wait.time),
                "it waits for {wait:?}, and not {allowed:?}: {text}"
            );
            assert!(meaning.is_none() || demanded.is_some() || !wait.is_demanded, "{wait:?}: {text}");
        }
        failures = if is_later { failures + 1 } else { 0 };

        // The expected decision for an answer written here.
        if let Some(meaning) = &meaning {
            assert!(meaning.is_of(&answer), "{answer:?} to {meaning:?}, {text}");
            assert!(line.sent() < MAX_SENT, "it reads all that a collector sends: {text}");
        }

        // The lines of the log.
        let is_new_status = match &answer {
            Answer::Refused { status, .. } => refused.replace(*status) != Some(*status),
            _ => false,
        };
        if let Some(report) = &report {
            is_short(report);
        }
        match &answer {
            Answer::Refused { .. } => assert_eq!(report.is_some(), is_new_status, "{report:?}"),
            Answer::Later { failure, .. } => {
                let is_new =
                    failing.replace(*failure == Failure::Denied) != Some(*failure == Failure::Denied);
                assert_eq!(report.is_some(), is_new, "{report:?}");
            }
            Answer::Accepted { .. } => assert!(report.is_some() || failing.is_none(), "it is accepted again"),
        }
        failing = failing.filter(|_| is_later);
    }
}

fn is_short(text: &str) {
    has_no_control(text, "a line");
    assert!(text.chars().count() <= MAX_LINE, "{text:?}");
}

/// Returns whether a text has the start of an answer with a status that begins so.
fn has_status(text: &str, status: &str) -> bool {
    text.match_indices("HTTP/1.")
        .any(|(at, _)| text[at..].get(8..).is_some_and(|rest| rest.trim_start().starts_with(status)))
}

/// The requests, compressed: each has another size.
fn requests() -> &'static [Vec<u8>] {
    static REQUEST: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    REQUEST.get_or_init(|| {
        (0..REQUESTS).map(|number| compress(&b"request".repeat(1 + usize::from(number)))).collect()
    })
}

/// A collector's answer to one request.
#[derive(Debug, Default)]
struct Sent {
    bytes: Vec<u8>,
    /// How many bytes arrive together.
    piece: usize,
    end: End,
}

/// The collector's next action.
#[derive(Clone, Copy, Debug, Default)]
enum End {
    /// It keeps the connection.
    #[default]
    Silent,
    Closed,
    /// It repeats this number of last bytes again and again.
    Endless(usize),
}

/// The meaning of an answer.
#[derive(Debug)]
struct Meaning {
    status: u16,
    retry_after: Option<Demand>,
    /// Data points, and the reason.
    rejected: (u64, String),
    /// Whether the body arrives, and is not too large.
    is_whole: bool,
}

impl Meaning {
    /// Returns whether the exporter has understood it.
    fn is_of(&self, answer: &Answer) -> bool {
        let is_accepted = (200..=299).contains(&self.status);
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

/// The wait that a collector demands.
#[derive(Clone, Copy, Debug)]
enum Demand {
    Seconds(u64),
    /// Seconds since 1970.
    Date(u64),
}

impl Demand {
    /// Returns how long the wait may be, of an answer that arrives in between.
    fn range(
        self,
        before: SystemTime,
        after: SystemTime,
        initial: Duration,
        by_chance: RangeInclusive<Duration>,
    ) -> RangeInclusive<Duration> {
        let (least, most) = match self {
            Self::Seconds(seconds) => (Duration::from_secs(seconds), Duration::from_secs(seconds)),
            Self::Date(date) => {
                let date = UNIX_EPOCH + Duration::from_secs(date);
                let until = |now| date.duration_since(now).unwrap_or_default();
                (until(after), until(before))
            }
        };
        let demanded = least.min(MAX_DEMAND)..=most.min(MAX_DEMAND) + initial;
        match (least.is_zero(), most.is_zero()) {
            (_, true) => by_chance,
            (false, false) => demanded,
            (true, false) => *demanded.start().min(by_chance.start())..=*demanded.end().max(by_chance.end()),
        }
    }
}

fn any_bytes(input: &mut Input<'_>) -> Sent {
    let length = usize::from(input.u16()) % 2048;
    let (bytes, rest) = input.0.split_at(length.min(input.0.len()));
    input.0 = rest;
    let (piece, end) = (input.u8(), input.u8());
    sent(bytes.to_vec(), bytes.len(), piece, end)
}

/// Returns how bytes arrive. The last `repeated` bytes can be repeated.
fn sent(bytes: Vec<u8>, repeated: usize, piece: u8, end: u8) -> Sent {
    let end = match end % 4 {
        0 | 1 => End::Silent,
        2 => End::Closed,
        _ if repeated == 0 => End::Closed,
        _ => End::Endless(repeated),
    };
    // Large answers have larger pieces: with each, the header is read from its start.
    let piece = match (piece, end) {
        (0, _) => usize::MAX,
        (piece, End::Endless(_)) => 1024 * (3 + usize::from(piece)),
        (piece, _) => usize::from(piece).max(bytes.len() / 500),
    };
    Sent { bytes, piece, end }
}

/// Returns an answer in the form that HTTP has.
fn answer(input: &mut Input<'_>) -> (Sent, Option<Meaning>) {
    let mut bytes = vec![];
    let interim = input.below(8).saturating_sub(5);
    for _ in 0..interim {
        let line: &[u8] = match input.below(3) {
            0 => b"HTTP/1.1 100 Continue\r\n\r\n",
            1 => b"HTTP/1.1 102 Processing\r\nServer: x\r\n\r\n",
            _ => b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nRetry-After: 7\r\n\r\n",
        };
        bytes.extend_from_slice(line);
    }
    let status = match input.below(4) {
        0 => 200,
        1 => [401, 403, 404, 407, 429, 502, 503, 504][input.below(8)],
        2 => [
            101, 202, 204, 205, 206, 300, 301, 302, 303, 304, 307, 308, 400, 405, 408, 413, 422, 500, 501,
            505,
        ][input.below(20)],
        _ => 200 + input.u16() % 800,
    };
    let version = input.below(8).min(1);
    let phrase: String = input.text().chars().take(40).flat_map(char::escape_default).collect();
    bytes.extend_from_slice(format!("HTTP/1.{version} {status} {phrase}\r\n").as_bytes());
    let retry_after = retry_after(input, &mut bytes);
    match input.below(8) {
        0 => bytes.extend_from_slice(b"Location: http://collector:4318/other\r\n"),
        1 => bytes.extend_from_slice(b"location: /v1/metrics\r\n"),
        2 => bytes.extend_from_slice(b"Content-Type: application/x-protobuf\r\nConnection: keep-alive\r\n"),
        _ => {}
    }

    let (body, mut rejected) = body(input);
    let framing = match input.below(4) {
        2 if version == 0 => 0, // HTTP/1.0 has no chunks.
        framing => framing,
    };
    let (head, repeated) = match framing {
        0 | 1 => (format!("Content-Length: {}\r\n\r\n", body.len()), 0),
        2 => ("Transfer-Encoding: chunked\r\n\r\n".to_owned(), 0),
        _ => ("Connection: close\r\n\r\n".to_owned(), body.len()),
    };
    bytes.extend_from_slice(head.as_bytes());
    let of_head = bytes.len();
    let mut repeated = repeated.min(body.len());
    let (piece, mut end) = (input.u8(), input.u8());
    if framing == 2 {
        // A large body, or an endless one, has no smaller chunks: they take long.
        let least = if end % 4 == 3 { 64 } else { 1 + body.len() / 1000 };
        for chunk in body.chunks(least.max(input.u16().into())) {
            let start = bytes.len();
            bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
            repeated = bytes.len() - start;
        }
    } else {
        bytes.extend_from_slice(&body);
    }
    // Only the body is cut: the status has arrived.
    let is_cut = input.below(8) == 0 && !body.is_empty();
    if is_cut {
        bytes.truncate(of_head + usize::from(input.u16()) % (bytes.len() - of_head));
    }
    if framing == 2 && !is_cut && end % 4 != 3 {
        bytes.extend_from_slice(b"0\r\n\r\n");
    }
    if framing == 3 && end % 4 < 2 {
        end = 2; // The end of the connection is the body's.
    }
    let repeated = if is_cut { 0 } else { repeated };
    let mut sent = sent(bytes, repeated, piece, end);
    if interim > 0 {
        // ureq 3.5 takes all that arrives together with an interim answer for a header, and refuses one of more than 64
        // KiB.
        sent.piece = sent.piece.min(4096);
    }
    let is_endless = matches!(sent.end, End::Endless(_));
    if matches!(status, 101 | 204 | 304) {
        rejected = (0, String::new()); // They have no body.
    }
    let is_whole = body.len() <= MAX_BODY && !is_cut && !is_endless;
    (sent, Some(Meaning { status, retry_after, rejected, is_whole }))
}

/// Writes the header. Returns the wait that it demands.
fn retry_after(input: &mut Input<'_>, bytes: &mut Vec<u8>) -> Option<Demand> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let name = ["Retry-After: ", "retry-after:"][input.below(2)];
    let date = |offset: i32| now.saturating_add_signed((offset / 64).into());
    let (value, demand) = match input.below(8) {
        0 => {
            let seconds = input.u64();
            (seconds.to_string(), Some(Demand::Seconds(seconds)))
        }
        1 => {
            let seconds = u64::from(input.u8());
            (format!("{seconds:05}"), Some(Demand::Seconds(seconds)))
        }
        2 => (format!("{}{}", input.u64().max(1 << 62), input.u64()), Some(Demand::Seconds(u64::MAX))),
        3 => (format!("-{}", input.u32()), None),
        4 => {
            let date = date(input.i32());
            let [weekday, day, month, year, hour, minute, second] = civil(date);
            let (weekday, month) = (&WEEKDAYS[weekday][..3], MONTHS[month]);
            let text = match input.below(2) {
                0 => format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT"),
                _ => format!("{weekday} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}"),
            };
            (text, Some(Demand::Date(date)))
        }
        5 => {
            let date = date(input.i32());
            let [weekday, day, month, year, hour, minute, second] = civil(date);
            let (weekday, month, year) = (WEEKDAYS[weekday], MONTHS[month], year % 100);
            let text = format!("{weekday}, {day:02}-{month}-{year:02} {hour:02}:{minute:02}:{second:02} GMT");
            (text, Some(Demand::Date(date)))
        }
        6 => ("Fri, 31 Dec 9999 23:59:59 GMT".to_owned(), Some(Demand::Seconds(u64::MAX))),
        _ => return None,
    };
    bytes.extend_from_slice(format!("{name}{value}\r\n").as_bytes());
    demand
}

const WEEKDAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns the day of the week (from 1970-01-01 on), the day, the month (from 0), the year and the time of seconds
/// since 1970.
fn civil(seconds: u64) -> [usize; 7] {
    let number = |number: u64| usize::try_from(number).expect("a small number");
    let (days, second) = (number(seconds / 86_400), number(seconds % 86_400));
    let (mut year, mut left) = (1970, days);
    let is_leap =
        |year: usize| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while left >= 365 + usize::from(is_leap(year)) {
        left -= 365 + usize::from(is_leap(year));
        year += 1;
    }
    let february = 28 + usize::from(is_leap(year));
    let mut month = 0;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    [days % 7, left + 1, month, year, second / 3600, second / 60 % 60, second % 60]
}

/// Returns a body, with the data points that it rejects and the reason.
fn body(input: &mut Input<'_>) -> (Vec<u8>, (u64, String)) {
    match input.below(8) {
        0..=2 => {
            let partial = ExportMetricsPartialSuccess {
                rejected_data_points: input.i64(),
                error_message: input.text(),
            };
            let rejected =
                (partial.rejected_data_points.max(0).unsigned_abs(), partial.error_message.clone());
            let response = ExportMetricsServiceResponse { partial_success: Some(partial) };
            (response.encode_to_vec(), rejected)
        }
        3 => {
            // A google.rpc.Status, which has another field of that number: it is no partial success.
            let (code, message) = (input.u8() % 128, input.text());
            let mut body = vec![0x08, code, 0x12];
            encode_varint(message.len() as u64, &mut body);
            body.extend_from_slice(message.as_bytes());
            (body, (0, String::new()))
        }
        // More than is read of it: a field that is skipped.
        4 => {
            let length = 2 * usize::from(input.u16());
            let mut body = vec![0x1a];
            encode_varint(length as u64, &mut body);
            body.resize(body.len() + length, b'x');
            (body, (0, String::new()))
        }
        _ => (vec![], (0, String::new())),
    }
}

/// The line to the collector: the bytes that it still has to send, and the bytes sent to it.
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

    /// The collector will answer the next request so.
    fn begin(&self, answer: Sent) {
        *self.lock() = State { answer, ..State::default() };
    }

    /// How much the collector has sent of this answer.
    fn sent(&self) -> usize {
        self.lock().sent
    }

    /// Panics if the collector has not received one request, with a body that begins so.
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

/// Connects to the [`Line`].
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

/// A connection in memory, in place of a TCP socket. The time for an answer is over if nothing more will come.
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
            match answer.end {
                End::Endless(repeated) if *at == answer.bytes.len() && *sent < MAX_SENT => *at -= repeated,
                _ => break,
            }
        }
        *sent += filled;
        self.buffers.input_appended(filled);
        match answer.end {
            End::Closed => self.is_closed = filled == 0,
            End::Silent | End::Endless(_) if filled == 0 && piece > 0 => {
                return Err(Error::Timeout(timeout.reason))
            }
            End::Silent | End::Endless(_) => {}
        }
        Ok(filled > 0)
    }

    fn is_open(&mut self) -> bool {
        let line = self.line.lock();
        !self.is_closed && line.at == line.answer.bytes.len() && matches!(line.answer.end, End::Silent)
    }
}

/// Finds an address for every name.
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
