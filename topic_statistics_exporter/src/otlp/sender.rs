// SPDX-License-Identifier: Apache-2.0

//! The thread that sends the waiting requests to the collector.

use std::{
    fmt, io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::{
    backoff::Backoff,
    client::Client,
    delivery::{Delivery, Wait},
    queue::Queue,
};
use crate::{compression::compress, state::PushCounts};

/// Sends requests to the collector on a separate thread, in the order in which [`push`](Self::push) adds the requests.
///
/// No other thread waits for the collector.
pub struct Sender {
    state: Mutex<State>,
    changed: Condvar,
    report: Box<dyn Fn(&str) + Send + Sync>,
}

#[derive(Debug)]
struct State {
    delivery: Delivery,
    /// Whether the sender is stopping. If so, the thread ends as soon as no request waits, or when an attempt to send
    /// fails.
    is_stopping: bool,
    has_ended: bool,
}

impl fmt::Debug for Sender {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sender").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Sender {
    pub fn start(
        queue: Queue,
        client: Client,
        backoff: Backoff,
        report: impl Fn(&str) + Send + Sync + 'static,
    ) -> io::Result<Arc<Self>> {
        let state = State { delivery: Delivery::new(queue, backoff), is_stopping: false, has_ended: false };
        let sender =
            Arc::new(Self { state: Mutex::new(state), changed: Condvar::new(), report: Box::new(report) });
        let of_thread = Arc::clone(&sender);
        thread::Builder::new().name("otlp sender".to_owned()).spawn(move || {
            of_thread.send_all(&client);
            of_thread.lock().has_ended = true;
            of_thread.changed.notify_all();
        })?;
        Ok(sender)
    }

    /// Adds a request to the queue. `request` has the bytes of the protobuf message, without compression.
    pub fn push(&self, request: &[u8]) {
        let request = compress(request);
        let report = {
            let mut state = self.lock();
            state.delivery.push(request, Instant::now());
            state.delivery.report()
        };
        self.changed.notify_all();
        self.log(report);
    }

    pub fn counts(&self) -> PushCounts {
        self.lock().delivery.counts()
    }

    /// Sends the waiting requests for at most the time `limit`, and stops. Requests that still wait at the end of this
    /// time are lost.
    pub fn stop(&self, limit: Duration) -> PushCounts {
        let mut state = self.lock();
        state.is_stopping = true;
        self.changed.notify_all();
        let waited = self.changed.wait_timeout_while(state, limit, |state| !state.has_ended);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.delivery.counts()
    }

    /// Locks the state. A poisoned lock is ignored, because a panic of another thread leaves the state consistent.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self, line: Option<String>) {
        if let Some(line) = line {
            (self.report)(&line);
        }
    }

    fn send_all(&self, client: &Client) {
        while let Some(request) = self.take() {
            let answer = client.post(&request);
            let (outcome, report) = {
                let delivery = &mut self.lock().delivery;
                (delivery.settle(&answer, fastrand::f64()), delivery.report())
            };
            self.log(outcome.report);
            self.log(report);
            if outcome.wait.is_some_and(|wait| self.pause(wait)) {
                return;
            }
        }
    }

    /// Waits for the next request, and takes it. Returns `None` when the sender is stopping and no request waits.
    fn take(&self) -> Option<Arc<Vec<u8>>> {
        let mut state = self.lock();
        loop {
            let taken = state.delivery.take(Instant::now());
            if taken.is_some() || state.is_stopping {
                return taken;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits after a failed attempt. Returns whether the thread has to end.
    ///
    /// If the sender is stopped during this wait, the wait ends at once, and the thread makes one more attempt. But if
    /// the sender was stopping before the wait, or if the collector demanded the wait, no attempt follows.
    fn pause(&self, wait: Wait) -> bool {
        let state = self.lock();
        if state.is_stopping {
            return true;
        }
        let waited = self.changed.wait_timeout_while(state, wait.time, |state| !state.is_stopping);
        let ended = waited.unwrap_or_else(PoisonError::into_inner).1;
        wait.is_demanded && !ended.timed_out()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::VecDeque,
        io::{BufRead, BufReader, Read, Write},
        net::{SocketAddr, TcpListener},
    };

    use super::{
        super::{client::ClientOptions, queue::Limits},
        *,
    };
    use crate::{compression::decompress, state::DroppedRequests};

    /// The collector's behaviour in one connection.
    #[derive(Clone)]
    enum Reply {
        /// The collector reads the request, and answers with this status, these headers and this body.
        Status(u16, &'static str, Vec<u8>),
        /// The collector never answers, and waits until the client closes the connection.
        Hang,
        /// The collector reads the request, and closes the connection without an answer.
        Close,
    }

    fn status(status: u16, headers: &'static str) -> Reply {
        Reply::Status(status, headers, vec![])
    }

    /// The requests that a collector has read, each with the status of the answer.
    type Seen = Arc<Mutex<Vec<(u16, Vec<u8>)>>>;

    /// Starts a collector that replies as `script` says. After the script, it accepts all requests.
    fn collector(listener: TcpListener, script: impl IntoIterator<Item = Reply>) -> Seen {
        let (seen, mut script) = (Seen::default(), script.into_iter().collect::<VecDeque<_>>());
        let by_thread = Arc::clone(&seen);
        thread::spawn(move || {
            for mut stream in listener.incoming().map(Result::unwrap) {
                let reply = script.pop_front().unwrap_or(status(200, ""));
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                if let Reply::Hang = reply {
                    // The copying ends when the client closes the connection.
                    let _closed = io::copy(&mut reader, &mut io::sink());
                    continue;
                }
                let lines = reader.by_ref().lines().map(Result::unwrap);
                let head: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
                let has = |start: &str| {
                    head.iter().find_map(|line| Some(line.to_lowercase().strip_prefix(start)?.to_owned()))
                };
                let mut body = vec![0; has("content-length: ").unwrap().parse().unwrap()];
                reader.read_exact(&mut body).unwrap();
                let Reply::Status(status, headers, answer) = reply else { continue };
                assert!(head[0].starts_with("POST /v1/metrics"), "{head:?}");
                assert_eq!(has("content-type: ").unwrap(), "application/x-protobuf");
                assert_eq!(has("content-encoding: ").unwrap(), "gzip");
                by_thread.lock().unwrap().push((status, decompress(&body).unwrap()));
                // Some collectors repeat the request in their answer (`echo`).
                let answer = if answer == b"echo" { head[0].as_bytes() } else { &answer };
                let head = format!("HTTP/1.1 {status} X\r\n{headers}Connection: close");
                write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n", answer.len()).unwrap();
                stream.write_all(answer).unwrap();
            }
        });
        seen
    }

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    fn options(url: &str) -> ClientOptions {
        let (headers, timeout) = (vec![], Duration::from_secs(3));
        ClientOptions { url: url.to_owned(), headers, timeout, gzip: true, certificate: None }
    }

    fn sender(address: SocketAddr, waits: [Duration; 2]) -> (Arc<Sender>, Arc<Mutex<Vec<String>>>) {
        let client = Client::new(&options(&format!("http://{address}/v1/metrics?key=s3cret"))).unwrap();
        let queue = Queue::new(Limits { bytes: 1 << 20, age: Duration::MAX });
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let log = Arc::clone(&lines);
        let report = move |line: &str| log.lock().unwrap().push(line.to_owned());
        (Sender::start(queue, client, Backoff::new(waits[0], waits[1]), report).unwrap(), lines)
    }

    const SHORT: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(50)];

    fn wait_for(sender: &Sender, what: impl Fn(PushCounts) -> bool) -> PushCounts {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let counts = sender.counts();
            if what(counts) {
                return counts;
            }
            assert!(Instant::now() < end, "{counts:?}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn each_request_arrives_once_and_in_order_unless_refused() {
        let (closed, address) = listener();
        drop(closed);
        let (sender, lines) = sender(address, SHORT);
        (0..3).for_each(|number| sender.push(&[number; 100]));
        // No collector listens at the address yet, so attempts fail.
        wait_for(&sender, |counts| counts.failed_attempts.total() >= 2);
        let refusal = vec![0x12, 3, b'b', b'a', b'd']; // google.rpc.Status, field 2: message
        let text = |status, text: &str| Reply::Status(status, "Content-Type: text/plain\r\n", text.into());
        let script = [
            status(503, ""),
            status(200, ""),
            Reply::Hang,
            Reply::Close,
            status(429, "Retry-After: 1\r\n"),
            status(504, ""),
            Reply::Status(400, "Retry-After: 9\r\n", refusal),
            text(422, "out of\tbounds\n"),
            text(418, "echo"),
            status(307, ""),
            // In protobuf: the collector has rejected 3 data points, for the reason "x".
            Reply::Status(200, "", vec![0x0a, 5, 0x08, 3, 0x12, 1, b'x']),
        ];
        let start = Instant::now();
        let seen = collector(TcpListener::bind(address).unwrap(), script);
        (3..8).for_each(|number| sender.push(&[number; 100]));
        let counts = wait_for(&sender, |counts| counts.waiting == 0);
        let seen = seen.lock().unwrap().iter().map(|(status, body)| (*status, body[0])).collect::<Vec<_>>();
        let again = [(503, 0), (200, 0), (429, 1), (504, 1)];
        let refused = [(400, 1), (422, 2), (418, 3), (307, 4)];
        assert_eq!(seen, [&again[..], &refused, &[(200, 5), (200, 6), (200, 7)]].concat());
        assert!(start.elapsed() >= Duration::from_secs(4), "it hung for 3 s, and wanted a pause of 1 s");
        assert_eq!((counts.accepted, counts.refused, counts.rejected_data_points), (4, 4, 3));
        assert_eq!((counts.dropped, counts.waiting_bytes), (DroppedRequests::default(), 0));
        let lines = lines.lock().unwrap();
        let expected = [
            "The OTLP collector takes nothing (",
            "takes figures again",
            "The OTLP collector takes nothing (",
            "refuses figures (status 400 Bad Request: bad). They are lost",
            r"(status 422 Unprocessable Entity: out of\u{9}bounds). They are lost",
            "POST /v1/metrics?... HTTP/1.1", // without the URL's query, which can be a secret
            "(status 307",
            "The OTLP collector rejected 3 data points of a request: \"x\"",
        ];
        assert_eq!(lines.len(), expected.len(), "{lines:?}");
        for (line, text) in lines.iter().zip(expected) {
            assert!(line.contains(text), "{line}");
        }
    }

    #[test]
    fn a_stop_sends_what_waits_or_gives_up_in_time() {
        let hour = Duration::from_secs(3600);
        let (demand, limit) = ("Retry-After: 3600\r\n", Duration::from_secs(20));
        // Each row has the collector's behaviour and the time limit of the stop. It also has two results after the
        // stop: the number of waiting requests, and the number of failed attempts. `stop` allows one more attempt,
        // unless the collector has demanded a pause.
        for (reply, limit, waiting, attempts) in [
            (status(200, ""), limit, 0, 0),
            (status(503, ""), limit, 1, 2),
            (status(429, demand), limit, 1, 1),
            (Reply::Hang, Duration::from_millis(200), 1, 0),
        ] {
            let (listener, address) = listener();
            collector(listener, vec![reply.clone(); 99]);
            let (sender, _) = sender(address, [hour, hour]);
            sender.push(&[0; 100]);
            wait_for(&sender, |counts| attempts == 0 || counts.failed_attempts.total() == 1);
            let start = Instant::now();
            let counts = sender.stop(limit);
            assert_eq!((counts.waiting, counts.failed_attempts.total()), (waiting, attempts));
            assert!(start.elapsed() < limit.max(Duration::from_secs(3)));
        }
    }

    #[test]
    fn what_http_does_not_allow_is_an_error_at_the_start() {
        let no_url = |url: &str| format!("The OTLP endpoint {url:?} is no URL");
        let (user, header) = (
            "The OTLP endpoint has a user or a password",
            "The OTLP header \"api key\" has a name or a value",
        );
        let file = "The file /nowhere.pem for OTLP cannot be";
        for (url, header, certificate, error) in [
            ("", "a", None, no_url("")),
            ("localhost:4318/v1/metrics", "a", None, no_url("localhost:4318/v1/metrics")),
            ("ftp://host?secret", "a", None, no_url("ftp://host")),
            ("https:///v1/metrics", "a", None, no_url("https:///v1/metrics")),
            ("http://me:secret@host", "a", None, user.to_owned()),
            ("http://host", "api key", None, header.to_owned()),
            ("https://host", "a", Some("/nowhere.pem"), file.to_owned()),
            ("https://host", "a", Some("/dev/null"), "The file /dev/null for OTLP cannot be".to_owned()),
            // This URL contains no user, because its `@` characters are in the path and in the query.
            ("http://host/a@b?to=me@host", "a", None, String::new()),
        ] {
            let headers = vec![(header.to_owned(), "secret".to_owned())];
            let options = ClientOptions { headers, certificate: certificate.map(Into::into), ..options(url) };
            let text = Client::new(&options).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(text.starts_with(&error) && !text.contains("secret"), "{url:?}: {text}");
            assert_eq!(text.is_empty(), error.is_empty(), "{text}");
        }
    }
}
