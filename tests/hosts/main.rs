// SPDX-License-Identifier: Apache-2.0

//! Two hosts: every report has the messages that the network between the hosts loses.
//!
//! The test needs root, `ip` and /dev/net/tun. If one of these three is missing, the test is skipped, and logs a line
//! that names what is missing.

mod program;

use std::{
    ffi::OsStr,
    path::PathBuf,
    process::{Command, Stdio},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use saphyr::{LoadableYamlNode, Yaml};
use serde_json::Value;
use test_support::{
    domain,
    network::{Conditions, Network, Way},
    preload, program, wait_for, windows_of, Metric, Program, Reader, LIMIT,
};

use program::{Receiver, Sender};

/// Makes a program communicate with all programs on the network of its host.
fn on_the_network(mut command: Command) -> Command {
    // Processes on one machine would use shared memory instead of the network.
    for (name, _) in test_support::on_this_host() {
        command.env_remove(name);
    }
    command.env("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4");
    command
}

/// Returns the command of a program that communicates with all programs on the network of its host.
fn command(program: impl AsRef<OsStr>, arguments: &[&str], domain: u32) -> Command {
    on_the_network(test_support::command(program, arguments, domain))
}

/// Reads the events of the receiver until their losses add up to `lost`.
fn read_events(events: &Program, lost: u64) {
    let mut sum = 0;
    while sum < lost {
        let line = events.read(&format!("event of {lost} messages lost, after {sum}"));
        let event: Value = serde_json::from_str(&line).unwrap();
        if event["node"] == "/receiver" {
            let entries = event["event"].as_array().unwrap();
            sum += entries.iter().map(|entry| entry[1].as_u64().unwrap()).sum::<u64>();
        }
    }
    assert_eq!(sum, lost, "each loss is published once");
}

/// Waits until topic_monitor shows that no message is on the network, that is, until two windows that began after the
/// call have the same totals. Returns the messages received and lost.
fn settled(monitor: &Program) -> [u64; 2] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
    let (started, mut before) = (Instant::now(), Value::Null);
    loop {
        assert!(started.elapsed() < LIMIT, "no two windows with the same totals: {before}");
        let line: Value = serde_json::from_str(&monitor.read("windows")).unwrap();
        let total = &line["total"];
        let is_later = line["window_start"].as_i64() > Some(now);
        if is_later && std::mem::replace(&mut before, total.clone()) == *total {
            return ["received", "lost"].map(|count| total[count].as_u64().unwrap_or_default());
        }
    }
}

fn read_bag(files: &[PathBuf]) -> Value {
    let output = Command::new(program("bag_statistics")).args(files).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let objects = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut chatter = objects.filter(|object| object["topic"] == "/chatter");
    chatter.find(|object| object["recording"].is_object()).unwrap()["recording"].clone()
}

#[test]
fn every_report_has_the_exact_number_of_lost_messages() {
    const SENDERS: [&str; 2] = ["sender", "other"];
    const CHATTER: &str = "/receiver:/chatter";
    let network = match Network::new() {
        Ok(network) => network,
        Err(lacking) => return test_support::skip("two hosts", &lacking),
    };
    let (domain, directory) = (domain(), tempfile::tempdir().unwrap());
    let [file, bag] = ["totals.yaml", "run.mcap"].map(|name| directory.path().join(name));
    let mut senders = SENDERS.map(|name| Sender::start(&network.talking, domain, name));
    let mut reader: Reader = network.listening.spawn(on_the_network(Reader::command(domain, 1000))).into();
    let losses = on_the_network(Program::command("losses.py", &[], domain));
    let mut losses: Program = network.listening.spawn(losses).into();
    // Both libraries measure the same messages in this process. The process publishes its own statistics on another
    // topic.
    let library = preload::statistics();
    let settings = [
        ("TOTALS_FILE", file.to_str().unwrap()),
        ("LD_PRELOAD", library.to_str().unwrap()),
        ("TOPIC_STATISTICS_METRICS", "all"),
        ("ARGUMENTS", "--ros-args -r /statistics:=/own_statistics"),
    ];
    let mut receiver = Receiver::start(&network.listening, domain, &settings);
    let record = ["/chatter", "--json", "--period", "0.25", "--record", bag.to_str().unwrap(), "--split"];
    let mut monitor =
        command(program("topic_monitor"), &[&record[..], &["--max-size", "20kB"]].concat(), domain);
    monitor.stdin(Stdio::piped()).stdout(Stdio::piped());
    let monitor: Program = network.listening.spawn(monitor).into();
    wait_for("reader of events", || receiver.report().readers_of_events == 1);
    reader.read_until("window", |metrics| metrics.iter().any(|metric| metric.source == CHATTER));

    // Messages sent before discovery are not losses. From here on, all messages are received.
    let mut watched = Value::Null;
    wait_for("first messages", || {
        let _sent = senders.each_mut().map(|sender| sender.send(1));
        while let Some(line) = monitor.try_read() {
            watched = serde_json::from_str(&line).unwrap();
        }
        let senders = watched["senders"].as_array().map_or(0, Vec::len);
        senders == 2 && receiver.report().publishers == Some(2)
    });
    let before = senders.each_mut().map(|sender| sender.send(5));
    let by_sender = |sent: [u64; 2]| [(SENDERS[0], sent[0]), (SENDERS[1], sent[1])];
    receiver.settled(by_sender(before));
    let [monitor_before, 0] = settled(&monitor) else { panic!("no message is lost without reason") };

    let lossy = Conditions { loss: 0.1, only_messages: true, ..Conditions::default() };
    network.link.set(Way::There, lossy);
    std::thread::scope(|scope| {
        let [one, other] = &mut senders;
        scope.spawn(|| other.send(200));
        one.send(600);
    });
    network.link.set(Way::There, Conditions::default());
    let sent = senders.each_mut().map(|sender| sender.send(20));
    let (totals, link) = (receiver.settled(by_sender(sent)), network.link.counts(Way::There));
    let lost = totals.lost.unwrap();
    assert!(lost > 10, "10 % of more than 600 messages");
    assert_eq!((totals.out_of_order, totals.publishers), (Some(0), Some(2)));
    let [monitor_received, monitor_lost] = settled(&monitor);
    let sent_to_monitor = sent.iter().sum::<u64>() - before.iter().sum::<u64>();
    assert_eq!(monitor_received + monitor_lost, monitor_before + sent_to_monitor);
    assert_eq!(link.lost_messages, lost + monitor_lost);

    // Returns the number of the preloaded library's samples, and their sum. The first message of a publisher has no gap
    // sample.
    let sum = |metrics: &[Metric], metric: &str| {
        let windows = windows_of(metrics, CHATTER, metric).filter(|window| window.count() > 0.0);
        windows.fold([0, 0], |[count, sum], window| {
            [count + window.count() as u64, sum + (window.count() * window.average()).round() as u64]
        })
    };
    reader.read_until("last window", |metrics| {
        sum(metrics, "source_to_receive_ms")[0] >= totals.received
            && sum(metrics, "publication_seq_gap")[0] >= totals.received - 2
    });
    assert_eq!(sum(&reader.metrics, "source_to_receive_ms")[0], totals.received);
    assert_eq!(sum(&reader.metrics, "publication_seq_gap"), [totals.received - 2, lost]);

    read_events(&losses, lost);
    let answer: Value = serde_json::from_str(&losses.request("totals /receiver")).unwrap();
    let topics = answer["totals"].as_array().unwrap();
    let topic = topics.iter().find(|topic| topic["topic"] == "/chatter").unwrap();
    let counts = ["received", "lost"].map(|count| topic[count].as_u64().unwrap());
    assert_eq!(counts, [totals.received, lost]);
    receiver.0.end();
    let text = std::fs::read_to_string(&file).unwrap();
    let file = &Yaml::load_from_str(&text).unwrap()[0];
    let mut topics = file["topics"].as_sequence().unwrap().iter();
    let topic = topics.find(|topic| topic["topic_name"].as_str() == Some("/chatter")).unwrap();
    let counts =
        ["messages_received", "messages_lost"].map(|count| topic[count].as_integer().unwrap() as u64);
    assert_eq!(counts, [totals.received, lost]);

    monitor.signal("INT");
    monitor.end();
    let files = (0..).map(|number| directory.path().join(format!("run_{number}.mcap")));
    let files: Vec<PathBuf> = files.take_while(|file| file.exists()).collect();
    let recorded = read_bag(&files);
    let in_bag = ["received", "lost"].map(|count| recorded[count].as_u64().unwrap());
    assert_eq!(in_bag, [monitor_received, monitor_lost], "{recorded:#}");
    assert!(files.len() > 1);
}
