// SPDX-License-Identifier: Apache-2.0

//! The programs that the tests run on the hosts: functions of this test binary, each started in its own process.

use std::{
    collections::BTreeSet,
    io::BufRead,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::{Metric, NodeStatistics, NodeStatisticsOptions, TopicStatisticsOptions};
use ros_env::{sensor_msgs::msg::Imu, std_msgs::msg::String as StringMsg};
use serde_json::{json, Value};

use test_support::{
    context,
    network::{Host, Network},
    program, Program, Spinning,
};

use super::start;

const PROGRAM: &str = "HOSTS_PROGRAM";

/// Returns the command that runs a function of this program, by its path, with settings in its environment.
pub fn command(function: &str, domain: u32, settings: &[(&str, &str)]) -> Command {
    let name = if function.contains("::") { function.to_owned() } else { format!("programs::{function}") };
    let arguments = ["--ignored", "--nocapture", "--exact", &name];
    let mut command = super::command(std::env::current_exe().unwrap(), &arguments, domain);
    command
        .env(PROGRAM, function)
        .envs(settings.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// Returns whether this process was started to run the function.
pub fn is_started_as(function: &str) -> bool {
    std::env::var(PROGRAM).is_ok_and(|program| program == function)
}

pub fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Creates a node with the ROS arguments of the settings.
pub fn node(name: &str) -> (Executor, Node) {
    let arguments = setting("ARGUMENTS").unwrap_or_default();
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let executor =
        context(setting("ROS_DOMAIN_ID").unwrap().parse().unwrap(), &arguments).create_basic_executor();
    let node = executor.create_node(name).unwrap();
    (executor, node)
}

/// Returns the QoS of the settings for a topic: best effort or reliable. The default depth holds all messages of a
/// second.
fn qos(topic: &str) -> PrimitiveOptions<'_> {
    let topic = topic.keep_last(setting("DEPTH").map_or(1000, |depth| depth.parse().unwrap()));
    match setting("BEST_EFFORT") {
        Some(_) => topic.best_effort(),
        None => topic.reliable(),
    }
}

/// Answers each line of standard input with a line of JSON, until the input ends.
pub fn answer_requests(mut answer: impl FnMut(&str) -> Value) {
    println!(); // ends the line that the test harness has begun
    for line in std::io::stdin().lock().lines() {
        println!("{}", answer(&line.unwrap()));
    }
}

/// Sends a line to a program that [answers requests](answer_requests). Returns its answer.
pub fn request(program: &mut Program, line: &str) -> Value {
    program.send(line);
    loop {
        let answer = program.read(&format!("answer to {line}"));
        if answer.starts_with('{') {
            return serde_json::from_str(&answer).unwrap();
        }
    }
}

/// A node `sender` that publishes numbered texts on `chatter` on request, at 200 Hz or at `RATE`.
pub struct Sender(Program);

impl Sender {
    pub fn start(host: &Host, domain: u32, settings: &[(&str, &str)]) -> Sender {
        Sender(host.spawn(command("sender", domain, settings)).into())
    }

    /// Publishes a number of messages. Returns the number of all messages published so far.
    pub fn send(&mut self, number: u64) -> u64 {
        self.request(&number.to_string())
    }

    /// Starts to publish, until [`stop`](Self::stop).
    pub fn run(&mut self) {
        self.request("run");
    }

    /// Stops publishing. Returns the number of all messages published so far.
    pub fn stop(&mut self) -> u64 {
        self.request("stop")
    }

    fn request(&mut self, line: &str) -> u64 {
        request(&mut self.0, line)["sent"].as_u64().unwrap()
    }
}

#[test]
#[ignore = "a program of the other tests"]
fn sender() {
    if !is_started_as("sender") {
        return;
    }
    let (executor, node) = node("sender");
    let chatter = node.create_publisher::<StringMsg>(qos("chatter")).unwrap();
    let _spinning = Spinning::start(executor);
    let period = Duration::from_secs_f64(1.0 / setting("RATE").map_or(200.0, |rate| rate.parse().unwrap()));
    let publish = move |sent: &mut u64| {
        *sent += 1;
        chatter.publish(StringMsg { data: format!("Hello, world: {sent}") }).unwrap();
    };
    // Whether it publishes, and the number of messages published.
    let state = Arc::new(Mutex::new((false, 0)));
    std::thread::spawn({
        let (state, publish) = (Arc::clone(&state), publish.clone());
        let mut next = Instant::now();
        move || loop {
            // The average rate is kept if this thread is late.
            next += period;
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
                    std::thread::sleep(period);
                }
            }
        }
        json!({ "sent": state.lock().unwrap().1 })
    });
}

/// A node `receiver` that measures all metrics of `imu` and `chatter`, in windows of half a second.
pub struct Receiver(Program);

/// The settings of a best-effort receiver named `/weak`.
pub const WEAK: [(&str, &str); 2] = [("BEST_EFFORT", ""), ("ARGUMENTS", "--ros-args -r __node:=weak")];

/// The messages received and lost by a subscription of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    pub received: u64,
    pub lost: Option<u64>,
    pub out_of_order: Option<u64>,
    pub duplicates: Option<u64>,
    pub publishers: Option<u64>,
}

/// The numbers in the texts that the callback of `chatter` received. They are independent of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers {
    pub received: u64,
    pub distinct: u64,
    pub first: u64,
    pub last: u64,
}

impl Receiver {
    pub fn start(host: &Host, domain: u32, settings: &[(&str, &str)]) -> Receiver {
        Receiver(host.spawn(command("receiver", domain, settings)).into())
    }

    /// Returns its totals of a topic.
    pub fn totals(&mut self, topic: &str) -> Totals {
        let report = &request(&mut self.0, "report")[topic];
        let number = |what: &str| report[what].as_u64();
        Totals {
            received: number("received").unwrap(),
            lost: number("lost"),
            out_of_order: number("out_of_order"),
            duplicates: number("duplicates"),
            publishers: number("publishers"),
        }
    }

    pub fn numbers(&mut self) -> Numbers {
        let numbers = &request(&mut self.0, "report")["numbers"];
        let number = |what: &str| numbers[what].as_u64().unwrap_or_default();
        Numbers {
            received: number("received"),
            distinct: number("distinct"),
            first: number("first"),
            last: number("last"),
        }
    }

    /// Returns the number of discovered subscriptions to its loss events.
    pub fn readers_of_events(&mut self) -> u64 {
        request(&mut self.0, "report")["readers_of_events"].as_u64().unwrap()
    }

    /// Ends the program. It then writes its file of totals.
    pub fn end(self) {
        self.0.end();
    }
}

#[test]
#[ignore = "a program of the other tests"]
fn receiver() {
    if !is_started_as("receiver") {
        return;
    }
    let (executor, node) = node("receiver");
    let everything = TopicStatisticsOptions::new()
        .metrics(Metric::OF_SUBSCRIPTIONS)
        .publish_period(Duration::from_millis(500));
    let mut options = NodeStatisticsOptions::new()
        .topic_statistics(everything)
        .max_event_rate(2.0)
        .topic_statistics_service(true);
    if let Some(file) = setting("TOTALS_FILE") {
        options = options.totals_file(Path::new(&file));
    }
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let imu = statistics.create_subscription(qos("imu"), |_: Imu| ()).unwrap();
    let seen = Arc::new(Mutex::new((BTreeSet::new(), 0)));
    let chatter = statistics
        .create_subscription(qos("chatter"), {
            let seen = Arc::clone(&seen);
            move |message: StringMsg| {
                let number: u64 = message.data.rsplit(' ').next().unwrap().parse().unwrap();
                let mut seen = seen.lock().unwrap();
                seen.0.insert(number);
                seen.1 += 1;
            }
        })
        .unwrap();
    let _spinning = Spinning::start(executor);
    answer_requests(|_report| {
        let counts = |totals: rclrs_topic_statistics::Totals| {
            json!({
                "received": totals.received,
                "lost": totals.lost,
                "out_of_order": totals.out_of_order,
                "duplicates": totals.duplicates,
                "publishers": totals.publishers,
            })
        };
        let (numbers, received) = &*seen.lock().unwrap();
        let numbers = json!({
            "received": received,
            "distinct": numbers.len(),
            "first": numbers.first(),
            "last": numbers.last(),
        });
        let readers = node.count_subscriptions("/events/messages_lost").unwrap();
        json!({
            "imu": counts(imu.totals()),
            "chatter": counts(chatter.totals()),
            "numbers": numbers,
            "readers_of_events": readers,
        })
    });
}

/// Starts a process that creates two hosts with a talker on each. Returns the process, the namespaces and the ids of
/// the talkers.
pub fn start_hosts(domain: u32) -> (Program, Vec<String>, Vec<u32>) {
    let mut program: Program = command("hosts", domain, &[]).spawn().unwrap().into();
    let made = request(&mut program, "");
    let all = |what: &str| made[what].as_array().unwrap().iter();
    let namespaces = all("namespaces").map(|namespace| namespace.as_str().unwrap().to_owned()).collect();
    let processes = all("processes").map(|process| process.as_u64().unwrap() as u32).collect();
    (program, namespaces, processes)
}

#[test]
#[ignore = "a program of the other tests"]
fn hosts() {
    if !is_started_as("hosts") {
        return;
    }
    let network = Network::new().unwrap();
    let hosts = [&network.talking, &network.listening];
    let domain = setting("ROS_DOMAIN_ID").unwrap().parse().unwrap();
    let talkers = hosts.map(|host| start(host, program("talker"), "", domain));
    answer_requests(|_| {
        json!({
            "namespaces": hosts.map(|host| host.namespace.clone()),
            "processes": talkers.each_ref().map(|talker| talker.id()),
        })
    });
}
