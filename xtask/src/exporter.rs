//! The program exporter of topic_statistics_exporter, measured under load.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use anyhow::{ensure, Context, Result};

use crate::{
    bench::{build, cargo},
    environment::Environment,
    monitor::Running,
};

/// How often it is scraped.
const INTERVAL: Duration = Duration::from_secs(5);
/// How many sources the load has.
const SOURCES: usize = 1000;
const TEXT: &str = "text/plain;version=0.0.4";
const PROTOBUF: &str =
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";

/// 1000 sources with 10 metrics, 5 of them with distributions, in windows of 1 s, scraped every 5 s: the exporter's CPU, memory,
/// scrape time and bytes, beside those of a minimal rclpy exporter with the official Python client.
pub fn bench(environment: &Environment, project: &Path, seconds: f64) -> Result<ExitCode> {
    cargo(
        environment,
        project,
        &["build", "--quiet", "--release", "--package", "topic_statistics_exporter"],
    )?;
    let program = environment.target_dir().join("release/exporter");
    let programs = build(environment, project)?;
    let client = python_client(environment, project)?;
    let _load = Running::start(&mut environment.command(programs.join("bench_statistics")))?;
    println!(
        "{:<20} {:>6} {:>10} {:>10} {:>11} {:>14} {:>10} {:>11}",
        "", "CPU %", "memory MB", "scrape ms", "longest ms", "scrape CPU ms", "bytes", "messages/s"
    );
    for (name, accept) in [("exporter, text", TEXT), ("exporter, protobuf", PROTOBUF)] {
        let address = free_port()?;
        let mut command = environment.command(&program);
        command.args(["--listen", &address.to_string(), "--max-series", "1000000"]).stderr(Stdio::null());
        measure(name, &mut command, address, accept, seconds)?;
    }
    let address = free_port()?;
    let mut command = environment.command("python3");
    command.arg(project.join("benchmarks/exporter.py")).arg(address.port().to_string()).arg(client);
    measure("rclpy, text", &mut command, address, TEXT, seconds)?;
    Ok(ExitCode::SUCCESS)
}

/// Starts an exporter, waits until it has all sources, scrapes it for a while, and prints a row.
fn measure(name: &str, command: &mut Command, address: SocketAddr, accept: &str, seconds: f64) -> Result<()> {
    let exporter = Running::start(command)?;
    let begun = Instant::now();
    while scrape(address, TEXT).map_or(0, |text| sources(&text)) < SOURCES {
        ensure!(begun.elapsed() < Duration::from_secs(60), "{name} has not received all sources in a minute");
        std::thread::sleep(Duration::from_millis(500));
    }
    let received = accepted(address)?;
    let (started, before, serving) = (Instant::now(), exporter.cpu()?, exporter.cpu_of_thread("http")?);
    let (mut times, mut bytes) = (vec![], 0);
    while started.elapsed().as_secs_f64() < seconds {
        std::thread::sleep(INTERVAL);
        let begun = Instant::now();
        bytes = scrape(address, accept)?.len();
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    let elapsed = started.elapsed().as_secs_f64();
    let cpu = (exporter.cpu()? - before) / elapsed * 100.0;
    let serving = (exporter.cpu_of_thread("http")? - serving) / times.len() as f64 * 1e3;
    let messages = (accepted(address)? - received) / elapsed;
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let longest = times.iter().copied().fold(0.0, f64::max);
    let memory = exporter.memory()?;
    println!(
        "{name:<20} {cpu:>6.1} {memory:>10.1} {mean:>10.1} {longest:>11.1} {serving:>14.1} {bytes:>10} {messages:>11.0}"
    );
    Ok(())
}

/// Returns the body of `/metrics`.
fn scrape(address: SocketAddr, accept: &str) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(format!("GET /metrics HTTP/1.0\r\nAccept: {accept}\r\n\r\n").as_bytes())?;
    let mut response = vec![];
    stream.read_to_end(&mut response)?;
    let end = response.windows(4).position(|window| window == b"\r\n\r\n").context("No response")?;
    Ok(response.split_off(end + 4))
}

/// Returns how many sources the text has: those with an average of the first metric.
fn sources(text: &[u8]) -> usize {
    let text = String::from_utf8_lossy(text);
    let is_age = |line: &&str| {
        line.starts_with("topic_statistics_message_age_mean_seconds{")
            || line.starts_with("statistics_mean{") && line.contains("metric=\"message_age\"")
    };
    text.lines().filter(is_age).count()
}

/// Returns how many messages the exporter has accepted. NaN of one that does not say so.
fn accepted(address: SocketAddr) -> Result<f64> {
    let text = scrape(address, TEXT)?;
    let text = String::from_utf8_lossy(&text);
    let lines =
        text.lines().filter(|line| line.starts_with("topic_statistics_exporter_messages_accepted_total{"));
    let numbers: Vec<f64> = lines.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect();
    Ok(if numbers.is_empty() { f64::NAN } else { numbers.iter().sum() })
}

/// Returns an address that nobody listens at.
fn free_port() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Installs the official Python client of Prometheus, and returns the folder that has it.
fn python_client(environment: &Environment, project: &Path) -> Result<PathBuf> {
    let directory = project.join("target/tools/prometheus_client");
    if !directory.is_dir() {
        let mut pip = environment.command("python3");
        pip.args([
            "-I",
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--quiet",
            "--require-hashes",
            "--no-deps",
        ])
        .arg("--requirement")
        .arg(project.join("xtask/requirements/bench.txt"))
        .arg("--target")
        .arg(&directory);
        ensure!(pip.status()?.success(), "The Python client of Prometheus cannot be installed");
    }
    Ok(directory)
}
