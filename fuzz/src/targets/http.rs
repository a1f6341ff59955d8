// SPDX-License-Identifier: Apache-2.0

//! Any bytes of a client into the HTTP side of the exporter.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::exporter::{
    http::{serve, Metrics},
    state::{Limits, Now, State},
};

/// Every connection ends, with one response at most, and only `/metrics` and `/healthz` are served.
pub fn http(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let response = runtime.block_on(async {
        let state = State::new(Limits::default(), Now::read());
        let metrics = Arc::new(Metrics::new(Arc::new(Mutex::new(state))));
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let serving = tokio::spawn(serve(server, metrics));
        // The server may have closed the connection before it has read all.
        let _closed = client.write_all(bytes).await;
        let _closed = client.shutdown().await;
        let mut response = vec![];
        client.read_to_end(&mut response).await.expect("a connection in memory");
        serving.await.expect("no panic");
        response
    });
    let text = String::from_utf8_lossy(&response);
    let (header, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    assert!(!body.contains("\r\nHTTP/1"), "two responses: {text}");
    if header.contains(" 200 ") {
        let request = String::from_utf8_lossy(bytes);
        let is_served = ["/metrics", "/healthz"].iter().any(|path| request.contains(path));
        assert!(is_served, "{text}");
        let is_body = body.is_empty() || body == "ok\n" || body.contains("topic_statistics_exporter_sources");
        assert!(is_body, "{text}");
    }
}
