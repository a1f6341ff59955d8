// SPDX-License-Identifier: Apache-2.0

//! A chain of nodes on two hosts, measured by the preloaded library and `topic_monitor --chains`.

use serde_json::Value;
use test_support::{
    domain,
    network::{Conditions, Host, Way},
    wait_for, windows_of, Metric, Program,
};

use super::{lossy, monitor::Monitor, now, on_the_network, preload, read_statistics, two_hosts};

/// Starts a node of a chain. The node uses best effort, so its messages can be lost.
fn chain(host: &Host, arguments: &[&str], domain: u32) -> Program {
    let arguments = [arguments, &["--best-effort"]].concat();
    host.spawn(preload(on_the_network(Program::command("chain.py", &arguments, domain)))).into()
}

/// Returns the count `what` of each hop of a path.
fn counts(path: &Value, what: &str) -> Vec<u64> {
    path["hops"].as_array().into_iter().flatten().filter_map(|hop| hop[what].as_u64()).collect()
}

#[test]
fn a_chain_shows_the_hop_and_the_node_that_lose_messages() {
    const FIGURES: [&str; 3] = ["received", "count", "lost"];
    const SOURCES: [&str; 3] = ["/first:/scan", "/second:/points", "/third:/plan"];
    let Some(network) = two_hosts() else { return };
    let domain = domain();
    let mut reader = read_statistics(&network.listening, domain);
    let mut source = chain(&network.talking, &["source", "/scan"], domain);
    let mut nodes = [
        chain(&network.talking, &["first", "/scan", "/points"], domain),
        chain(&network.listening, &["second", "/points", "/plan", "--delay", "0.01", "--drop", "5"], domain),
        chain(&network.listening, &["third", "/plan", "/cmd_vel"], domain),
    ];
    let mut monitor = Monitor::start(&network.listening, &["--chains", "/scan", "/cmd_vel"], domain);
    monitor.wait("all hops", |path| {
        source.request("publish 1");
        path["mean"].is_number()
    });
    // Waits until no message is under way. Returns the numbers of messages that each node has received and published.
    let mut settle = |source: &mut Program| -> [[u64; 2]; 3] {
        wait_for("end of the messages", || {
            let (sent, before) = (source.request("last"), nodes[1].request("last"));
            nodes[1].request("seen") == sent && nodes[2].request("seen") == before
        });
        let after = now();
        reader.read_until("windows without messages", |read| {
            let is_empty = |window: &&Metric| window.start > after && window.count() == 0.0;
            SOURCES
                .iter()
                .all(|source| windows_of(read, source, "message_period").filter(is_empty).count() >= 2)
        });
        nodes.each_mut().map(|node| ["received", "count"].map(|what| node.request(what).parse().unwrap()))
    };
    let before = settle(&mut source);
    (0..4).for_each(|_| monitor.wait("windows without messages", |path| path["hops"].is_array()));
    let figures_before = FIGURES.map(|what| counts(monitor.last(), what));

    network.link.set(Way::There, lossy());
    source.request("publish 300");
    network.link.set(Way::There, Conditions::default());
    source.request("publish 20");
    let after = settle(&mut source);
    let [received, published] =
        [0, 1].map(|count| [0, 1, 2].map(|node| after[node][count] - before[node][count]).to_vec());
    let lost = vec![0, published[0] - received[1], 0];
    assert!(received[0] == 320 && lost[1] > 3 && published[1] < received[1], "{received:?}, {published:?}");
    let expected = [received, published, lost];
    monitor.wait(&format!("{expected:?} more than {figures_before:?}"), |path| {
        let figures = FIGURES.map(|what| counts(path, what));
        eprintln!("{figures:?}"); // shown if the test fails
        (0..3).all(|what| {
            let pairs = figures[what].iter().zip(&figures_before[what]);
            pairs.map(|(after, before)| after.wrapping_sub(*before)).eq(expected[what].iter().copied())
        })
    });
    assert_eq!(monitor.last()["worst"]["node"], "/second");
}
