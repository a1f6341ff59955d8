// SPDX-License-Identifier: Apache-2.0

//! Functions for tests: messages with known figures, and an HTTP client.

#![allow(dead_code, reason = "either test program calls most of it")]

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::mpsc::{self, Receiver},
    thread,
};

use rclrs_topic_statistics::{Distribution, Metric};
use ros_env::{
    diagnostic_msgs::msg::DiagnosticStatus,
    statistics_msgs::msg::MetricsMessage,
    topic_statistics_interfaces::msg::{MessagesLostEvent, MessagesLostEventTopicStat, MetricsDistribution},
};
use test_support::LIMIT;
use topic_statistics_observe::ros::testing;

/// The average, maximum, minimum, count and standard deviation of 50 samples around 2 ms, in rclcpp's order.
pub const FIGURES: [f64; 5] = [2.0, 4.0, 1.0, 50.0, 0.5];

/// Returns a message with a metric of the one-second window that ends at `stop` (s), in the metric's unit. An unknown
/// metric gets the unit ms.
pub fn window(source: &str, metric: &str, stop: i32, figures: [f64; 5]) -> MetricsMessage {
    let unit = metric.parse().map_or("ms", |metric: Metric| metric.unit());
    testing::message(source, metric, unit, stop, figures)
}

/// Returns a message with the distribution of message ages (ms) in the window of one second that ends at `stop`.
pub fn ages(source: &str, stop: i32, samples: &Distribution) -> MetricsDistribution {
    let (positive_offset, positive_counts) = samples.positive_counts();
    let (negative_offset, negative_counts) = samples.negative_counts();
    MetricsDistribution {
        count: samples.count(),
        sum: samples.sum(),
        minimum: samples.minimum(),
        maximum: samples.maximum(),
        scale: samples.scale(),
        zero_threshold: samples.zero_threshold(),
        zero_count: samples.zero_count(),
        positive_offset,
        positive_counts,
        negative_offset,
        negative_counts,
        ..testing::distribution(source, stop)
    }
}

pub fn losses(node: &str, topic: &str, lost: u64) -> MessagesLostEvent {
    let losses = MessagesLostEventTopicStat { topic_name: topic.to_owned(), messages_lost: lost };
    MessagesLostEvent { node_name: node.to_owned(), messages_lost_statistics: vec![losses] }
}

/// Returns the status of a source's health. `windows` counts the windows that were OK.
pub fn health(source: &str, level: u8, error_unless: &str, windows: u64) -> DiagnosticStatus {
    let windows = format!("{windows} 0 0 0");
    let pairs = [
        ("measurement_source_name", source),
        ("Actual frequency (Hz)", "41.500000"),
        ("error_unless", error_unless),
        ("windows_judged", &windows),
    ];
    testing::status(&source.trim_start_matches('/').replacen(':', ": ", 1), level, &pairs)
}

pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// The values of all time series, by name and labels in the text format: `name{node="/a",topic="/b"}`.
#[derive(Clone, Debug, Default)]
pub struct Series(pub BTreeMap<String, f64>);

impl Series {
    pub fn scrape(address: SocketAddr) -> Self {
        let response = get(address, "/metrics");
        assert_eq!(response.status, 200);
        let text = response.text();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let mut series = BTreeMap::new();
        for (name, value) in lines.map(|line| line.rsplit_once(' ').unwrap()) {
            let before = series.insert(name.to_owned(), value.parse().unwrap());
            assert_eq!(before, None, "{name} occurs twice");
        }
        Self(series)
    }

    /// Returns the value of a time series. `name` contains the name, without `topic_statistics_`, and the labels.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(&format!("topic_statistics_{name}")).copied()
    }

    /// Returns the number of time series whose name or labels contain a text.
    pub fn count(&self, text: &str) -> usize {
        self.0.keys().filter(|name| name.contains(text)).count()
    }
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// The status line and the headers, in lower case.
    pub headers: String,
    pub body: Vec<u8>,
}

impl Response {
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

pub fn get(address: SocketAddr, path: &str) -> Response {
    request(address, &format!("GET {path} HTTP/1.0\r\n\r\n")).unwrap()
}

/// Sends a request, and reads the response until the server closes the connection.
pub fn request(address: SocketAddr, request: &str) -> io::Result<Response> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(request.as_bytes())?;
    let mut bytes = vec![];
    stream.read_to_end(&mut bytes)?;
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.ok_or_else(|| io::Error::other(format!("{} bytes without a header", bytes.len())))?;
    let headers = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let status = headers.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other("no status"))?;
    Ok(Response { status, headers, body: bytes.split_off(end + 4) })
}

/// Starts an HTTP server that accepts every POST request. The returned receiver gets the header (in lower case) and the
/// body of each request.
pub fn accept_all() -> (SocketAddr, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (requests, received) = mpsc::channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let lines = reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            let head = lines.map(|line| line.to_lowercase() + "\n").collect::<String>();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
            let is_answered = reader.read_exact(&mut body).is_ok() && stream.write_all(answer).is_ok();
            if is_answered && requests.send((head, body)).is_err() {
                return;
            }
        }
    });
    (address, received)
}
