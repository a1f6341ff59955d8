// SPDX-License-Identifier: Apache-2.0

//! The programs that the tests run on the hosts. Each program is a process of this test binary.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::BufRead,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::{Metric, NodeStatistics, NodeStatisticsOptions, StatisticsOptions, Totals};
use ros_env::{
    sensor_msgs::msg::Imu,
    std_msgs::msg::String as StringMsg,
    test_msgs::srv::{BasicTypes, BasicTypes_Request, BasicTypes_Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use test_support::{network::Host, wait_for, Program, Spinning};

const PROGRAM: &str = "HOSTS_PROGRAM";

/// Returns the command that starts a program. The settings are environment variables of the program.
pub fn command(program: &str, domain: u32, settings: &[(&str, &str)]) -> Command {
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
        Some("counting") => counting(),
        _ => {}
    }
}

fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Creates a node with the ROS arguments in the setting `ARGUMENTS`.
fn node(name: &str) -> (Executor, Node) {
    let arguments = setting("ARGUMENTS").unwrap_or_default();
    let arguments = arguments.split_whitespace().map(str::to_owned);
    let executor = Context::new(arguments, InitOptions::default()).unwrap().create_basic_executor();
    let node = executor.create_node(name).unwrap();
    (executor, node)
}

fn windows() -> StatisticsOptions {
    StatisticsOptions::new().publish_period(Duration::from_millis(500))
}

/// Returns the QoS for a topic: best effort with the setting `BEST_EFFORT`, otherwise reliable.
fn qos(topic: &str) -> PrimitiveOptions<'_> {
    let topic = topic.keep_last(1000);
    if setting("BEST_EFFORT").is_some() {
        topic.best_effort()
    } else {
        topic.reliable()
    }
}

/// Answers each line of standard input with a line of JSON, until standard input ends.
fn answer_requests(mut answer: impl FnMut(&str) -> Value) {
    println!(); // ends the line that the test harness has begun
    for line in std::io::stdin().lock().lines() {
        println!("{}", answer(&line.unwrap()));
    }
}

/// Sends a line to a program that answers requests. Returns the program's answer.
pub fn request(program: &mut Program, line: &str) -> Value {
    program.send(line);
    loop {
        let answer = program.read(&format!("answer to {line}"));
        if answer.starts_with('{') {
            return serde_json::from_str(&answer).unwrap();
        }
    }
}

/// A node that publishes texts with its name and a number on `chatter`, on request or at 50 Hz.
pub struct Sender(Program);

impl Sender {
    pub fn start(host: &Host, domain: u32, name: &str, settings: &[(&str, &str)]) -> Sender {
        let settings = [settings, &[("NAME", name)]].concat();
        Sender(host.spawn(command("sender", domain, &settings)).into())
    }

    /// Publishes a number of messages, starts publishing (`run`) or stops publishing (`stop`). Returns the number of
    /// messages published so far.
    pub fn send(&mut self, number: impl ToString) -> u64 {
        request(&mut self.0, &number.to_string())["sent"].as_u64().unwrap()
    }
}

fn sender() {
    let name = setting("NAME").unwrap();
    let (executor, node) = node(&name);
    let chatter = node.create_publisher::<StringMsg>(qos("chatter")).unwrap();
    let _spinning = Spinning::start(executor);
    // The state of the sender: whether it publishes at 50 Hz, and the number of messages published so far.
    let state = Arc::new(Mutex::new((false, 0)));
    let publish = move |sent: &mut u64| {
        *sent += 1;
        chatter.publish(StringMsg { data: format!("{name} {sent}") }).unwrap();
    };
    std::thread::spawn({
        let (state, publish, mut next) = (Arc::clone(&state), publish.clone(), Instant::now());
        move || loop {
            // The next time is computed from the last planned time and not from the current time. So the average rate
            // stays correct if this thread is late.
            next += Duration::from_millis(20);
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            let (runs, sent) = &mut *state.lock().unwrap();
            if *runs {
                publish(sent);
            }
        }
    });
    answer_requests(|line| {
        match line {
            "run" => state.lock().unwrap().0 = true,
            "stop" => state.lock().unwrap().0 = false,
            number => {
                for _ in 0..number.parse::<u64>().unwrap() {
                    publish(&mut state.lock().unwrap().1);
                    std::thread::sleep(Duration::from_millis(3));
                }
            }
        }
        json!({ "sent": state.lock().unwrap().1 })
    });
}

/// A node `receiver` that measures all metrics of its subscriptions `imu` and `chatter`, of its service `serve`, and of
/// its calls, in windows of half a second. It calls the service that the setting `SERVICE` names, at 10 Hz.
pub struct Receiver(pub Program);

/// For each sender, the numbers in the received messages.
type Numbers = BTreeMap<String, BTreeSet<u64>>;

/// What a receiver reports about `chatter`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    pub received: u64,
    pub lost: Option<u64>,
    pub out_of_order: Option<u64>,
    pub publishers: Option<u64>,
    /// The calls of the callback, counted by the callback itself. The callback also collects `numbers`.
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

    /// Waits for the last message of each sender. Checks that every message is received or lost.
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
    let mut options = NodeStatisticsOptions::new()
        .statistics(windows().metrics(Metric::OF_SUBSCRIPTIONS))
        .max_event_rate(2.0)
        .topic_statistics_service(true);
    if let Some(file) = setting("TOTALS_FILE") {
        options = options.totals_file(file);
    }
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let _imu = statistics.create_subscription(qos("imu"), |_: Imu| ()).unwrap();
    let serve = |_: BasicTypes_Request| BasicTypes_Response::default();
    let _service = statistics.create_service::<BasicTypes, _>("serve", serve).unwrap();
    let client = setting("SERVICE").map(|name| statistics.create_client::<BasicTypes>(&name).unwrap());
    let call = move || {
        if let Some(client) = client.as_ref().filter(|client| client.service_is_ready().unwrap()) {
            let ignore = |_: BasicTypes_Response| ();
            drop(client.call_then(BasicTypes_Request::default(), ignore).unwrap());
        }
    };
    let _timer = node.create_timer_repeating(Duration::from_millis(100), call).unwrap();
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
        // The totals are read last, so they contain each message that the callback has counted.
        let (called, numbers) = numbers.lock().unwrap().clone();
        let readers_of_events = node.count_subscriptions("/events/messages_lost").unwrap();
        let Totals { received, lost, out_of_order, publishers, .. } = chatter.statistics().totals().unwrap();
        json!(Report { received, lost, out_of_order, publishers, called, numbers, readers_of_events })
    });
}

/// A node with counters, in windows of half a second. Each input line is the number of counters to add.
fn counting() {
    let (executor, node) = node("counting");
    let statistics = NodeStatistics::with_options(&node, windows()).unwrap();
    let _spinning = Spinning::start(executor);
    let mut counters = vec![];
    answer_requests(|more| {
        for _ in 0..more.parse().unwrap() {
            counters.push(statistics.create_counter(format!("number_{}", counters.len())));
        }
        json!({ "publishers": node.count_publishers("/statistics").unwrap() })
    });
}
