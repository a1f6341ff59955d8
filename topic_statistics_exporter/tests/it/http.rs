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
fn only_three_paths_are_served() {
    let exporter = Exporter::start(&[], domain());
    let address = exporter.address;
    assert_eq!(get(address, "/healthz").text(), "ok\n");
    for (path, status) in [
        ("/metrics?x=y", 200),
        ("/", 200),
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
fn the_page_has_links_to_what_is_served() {
    let exporter = Exporter::start(&[], domain());
    let response = get(exporter.address, "/");
    assert!(response.headers.contains("text/html"), "{}", response.headers);
    let page = response.text();
    for path in ["/metrics", "/healthz"] {
        assert!(page.contains(&format!("<a href=\"{path}\">")), "{page}");
        assert_eq!(get(exporter.address, path).status, 200);
    }
    assert!(page.contains(env!("CARGO_PKG_VERSION")), "{page}");
}

#[test]
fn a_scrape_is_compressed_for_a_client_that_takes_gzip() {
    let domain = domain();
    let exporter = Exporter::start(&[], domain);
    let robot = Robot::start();
    for topic in 0..50 {
        robot.publish(&format!("/node:/topic_{topic}"), "message_age", 100, FIGURES);
    }
    exporter.scrape_until("all", |series| series.with("message_age_mean_seconds").count() == 50);
    let scrape = |encoding: &str| {
        let text = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {encoding}\r\n\r\n");
        request(exporter.address, &text)
    };
    let plain = scrape("identity");
    assert!(!plain.headers.to_lowercase().contains("content-encoding"), "{}", plain.headers);
    let gzip = scrape("br, gzip");
    assert!(gzip.headers.to_lowercase().contains("content-encoding: gzip"), "{}", gzip.headers);
    assert!(gzip.body.len() * 5 < plain.body.len(), "{} of {} bytes", gzip.body.len(), plain.body.len());
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&*gzip.body), &mut text).unwrap();
    let names =
        |text: &str| text.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&text), names(&plain.text()));
}

#[test]
fn it_listens_at_a_name_and_at_all_addresses() {
    use std::net::{Ipv4Addr, SocketAddr};
    for listen in ["localhost:0", ":0"] {
        let exporter = Exporter::start(&["--listen", listen], domain());
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, exporter.address.port()));
        assert_eq!(get(address, "/healthz").text(), "ok\n", "{listen}");
    }
}

#[test]
fn it_tells_what_its_process_uses() {
    let exporter = Exporter::start(&[], domain());
    let pid = exporter.process.id();
    let series = exporter.scrape();
    let get = |name: &str| series.0.get(name).copied().unwrap_or_else(|| panic!("no {name}"));
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident: f64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    let ratio = get("process_resident_memory_bytes") / (resident * 1024.0);
    assert!((0.5..2.0).contains(&ratio), "{ratio}");
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as f64;
    assert!((get("process_open_fds") - open).abs() <= 3.0, "{open}");
    assert!(get("process_max_fds") >= open && get("process_virtual_memory_bytes") > resident);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let age = now - get("process_start_time_seconds");
    assert!((-1.0..120.0).contains(&age), "{age} s");
    let cpu = get("process_cpu_seconds_total");
    assert!(cpu > 0.0 && cpu < 120.0, "{cpu} s");
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
    // Each of the clients sends its next request as soon as it has a response: they keep the server at its limit at any
    // rate, which is that of the machine. That no window was lost beside them is what this test is about.
    assert!(rate > 50.0, "{rate}");
    assert_eq!(response(&mut lazy).unwrap().status, 200, "it was answered nevertheless");
}
