// SPDX-License-Identifier: Apache-2.0

//! Losses, as the preloaded library and `topic_monitor --chains` count them. The sent and received messages are counted
//! by the programs themselves.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use serde_json::Value;
use test_support::{
    domain,
    network::{Conditions, Host, Way},
    of, preload, wait_for, Metric, Program, Reader,
};

use super::{
    monitor::Monitor,
    now, on_the_network,
    programs::{Receiver, Sender},
    read_statistics, two_hosts,
};

/// Preloads the library of the statistics of any process into the program of a command, with all metrics.
pub fn preload(command: &mut Command) {
    preload::preload(command, &preload::statistics());
    command.envs(OPTIONS);
}

/// The length of a window.
const WINDOW: Duration = Duration::from_millis(500);
/// The heartbeat period of Fast DDS: the time until a reader without other messages learns what it has not received.
const REPEATED: Duration = Duration::from_secs(3);
const OPTIONS: [(&str, &str); 2] = [("TOPIC_STATISTICS_PERIOD", "0.5"), ("TOPIC_STATISTICS_METRICS", "all")];

/// Returns the number of samples of a metric up to now, and their sum.
fn sum(reader: &Reader, source: &str, metric: &str) -> (u64, f64) {
    let windows = of(&reader.metrics, source, metric).filter(|window| window.count() > 0.0);
    windows.fold((0, 0.0), |(count, sum), window| {
        (count + window.count() as u64, sum + window.count() * window.average())
    })
}

/// Reads until each source has published two windows without a sample that began after this moment.
fn settle(reader: &mut Reader, sources: &[(&str, &str)]) {
    let after = now();
    let is_quiet = |metrics: &[Metric], source: &str, metric: &str| {
        let windows = of(metrics, source, metric).filter(|window| window.start > after);
        windows.map(Metric::count).collect::<Vec<_>>().ends_with(&[0.0, 0.0])
    };
    reader.read_until("quiet windows", |metrics| {
        sources.iter().all(|(source, metric)| is_quiet(metrics, source, metric))
    });
}

#[test]
fn sent_is_received_plus_lost_exactly_of_two_publishers_and_as_the_library_counts() {
    const SOURCES: [(&str, &str); 4] = [
        ("/sender:/chatter", "publish_duration_ms"),
        ("/other:/chatter", "publish_duration_ms"),
        ("/receiver:/chatter", "source_to_receive_ms"),
        ("/subscriber:/chatter", "source_to_receive_ms"),
    ];
    let Some(network) = two_hosts() else { return };
    let domain = domain();
    let library = preload::statistics();
    let preloaded =
        [&OPTIONS[..], &[("LD_PRELOAD", library.to_str().unwrap()), ("BEST_EFFORT", "")]].concat();
    let with = |arguments: &'static str| [&preloaded[..], &[("ARGUMENTS", arguments)]].concat();
    let mut reader = read_statistics(&network.listening, domain);
    let mut senders = [
        Sender::start(&network.talking, domain, &with("")),
        Sender::start(&network.talking, domain, &with("--ros-args -r __node:=other")),
    ];
    // Of the same messages, this process has both statistics: those of the library on another topic.
    let own = with("--ros-args -r /statistics:=/own_statistics");
    let mut receiver = Receiver::start(&network.listening, domain, &own);
    let mut subscriber = on_the_network(Program::command("subscriber.py", &["--chatter"], domain));
    preload(&mut subscriber);
    let mut subscriber: Program = network.listening.spawn(subscriber).into();
    reader.read_until("windows", |metrics| {
        SOURCES.iter().all(|(source, metric)| of(metrics, source, metric).next().is_some())
    });
    let mut count = || subscriber.request("count").parse::<u64>().unwrap();
    for sender in &mut senders {
        let before = (count(), receiver.numbers().received);
        wait_for("first messages", || {
            sender.send(1);
            count() > before.0 && receiver.numbers().received > before.1
        });
    }
    // Messages that were sent before discovery are no losses. From here on, each message is received or lost.
    settle(&mut reader, &SOURCES);
    let mut sent = senders.each_mut().map(|sender| sender.send(0));
    let before = [receiver.numbers().received, count()];
    assert_eq!(receiver.totals("chatter").lost, Some(0), "no message is lost without reason");

    let lossy = Conditions { loss: 0.1, only_messages: true, ..Conditions::default() };
    let lost_before = network.link.counts(Way::There).lost_messages;
    network.link.set(Way::There, lossy);
    let [sender, other] = &mut senders;
    other.run();
    sender.send(600);
    other.stop();
    network.link.set(Way::There, Conditions::default());
    let last = senders.each_mut().map(|sender| sender.send(20));
    settle(&mut reader, &SOURCES);

    let of_source = |index: usize| sum(&reader, SOURCES[index].0, SOURCES[index].1).0;
    assert_eq!([of_source(0), of_source(1)], last, "publications");
    (0..2).for_each(|index| sent[index] = last[index] - sent[index]);
    let totals = receiver.totals("chatter");
    let received = [receiver.numbers().received, count()];
    assert_eq!(totals.received, received[0]);
    assert_eq!([of_source(2), of_source(3)], received, "as counted by the callbacks");
    let lost = [2, 3].map(|index| {
        let missing = sum(&reader, SOURCES[index].0, "publication_seq_gap").1;
        assert!((missing - missing.round()).abs() < 1e-6, "{missing}");
        missing.round() as u64
    });
    println!("sent {sent:?}, received {received:?} after {before:?}, lost {lost:?}; {totals:?}");
    assert_eq!((totals.lost, totals.publishers), (Some(lost[0]), Some(2)), "as the library counts");
    for index in 0..2 {
        assert_eq!(received[index] - before[index] + lost[index], sent.iter().sum::<u64>(), "{index}");
        assert!(lost[index] > 60, "10 % of {sent:?}: {lost:?}");
    }
    let link = network.link.counts(Way::There);
    println!("{link:?}");
    assert!(link.lost_messages - lost_before >= lost.iter().sum(), "{link:?}");
}

/// Starts a node of a chain whose messages may be lost.
fn chain(host: &Host, arguments: &[&str], domain: u32) -> Program {
    let arguments = [arguments, &["--best-effort"]].concat();
    let mut command = on_the_network(Program::command("chain.py", &arguments, domain));
    preload(&mut command);
    host.spawn(command).into()
}

fn figures(path: &Value, what: &str) -> Vec<Option<u64>> {
    path["hops"].as_array().into_iter().flatten().map(|hop| hop[what].as_u64()).collect()
}

/// Returns the path when its figures have been the same for longer than two windows, and than it takes until the
/// middleware repeats a window that the network has lost.
fn settled(monitor: &mut Monitor) -> Value {
    let (mut since, mut before) = (Instant::now(), Value::Null);
    monitor.wait("no messages any more", |path| {
        if path["hops"] != before {
            (since, before) = (Instant::now(), path["hops"].clone());
        }
        since.elapsed() > REPEATED + 3 * WINDOW
    });
    monitor.last().clone()
}

#[test]
fn a_chain_over_hosts_shows_which_hop_loses_messages_and_which_node_drops_some() {
    const DROPPED: u64 = 5;
    let Some(network) = two_hosts() else { return };
    let domain = domain();
    let mut source = chain(&network.talking, &["source", "/scan"], domain);
    let mut first = chain(&network.talking, &["first", "/scan", "/points"], domain);
    let one_of = DROPPED.to_string();
    let second = ["second", "/points", "/plan", "--delay", "0.01", "--drop", &one_of];
    let mut second = chain(&network.listening, &second, domain);
    let mut third = chain(&network.listening, &["third", "/plan", "/cmd_vel"], domain);
    let arguments = ["--chains", "/scan", "/cmd_vel"];
    let mut monitor = Monitor::start(&network.listening, &arguments, domain);
    monitor.wait("all hops", |path| {
        source.request("publish 1");
        path["mean"].is_number()
    });
    settled(&mut monitor);
    monitor.end();

    // This one sees windows of these messages only.
    let mut monitor = Monitor::start(&network.listening, &arguments, domain);
    monitor.wait("path without messages", |path| {
        path["hops"].is_array() && figures(path, "count").iter().all(|count| *count == Some(0))
    });
    let mut counts = || {
        let nodes = [&mut first, &mut second, &mut third];
        nodes.map(|node| ["received", "count"].map(|figure| node.request(figure).parse::<u64>().unwrap()))
    };
    let before = counts();
    network.link.set(Way::There, Conditions { loss: 0.1, only_messages: true, ..Conditions::default() });
    source.request("publish 300");
    network.link.set(Way::There, Conditions::default());
    source.request(&format!("publish {}", 4 * DROPPED));
    monitor.wait("messages", |path| figures(path, "count").iter().all(|count| *count > Some(100)));
    let path = settled(&mut monitor);
    let after = counts();
    let difference = |node: usize, figure: usize| after[node][figure] - before[node][figure];
    let received: Vec<u64> = (0..3).map(|node| difference(node, 0)).collect();
    let published: Vec<u64> = (0..3).map(|node| difference(node, 1)).collect();
    println!("{path:#}\n{received:?} {published:?}");
    let lost = [0, published[0] - received[1], 0];
    assert!(received[0] == 300 + 4 * DROPPED && lost[1] > 10 && published[1] < received[1], "{received:?}");
    let known = |numbers: &[u64]| numbers.iter().copied().map(Some).collect::<Vec<_>>();
    assert_eq!(figures(&path, "received"), known(&received), "{path:#}");
    assert_eq!(figures(&path, "count"), known(&published), "{path:#}");
    assert_eq!(figures(&path, "lost"), known(&lost), "{path:#}");
    assert_eq!((&path["lost"], &path["worst"]["node"]), (&lost[1].into(), &"/second".into()), "{path:#}");
}
