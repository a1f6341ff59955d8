// SPDX-License-Identifier: Apache-2.0

//! The exporter's process, and a client of HTTP.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Command, Stdio},
    sync::mpsc::Receiver,
    time::{Duration, Instant},
};

use test_support::{command, lines, program, wait_for, Process, LIMIT};

/// A running exporter.
pub struct Exporter {
    pub process: Process,
    pub address: SocketAddr,
    /// The lines of its log that were read.
    logged: RefCell<Vec<String>>,
    log: Receiver<String>,
}

impl Exporter {
    /// Starts it at a free port, unless the arguments name one.
    pub fn start(arguments: &[&str], domain: u32) -> Self {
        Self::start_with(arguments, domain, &[])
    }

    /// Starts it with environment variables.
    pub fn start_with(arguments: &[&str], domain: u32, variables: &[(&str, String)]) -> Self {
        let is_given = arguments.contains(&"--listen");
        let listen: &[&str] = if is_given { &[] } else { &["--listen", "127.0.0.1:0"] };
        let mut command = command(program("exporter"), &[listen, arguments].concat(), domain);
        let variables = variables.iter().map(|(name, value)| (name, value));
        Self::of(command.envs(variables))
    }

    /// Starts it by a command.
    pub fn of(command: &mut Command) -> Self {
        let mut process = Process::spawn(command.stderr(Stdio::piped()));
        let log = lines(process.errors());
        let deadline = Instant::now() + LIMIT;
        let mut lines: Vec<String> = vec![];
        let address: SocketAddr = loop {
            match log.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => lines.push(line),
                Err(error) => panic!("the exporter does not serve: {error}; {lines:#?}"),
            }
            let serving =
                lines.last().and_then(|line| line.split_once("Serving http://")?.1.split_once("/metrics"));
            if let Some((address, _)) = serving {
                break address.parse().unwrap();
            }
        };
        Self { process, address, logged: lines.into(), log }
    }

    /// Returns the lines of its log so far, with those from before it served.
    pub fn log(&self) -> Vec<String> {
        let mut logged = self.logged.borrow_mut();
        logged.extend(self.log.try_iter());
        logged.clone()
    }

    /// Waits for a line of its log with a text.
    pub fn wait_for_line(&self, text: &str) {
        wait_for(text, || self.log().iter().any(|line| line.contains(text)));
    }

    /// Returns all time series, as `/metrics` has them as text.
    pub fn scrape(&self) -> Series {
        let response = get(self.address, "/metrics");
        assert_eq!(response.status, 200);
        Series::parse(&response.text())
    }

    /// Scrapes until the time series fulfil the condition.
    pub fn scrape_until(&self, what: &str, mut has: impl FnMut(&Series) -> bool) -> Series {
        let mut last = Series::default();
        wait_for(what, || {
            last = self.scrape();
            has(&last)
        });
        last
    }
}

/// The values of all time series, by name and labels as they are written: `name{node="/a",topic="/b"}`.
#[derive(Clone, Debug, Default)]
pub struct Series(pub BTreeMap<String, f64>);

impl Series {
    fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let series = lines.map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?} has no value"));
            (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line:?} has no number")))
        });
        let series: Vec<(String, f64)> = series.collect();
        let number = series.len();
        let series = Self(series.into_iter().collect());
        assert_eq!(series.0.len(), number, "there are two of the same name: {text}");
        series
    }

    /// Returns the value of a time series: its name without `topic_statistics_`, and its labels.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(&format!("topic_statistics_{name}")).copied()
    }

    /// Returns the time series whose names and labels contain a text.
    pub fn with<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        self.0.iter().filter(move |(name, _)| name.contains(text)).map(|(name, value)| (&**name, *value))
    }
}

/// A response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: String,
    pub body: Vec<u8>,
}

impl Response {
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

/// Gets a path.
pub fn get(address: SocketAddr, path: &str) -> Response {
    request(address, &format!("GET {path} HTTP/1.0\r\n\r\n"))
}

/// Sends a request. Returns the response.
pub fn request(address: SocketAddr, request: &str) -> Response {
    try_request(address, request).unwrap_or_else(|error| panic!("no response to {request:?}: {error}"))
}

pub fn try_request(address: SocketAddr, request: &str) -> std::io::Result<Response> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(request.as_bytes())?;
    response(&mut stream)
}

/// Reads a response until the server closes the connection.
pub fn response(stream: &mut TcpStream) -> std::io::Result<Response> {
    let mut bytes = vec![];
    stream.read_to_end(&mut bytes)?;
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.ok_or_else(|| std::io::Error::other(format!("{} bytes without a header", bytes.len())))?;
    let headers = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = headers.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other("no status"))?;
    Ok(Response { status, headers, body: bytes.split_off(end + 4) })
}

/// Returns how long something takes.
pub fn timed<T>(act: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let result = act();
    (result, begun.elapsed())
}
