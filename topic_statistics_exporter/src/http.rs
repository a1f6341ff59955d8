// SPDX-License-Identifier: Apache-2.0

//! The HTTP server. It serves the state at `/metrics`, a health check at `/healthz`, and a page with links at `/`.
//!
//! The server runs on a separate thread, and limits the number of connections, the size and duration of requests, and
//! how often the state is read. So no client delays another client or the subscriptions. No path in a request names a
//! file.

mod connections;

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex, PoisonError,
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use http_body_util::Full;
use hyper::{
    body::Bytes,
    header::{
        HeaderMap, HeaderName, HeaderValue, ACCEPT, ACCEPT_ENCODING, ALLOW, CONTENT_ENCODING, CONTENT_TYPE,
        VARY,
    },
    server::conn::http1,
    service::service_fn,
    Method, Request, Response, StatusCode,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::oneshot,
    task::JoinHandle,
    time,
};

use self::connections::{Connections, Room};
use super::{
    compression::compress,
    exposition::Format,
    options::Listen,
    state::{ProcessFigures, SharedState},
};

const MAX_CONNECTIONS: usize = 100;
/// The longest time for receiving the header of a request.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// The longest duration of a connection. A connection serves one request and its response.
const CONNECTION_TIME: Duration = Duration::from_secs(30);
/// The largest size of a request's header, in bytes.
const MAX_HEADER: usize = 16 * 1024;
/// The largest number of fields in a request's header.
const MAX_FIELDS: usize = 64;
/// How long a cached response is served before a new response is made. If making a response takes long, the response is
/// served for ten times as long as it took to make it. So the state is locked for at most a tenth of the time.
const MAX_AGE: Duration = Duration::from_millis(100);

/// The running server. Dropping this value stops the server.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// The responses for `/metrics`, which are cached for a short time.
#[derive(Debug)]
pub struct Metrics {
    state: SharedState,
    made: Mutex<Vec<Made>>,
}

#[derive(Clone, Debug)]
struct Made {
    format: Format,
    is_gzip: bool,
    body: Bytes,
    expires: Instant,
}

impl Server {
    pub fn start(listen: &Listen, state: SharedState) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let listener = runtime.block_on(TcpListener::bind(&*listen.addresses()?))?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("http".to_owned()).spawn(move || {
            let metrics = Arc::new(Metrics::new(state));
            runtime.spawn(accept(listener, metrics));
            // The wait also ends if the sender `stop` is dropped.
            let _stopped = runtime.block_on(stopped);
        })?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the address of the server. If the requested port was 0, the returned address has the port that the
    /// system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, metrics: Arc<Metrics>) {
    let mut connections: Connections<JoinHandle<()>> = Connections::new(MAX_CONNECTIONS);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                connections.retain(|task| !task.is_finished());
                match connections.make_room(peer.ip(), Instant::now()) {
                    Room::Free => {}
                    Room::Close(task) => task.abort(),
                    Room::No => continue,
                }
                let has_request = Arc::default();
                let task = tokio::spawn(serve(stream, Arc::clone(&metrics), Arc::clone(&has_request)));
                connections.add(peer.ip(), task, has_request, Instant::now());
            }
            // The connection cannot be accepted, for example because the process has no free file descriptor, or
            // because the client has already closed the connection.
            Err(_) => time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Serves one request of a client. Sets `has_request` to true after the header of the request is read.
pub async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    metrics: Arc<Metrics>,
    has_request: Arc<AtomicBool>,
) {
    // An error in a connection affects only its client, so the error is ignored.
    let _ended = serve_within(HEADER_TIME, CONNECTION_TIME, stream, metrics, has_request).await;
}

async fn serve_within(
    header_time: Duration,
    connection_time: Duration,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    metrics: Arc<Metrics>,
    has_request: Arc<AtomicBool>,
) -> Result<hyper::Result<()>, time::error::Elapsed> {
    let service = service_fn(|request: Request<_>| {
        has_request.store(true, Ordering::Relaxed);
        let response = respond(request.method(), request.uri().path(), request.headers(), &metrics);
        async { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_time)
        .keep_alive(false)
        .max_headers(MAX_FIELDS)
        .max_buf_size(MAX_HEADER)
        .serve_connection(TokioIo::new(stream), service);
    time::timeout(connection_time, connection).await
}

fn respond(method: &Method, path: &str, headers: &HeaderMap, metrics: &Metrics) -> Response<Full<Bytes>> {
    let page = |status, content_type, text: &'static str| {
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        response
    };
    let text = |status, text| page(status, "text/plain; charset=utf-8", text);
    if ![Method::GET, Method::HEAD].contains(method) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match path {
        "/metrics" => {
            let all = |name: HeaderName| {
                let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
                values.collect::<Vec<_>>().join(",")
            };
            let format = Format::negotiate(&all(ACCEPT));
            let is_gzip = takes_gzip(&all(ACCEPT_ENCODING));
            let mut response = Response::new(Full::new(metrics.body(format, is_gzip)));
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
            headers.insert(VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
            if is_gzip {
                headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            }
            response
        }
        "/healthz" => text(StatusCode::OK, "ok\n"),
        "/" => page(StatusCode::OK, "text/html; charset=utf-8", PAGE),
        _ => text(StatusCode::NOT_FOUND, "There are /metrics, /healthz and /\n"),
    }
}

const PAGE: &str = concat!(
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">",
    "<title>topic_statistics_exporter</title></head>\n",
    "<body><h1>topic_statistics_exporter ",
    env!("CARGO_PKG_VERSION"),
    "</h1>\n<p>Topic statistics of ROS 2 nodes.</p>\n<ul><li><a href=\"/metrics\">/metrics</a>: for Prometheus</li>\n",
    "<li><a href=\"/healthz\">/healthz</a>: whether the exporter serves</li>\n<li><a href=\"",
    env!("CARGO_PKG_REPOSITORY"),
    "/blob/main/docs/fleet.md\">Names and meanings of the metrics</a></li></ul></body></html>\n"
);

/// Returns whether a client accepts gzip, according to its Accept-Encoding header (RFC 9110, sections 12.4.2 and
/// 12.5.3). In the header, `*` stands for all codings that the header does not name. A coding with an invalid weight is
/// treated as not accepted.
fn takes_gzip(accept: &str) -> bool {
    let mut all = false;
    for coding in accept.split(',') {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let is_taken = match (parts.next(), parts.next()) {
            (None, _) => true,
            (Some(weight), None) => is_above_0(weight),
            _ => false,
        };
        if ["gzip", "x-gzip"].iter().any(|gzip| name.eq_ignore_ascii_case(gzip)) {
            return is_taken;
        }
        all |= name == "*" && is_taken;
    }
    all
}

/// Returns whether a text is a valid weight above 0: `q=0.001` to `q=1.000`.
fn is_above_0(weight: &str) -> bool {
    let Some(value) = weight.strip_prefix(['q', 'Q']).and_then(|rest| rest.strip_prefix('=')) else {
        return false;
    };
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    let is_digits = fraction.len() <= 3 && fraction.bytes().all(|digit| digit.is_ascii_digit());
    let is_0 = fraction.bytes().all(|digit| digit == b'0');
    is_digits && (whole == "1" && is_0 || whole == "0" && !is_0)
}

impl Metrics {
    pub fn new(state: SharedState) -> Self {
        Self { state, made: Mutex::default() }
    }

    /// Returns the body of a response in a format. If the cached response has expired, makes a new response.
    fn body(&self, format: Format, is_gzip: bool) -> Bytes {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = Instant::now();
        // The buffer of an expired response is used again if no connection still sends this response. Allocating new
        // memory would take as long as writing the response.
        let expired = made
            .extract_if(.., |made| made.expires <= begun)
            .filter(|made| !made.is_gzip && made.body.is_unique())
            .last();
        let find = |made: &[Made], is_gzip| {
            made.iter().find(|made| made.format == format && made.is_gzip == is_gzip).cloned()
        };
        if let Some(made) = find(&made, is_gzip) {
            return made.body;
        }
        let plain = match find(&made, false) {
            Some(plain) => plain,
            None => {
                let buffer = expired.map(|made| Vec::from(made.body)).unwrap_or_default();
                let body = self.encode(format, begun, buffer);
                let ended = Instant::now();
                let plain =
                    Made { format, is_gzip: false, body, expires: ended + MAX_AGE.max(10 * (ended - begun)) };
                made.push(plain.clone());
                plain
            }
        };
        if !is_gzip {
            return plain.body;
        }
        let body = Bytes::from(compress(&plain.body));
        // The compressed response expires at the same time as the uncompressed response.
        made.push(Made { is_gzip, body: body.clone(), ..plain });
        body
    }

    fn encode(&self, format: Format, now: Instant, buffer: Vec<u8>) -> Bytes {
        let unix_time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let process = ProcessFigures::read();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.expire(now);
        state.process = process;
        state.begin_scrape();
        Bytes::from(format.encode(&state, now, unix_time.as_secs_f64(), buffer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Limits, Now, State};

    #[test]
    fn gzip_is_for_clients_that_take_it() {
        let taken =
            "gzip|deflate, GZIP;q=0.5|*|*;q=0, gzip|identity, *;q=0.1|x-gzip|gzip;Q=0.001|gzip ; q=1.000";
        let refused =
            "|identity|gzip;q=0|gzip; q=0.000, br|gzip;q=x|gzip;q=0, *|*, gzip;q=0|*;q=0|gzip;q=1.001|\
                       gzip;q=0.0001|gzip;q=2|gzip;q=.5|gzip;q=1e3|gzip;q=+1|gzip;q=|gzip;q|gzip;level=9|\
                       gzip;q=1;q=0|gzipped";
        for (headers, is_gzip) in [(taken, true), (refused, false)] {
            for accept in headers.split('|') {
                assert_eq!(takes_gzip(accept), is_gzip, "{accept:?}");
            }
        }
    }

    #[test]
    fn a_client_that_sends_nothing_is_cut_off_by_either_limit() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let state = Arc::new(Mutex::new(State::new(Limits::default(), Now::read())));
        let metrics = Arc::new(Metrics::new(state));
        let ended = |header_time, connection_time| {
            runtime.block_on(async {
                let (_client, stream) = tokio::net::UnixStream::pair().unwrap();
                serve_within(header_time, connection_time, stream, Arc::clone(&metrics), Arc::default()).await
            })
        };
        let (short, long) = (Duration::from_millis(1), Duration::from_secs(60));
        assert!(ended(short, long).is_ok_and(|served| served.is_err_and(|error| error.is_timeout())));
        assert!(ended(long, short).is_err());
    }

    /// Until a response expires, it is served again, so not every request locks the state.
    #[test]
    fn a_response_is_the_last_one_until_that_expires() {
        let state = Arc::new(Mutex::new(State::new(Limits::default(), Now::read())));
        let metrics = Metrics::new(state);
        let begun = Instant::now();
        let first = metrics.body(Format::Text, false);
        assert!(metrics.made.lock().unwrap()[0].expires >= begun + MAX_AGE);
        let expire = |after| metrics.made.lock().unwrap()[0].expires = Instant::now() + after;
        expire(Duration::from_secs(60));
        assert_eq!(metrics.body(Format::Text, false).as_ptr(), first.as_ptr(), "served from the cache");
        expire(Duration::ZERO);
        assert_ne!(metrics.body(Format::Text, false).as_ptr(), first.as_ptr());
    }
}
