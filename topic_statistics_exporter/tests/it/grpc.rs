// SPDX-License-Identifier: Apache-2.0

//! The requests at an OpenTelemetry collector by gRPC, whose server is gRPC's own.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    thread,
};

use test_support::{domain, wait_for};

use crate::{
    otlp::{
        assert_retries, certificate, demands_a_certificate, starts, times, Collector, QUICKLY, SERVER,
        UNREACHABLE,
    },
    process::Exporter,
};

const PROGRAM: &str = "grpc_collector.py";
const GRPC: [&str; 2] = ["--otlp-protocol", "grpc"];

fn collector(port: u64, script: &[&str], what: &str) -> Option<Collector> {
    Collector::start_program(PROGRAM, port, script, what, &[])
}

fn attempts(exporter: &Exporter, reason: &str) -> Option<f64> {
    exporter.scrape().get(&format!("exporter_push_attempts_failed_total{{reason=\"{reason}\"}}"))
}

/// The times of the reports, in the order of their arrival.
fn reports(collector: &Collector) -> Vec<i128> {
    collector.points("topic_statistics.exporter_sources").map(|(_, point)| times(point).1).collect()
}

#[test]
fn each_request_arrives_once_and_in_order_by_grpc_whatever_the_collector_does() {
    let script = [
        "200",
        "UNAVAILABLE",
        "200",
        "hang",
        "RESOURCE_EXHAUSTED:1",
        "ABORTED",
        "UNAUTHENTICATED",
        "DATA_LOSS",
    ];
    let Some(mut collector) = collector(0, &script, "OTLP over gRPC") else { return };
    let endpoint = collector.endpoint();
    let arguments = ["--otlp-endpoint", &endpoint, "--otlp-headers", "api-key=open%20sesame"];
    let exporter = Exporter::start(&[&arguments, &GRPC[..], &QUICKLY].concat(), domain());
    collector.read_until("requests", |collector| collector.accepted().count() >= 6);
    assert_retries(&collector);
    let count = |reason| attempts(&exporter, reason);
    // They are those of the last report.
    wait_for("the counts of attempts", || {
        (count("busy"), count("denied"), count("unreachable")) == (Some(4.0), Some(1.0), Some(1.0))
    });
    let request = &collector.requests[0];
    assert_eq!(request["headers"]["api-key"], "open sesame");
    let agent = request["headers"]["user-agent"].as_str().unwrap();
    assert!(agent.starts_with("topic_statistics_exporter/"), "{agent}");

    // Nobody listens for some attempts; the next collector gets all of them.
    let port = collector.port;
    let requests = collector.stop();
    let before = count("unreachable").unwrap();
    wait_for("refused connections", || count("unreachable") >= Some(before + 3.0));
    let mut collector = self::collector(port, &[], "").unwrap();
    collector.requests = requests;
    let number = collector.accepted().count() + 5;
    collector.read_until("requests again", |collector| collector.accepted().count() >= number);
    let reports = reports(&collector);
    assert!(reports.is_sorted_by(|before, after| before < after), "in order, each once: {reports:?}");
    let series = exporter.scrape();
    assert!(series.with("exporter_push_requests_lost_total").all(|(_, lost)| lost == 0.0), "{series:?}");
    for text in
        ["gRPC status Unavailable: of the script", "gRPC status Unauthenticated: of the script): check the"]
    {
        exporter.wait_for_line(text);
    }
}

/// Without the time after which it recovers, a collector that is exhausted does not take a request later.
#[test]
fn what_a_collector_refuses_by_grpc_is_not_sent_again() {
    let script = ["INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "INTERNAL"];
    let Some(mut collector) = collector(0, &script, "OTLP refused over gRPC") else { return };
    let endpoint = collector.endpoint();
    let exporter =
        Exporter::start(&[&["--otlp-endpoint", &endpoint], &GRPC[..], &QUICKLY].concat(), domain());
    collector.read_until("requests", |collector| collector.accepted().count() >= 2);
    let lost = r#"exporter_push_requests_lost_total{reason="refused"}"#;
    exporter.scrape_until("three refused requests", |series| series.get(lost) == Some(3.0));
    let requests: Vec<_> = collector.requests.iter().map(|request| &request["request"]).collect();
    assert!(requests.windows(2).all(|pair| pair[0] != pair[1]), "no request came twice");
    exporter.wait_for_line("refuses figures (gRPC status InvalidArgument: of the script)");
}

/// Both ports of a collector are near to each other.
#[test]
fn a_port_of_grpc_that_gets_http_is_named_as_what_it_may_be() {
    let Some(mut collector) = collector(0, &[], "HTTP to a port of gRPC") else { return };
    let exporter =
        Exporter::start(&[&["--otlp-endpoint", &collector.endpoint()], &QUICKLY[..]].concat(), domain());
    exporter.wait_for_line("for --otlp-protocol grpc). Figures wait");
    collector.read_until("nothing", |collector| collector.requests.is_empty());
}

#[test]
fn grpc_trusts_a_certificate_that_it_is_given() {
    const WHAT: &str = "OTLP over gRPC with TLS";
    let directory = tempfile::tempdir().unwrap();
    let Some((certificate, key)) = certificate(directory.path(), "collector", &SERVER, WHAT) else { return };
    let files = [("CERTIFICATE", &*certificate), ("KEY", &key)];
    let Some(mut collector) = Collector::start_program(PROGRAM, 0, &[], WHAT, &files) else { return };
    // Without a scheme, as OpenTelemetry's specification allows it for gRPC: TLS.
    let endpoint = format!("127.0.0.1:{}", collector.port);
    let arguments = [&["--otlp-endpoint", &endpoint], &GRPC[..], &QUICKLY].concat();
    let domain = domain();
    let exporter = Exporter::start(&arguments, domain);
    exporter.scrape_until("failed attempts", |series| series.get(UNREACHABLE) >= Some(2.0));
    exporter.wait_for_line("UnknownIssuer");
    collector.read_until("nothing", |collector| collector.requests.is_empty());
    drop(exporter);
    let trusted = ["--otlp-certificate", certificate.to_str().unwrap()];
    let _exporter = Exporter::start(&[&arguments, &trusted[..]].concat(), domain);
    collector.read_until("requests", |collector| collector.accepted().count() >= 2);
}

#[test]
fn a_grpc_collector_that_demands_a_certificate_gets_the_exporters_own() {
    demands_a_certificate(PROGRAM, &GRPC, "OTLP over gRPC with a client certificate");
}

/// Passes bytes on to a port, and counts those to it.
fn counting_proxy(port: u64) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(format!("127.0.0.1:{port}")) else { continue };
            let pass = |mut from: TcpStream, mut to: TcpStream, count: Option<Arc<AtomicU64>>| {
                thread::spawn(move || {
                    let mut buffer = [0; 8192];
                    while let Ok(read @ 1..) = from.read(&mut buffer) {
                        if let Some(count) = &count {
                            count.fetch_add(read as u64, Ordering::Relaxed);
                        }
                        if to.write_all(&buffer[..read]).is_err() {
                            break;
                        }
                    }
                    let _closed = to.shutdown(Shutdown::Both);
                });
            };
            pass(server.try_clone().unwrap(), client.try_clone().unwrap(), None);
            pass(client, server, Some(Arc::clone(&counted)));
        }
    });
    (address, count)
}

#[test]
fn the_environment_chooses_grpc_and_whether_it_is_compressed() {
    let mut bytes = vec![];
    for compression in ["gzip", "none"] {
        let Some(mut collector) = collector(0, &[], "compression of OTLP over gRPC") else { return };
        let (address, count) = counting_proxy(collector.port);
        let variables = [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc".to_owned()),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", address.to_string()),
            ("OTEL_EXPORTER_OTLP_INSECURE", "true".to_owned()),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", compression.to_owned()),
        ];
        let _exporter = Exporter::start_with(&["--otlp-interval", "0.2"], domain(), &variables);
        collector.read_until("requests", |collector| collector.accepted().count() >= 5);
        let requests = collector.accepted().count() as u64;
        bytes.push(count.load(Ordering::Relaxed) / requests);
    }
    assert!(bytes[0] * 2 < bytes[1], "bytes of a request: {bytes:?}");
}

/// A buffer on disk is of either protocol: its requests are the same.
#[test]
fn what_waits_for_http_can_be_sent_by_grpc() {
    let Some(mut collector) = collector(0, &[], "OTLP from HTTP to gRPC") else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let buffer = ["--otlp-buffer-directory", &path(directory.path())];
    let domain = domain();
    let nobody = ["--otlp-endpoint", "http://127.0.0.1:9"];
    let exporter = Exporter::start(&[&nobody, &buffer, &QUICKLY[..]].concat(), domain);
    exporter.scrape_until("requests that wait", |series| {
        series.get("exporter_push_requests_waiting") >= Some(5.0)
    });
    exporter.process.stop();
    let endpoint = collector.endpoint();
    let here = ["--otlp-endpoint", &endpoint];
    let _exporter = Exporter::start(&[&here, &buffer, &GRPC[..], &QUICKLY].concat(), domain);
    // How many the first exporter has left is unknown: it has gone on until it was stopped.
    collector.read_until("what waited, and more", |collector| {
        reports(collector).len() >= 8 && starts(collector.accepted()).len() >= 2
    });
    let reports = reports(&collector);
    assert!(reports.is_sorted_by(|before, after| before < after), "{reports:?}");
    let starts = starts(collector.accepted());
    assert_eq!(starts.len(), 2, "those of the first exporter, and then those of the second");
}
