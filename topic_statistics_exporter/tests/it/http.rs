// SPDX-License-Identifier: Apache-2.0

//! Well-behaved and harmful clients.

use std::{
    io::Write,
    net::TcpStream,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use test_support::domain;

use crate::{
    process::{get, request, response, timed, try_request, Exporter},
    robot::Robot,
};

const FIGURES: [f64; 5] = [2.0, 4.0, 1.0, 50.0, 0.5];

#[test]
fn only_two_paths_are_served() {
    let exporter = Exporter::start(&[], domain());
    let address = exporter.address;
    assert_eq!(get(address, "/healthz").text(), "ok\n");
    for (path, status) in [
        ("/metrics?x=y", 200),
        ("/", 404),
        ("/metrics/", 404),
        ("/../../etc/passwd", 404),
        ("/%2e%2e/etc/passwd", 404),
        ("/metrics\u{0}", 400),
    ] {
        assert_eq!(get(address, path).status, status, "{path:?}");
    }
    assert_eq!(request(address, "POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n").status, 405);
    assert_eq!(request(address, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n").body.len(), 0);
    let accept = |accept: &str| {
        let response =
            request(address, &format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n"));
        (response.headers.to_lowercase(), response.body)
    };
    let (headers, body) = accept("application/openmetrics-text;version=1.0.0");
    assert!(headers.contains("content-type: application/openmetrics-text; version=1.0.0"), "{headers}");
    assert!(body.ends_with(b"\n# EOF\n"));
    let (headers, body) =
        accept("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited");
    assert!(headers.contains("content-type: application/vnd.google.protobuf"), "{headers}");
    assert!(!body.starts_with(b"#"));
}

#[test]
fn requests_are_bounded() {
    let exporter = Exporter::start(&[], domain());
    let address = exporter.address;
    let long = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let many = format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{}\r\n", "X: y\r\n".repeat(1000));
    let path = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(100_000));
    for wrong in [long, many, path, "\u{0}\u{1}\u{2}\r\n\r\n".to_owned()] {
        // It refuses them, or closes the connection before it has read all.
        if let Ok(response) = try_request(address, &wrong) {
            assert!([400, 414, 431].contains(&response.status), "{}", response.status);
        }
    }
    // Clients that never send their header, as many as there are connections: they hold nobody up for longer than their
    // time.
    let mut slow: Vec<TcpStream> = (0..150).map(|_| TcpStream::connect(address).unwrap()).collect();
    for stream in &mut slow {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost:").unwrap();
    }
    let (response, took) = timed(|| get(address, "/healthz"));
    assert_eq!(response.status, 200);
    // Their time is 10 s, but the oldest ones are closed after 2 s.
    assert!(took < Duration::from_secs(7), "{took:?}");
    // The server has closed the first one.
    assert!(crate::process::response(&mut slow[0]).map_or(true, |response| response.status == 408));
}

#[test]
fn many_requests_do_not_starve_the_subscriptions() {
    let domain = domain();
    let exporter = Exporter::start(&[], domain);
    let robot = Robot::start();
    let address = exporter.address;
    // A client that sends its request and reads nothing.
    let mut lazy = TcpStream::connect(address).unwrap();
    lazy.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let (windows, took) = thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let response = try_request(address, "GET /metrics HTTP/1.0\r\n\r\n");
                    answered.fetch_add(
                        u64::from(response.is_ok_and(|response| response.status == 200)),
                        Ordering::Relaxed,
                    );
                }
            });
        }
        let begun = Instant::now();
        // 300 sources with 10 windows each: no message is lost meanwhile.
        for stop in 100..110 {
            for source in 0..300 {
                robot.publish(&format!("/node:/topic_{source}"), "message_age", stop, FIGURES);
            }
            thread::sleep(Duration::from_millis(100));
        }
        let all = exporter.scrape_until("all windows", |series| {
            series.get(r#"exporter_messages_accepted_total{kind="window"}"#) == Some(3000.0)
        });
        stop.store(true, Ordering::Relaxed);
        (all.with("message_age_seconds_count").map(|(_, count)| count).collect::<Vec<_>>(), begun.elapsed())
    });
    assert_eq!(windows, [500.0; 300]);
    let rate = answered.load(Ordering::Relaxed) as f64 / took.as_secs_f64();
    eprintln!("{rate:.0} requests/s");
    assert!(rate > 500.0, "{rate}");
    assert_eq!(response(&mut lazy).unwrap().status, 200, "it was answered nevertheless");
}
