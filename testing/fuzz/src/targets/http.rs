// SPDX-License-Identifier: Apache-2.0

//! Sends the bytes as a client to the HTTP server of the exporter.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use topic_statistics_exporter::testing::{serve, Limits, Metrics, Now, State};

/// A connection must end with at most one response. Only GET and HEAD of `/metrics`, `/healthz`, `/` may succeed.
pub fn http(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let response = runtime.block_on(async {
        let state = State::new(Limits::default(), Now::read());
        let metrics = Arc::new(Metrics::new(Arc::new(Mutex::new(state))));
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let serving = tokio::spawn(serve(server, metrics, Arc::default()));
        // The server may close the connection before it has read all bytes.
        let _closed = client.write_all(bytes).await;
        // hyper does not respond to a client that has closed its connection. So the client waits for as many turns of
        // the runtime as a response can need.
        for _ in 0..16 {
            tokio::task::yield_now().await;
        }
        let _closed = client.shutdown().await;
        let mut response = vec![];
        client.read_to_end(&mut response).await.expect("a connection in memory");
        serving.await.expect("no panic");
        response
    });
    let Some(end) = response.windows(4).position(|end| end == b"\r\n\r\n") else {
        assert!(response.is_empty(), "a part of a response: {response:?}");
        return;
    };
    let (header, body) = (String::from_utf8_lossy(&response[..end]), &response[end + 4..]);
    let [method, path] = request(bytes);
    let length = header.split("\r\n").find_map(|line| line.strip_prefix("content-length: "));
    let length = length.expect("a length").parse().expect("a number");
    assert_eq!(body.len(), if method == "HEAD" { 0 } else { length }, "more than one response: {header}");
    if header.starts_with("HTTP/1.1 200 ") || header.starts_with("HTTP/1.0 200 ") {
        assert!(["GET", "HEAD"].contains(&&*method), "{method}: {header}");
        match &*path {
            "/healthz" => assert_eq!(length, 3),
            "/metrics" => assert!(length > 500),
            "/" => assert!(length > 100),
            other => panic!("{other} is served: {header}"),
        }
    }
}

/// Returns the method and the path of the first request, without a query.
fn request(bytes: &[u8]) -> [String; 2] {
    let text = String::from_utf8_lossy(bytes);
    let line = text.trim_start_matches(['\r', '\n']).lines().next().unwrap_or_default();
    let mut words = line.split(' ');
    let method = words.next().unwrap_or_default();
    let target = words.next().unwrap_or_default();
    let path = match target.split_once("://") {
        // The target of the request is a whole URL with a host.
        Some((_, rest)) if !target.starts_with('/') => rest.find('/').map_or("/", |at| &rest[at..]),
        _ => target,
    };
    [method.to_owned(), path.split(['?', '#']).next().unwrap_or_default().to_owned()]
}
