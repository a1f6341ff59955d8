// SPDX-License-Identifier: Apache-2.0

//! The programs that the test runs on the hosts: each is a process of this test binary.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::BufRead,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use rclrs::*;
use rclrs_topic_statistics::{Metric, NodeStatistics, NodeStatisticsOptions, StatisticsOptions, Totals};
use ros_env::std_msgs::msg::String as StringMsg;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use test_support::{network::Host, wait_for, Program, Spinning};

const PROGRAM: &str = "HOSTS_PROGRAM";

/// Returns the command of a program, with settings in its environment.
fn command(program: &str, domain: u32, settings: &[(&str, &str)]) -> Command {
    let arguments = ["--ignored", "--nocapture", "--exact", "program::program"];
    let mut command = super::command(std::env::current_exe().unwrap(), &arguments, domain);
    command.env(PROGRAM, program).envs(settings.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

#[test]
#[ignore = "the programs of the other tests"]
fn program() {
    match setting(PROGRAM).as_deref() {
        Some("sender") => sender(),
        Some("receiver") => receiver(),
        _ => {}
    }
}

fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn node(name: &str) -> (Executor, Node) {
    let arguments = setting("ARGUMENTS").unwrap_or_default();
    let arguments = arguments.split_whitespace().map(str::to_owned);
    let executor = Context::new(arguments, InitOptions::default()).unwrap().create_basic_executor();
    let node = executor.create_node(name).unwrap();
    (executor, node)
}

/// Returns the QoS of a topic. Its depth holds all messages of the tests.
fn qos(topic: &str) -> PrimitiveOptions<'_> {
    topic.keep_last(1000).best_effort()
}

/// Answers each line of standard input with a line of JSON, until the input ends.
fn answer_requests(mut answer: impl FnMut(&str) -> Value) {
    println!(); // completes the line of the test harness
    for line in std::io::stdin().lock().lines() {
        println!("{}", answer(&line.unwrap()));
    }
}

/// Sends a line to a program that answers requests. Returns its answer.
fn request(program: &mut Program, line: &str) -> Value {
    program.send(line);
    loop {
        let answer = program.read(&format!("answer to {line}"));
        if answer.starts_with('{') {
            return serde_json::from_str(&answer).unwrap();
        }
    }
}

/// A node that publishes texts with its name and a number on `chatter`, on request.
pub struct Sender(Program);

impl Sender {
    pub fn start(host: &Host, domain: u32, name: &str) -> Sender {
        Sender(host.spawn(command("sender", domain, &[("NAME", name)])).into())
    }

    /// Publishes a number of messages. Returns the number of messages published so far.
    pub fn send(&mut self, number: u64) -> u64 {
        request(&mut self.0, &number.to_string())["sent"].as_u64().unwrap()
    }
}

fn sender() {
    let name = setting("NAME").unwrap();
    let (executor, node) = node(&name);
    let chatter = node.create_publisher::<StringMsg>(qos("chatter")).unwrap();
    let _spinning = Spinning::start(executor);
    let mut sent = 0;
    answer_requests(|number| {
        for _ in 0..number.parse::<u64>().unwrap() {
            sent += 1;
            chatter.publish(StringMsg { data: format!("{name} {sent}") }).unwrap();
            std::thread::sleep(Duration::from_millis(3));
        }
        json!({ "sent": sent })
    });
}

/// A node `receiver` that measures all metrics of `chatter`, in windows of half a second.
pub struct Receiver(pub Program);

/// For each sender, the numbers of its received messages.
type Numbers = BTreeMap<String, BTreeSet<u64>>;

#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    pub received: u64,
    pub lost: Option<u64>,
    pub out_of_order: Option<u64>,
    pub publishers: Option<u64>,
    /// The calls of the callback, counted without the library. The same applies to `numbers`.
    pub called: u64,
    pub numbers: Numbers,
    /// The number of discovered subscriptions to the receiver's loss events.
    pub readers_of_events: usize,
}

impl Receiver {
    pub fn start(host: &Host, domain: u32, settings: &[(&str, &str)]) -> Receiver {
        Receiver(host.spawn(command("receiver", domain, settings)).into())
    }

    pub fn report(&mut self) -> Report {
        serde_json::from_value(request(&mut self.0, "report")).unwrap()
    }

    /// Waits for the last messages of senders. Checks that each of their messages is received or lost.
    pub fn settled<const N: usize>(&mut self, sent: [(&str, u64); N]) -> Report {
        let mut report = self.report();
        wait_for("last messages", || {
            report = self.report();
            let last = |name| report.numbers.get(name)?.last().copied();
            sent.iter().all(|(name, sent)| last(*name) == Some(*sent))
        });
        let numbers = || sent.iter().map(|(name, sent)| (sent, &report.numbers[*name]));
        let since_first: u64 = numbers().map(|(sent, numbers)| sent - numbers.first().unwrap() + 1).sum();
        let distinct: usize = numbers().map(|(_, numbers)| numbers.len()).sum();
        assert_eq!(report.received, report.called, "{report:?}");
        assert_eq!(distinct as u64 + report.lost.unwrap(), since_first, "{sent:?}: {report:?}");
        report
    }
}

fn receiver() {
    let (executor, node) = node("receiver");
    let windows = StatisticsOptions::new().publish_period(Duration::from_millis(500));
    let options = NodeStatisticsOptions::new()
        .statistics(windows.metrics(Metric::OF_SUBSCRIPTIONS))
        .max_event_rate(2.0)
        .topic_statistics_service(true)
        .totals_file(setting("TOTALS_FILE").unwrap());
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let numbers: Arc<Mutex<(u64, Numbers)>> = Arc::default();
    let to = Arc::clone(&numbers);
    let store = move |message: StringMsg| {
        let (name, number) = message.data.split_once(' ').unwrap();
        let (called, numbers) = &mut *to.lock().unwrap();
        numbers.entry(name.to_owned()).or_default().insert(number.parse().unwrap());
        *called += 1;
    };
    let chatter = statistics.create_subscription(qos("chatter"), store).unwrap();
    let _spinning = Spinning::start(executor);
    answer_requests(|_report| {
        let Totals { received, lost, out_of_order, publishers, .. } = chatter.statistics().totals().unwrap();
        let readers_of_events = node.count_subscriptions("/events/messages_lost").unwrap();
        let (called, numbers) = numbers.lock().unwrap().clone();
        json!(Report { received, lost, out_of_order, publishers, called, numbers, readers_of_events })
    });
}
