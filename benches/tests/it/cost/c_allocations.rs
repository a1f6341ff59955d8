// SPDX-License-Identifier: Apache-2.0

//! Allocations by libc's `malloc`, which include those of the C libraries of rclrs and of the middleware.
//!
//! A plain subscription and measured subscriptions receive the same messages, each on its own threads, in a process
//! with a preloaded `malloc` that counts. Only the threads that take messages and run callbacks are counted, from
//! message to message. So the rest of the process does not affect the quartiles of the counts.

use std::{
    any::Any,
    collections::BTreeMap,
    ffi::CStr,
    io::Write,
    process::{ChildStdin, Stdio},
    sync::{mpsc::Receiver, Arc, Mutex},
    time::Duration,
};

use rclrs::*;
use rclrs_topic_statistics::{Metric, NodeStatistics, TopicStatisticsOptions, TopicStatisticsState};
use ros_env::sensor_msgs::msg::Imu;
use serde::{Deserialize, Serialize};

use test_support::{self, domain, lines, preload, wait_for, Process, Program, Spinning, LIMIT};

/// The allocations of a message, as quartiles. They do not include rare events: a queue of rclrs grows, or two messages
/// are taken together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Allocations {
    /// On the thread that takes messages, from one message to the next.
    taking: [u64; 3],
    /// On the thread that runs callbacks. On a worker it is the same thread.
    calling: [u64; 3],
}

/// The allocations of each kind of subscription.
type Counted = BTreeMap<String, Allocations>;

/// The name of the kind without statistics.
const PLAIN: &str = "plain";

/// The kinds of subscriptions with statistics.
fn measured_kinds() -> [(&'static str, TopicStatisticsOptions); 3] {
    // Windows end during the count, on their own thread, which is not counted.
    let options = || TopicStatisticsOptions::new().publish_period(Duration::from_millis(100));
    [
        ("default", options()),
        ("all_metrics", options().metrics(Metric::OF_SUBSCRIPTIONS)),
        ("off", options().metrics(Metric::OF_SUBSCRIPTIONS).state(TopicStatisticsState::Disable)),
    ]
}

/// The settings of all kinds of subscriptions.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Settings {
    /// Whether the subscriptions are on a worker, and not in the node's scope.
    on_worker: bool,
    /// The number of subscriptions. One receives messages, the others do not.
    subscriptions: usize,
    /// The number of messages to count.
    messages: usize,
    /// Messages per second.
    rate: u32,
}

/// The callbacks of a subscription: the thread that runs them, and its number of allocations at each callback.
#[derive(Default)]
struct Callbacks(Mutex<(libc::pid_t, Vec<u64>)>);

impl Callbacks {
    fn count(&self) {
        let mut callbacks = self.0.lock().unwrap();
        // SAFETY: gettid has no preconditions.
        callbacks.0 = unsafe { libc::gettid() };
        if callbacks.1.len() < callbacks.1.capacity() {
            let allocated = allocations(callbacks.0);
            callbacks.1.push(allocated); // does not allocate, because of the capacity
        }
    }

    fn begin(&self, number: usize) {
        self.0.lock().unwrap().1 = Vec::with_capacity(number + 1);
    }

    fn are_counted(&self, number: usize) -> bool {
        self.0.lock().unwrap().1.len() > number
    }
}

/// Returns a function of the preloaded library.
fn preloaded(name: &CStr) -> *mut libc::c_void {
    // SAFETY: The name is a C string.
    let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    assert!(!function.is_null(), "the counting malloc is not preloaded");
    function
}

/// Returns the allocations of a thread so far.
fn allocations(thread: libc::pid_t) -> u64 {
    // SAFETY: This is its signature in testing/test_support/programs/count_malloc.c.
    let function: extern "C" fn(libc::pid_t) -> u64 =
        unsafe { std::mem::transmute(preloaded(c"allocations")) };
    function(thread)
}

/// Returns the number of messages that a thread has taken so far.
fn messages_taken(thread: libc::pid_t) -> u64 {
    // SAFETY: This is its signature in testing/test_support/programs/count_malloc.c.
    let function: extern "C" fn(libc::pid_t) -> u64 =
        unsafe { std::mem::transmute(preloaded(c"messages_taken")) };
    function(thread)
}

/// Returns the allocations of a thread before it took a message.
fn allocations_before(thread: libc::pid_t, message: u64) -> u64 {
    // SAFETY: This is its signature in testing/test_support/programs/count_malloc.c.
    let function: extern "C" fn(libc::pid_t, u64) -> u64 =
        unsafe { std::mem::transmute(preloaded(c"allocations_before")) };
    function(thread, message)
}

/// Returns the quartiles of the differences between neighbours.
fn quartiles(counts: &[u64]) -> [u64; 3] {
    let mut of_each: Vec<u64> = counts.iter().zip(&counts[1..]).map(|(one, next)| next - one).collect();
    of_each.sort();
    [1, 2, 3].map(|quarter| of_each[of_each.len() * quarter / 4])
}

/// Returns the threads of this process with a name.
fn threads(name: &str) -> Vec<libc::pid_t> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap());
    let has_name = |task: &std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
    };
    tasks.filter(has_name).map(|task| task.file_name().to_str().unwrap().parse().unwrap()).collect()
}

/// Subscriptions of one kind. They have their own threads, with the name of the kind.
struct Kind {
    name: &'static str,
    callbacks: Arc<Callbacks>,
    /// The thread that takes messages, and the number of messages that it had taken at the start of the count.
    taking: (libc::pid_t, u64),
    _subscriptions: Box<dyn Any>,
    _spinning: Spinning,
}

impl Kind {
    fn start(
        name: &'static str,
        context: &Context,
        settings: &Settings,
        statistics: Option<TopicStatisticsOptions>,
    ) -> Kind {
        let executor = context.create_basic_executor();
        let node = executor.create_node(name).unwrap();
        let statistics = statistics.map(|options| NodeStatistics::with_options(&node, options).unwrap());
        let worker = settings.on_worker.then(|| node.create_worker(()));
        let callbacks = Arc::new(Callbacks::default());
        let subscribe = |topic: &str| -> Box<dyn Any> {
            let (options, callbacks) = (topic.keep_last(100), Arc::clone(&callbacks));
            let callback = move |_: Imu| callbacks.count();
            match (&statistics, &worker) {
                (None, None) => Box::new(node.create_subscription::<Imu, _>(options, callback).unwrap()),
                (None, Some(worker)) => {
                    Box::new(worker.create_subscription::<Imu, _>(options, callback).unwrap())
                }
                (Some(statistics), None) => {
                    Box::new(statistics.create_subscription(options, callback).unwrap())
                }
                (Some(statistics), Some(worker)) => {
                    Box::new(statistics.create_worker_subscription(worker, options, callback).unwrap())
                }
            }
        };
        let idle = (1..settings.subscriptions).map(|index| subscribe(&format!("{name}/idle_{index}")));
        let subscriptions: Vec<_> = idle.chain([subscribe("imu")]).collect();
        // A thread inherits the name of the thread that starts it.
        let thread = std::thread::Builder::new().name(name.to_owned());
        let spinning = thread.spawn(|| Spinning::start(executor)).unwrap().join().unwrap();
        let subscriptions = Box::new((node, statistics, worker, subscriptions));
        Kind { name, callbacks, taking: (0, 0), _subscriptions: subscriptions, _spinning: spinning }
    }

    /// Starts to count the allocations of a number of messages.
    fn begin(&mut self, number: usize) {
        let taking = threads(self.name).into_iter().max_by_key(|thread| messages_taken(*thread)).unwrap();
        self.taking = (taking, messages_taken(taking));
        self.callbacks.begin(number);
    }

    fn result(&self) -> Allocations {
        let (thread, first) = self.taking;
        let last = messages_taken(thread);
        // The library stores the counts of the last 4096 messages.
        let messages = first.max(last.saturating_sub(2000))..last;
        let taken: Vec<u64> = messages.map(|message| allocations_before(thread, message)).collect();
        Allocations { taking: quartiles(&taken), calling: quartiles(&self.callbacks.0.lock().unwrap().1) }
    }
}

/// The program. It counts at each line of its standard input. At the line `start` it first creates the subscriptions
/// with statistics.
#[test]
#[ignore = "a program of the test below"]
fn counted_listener() {
    let settings: Settings = serde_json::from_str(&std::env::var("COUNTED_SETTINGS").unwrap()).unwrap();
    let context = Context::default_from_env().unwrap();
    let mut kinds = vec![Kind::start(PLAIN, &context, &settings, None)];
    println!(); // ends the line that the test harness has begun
    for command in lines(std::io::stdin()) {
        if command == "start" {
            for (name, options) in measured_kinds() {
                kinds.push(Kind::start(name, &context, &settings, Some(options)));
            }
        }
        // The first count is a warm-up: queues grow, and discovery completes.
        for number in [settings.messages / 4, settings.messages] {
            kinds.iter_mut().for_each(|kind| kind.begin(number));
            wait_for("messages", || kinds.iter().all(|kind| kind.callbacks.are_counted(number)));
        }
        let counted: Counted = kinds.iter().map(|kind| (kind.name.to_owned(), kind.result())).collect();
        println!("{}", serde_json::to_string(&counted).unwrap());
    }
}

/// The handle of the test to the process.
struct Listener {
    input: ChildStdin,
    output: Receiver<String>,
    _process: Process,
}

impl Listener {
    fn start(domain: u32, settings: &Settings, library: &std::path::Path) -> Listener {
        let mut command = test_support::itself("cost::c_allocations::counted_listener", domain);
        command.env("COUNTED_SETTINGS", serde_json::to_string(settings).unwrap()).stdin(Stdio::piped());
        preload::preload(&mut command, library);
        let (mut process, output) = Process::spawn_printing(&mut command);
        Listener { input: process.input(), output, _process: process }
    }

    fn request(&mut self, command: &str) -> Counted {
        writeln!(self.input, "{command}").unwrap();
        loop {
            let line = self.output.recv_timeout(LIMIT).unwrap_or_else(|error| panic!("{command}: {error}"));
            if let Ok(counted) = serde_json::from_str(&line) {
                return counted;
            }
        }
    }
}

/// Returns the differences between the allocations of each subscription and `before`: those of a plain subscription
/// before the process had statistics.
fn beyond_plain(before: Allocations, counted: &Counted) -> Vec<u64> {
    let all = |allocations: &Allocations| {
        allocations.taking.into_iter().chain(allocations.calling).collect::<Vec<_>>()
    };
    let differences = counted.values().flat_map(|subscription| {
        all(subscription)
            .into_iter()
            .zip(all(&before))
            .map(|(count, plain)| count.abs_diff(plain))
            .collect::<Vec<_>>()
    });
    differences.collect()
}

/// Returns the largest difference to a plain subscription in a process with these settings, while the graph changes.
fn beyond_plain_of(settings: &Settings, library: &std::path::Path) -> u64 {
    let domain = domain();
    let mut listener = Listener::start(domain, settings, library);
    let _publisher = Program::start("publisher.py", &["--rate", &settings.rate.to_string()], domain);
    // At first the other processes are starting: a count of which most is not typical is not repeated.
    let mut before = listener.request("count")[PLAIN];
    for _ in 0..5 {
        let again = listener.request("count")[PLAIN];
        if again == std::mem::replace(&mut before, again) {
            break;
        }
    }
    assert!(before.taking[1] > 1, "the counting works: {before:?}");

    let mut count = |command: &str| {
        let mut counted = listener.request(command);
        let mut least = beyond_plain(before, &counted);
        // On a busy machine, messages are sometimes taken together. A real cost of a message would appear in each
        // count.
        for _ in 0..5 {
            if least.iter().any(|difference| *difference > 0) {
                counted = listener.request("count");
                let again = beyond_plain(before, &counted);
                least = least.into_iter().zip(again).map(|(one, other)| one.min(other)).collect();
            }
        }
        eprintln!("{settings:?}, a plain message before: {before:?}, all after {command:?}: {counted:?}");
        least.into_iter().max().unwrap()
    };
    let at_first = count("start");
    // Another node is created and ended.
    let other = Program::start("publisher.py", &["--rate", "1"], domain);
    let meanwhile = count("count");
    drop(other);
    let after = count("count");
    at_first.max(meanwhile).max(after)
}

#[test]
fn a_message_costs_no_allocation_of_libcs_beyond_plain_rclrs() {
    let _one = crate::ONE_AT_A_TIME.lock();
    let Some(library) = preload::library("count_malloc") else {
        println!("c_allocations_beyond_plain=NA");
        return;
    };
    let library = library.as_path();
    let most = std::thread::scope(|scope| {
        let settings =
            [(1, 1000, 400), (200, 100, 40)].into_iter().flat_map(|(subscriptions, messages, rate)| {
                [false, true].map(|on_worker| Settings { on_worker, subscriptions, messages, rate })
            });
        let processes: Vec<_> =
            settings.map(|settings| scope.spawn(move || beyond_plain_of(&settings, library))).collect();
        processes.into_iter().map(|process| process.join().unwrap()).max().unwrap()
    });
    println!("c_allocations_beyond_plain={most}");
    assert_eq!(most, 0);
}
