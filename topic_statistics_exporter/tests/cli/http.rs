// SPDX-License-Identifier: Apache-2.0

//! Tests the HTTP server with normal clients and with harmful clients.

use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use test_support::LIMIT;

use crate::{
    common::{get, request, window, Response, Series, FIGURES},
    exporter::Exporter,
};

fn scrape_with(address: SocketAddr, header: &str) -> Response {
    request(address, &format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n")).unwrap()
}

#[test]
fn only_three_paths_are_served() {
    for listen in ["localhost:0", ":0"] {
        let exporter = Exporter::start(&["--listen", listen]);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, exporter.address().port()));
        assert_eq!(get(address, "/healthz").text(), "ok\n", "{listen}");
    }
    let exporter = Exporter::start(&[]);
    let address = exporter.address();
    for (path, status) in [
        ("/metrics?x=y", 200),
        ("/metrics/", 404),
        ("/../../etc/passwd", 404),
        ("/%2e%2e/etc/passwd", 404),
        ("/metrics\u{0}", 400),
    ] {
        assert_eq!(get(address, path).status, status, "{path:?}");
    }
    assert_eq!(request(address, "POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap().status, 405);
    assert!(request(address, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap().body.is_empty());
    let page = get(address, "/");
    assert!(page.headers.contains("text/html"), "{page:?}");
    assert!(page.text().contains(env!("CARGO_PKG_VERSION")));
    for path in ["/metrics", "/healthz"] {
        assert!(page.text().contains(&format!("<a href=\"{path}\">")));
    }
}

#[test]
fn a_scrape_has_the_format_and_coding_that_a_client_takes() {
    let exporter = Exporter::start(&[]);
    for topic in 0..50 {
        exporter.window(&window(&format!("/node:/topic_{topic}"), "message_age", 100, FIGURES));
    }
    let scrape = |header: &str| scrape_with(exporter.address(), header);
    let open_metrics = scrape("Accept: application/openmetrics-text;version=1.0.0");
    assert!(open_metrics.headers.contains("content-type: application/openmetrics-text; version=1.0.0"));
    assert!(open_metrics.body.ends_with(b"\n# EOF\n"));
    let family = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    let protobuf = scrape(&format!("Accept: {family}"));
    assert!(protobuf.headers.contains("content-type: application/vnd.google.protobuf"), "{protobuf:?}");
    assert!(!protobuf.body.starts_with(b"#"));
    let (plain, gzip) = (scrape("Accept-Encoding: identity"), scrape("Accept-Encoding: br, gzip"));
    assert!(!plain.headers.contains("content-encoding"), "{}", plain.headers);
    assert!(gzip.headers.contains("content-encoding: gzip"), "{}", gzip.headers);
    assert!(gzip.body.len() * 5 < plain.body.len(), "{} of {} bytes", gzip.body.len(), plain.body.len());
    let mut text = String::new();
    flate2::read::GzDecoder::new(&*gzip.body).read_to_string(&mut text).unwrap();
    let names =
        |text: &str| text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    let [unpacked, plain]: [Vec<String>; 2] = [names(&text), names(&plain.text())];
    assert_eq!(unpacked, plain);

    // The response contains the resources that the process uses.
    let series = Series::scrape(exporter.address()).0;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((now - series["process_start_time_seconds"]).abs() < 600.0, "{series:?}");
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident: f64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    assert!((0.5..2.0).contains(&(series["process_resident_memory_bytes"] / (resident * 1024.0))));
    assert!((3.0..series["process_max_fds"]).contains(&series["process_open_fds"]));
}

#[test]
fn requests_are_bounded() {
    let exporter = Exporter::start(&[]);
    let address = exporter.address();
    let long = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let many = format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{}\r\n", "X: y\r\n".repeat(1000));
    let path = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(100_000));
    for wrong in [long, many, path, "\u{0}\u{1}\u{2}\r\n\r\n".to_owned()] {
        // The server refuses the request, or closes the connection before it has read the whole request.
        if let Ok(response) = request(address, &wrong) {
            assert!([400, 414, 431].contains(&response.status), "{}", response.status);
        }
    }
    // More clients connect than the server allows, and none of them completes its header. One more client reads its
    // response only later.
    let connect = || {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    };
    let mut slow: Vec<TcpStream> = (0..150).map(|_| connect()).collect();
    for stream in &mut slow {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost:").unwrap();
    }
    let mut lazy = connect();
    lazy.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let begun = Instant::now();
    assert_eq!(get(address, "/healthz").status, 200);
    assert!(begun.elapsed().as_secs() < 7, "slow clients may delay a request for 2 s, not for 10 s");
    // The server has closed the connection of the first client.
    let mut closed = vec![];
    assert!(
        slow[0].read_to_end(&mut closed).is_err() || closed.is_empty() || closed.starts_with(b"HTTP/1.1 408")
    );
    lazy.read_to_end(&mut closed).unwrap();
    assert!(closed.ends_with(b"\n"), "the client that read late got no answer");
}
