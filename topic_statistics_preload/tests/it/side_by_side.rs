// SPDX-License-Identifier: Apache-2.0

//! An rclrs node with the library's statistics and the preloaded ones, of the same messages.

use std::{
    io::Write,
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use rclrs::*;
use rclrs_topic_statistics::{Metric as Quantity, NodeStatistics, TopicStatisticsOptions};
use ros_env::{
    sensor_msgs::msg::Imu,
    statistics_msgs::msg::MetricsMessage,
    test_msgs::srv::{BasicTypes, BasicTypes_Request, BasicTypes_Response},
};
use test_support::{domain, itself, lines, node, of, wait_for, Metric, Process, Program, Spinning};

use crate::preloaded;

const SOURCE: &str = "/both:/imu";
const COUNT: f64 = 300.0;
const METRICS: [Quantity; 4] =
    [Quantity::MessageAge, Quantity::MessagePeriod, Quantity::SourceToCallback, Quantity::PublicationSeqGap];

/// The node, until its standard input ends.
#[test]
#[ignore = "a program of the test below"]
fn both() {
    let executor = Context::default_from_env().unwrap().create_basic_executor();
    let node = executor.create_node("both").unwrap();
    let options = TopicStatisticsOptions::new().metrics(METRICS).publish_topic("/own_statistics");
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    // On a worker, a callback follows the take at once.
    let worker = node.create_worker(());
    let imu = "imu".keep_last(1000);
    let _imu = statistics.create_worker_subscription(&worker, imu, |_: Imu| ()).unwrap();
    let _spinning = Spinning::start(executor);
    lines(std::io::stdin()).iter().for_each(drop);
}

/// The metrics on a topic of statistics.
pub type Received = Arc<Mutex<Vec<Metric>>>;

pub fn read(node: &Node, topic: &str) -> (Received, Subscription<MetricsMessage>) {
    let received = Received::default();
    let to = Arc::clone(&received);
    let store = move |message: MetricsMessage| to.lock().unwrap().push(message.into());
    (received, node.create_subscription(topic.keep_last(1000), store).unwrap())
}

#[test]
fn an_rclrs_node_has_the_same_figures_by_the_library_and_by_preloading() {
    let (executor, node) = node("reader", &[]);
    let (own, _own_subscription) = read(&node, "/own_statistics");
    let (preload, _preload_subscription) = read(&node, "/statistics");
    let _spinning = Spinning::start(executor);
    let mut command = itself("side_by_side::both", domain());
    let names = METRICS.map(Quantity::name).join(",");
    preloaded(&mut command, &[("METRICS", &names)]);
    let _both = Process::spawn(command.stdout(Stdio::null()));
    let samples = |received: &Received, metric: &str| {
        of(&received.lock().unwrap(), SOURCE, metric).map(Metric::count).sum::<f64>()
    };
    let has_windows =
        |received: &Received| of(&received.lock().unwrap(), SOURCE, "message_age").next().is_some();
    wait_for("windows", || has_windows(&own) && has_windows(&preload));
    let arguments = ["--rate", "100", "--stamp-age", "0.1", "--count", "300", "--subscribers", "1"];
    let _publisher = Program::start("publisher.py", &arguments, domain());
    let is_complete = |received: &Received| {
        let ages: Vec<f64> =
            of(&received.lock().unwrap(), SOURCE, "message_age").map(Metric::count).collect();
        ages.iter().sum::<f64>() >= COUNT && ages.last() == Some(&0.0)
    };
    wait_for("all messages", || is_complete(&own) && is_complete(&preload));

    for (metric, count) in
        [("message_age", COUNT), ("source_to_callback_ms", COUNT), ("publication_seq_gap", COUNT - 1.0)]
    {
        assert_eq!([samples(&own, metric), samples(&preload, metric)], [count; 2], "{metric}");
    }
    // A message is taken just before its callback starts.
    let minimum = |received: &Received, metric: &str| {
        let received = received.lock().unwrap();
        of(&received, SOURCE, metric).map(Metric::minimum).fold(f64::NAN, f64::min)
    };
    for metric in ["message_age", "source_to_callback_ms"] {
        let (own, preload) = (minimum(&own, metric), minimum(&preload, metric));
        assert!(preload <= own && own - preload < 2.0, "{metric}: {own} ms, preloaded {preload} ms");
    }
    assert!(minimum(&preload, "message_age") >= 100.0);
    let preload = preload.lock().unwrap();
    let gaps = of(&preload, SOURCE, "publication_seq_gap").filter(|window| window.count() > 0.0);
    assert_eq!(gaps.map(Metric::maximum).fold(0.0, f64::max), 0.0);
}

#[test]
fn sent_is_received_plus_lost_exactly_of_a_subscriber_that_is_too_slow() {
    // On a busy machine messages may be counted without being measured.
    let (sent, received, lost) =
        (0..10).find_map(|_| send_to_a_slow_subscriber()).expect("an attempt with all messages measured");
    println!("{sent} sent, {received} received, {lost} lost");
    assert!(lost > 0.0 && (received as f64 + lost - sent as f64).abs() < 1e-3, "{received}, {lost}");
}

/// Returns how many messages were sent, were received, and were lost by the windows. `None` if messages were not
/// measured.
fn send_to_a_slow_subscriber() -> Option<(u64, u64, f64)> {
    const SENT: u64 = 30_000;
    const SOURCE: &str = "/subscriber:/imu";
    let (executor, node) = node("sender", &[]);
    let (statistics, _subscription) = read(&node, "/statistics");
    let publisher = node.create_publisher::<Imu>("imu".keep_last(10)).unwrap();
    let _spinning = Spinning::start(executor);
    let mut command = Program::command("subscriber.py", &[], domain());
    preloaded(&mut command, &[("PERIOD", "0.1"), ("METRICS", "source_to_callback_ms,publication_seq_gap")]);
    let mut subscriber = command.stderr(Stdio::piped()).spawn().unwrap();
    let errors = lines(subscriber.stderr.take().unwrap());
    let mut subscriber = Program::from(subscriber);
    let windows =
        |metric: &str| -> Vec<Metric> { of(&statistics.lock().unwrap(), SOURCE, metric).cloned().collect() };
    let mut count = || subscriber.request("count").parse::<u64>().unwrap();
    wait_for("windows", || !windows("publication_seq_gap").is_empty());
    let send = || publisher.publish(Imu::default()).unwrap();
    wait_for("first message", || {
        send();
        count() > 0
    });
    // Waits until the callback has counted more than that, and the windows have all of it.
    let mut settled = |more_than: u64| {
        let (mut counted, mut are_measured) = (0, true);
        wait_for("all windows", || {
            let mut errors = errors.try_iter().inspect(|line| eprintln!("{line}"));
            are_measured &= !errors.any(|line| line.contains("was preempted for too long"));
            counted = count();
            let counts = windows("source_to_callback_ms").iter().map(Metric::count).collect::<Vec<_>>();
            let have_all = counts.ends_with(&[0.0; 5]) && counts.iter().sum::<f64>() == counted as f64;
            !are_measured || (counted > more_than && have_all)
        });
        let gaps = windows("publication_seq_gap").into_iter().filter(|window| window.count() > 0.0);
        let lost = gaps.map(|window| window.average() * window.count()).sum::<f64>();
        are_measured.then_some((counted, lost))
    };
    let before = settled(0)?;
    (0..SENT).for_each(|_| send());
    let (counted, _) = settled(before.0)?;
    send(); // behind the last loss
    let after = settled(counted)?;
    Some((SENT + 1, after.0 - before.0, after.1 - before.1))
}

/// A node with a service that responds after 10 ms, and a client: it calls `serve` for each line of its standard input.
#[test]
#[ignore = "a program of the test below"]
fn services() {
    let executor = Context::default_from_env().unwrap().create_basic_executor();
    let node = executor.create_node("both").unwrap();
    let options = TopicStatisticsOptions::new().publish_topic("/own_statistics");
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let worker = node.create_worker(());
    let respond = |request: BasicTypes_Request| {
        std::thread::sleep(Duration::from_millis(10));
        BasicTypes_Response { int64_value: request.int64_value, ..Default::default() }
    };
    let _plan = statistics.create_worker_service::<BasicTypes, _, _>(&worker, "plan", respond).unwrap();
    let client = statistics.create_client::<BasicTypes>("serve").unwrap();
    let _spinning = Spinning::start(executor);
    for _ in lines(std::io::stdin()) {
        wait_for("service", || client.service_is_ready().unwrap());
        let mut response: Promise<BasicTypes_Response> = client.call(BasicTypes_Request::default()).unwrap();
        wait_for("response", || response.try_recv().unwrap().is_some());
    }
}

#[test]
fn services_and_clients_of_rclrs_have_the_same_figures_by_the_library_and_by_preloading() {
    const CALLS: f64 = 20.0;
    let (executor, node) = node("services_reader", &[]);
    let (own, _own_subscription) = read(&node, "/own_statistics");
    let (preload, _preload_subscription) = read(&node, "/statistics");
    let _spinning = Spinning::start(executor);
    let mut command = itself("side_by_side::services", domain());
    preloaded(&mut command, &[]);
    let mut both = Process::spawn(command.stdout(Stdio::null()));
    let mut input = both.input();
    let (server, client) = ("/both:/plan", "/both:/serve");
    let sources = [(server, "requests"), (client, "calls"), (client, "responses")];
    let counts = |received: &Received, source: &str, metric: &str| -> Vec<f64> {
        of(&received.lock().unwrap(), source, metric).map(Metric::average).collect()
    };
    let all = |test: &dyn Fn(&[f64]) -> bool| {
        [&own, &preload]
            .iter()
            .all(|received| sources.iter().all(|(source, metric)| test(&counts(received, source, metric))))
    };
    wait_for("windows", || all(&|counts| !counts.is_empty()));
    let _server = Program::start("service_server.py", &[], domain());
    let mut caller = Program::start("calls.py", &["plan"], domain());
    for _ in 0..CALLS as u32 {
        caller.request("call 1 0");
        writeln!(input).unwrap();
    }
    wait_for("all calls", || {
        all(&|counts| counts.iter().sum::<f64>() >= CALLS && counts.last() == Some(&0.0))
    });
    for (source, metric) in sources {
        let total = |received: &Received| counts(received, source, metric).iter().sum::<f64>();
        assert_eq!([total(&own), total(&preload)], [CALLS; 2], "{source} {metric}");
    }
    let minimum = |received: &Received, source: &str, metric: &str| {
        let received = received.lock().unwrap();
        let count: f64 = of(&received, source, metric).map(Metric::count).sum();
        assert_eq!(count, CALLS, "{source} {metric}");
        of(&received, source, metric).map(Metric::minimum).fold(f64::NAN, f64::min)
    };
    // The library measures up to the callback, just after the take; and the callback alone, without what rclrs does
    // before and after it.
    for (source, metric, by_preload, is_later) in [
        (server, "source_to_callback_ms", "source_to_callback_ms", true),
        (server, "callback_duration_ms", "response_duration_ms", false),
        (client, "source_to_receive_ms", "source_to_receive_ms", true),
        (client, "receive_to_callback_ms", "receive_to_callback_ms", true),
        (client, "source_to_callback_ms", "source_to_callback_ms", true),
        (client, "round_trip_ms", "round_trip_ms", true),
    ] {
        let (own, preload) = (minimum(&own, source, metric), minimum(&preload, source, by_preload));
        let difference = if is_later { own - preload } else { preload - own };
        assert!((-0.1..2.0).contains(&difference), "{source} {metric}: {own} ms, preloaded {preload} ms");
    }
    assert!(minimum(&preload, server, "response_duration_ms") >= 10.0);
}
