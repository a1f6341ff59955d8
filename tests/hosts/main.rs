//! Two hosts: what the statistics say when the network between them delays, loses, repeats and reorders messages, and
//! when it carries nothing.

#[path = "../common/mod.rs"]
mod common;
mod network;
mod programs;

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use common::{domain, of, wait_for, Metric, Process, Program, Reader};
use network::{Conditions, Host, Network, Way};
use programs::{Receiver, Sender};
use serde_json::Value;

const TALKER: &str = env!("CARGO_BIN_EXE_talker");
const LISTENER: &str = env!("CARGO_BIN_EXE_listener");

/// Two hosts; None, with a line that says why, where they cannot be had.
fn two_hosts() -> Option<Network> {
    Network::new().map_err(|lacking| eprintln!("skipped: two hosts, because {lacking}")).ok()
}

/// The same program, but one that talks to all on its host's network.
fn on_the_network(mut command: Command) -> Command {
    // Processes of one machine would share memory, which goes over no network.
    command.env("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4").env_remove("ROS_AUTOMATIC_DISCOVERY_RANGE");
    command
}

/// A program that talks to all on its host's network.
fn command(program: impl AsRef<OsStr>, arguments: &[&str], domain: u32) -> Command {
    on_the_network(common::command(program, arguments, domain))
}

/// Starts a program on a host, with ROS arguments.
fn start(host: &Host, program: &str, arguments: &str, domain: u32) -> Process {
    let arguments: Vec<&str> = ["--ros-args"].into_iter().chain(arguments.split_whitespace()).collect();
    host.spawn(command(program, &arguments, domain)).into()
}

/// Starts what reads /statistics on a host.
fn read_statistics(host: &Host, domain: u32) -> Reader {
    host.spawn(on_the_network(Reader::command(domain, 1000))).into()
}

/// Now, as the windows' times are: nanoseconds since the epoch.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}

/// What /statistics calls a node's subscription to a topic.
fn source(node: &str, topic: &str) -> String {
    format!("{}{topic}", node.rsplit('/').next().unwrap()) // TODO
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn a_delay_of_the_network_is_in_source_to_receive_and_not_the_drivers() {
    const WINDOWS: usize = 6;
    let Some(network) = two_hosts() else { return };
    let domain = domain(0);
    let mut reader = read_statistics(&network.listening, domain);
    let _receiver = Receiver::start(&network.listening, domain, &[]);
    let _talker = start(&network.talking, TALKER, "-p rate:=50.0", domain);

    let imu = source("/receiver", "/imu");

    // The median of the windows' averages: on a busy machine there is a window in which a process did not run.
    let mut averages = |way: Way, milliseconds: u64| {
        let delay = Duration::from_millis(milliseconds);
        network.link.set(way, Conditions { delay, ..Conditions::default() });
        let set = now() + delay.as_nanos() as i64;
        let windows = |metrics: &[Metric], metric: &str| -> Vec<f64> {
            let is_after = |window: &&Metric| window.start > set && window.count() > 0.0;
            of(metrics, &imu, metric).filter(is_after).map(Metric::average).collect()
        };
        let metrics = ["header_to_source_ms", "source_to_receive_ms", "header_to_callback_ms"];
        reader.read_until("windows", |read| metrics.iter().all(|of| windows(read, of).len() >= WINDOWS));
        let averages = metrics.map(|metric| median(windows(&reader.metrics, metric)));
        println!("{way:?} delayed by {milliseconds} ms: {metrics:?} {averages:?}");
        averages
    };
    let without = averages(Way::There, 0);
    let moved = |of: [f64; 3]| [0, 1, 2].map(|metric| of[metric] - without[metric]);
    let [_, network_delay, _] = moved(averages(Way::Back, 120));
    assert!(network_delay.abs() < 3.0, "acknowledgements alone are late: {network_delay}");
    averages(Way::Back, 0);
    for delay in [5, 40, 120] {
        let [driver, network_delay, whole] = moved(averages(Way::There, delay));
        assert!(driver.abs() < 3.0, "the driver is not late: {driver}");
        assert!((network_delay - delay as f64).abs() < 3.0, "{delay} ms: {network_delay}");
        assert!((whole - delay as f64).abs() < 3.0, "{delay} ms: {whole}");
    }
    let counts = network.link.counts(Way::There);
    assert!(counts.messages > 1000 && counts.lost_frames == 0 && counts.overflow == 0, "{counts:?}");
}

/// The monitor as it watches `chatter`.
#[cfg(feature = "monitor")]
struct Monitor {
    program: Program,
    last: Value,
}

#[cfg(feature = "monitor")]
impl Monitor {
    fn start(host: &Host, arguments: &[&str], domain: u32) -> Monitor {
        let program = env!("CARGO_BIN_EXE_topic_monitor");
        let arguments = [&["--json", "--period", "0.25"], arguments].concat();
        let mut command = command(program, &arguments, domain);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        Monitor { program: host.spawn(command).into(), last: Value::Null }
    }

    /// The last object that it has written.
    fn last(&mut self) -> &Value {
        while let Some(line) = self.program.try_read() {
            self.last = serde_json::from_str(&line).unwrap();
        }
        &self.last
    }

    /// What it has received and lost since it started.
    fn total(&mut self) -> (u64, u64) {
        let total = &self.last()["total"];
        let of = |what: &str| total[what].as_u64().unwrap_or_default();
        (of("received"), of("lost"))
    }

    /// What it has received and lost when nothing is under way any more: the same in two windows that began after this.
    fn settled(&mut self) -> (u64, u64) {
        let after = now();
        let mut before = None;
        loop {
            let line = self.program.read("line of the monitor");
            self.last = serde_json::from_str(&line).unwrap();
            if self.last["window_start"].as_i64().unwrap() > after {
                let total = Some(self.total());
                if before == total {
                    return self.total();
                }
                before = total;
            }
        }
    }
}

/// Reads events of losses until they come to so many.
fn read_events(events: &Program, lost: u64) {
    let mut sum = 0;
    while sum < lost {
        let line = events.read(&format!("event of {lost} messages lost, after {sum}"));
        let event: Value = serde_json::from_str(&line).unwrap();
        for of in event["event"].as_array().unwrap() {
            assert_eq!(of[0], "/chatter", "{line}");
            sum += of[1].as_u64().unwrap();
        }
    }
    assert_eq!(sum, lost, "no loss is announced twice");
}

#[test]
fn of_messages_that_the_network_loses_everyone_says_exactly_how_many() {
    let Some(network) = two_hosts() else { return };
    let domain = domain(1);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("totals.yaml");
    let weak = ("BEST_EFFORT", "");
    let chatter = source("/receiver", "/chatter");
    let mut sender = Sender::start(&network.talking, domain, &[weak]);
    let mut reader = read_statistics(&network.listening, domain);
    let losses = on_the_network(Program::command("losses.py", &[], domain));
    let mut losses: Program = network.listening.spawn(losses).into();
    let settings = [weak, ("TOTALS_FILE", file.to_str().unwrap())];
    let mut receiver = Receiver::start(&network.listening, domain, &settings);
    #[cfg(feature = "monitor")]
    let mut monitor = Monitor::start(&network.listening, &["chatter"], domain);
    wait_for("reader of events", || receiver.readers_of_events() == 1);
    reader.read_until("window", |metrics| metrics.iter().any(|of| of.source == chatter));

    // What is sent before they hear the sender is no loss of theirs; from here on they get all that is sent.
    wait_for("first messages", || {
        sender.send(1);
        #[cfg(feature = "monitor")]
        let hears = monitor.total().0 > 0;
        #[cfg(not(feature = "monitor"))]
        let hears = true;
        hears && receiver.numbers().received > 0
    });
    let before = sender.send(5);
    wait_for("all of them", || receiver.numbers().last == before);
    #[cfg(feature = "monitor")]
    let heard_by_monitor = monitor.settled();

    let lossy = Conditions { loss: 0.1, only_messages: true, ..Conditions::default() };
    network.link.set(Way::There, lossy);
    sender.send(1000);
    network.link.set(Way::There, Conditions::default());
    let sent = sender.send(20);
    wait_for("last message", || receiver.numbers().last == sent);

    let (totals, numbers) = (receiver.totals("chatter"), receiver.numbers());
    let link = network.link.counts(Way::There);
    println!("sent {sent}, {totals:?}, {numbers:?}, {link:?}");
    let lost = totals.lost.unwrap();
    assert!((60..140).contains(&lost), "10 % of 1000 messages: {totals:?}");
    assert_eq!(totals.received + lost, sent - numbers.first + 1, "{totals:?}, {numbers:?}");
    assert_eq!((totals.received, totals.received), (numbers.received, numbers.distinct), "by the callback");
    assert_eq!((totals.out_of_order, totals.publishers), (Some(0), Some(1)));

    #[cfg(feature = "monitor")]
    let lost_by_monitor = {
        let (received, lost) = monitor.settled();
        println!("monitor: {heard_by_monitor:?} before, {received} received, {lost} lost");
        assert_eq!(heard_by_monitor.1, 0);
        assert_eq!(received + lost, heard_by_monitor.0 + sent - before, "the monitor's own losses");
        lost
    };
    #[cfg(not(feature = "monitor"))]
    let lost_by_monitor = 0;
    assert_eq!(link.lost_messages, lost + lost_by_monitor, "{link:?}");

    let count =
        |metrics: &[Metric], metric: &str| -> f64 { of(metrics, &chatter, metric).map(Metric::count).sum() };
    reader.read_until("last window", |metrics| {
        count(metrics, "source_to_receive_ms") as u64 >= totals.received
            && count(metrics, "publication_seq_gap") as u64 >= totals.received - 1
    });
    let gaps = reader.windows(&chatter, "publication_seq_gap");
    let missing: f64 =
        gaps.iter().filter(|gap| gap.count() > 0.0).map(|gap| gap.average() * gap.count()).sum();
    assert_eq!(count(&reader.metrics, "source_to_receive_ms") as u64, totals.received);
    assert_eq!(count(&reader.metrics, "publication_seq_gap") as u64, totals.received - 1);
    assert!((missing - lost as f64).abs() < 1e-6, "{missing} of {lost}: {gaps:#?}");

    read_events(&losses, lost);
    let answer: Value = serde_json::from_str(&losses.ask("totals /receiver")).unwrap();
    let all = answer["totals"].as_array().unwrap();
    let told = all.iter().find(|of| of["topic"] == "/chatter").unwrap();
    assert_eq!((told["received"].as_u64(), told["lost"].as_u64()), (Some(totals.received), Some(lost)));
    receiver.end();
    assert_eq!(in_file(&file, "/chatter"), (totals.received, lost));
}

/// What the file of totals says that a topic received and lost.
fn in_file(file: &Path, topic: &str) -> (u64, u64) {
    let text = std::fs::read_to_string(file).unwrap();
    let document: Value = yaml_serde::from_str(&text).unwrap();
    let topics = document["topics"].as_array().unwrap();
    let totals = topics.iter().find(|of| of["topic_name"] == topic).unwrap_or_else(|| panic!("{text}"));
    let of = |what: &str| totals[what].as_u64().unwrap();
    (of("messages_received"), of("messages_lost"))
}

#[test]
fn reliable_messages_are_late_rather_than_lost_as_far_as_the_publishers_history_reaches() {
    const COUNT: u64 = 1500;
    let Some(network) = two_hosts() else { return };
    let domain = domain(2);
    let mut reader = read_statistics(&network.listening, domain);
    let deep = [("ARGUMENTS", "--ros-args -r __ns:=/deep")];
    let chatter = source("/receiver", "/chatter");
    let mut deep_receiver = Receiver::start(&network.listening, domain, &deep);
    let mut sender = Sender::start(&network.talking, domain, &deep);
    let mut receiver = Receiver::start(&network.listening, domain, &[]);
    reader.read_until("window", |metrics| metrics.iter().any(|of| of.source == chatter));
    let talker = format!("-p rate:=100.0 -p count:={COUNT}");
    let _talker = start(&network.talking, TALKER, &talker, domain);
    wait_for("first messages", || {
        sender.send(1);
        deep_receiver.numbers().received > 0 && receiver.numbers().received > 0
    });
    let receiving = now();
    // The longest delay of windows from one time to another.
    let tail = |metrics: &[Metric], from: i64, to: i64| -> Vec<f64> {
        let windows = of(metrics, &chatter, "source_to_receive_ms");
        let within = windows.filter(|of| of.start >= from && of.stop <= to && of.count() > 0.0);
        within.map(Metric::maximum).collect()
    };
    reader.read_until("windows without loss", |metrics| tail(metrics, receiving, i64::MAX).len() >= 3);

    let lossy = Conditions { loss: 0.1, ..Conditions::default() };
    network.link.set(Way::There, lossy);
    network.link.set(Way::Back, lossy);
    let lossy_from = now();
    sender.send(800);
    wait_for("messages of the talker", || receiver.numbers().last >= COUNT / 2);
    network.link.set(Way::There, Conditions::default());
    network.link.set(Way::Back, Conditions::default());
    let lossy_to = now();
    let sent = sender.send(20);

    // The sender keeps its last 1000 messages: none is overwritten before it is sent again.
    wait_for("last message of the sender", || deep_receiver.numbers().last == sent);
    let (totals, numbers) = (deep_receiver.totals("chatter"), deep_receiver.numbers());
    println!("sent {sent}: {totals:?}, {numbers:?}");
    assert_eq!((totals.lost, totals.out_of_order), (Some(0), Some(0)));
    assert_eq!(totals.received, sent - numbers.first + 1);
    assert_eq!((numbers.received, numbers.distinct), (totals.received, totals.received));

    // The talker keeps 10, which at 100 Hz are overwritten within 100 ms.
    wait_for("last message of the talker", || receiver.numbers().last == COUNT);
    let (totals, numbers) = (receiver.totals("chatter"), receiver.numbers());
    let (there, back) = (network.link.counts(Way::There), network.link.counts(Way::Back));
    println!("the talker's {COUNT}: {totals:?}, {numbers:?}, {there:?}, {back:?}");
    assert_eq!(totals.received + totals.lost.unwrap(), COUNT - numbers.first + 1);
    assert_eq!((numbers.received, numbers.distinct), (totals.received, totals.received));
    assert!(there.lost_messages > 60 && back.lost_frames > 0, "{there:?}, {back:?}");
    assert!(totals.lost.unwrap() < there.lost_messages / 2, "most are sent again: {totals:?}, {there:?}");

    reader.read_until("last window", |metrics| {
        let windows = of(metrics, &chatter, "source_to_receive_ms");
        windows.map(Metric::count).sum::<f64>() as u64 == totals.received
    });
    let before = tail(&reader.metrics, receiving, lossy_from);
    let lossy = tail(&reader.metrics, lossy_from, lossy_to);
    let after = tail(&reader.metrics, lossy_to, i64::MAX);
    println!("maxima without loss {before:?}, with it {lossy:?}, after it {after:?}");
    // A message that is sent again was waited for, and those after it with it; 10 of a lossless window did not wait.
    let longest = |of: &[f64]| of.iter().copied().fold(0.0, f64::max);
    assert!(median(lossy.clone()) > median(before) + 10.0 && longest(&lossy) > 30.0, "{lossy:?}");
    assert!(median(after.clone()) < 10.0, "{after:?}");
}

#[test]
fn what_the_network_repeats_or_reorders_is_counted_as_the_subscription_gets_it() {
    let Some(network) = two_hosts() else { return };
    let domain = domain(3);
    let mut sender = Sender::start(&network.talking, domain, &[]);
    let mut weak = Receiver::start(&network.listening, domain, &WEAK);
    let mut strong = Receiver::start(&network.listening, domain, &[]);
    wait_for("first messages", || {
        sender.send(1);
        weak.numbers().received > 0 && strong.numbers().received > 0
    });
    // Sends 600 messages on a network like that, and then some that only pass; returns the totals of both.
    let mut send = |conditions: Conditions| {
        network.link.set(Way::There, Conditions { only_messages: true, ..conditions });
        sender.send(600);
        network.link.set(Way::There, Conditions::default());
        let sent = sender.send(20);
        [&mut weak, &mut strong].map(|receiver| {
            wait_for("last message", || receiver.numbers().last == sent);
            let (totals, numbers) = (receiver.totals("chatter"), receiver.numbers());
            println!("sent {sent}: {totals:?}, {numbers:?}");
            let duplicates = numbers.received - numbers.distinct;
            assert_eq!(
                (totals.received, totals.received - duplicates + totals.lost.unwrap()),
                (numbers.received, sent - numbers.first + 1),
                "all is received or lost: {totals:?}, {numbers:?}"
            );
            totals
        })
    };

    // RTPS passes no number on twice, whatever the QoS.
    let [weak, strong] = send(Conditions { duplicates: 0.2, ..Conditions::default() });
    let repeated = network.link.counts(Way::There);
    println!("{repeated:?}");
    assert!(repeated.duplicated_messages > 100, "{repeated:?}");
    for totals in [&weak, &strong] {
        assert_eq!((totals.lost, totals.out_of_order), (Some(0), Some(0)), "{totals:?}");
    }

    // What a later message has overtaken, best effort drops, and reliable puts in order.
    let [weak, strong] =
        send(Conditions { held: 0.1, hold: Duration::from_millis(30), ..Conditions::default() });
    let link = network.link.counts(Way::There);
    println!("{link:?}");
    assert_eq!((strong.lost, strong.out_of_order), (Some(0), Some(0)), "{strong:?}");
    assert_eq!(weak.out_of_order, Some(0), "{weak:?}");
    assert!((20..link.held_messages).contains(&weak.lost.unwrap()), "{weak:?}, {link:?}");
}

/// A receiver beside the usual one, called `/weak`, that takes messages as they come, and loses those that do not.
const WEAK: [(&str, &str); 2] = [("BEST_EFFORT", ""), ("ARGUMENTS", "--ros-args -r __node:=weak")];

/// What the network is cut for.
const CUT: Duration = Duration::from_secs(4);

#[test]
fn a_network_that_is_cut_is_a_growing_silence_then_a_gap_and_then_all_is_right_again() {
    const COUNT: u64 = 500;
    let Some(network) = two_hosts() else { return };
    let domain = domain(4);
    let mut reader = read_statistics(&network.listening, domain);
    let mut weak = Receiver::start(&network.listening, domain, &WEAK);
    let mut strong = Receiver::start(&network.listening, domain, &[]);
    #[cfg(feature = "monitor")]
    let mut monitor = Monitor::start(&network.listening, &["chatter"], domain);
    let nodes = ["/weak", "/receiver"].map(|node| source(node, "/chatter"));
    reader.read_until("windows", |read| nodes.iter().all(|node| read.iter().any(|of| of.source == *node)));
    let _talker = start(&network.talking, TALKER, &format!("-p rate:=50.0 -p count:={COUNT}"), domain);
    wait_for("messages", || weak.numbers().received > 25 && strong.numbers().received > 25);
    #[cfg(feature = "monitor")]
    wait_for("messages of the monitor", || monitor.total().0 > 0);

    let cut = now();
    network.link.cut(true);
    // How long this takes is what is tested, not a condition that is waited for.
    std::thread::sleep(CUT);
    #[cfg(feature = "monitor")]
    {
        let (state, rate) = (monitor.last()["state"].clone(), monitor.last()["rate"].clone());
        assert!(state == "stale" && rate == 0.0, "{:#}", monitor.last());
    }
    network.link.cut(false);
    let mended = now();
    for receiver in [&mut weak, &mut strong] {
        wait_for("last message", || receiver.numbers().last == COUNT);
    }
    reader.read_until("windows of the last message", |read| {
        let is_silent = |of: &Metric| of.start > mended && of.average() > 500.0;
        nodes.iter().all(|node| of(read, node, "time_since_last_message_ms").any(is_silent))
    });

    for (receiver, node) in [&mut weak, &mut strong].into_iter().zip(&nodes) {
        let (totals, numbers) = (receiver.totals("chatter"), receiver.numbers());
        println!("{node}, cut for {} ms: {totals:?}, {numbers:?}", (mended - cut) / 1_000_000);
        let lost = totals.lost.unwrap();
        assert_eq!(totals.received + lost, COUNT - numbers.first + 1, "{totals:?}, {numbers:?}");
        assert_eq!((numbers.received, totals.publishers), (totals.received, Some(1)), "{totals:?}");

        // What was under way at the cut is received: the windows of the cut begin some time after it.
        let is_within = |of: &&Metric| of.start > cut + 250_000_000 && of.stop < mended;
        let silence: Vec<_> =
            of(&reader.metrics, node, "time_since_last_message_ms").filter(is_within).collect();
        println!("silence {:?}", silence.iter().map(|of| of.average()).collect::<Vec<_>>());
        assert!(silence.len() >= 4 && silence.last().unwrap().average() > 3000.0, "{silence:#?}");
        for (window, next) in silence.iter().zip(&silence[1..]) {
            let (grown, length) =
                (next.average() - window.average(), (next.stop - window.stop) as f64 * 1e-6);
            assert!((grown - length).abs() < 1.0, "it grows as time goes: {window:?} {next:?}");
        }
        for metric in ["message_period", "source_to_receive_ms", "publication_seq_gap"] {
            for window in of(&reader.metrics, node, metric).filter(is_within) {
                assert!(window.count() == 0.0 && window.average().is_nan(), "{window:?}");
            }
        }

        let gaps = reader.windows(node, "publication_seq_gap");
        let missing: Vec<f64> =
            gaps.iter().filter(|gap| gap.maximum() > 0.0).map(|gap| gap.average() * gap.count()).collect();
        assert!((missing.iter().sum::<f64>() - lost as f64).abs() < 1e-6, "{missing:?} of {lost}");
        let after: Vec<_> = gaps.iter().filter(|gap| gap.start > mended + 2_000_000_000).collect();
        assert!(after.iter().all(|gap| gap.maximum() == 0.0 || gap.count() == 0.0), "{after:#?}");
        let periods = reader.windows(node, "message_period").into_iter();
        let periods: Vec<f64> = periods
            .filter(|of| of.start > mended + 500_000_000 && of.count() > 15.0)
            .map(|of| of.average())
            .collect();
        println!("missing {missing:?}, periods after it {periods:?}");
        assert!((19.5..20.5).contains(&median(periods.clone())), "{periods:?}");
    }
    let [weak, strong] = [weak, strong].map(|mut receiver| receiver.totals("chatter").lost.unwrap());
    let sent = (mended - cut) as u64 / 20_000_000;
    assert!((sent - 20..sent + 20).contains(&weak), "what was sent meanwhile: {weak} of {sent}");
    assert!(strong <= weak + 1, "the talker sends what its history still has: {strong} of {weak}");
    #[cfg(feature = "monitor")]
    {
        let (received, lost) = monitor.settled();
        println!("monitor: {received} received, {lost} lost");
        assert!(lost.abs_diff(strong) < 20, "{lost} of {strong}");
    }
}

#[test]
fn a_publisher_that_restarts_while_the_network_is_cut_is_another_one_and_no_loss() {
    let Some(network) = two_hosts() else { return };
    let domain = domain(5);
    let mut reader = read_statistics(&network.listening, domain);
    let mut receiver = Receiver::start(&network.listening, domain, &[]);
    #[cfg(feature = "monitor")]
    let mut monitor = Monitor::start(&network.listening, &["chatter"], domain);
    let chatter = source("/receiver", "/chatter");
    reader.read_until("window", |metrics| metrics.iter().any(|of| of.source == chatter));
    let talker = || start(&network.talking, TALKER, "-p rate:=50.0", domain);
    let first = talker();
    wait_for("messages", || receiver.totals("chatter").received > 100);
    #[cfg(feature = "monitor")]
    wait_for("messages of the monitor", || monitor.total().0 > 50);

    network.link.cut(true);
    first.stop();
    let _second = talker();
    // How long this takes is what is tested.
    std::thread::sleep(CUT);
    let before = receiver.totals("chatter");
    assert_eq!((before.lost, before.publishers), (Some(0), Some(1)), "{before:?}");
    network.link.cut(false);

    for topic in ["chatter", "imu"] {
        wait_for("messages of the second", || receiver.totals(topic).received > before.received + 100);
        let totals = receiver.totals(topic);
        println!("{topic}: {before:?} before, {totals:?} after");
        assert_eq!((totals.lost, totals.out_of_order), (Some(0), Some(0)), "{topic}: {totals:?}");
        assert_eq!(totals.publishers, Some(2), "{topic}: {totals:?}");
    }
    let received = receiver.totals("chatter").received;
    let count =
        |metrics: &[Metric], metric: &str| of(metrics, &chatter, metric).map(Metric::count).sum::<f64>();
    reader.read_until("windows", |metrics| count(metrics, "source_to_receive_ms") >= received as f64);
    // Of each publisher's first message there is no gap.
    let samples = count(&reader.metrics, "source_to_receive_ms");
    assert_eq!(count(&reader.metrics, "publication_seq_gap"), samples - 2.0);
    let gaps = reader.windows(&chatter, "publication_seq_gap");
    assert!(gaps.iter().all(|gap| gap.count() == 0.0 || gap.maximum() == 0.0), "{gaps:#?}");
    #[cfg(feature = "monitor")]
    {
        wait_for("rate in the monitor", || {
            monitor.last()["rate"].as_f64().is_some_and(|rate| (40.0..60.0).contains(&rate))
        });
        let object = monitor.last();
        let senders: Vec<_> = object["senders"]
            .as_array()
            .unwrap()
            .iter()
            .map(|of| (of["received"].as_u64(), &of["lost"]))
            .collect();
        println!("monitor: {senders:?}");
        assert_eq!(senders.len(), 2, "{object:#}");
        assert_eq!((&object["total"]["lost"], &object["total"]["out_of_order"]), (&0.into(), &0.into()));
    }
}

#[test]
fn two_robots_whose_nodes_have_the_same_names_are_told_apart_by_their_namespaces() {
    const WINDOWS: usize = 4;
    let Some(network) = two_hosts() else { return };
    let domain = domain(6);
    let mut reader = read_statistics(&network.listening, domain);
    #[cfg(feature = "monitor")]
    let monitor = Monitor::start(&network.listening, &["--from-statistics"], domain);
    // Each robot is a host, and has an imu of its own; both hear what the first one says.
    let metrics = "-p metrics:=[message_period,source_to_receive_ms]";
    let listener = |robot: &str| format!("-r __ns:={robot} -r chatter:=/chatter {metrics}");
    let _processes = [
        start(&network.talking, LISTENER, &listener("/r1"), domain),
        start(&network.listening, LISTENER, &listener("/r2"), domain),
        start(&network.talking, TALKER, "-r __ns:=/r1 -r chatter:=/chatter -p rate:=20.0", domain),
        start(&network.listening, TALKER, "-r __ns:=/r2 -p rate:=50.0", domain),
    ];
    let expected = [
        (source("/r1/listener", "/chatter"), 20.0),
        (source("/r1/listener", "/r1/imu"), 20.0),
        (source("/r2/listener", "/chatter"), 20.0),
        (source("/r2/listener", "/r2/imu"), 50.0),
    ];
    let periods = |metrics: &[Metric], source: &str| -> Vec<Metric> {
        of(metrics, source, "message_period").filter(|of| of.count() > 0.0).cloned().collect()
    };
    reader.read_until("windows", |metrics| {
        expected.iter().all(|(source, _)| periods(metrics, source).len() >= WINDOWS)
    });
    let sources: BTreeSet<_> = reader.metrics.iter().map(|of| of.source.as_str()).collect();
    println!("{sources:?}");
    assert_eq!(sources, expected.iter().map(|(source, _)| source.as_str()).collect());
    for (source, rate) in &expected {
        let windows = reader.windows(source, "message_period");
        for (window, next) in windows.iter().zip(&windows[1..]) {
            assert_eq!(next.start, window.stop, "of one node alone: {windows:#?}");
        }
        let period = median(periods(&reader.metrics, source).iter().map(Metric::average).collect());
        assert!((period - 1000.0 / rate).abs() < 2.0, "{source} with a period of {period}");
    }

    #[cfg(feature = "monitor")]
    for (source, rate) in &expected {
        let deadline = Instant::now() + common::LIMIT;
        let is_right = |object: &Value| {
            let seen = object["rate"].as_f64().unwrap_or_default();
            object["topic"] == source.as_str() && (seen - rate).abs() < 2.0
        };
        while !is_right(&serde_json::from_str(&monitor.program.read("line of the monitor")).unwrap()) {
            assert!(Instant::now() < deadline, "no {source} with {rate} Hz in the monitor");
        }
    }
}

/// Whether anything is left in one of these namespaces, or of these processes.
fn is_anything_left(namespaces: &[String], processes: &[u32]) -> bool {
    // Of a process that has ended and that nobody has waited for, there is no program any more.
    let runs = |process: &u32| std::fs::read_link(format!("/proc/{process}/exe")).is_ok();
    let threads = std::fs::read_dir("/proc").unwrap().flatten();
    let mut threads =
        threads.filter_map(|process| std::fs::read_dir(process.path().join("task")).ok()).flatten().flatten();
    let is_there = |namespace: PathBuf| namespaces.iter().any(|of| Path::new(of) == namespace);
    processes.iter().any(runs)
        || threads.any(|thread| std::fs::read_link(thread.path().join("ns/net")).is_ok_and(is_there))
}

#[test]
fn nothing_is_left_of_the_hosts_after_a_panic() {
    let made = Mutex::new((vec![], vec![]));
    let is_skipped = two_hosts().is_none();
    let panicked = std::panic::catch_unwind(|| {
        let network = two_hosts()?;
        let talker = start(&network.talking, TALKER, "", domain(7));
        let leaked = network.listening.spawn(command(TALKER, &[], domain(7)));
        let namespaces = [&network.talking, &network.listening].map(|host| host.namespace.clone());
        let processes = vec![talker.id(), leaked.id()];
        assert!(is_anything_left(&namespaces, &[]) && is_anything_left(&[], &processes));
        *made.lock().unwrap() = (namespaces.to_vec(), processes);
        panic!("as the test wants it");
        #[allow(unreachable_code)]
        Some(())
    });
    if is_skipped {
        return;
    }
    assert!(panicked.is_err());
    let (namespaces, processes) = made.into_inner().unwrap();
    assert_eq!((namespaces.len(), processes.len()), (2, 2));
    wait_for("end of the hosts", || !is_anything_left(&namespaces, &processes));
}

#[test]
fn nothing_is_left_of_the_hosts_of_a_test_process_that_is_killed() {
    let Some(_can_be_had) = two_hosts() else { return };
    let (killed, namespaces, processes) = programs::start_hosts(domain(8));
    assert!(is_anything_left(&namespaces, &[]) && is_anything_left(&[], &processes));
    drop(killed);
    wait_for("end of the hosts", || !is_anything_left(&namespaces, &processes));
}
