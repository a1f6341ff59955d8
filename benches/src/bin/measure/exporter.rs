// SPDX-License-Identifier: Apache-2.0

//! The program exporter of topic_statistics_exporter, measured under load.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::mpsc::Receiver,
    time::{Duration, Instant},
};

use anyhow::{ensure, Context, Result};
use test_support::Process;

use crate::{
    process::{build, command, cpu, itself, memory},
    statistics_load::SOURCES,
    table::Table,
};

/// How often it is scraped.
const INTERVAL: Duration = Duration::from_secs(5);
/// How long an exporter may take until it has all sources. A slower one is measured with the sources that it has.
const START: Duration = Duration::from_secs(30);
/// The exporter makes new responses after this time, at the latest.
const RESPONSE_AGE: Duration = Duration::from_secs(2);
const TEXT: &str = "text/plain;version=0.0.4";
const PROTOBUF: &str =
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";

/// 1000 sources with 10 metrics, 5 of them with distributions, in windows of 1 s, scraped every 5 s: the exporter's
/// CPU, memory, scrape time and bytes, and the messages that it has received of those that were published to it; beside
/// those of a minimal rclpy exporter with the official Python client, which does not read distributions.
pub fn measure(seconds: f64) -> Result<Table> {
    let program = build("topic_statistics_exporter", "exporter")?;
    let client = python_client()?;
    let (_load, lines) = Process::spawn_printing(&mut itself(&["statistics"]));
    let mut published = Published { lines, last: [0; 2] };
    let mut table = Table::new(
        " | CPU % | memory MB | scrape ms | longest ms | scrape CPU ms | bytes | sources | published/s | received/s",
    );
    for (name, accept) in [("exporter, text", TEXT), ("exporter, protobuf", PROTOBUF)] {
        let address = free_port()?;
        let mut command = command(&program);
        command.args(["--listen", &address.to_string(), "--max-series", "1000000"]).stderr(Stdio::null());
        let exporter = Exporter { name, accept, address, has_distributions: true };
        table.row(exporter.measure(&mut command, &mut published, seconds)?);
    }
    let exporter =
        Exporter { name: "rclpy, text", accept: TEXT, address: free_port()?, has_distributions: false };
    let mut command = command("python3");
    command.args(["benches/exporter.py", &exporter.address.port().to_string(), client]);
    table.row(exporter.measure(&mut command, &mut published, seconds)?);
    Ok(table)
}

/// The load's messages so far, as printed by it.
struct Published {
    lines: Receiver<String>,
    /// Messages on /statistics, and on /statistics/distribution.
    last: [u64; 2],
}

impl Published {
    fn now(&mut self) -> Result<[u64; 2]> {
        if let Some(line) = self.lines.try_iter().last() {
            let (windows, distributions) = line.split_once(' ').context("The load prints something else")?;
            self.last = [windows.parse()?, distributions.parse()?];
        }
        Ok(self.last)
    }
}

/// An exporter that is measured.
struct Exporter {
    name: &'static str,
    /// The format that it is asked for.
    accept: &'static str,
    address: SocketAddr,
    /// Whether it reads /statistics/distribution.
    has_distributions: bool,
}

/// Messages that were published to an exporter and that it has received, at one time.
struct Messages {
    at: Instant,
    published: f64,
    received: f64,
}

impl Exporter {
    /// Starts it, waits until it has all sources, and scrapes it for a while. Returns a row.
    fn measure(&self, command: &mut Command, published: &mut Published, seconds: f64) -> Result<String> {
        let process = Process::spawn(command);
        let [id, directory] = [process.id().to_string(), format!("/proc/{}", process.id())];
        let begun = Instant::now();
        while self.sources() < SOURCES && begun.elapsed() < START {
            std::thread::sleep(INTERVAL);
        }
        let first = self.messages(published)?;
        let (started, before, serving) = (Instant::now(), cpu(&directory, false)?, cpu_of_http(&directory)?);
        let (mut times, mut bytes) = (vec![], 0);
        while started.elapsed().as_secs_f64() < seconds {
            std::thread::sleep(INTERVAL);
            let begun = Instant::now();
            bytes = self.scrape("/metrics", self.accept)?.len();
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        let share = (cpu(&directory, false)? - before) / started.elapsed().as_secs_f64() * 100.0;
        let serving = (cpu_of_http(&directory)? - serving) / times.len() as f64 * 1e3;
        let last = self.messages(published)?;
        let elapsed = (last.at - first.at).as_secs_f64();
        let (published, received) =
            ((last.published - first.published) / elapsed, (last.received - first.received) / elapsed);
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let longest = times.iter().copied().fold(0.0, f64::max);
        Ok(format!(
            "{} | {share:.1} | {:.1} | {mean:.1} | {longest:.1} | {serving:.1} | {bytes} | {} | {published:.0} | \
             {received:.0}",
            self.name,
            memory(&id, "VmRSS")? as f64 / 1e3,
            self.sources(),
        ))
    }

    /// Returns the body of a response.
    fn scrape(&self, path: &str, accept: &str) -> Result<Vec<u8>> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\nAccept: {accept}\r\n\r\n").as_bytes())?;
        let mut response = vec![];
        stream.read_to_end(&mut response)?;
        let end = response.windows(4).position(|window| window == b"\r\n\r\n").context("No response")?;
        Ok(response.split_off(end + 4))
    }

    /// Returns the number of its sources: those with an average of the first metric; 0 while it does not serve yet.
    fn sources(&self) -> usize {
        let text = self.scrape("/metrics", TEXT).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let is_age = |line: &&str| {
            line.starts_with("topic_statistics_message_age_mean_seconds{")
                || line.starts_with("statistics_mean{") && line.contains("metric=\"message_age\"")
        };
        text.lines().filter(is_age).count()
    }

    /// Returns the messages up to now.
    fn messages(&self, published: &mut Published) -> Result<Messages> {
        const RECEIVED: [&str; 3] = [
            "topic_statistics_exporter_messages_accepted_total{",
            "topic_statistics_exporter_messages_refused_total{",
            "statistics_messages_received_total ",
        ];
        // The official client filters, which takes it seconds.
        let path = "/metrics?name[]=statistics_messages_received_total";
        std::thread::sleep(RESPONSE_AGE);
        let text = self.scrape(path, TEXT)?;
        let (at, [windows, distributions]) = (Instant::now(), published.now()?);
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().filter(|line| RECEIVED.iter().any(|name| line.starts_with(name)));
        let numbers: Vec<f64> = lines.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect();
        ensure!(!numbers.is_empty(), "{} does not count its messages", self.name);
        let published = windows + if self.has_distributions { distributions } else { 0 };
        Ok(Messages { at, published: published as f64, received: numbers.iter().sum() })
    }
}

/// Returns the CPU time of a process's thread `http`, in seconds. NaN without one.
fn cpu_of_http(process: &str) -> Result<f64> {
    for thread in std::fs::read_dir(format!("{process}/task"))? {
        let thread = thread?.path();
        if std::fs::read_to_string(thread.join("comm"))?.trim() == "http" {
            return cpu(&thread, false);
        }
    }
    Ok(f64::NAN)
}

/// Returns an address that nobody listens at.
fn free_port() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Installs the official Python client of Prometheus. Returns the folder that has it.
fn python_client() -> Result<&'static str> {
    const FOLDER: &str = "target/tools/prometheus_client";
    if !std::path::Path::new(FOLDER).is_dir() {
        let mut pip = Command::new("python3");
        pip.args(["-I", "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]);
        pip.args(["--require-hashes", "--no-deps", "--requirement", "xtask/requirements/bench.txt"]);
        let status = pip.args(["--target", FOLDER]).status()?;
        ensure!(status.success(), "The Python client of Prometheus cannot be installed");
    }
    Ok(FOLDER)
}
