// SPDX-License-Identifier: Apache-2.0

//! The executor that measures what it runs.

use std::{
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        Arc, Mutex,
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rclrs::*;
use rclrs_topic_statistics::{
    health::Level, CallbackKind, ExecutorWindow, MeasuredExecutor, Metric, NodeStatistics,
    NodeStatisticsOptions, TopicStatisticsOptions, WindowStatistics,
};
use ros_env::{
    sensor_msgs::msg::Imu,
    std_msgs::msg::Int32,
    test_msgs::{
        action::{Fibonacci, Fibonacci_Goal},
        srv::{Empty, Empty_Request, Empty_Response},
    },
};
use serde_json::{json, Value};
use test_support::{collect, context, domain, of, wait_for, Program, Reader, Spinning, LIMIT};

/// Creates a node with statistics on a measured executor.
fn measured(executor: MeasuredExecutor, window: Duration) -> (Executor, Node, NodeStatistics) {
    let executor = context(domain(), &[]).create_executor(executor);
    let node = executor.create_node("robot").unwrap();
    let statistics = NodeStatistics::with_options(&node, options(window)).unwrap();
    (executor, node, statistics)
}

fn options(window: Duration) -> TopicStatisticsOptions {
    TopicStatisticsOptions::new().publish_period(window)
}

/// Returns the next windows of the executor.
fn windows(statistics: &NodeStatistics, count: usize) -> Vec<Arc<WindowStatistics>> {
    let windows = collect(statistics.executor().unwrap().watch());
    wait_for("windows", || windows.lock().unwrap().len() >= count);
    let windows = windows.lock().unwrap()[..count].to_vec();
    windows
}

fn executor(window: &WindowStatistics) -> &ExecutorWindow {
    window.executor.as_deref().unwrap()
}

fn busy(window: &WindowStatistics, thread: &str) -> f64 {
    let threads = &executor(window).threads;
    threads.iter().find(|candidate| &*candidate.name == thread).unwrap_or_else(|| panic!("{threads:?}")).busy
}

/// When callbacks ran, as the callbacks themselves have measured it: in nanoseconds of the system clock.
#[derive(Clone, Default)]
struct Ran(Arc<Mutex<Vec<(i64, i64)>>>);

impl Ran {
    fn now() -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
    }

    fn run(&self, duration: Duration) {
        let start = Self::now();
        std::thread::sleep(duration);
        self.0.lock().unwrap().push((start, Self::now()));
    }

    /// Returns the share of a window, in percent.
    fn share(&self, window: &WindowStatistics) -> f64 {
        let (start, stop) = (window.window.start.as_nanoseconds(), window.window.stop.as_nanoseconds());
        let ran = self.0.lock().unwrap();
        let sum: i64 = ran.iter().map(|(from, to)| ((*to).min(stop) - (*from).max(start)).max(0)).sum();
        sum as f64 / (stop - start) as f64 * 100.0
    }

    /// Returns whether a window has a whole callback, and 100 ms for the timer that waits for it.
    fn is_in(&self, window: &WindowStatistics) -> bool {
        let (start, stop) = (window.window.start.as_nanoseconds(), window.window.stop.as_nanoseconds());
        self.0.lock().unwrap().iter().any(|(from, to)| *from >= start && *to + 100_000_000 <= stop)
    }

    /// Returns the longest duration in milliseconds.
    fn longest(&self) -> f64 {
        self.0.lock().unwrap().iter().map(|(from, to)| (to - from) as f64 * 1e-6).fold(0.0, f64::max)
    }
}

/// Where the callback and the timer are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scope {
    SingleThreaded,
    Worker,
    /// The basic executor's: a thread for timers and another one for subscriptions.
    Node,
}

/// Blocks for 55 ms with each message of another process, beside a timer of 10 ms. Returns windows of the executor with
/// a whole callback, and when the callback ran.
fn block(scope: Scope) -> (Vec<Arc<WindowStatistics>>, Ran) {
    const BLOCKED: Duration = Duration::from_millis(55);
    const PERIOD: Duration = Duration::from_millis(10);
    let runtime = match scope {
        Scope::SingleThreaded => MeasuredExecutor::single_threaded(),
        Scope::Worker | Scope::Node => MeasuredExecutor::new(),
    };
    let (executor, node, statistics) = measured(runtime, Duration::from_millis(500));
    let (ran, messages) = (Ran::default(), Arc::new(AtomicU64::new(0)));
    let callback = {
        let (ran, messages) = (ran.clone(), Arc::clone(&messages));
        move |_: Imu| {
            ran.run(BLOCKED);
            messages.fetch_add(1, Ordering::Relaxed);
        }
    };
    // Plain ones, without statistics of their own.
    let worker = node.create_worker(());
    let _plain: (Box<dyn std::any::Any>, Box<dyn std::any::Any>) = match scope {
        Scope::Worker => (
            Box::new(worker.create_subscription::<Imu, _>("imu", callback).unwrap()),
            Box::new(worker.create_timer_repeating(PERIOD, || ()).unwrap()),
        ),
        Scope::SingleThreaded | Scope::Node => (
            Box::new(node.create_subscription::<Imu, _>("imu", callback).unwrap()),
            Box::new(node.create_timer_repeating(PERIOD, || ()).unwrap()),
        ),
    };
    let _spinning = Spinning::start(executor);
    let _publisher = Program::start("publisher.py", &["--rate", "5"], domain());
    wait_for("messages", || messages.load(Ordering::Relaxed) >= 2);
    let (all, mut whole) = (collect(statistics.executor().unwrap().watch()), vec![]);
    // If the publisher is late, or the end of a window is, a window has none.
    wait_for("windows with a whole callback", || {
        whole.clone_from(&all.lock().unwrap());
        whole.pop(); // a callback may still run
        whole.retain(|window| ran.is_in(window));
        whole.len() >= 5
    });
    (whole, ran)
}

#[test]
fn a_callback_of_55_ms_makes_a_timer_of_its_thread_wait_and_both_are_named() {
    for (scope, thread) in [(Scope::SingleThreaded, "spin"), (Scope::Worker, "worker 1")] {
        let (windows, ran) = block(scope);
        let mut held = vec![];
        for window in &windows {
            let context = format!("{scope:?}: {}", executor(window));
            let (measured, own) = (busy(window, thread), ran.share(window));
            assert!(measured >= own - 0.1, "{measured}, itself {own}: {context}");
            let summary = window.get(Metric::Busy).unwrap();
            assert_eq!(summary.sample_count as usize, executor(window).threads.len());

            let longest = executor(window).longest.as_ref().unwrap();
            assert!(longest.milliseconds >= 55.0, "{context}");
            assert_eq!(window.get(Metric::LongestCallback).unwrap().average, longest.milliseconds);

            // The timer becomes due within 10 ms of the callback's start.
            let worst = &executor(window).waits[0];
            assert!(worst.milliseconds >= 44.0, "{context}");
            let ready_to_run = window.get(Metric::ReadyToRun).unwrap();
            assert!(ready_to_run.maximum >= worst.milliseconds, "{ready_to_run:?} {context}");
            assert!(ready_to_run.minimum < 5.0, "most do not wait: {ready_to_run:?}");

            // It takes messages, too. A thread can be preempted in a run outside of the callback, which sees nothing.
            let limit = ran.longest() + 1.0;
            if measured >= own + 4.0 || longest.milliseconds >= limit || worst.milliseconds >= limit {
                held.push(format!("{measured}, itself {own}, {limit}: {context}"));
                continue;
            }
            assert_eq!(summary.maximum, measured, "the other threads have little to do: {context}");
            assert_eq!(longest.callback.to_string(), "subscription /imu", "{context}");
            assert_eq!(&*longest.thread, thread);
            let pair = (worst.waiting.to_string(), worst.running.to_string());
            assert_eq!(pair, ("timer 10ms".to_owned(), "subscription /imu".to_owned()), "{context}");
        }
        assert!(2 * held.len() < windows.len(), "{} windows: {held:#?}", windows.len());
    }
}

#[test]
fn in_the_nodes_scope_of_the_basic_order_a_timer_does_not_wait_for_a_subscription() {
    let (windows, ran) = block(Scope::Node);
    let (mut long, mut held) = (vec![], vec![]);
    for window in &windows {
        let context = executor(window).to_string();
        let (measured, own) = (busy(window, "spin"), ran.share(window));
        assert!(measured >= own - 0.1, "{measured}, itself {own}: {context}");
        let waited = |wait: &rclrs_topic_statistics::CallbackWait| {
            wait.waiting.kind == CallbackKind::Timer && wait.running.kind == CallbackKind::Subscription
        };
        // A take is one, too, but takes no 10 ms unless its thread is preempted.
        long.extend(executor(window).waits.iter().find(|wait| waited(wait) && wait.milliseconds > 10.0));
        // A thread can be preempted in a run outside of the callback, which sees nothing.
        if measured >= own + 4.0 || busy(window, "node") >= 10.0 {
            held.push(format!("{measured}, itself {own}: {context}"));
            continue;
        }
        let longest = executor(window).longest.as_ref().unwrap();
        assert_eq!((longest.callback.kind, &*longest.thread), (CallbackKind::Subscription, "spin"));
    }
    assert!(2 * held.len() < windows.len(), "{} windows: {held:#?}", windows.len());
    assert!(2 * long.len() < windows.len(), "{} windows: {long:?}", windows.len());
}

const LONG: Duration = Duration::from_millis(30);

/// Triggers a callback that takes [`LONG`] until it is the longest of a window, on its thread. Its take on the thread
/// "node" has the same name, and is the longest if it is preempted.
fn find(statistics: &NodeStatistics, callback: &str, thread: &str, mut trigger: impl FnMut()) {
    let mut polls = 0_u32;
    wait_for(&format!("{callback} on {thread}"), || {
        // Rarely, so that they do not queue up.
        if polls % 20 == 0 {
            trigger();
        }
        polls += 1;
        let window = statistics.executor().unwrap().latest();
        let longest = window.as_ref().and_then(|window| executor(window).longest.as_ref());
        longest.is_some_and(|longest| {
            (longest.callback.to_string().as_str(), &*longest.thread) == (callback, thread)
                && longest.milliseconds >= 30.0
        })
    });
}

#[test]
fn each_kind_of_callback_has_its_name_and_thread() {
    for (runtime, [spin, takes]) in
        [(MeasuredExecutor::new(), ["spin", "node"]), (MeasuredExecutor::single_threaded(), ["spin", "spin"])]
    {
        let (executor, node, statistics) = measured(runtime, Duration::from_millis(100));
        let block = || std::thread::sleep(LONG);
        let worker = node.create_worker(());
        let services = (
            node.create_service::<Empty, _>("switch", move |_: Empty_Request| {
                block();
                Empty_Response::default()
            }),
            worker.create_service::<Empty, _>("worker_switch", move |_: Empty_Request| {
                block();
                Empty_Response::default()
            }),
        );
        let _server = node
            .create_action_server::<Fibonacci, _>(
                "fibonacci",
                move |goal: RequestedGoal<Fibonacci>| async move {
                    block();
                    goal.reject()
                },
            )
            .unwrap();
        let goals = node.create_action_client::<Fibonacci>("fibonacci").unwrap();
        let numbers = node.create_publisher::<Int32>("number").unwrap();
        let subscription = node.create_subscription("number", move |_: Int32| block()).unwrap();
        let clients = ["switch", "worker_switch"].map(|name| node.create_client::<Empty>(name).unwrap());
        let _spinning = Spinning::start(executor);
        let call = |index: usize| {
            let client: &Client<Empty> = &clients[index];
            if client.service_is_ready().unwrap() {
                drop(client.call::<_, Empty_Response>(Empty_Request::default()).unwrap());
            }
        };

        find(&statistics, "service /switch", spin, || call(0));
        find(&statistics, "service /worker_switch", "worker 1", || call(1));
        let publish = || numbers.publish(Int32 { data: 1 }).unwrap();
        find(&statistics, "subscription /number", spin, publish);
        drop(subscription);
        let goal = || drop(goals.request_goal(Fibonacci_Goal::default()));
        // rcl_action of Jazzy has the name as it was given.
        let is_jazzy = std::env::var("ROS_DISTRO").is_ok_and(|distro| distro == "jazzy");
        let server = if is_jazzy { "action server fibonacci" } else { "action server /fibonacci" };
        find(&statistics, server, spin, goal);
        let task = || drop(node.commands().run(async move { block() }));
        find(&statistics, "task", spin, task);
        // So that the tasks before are in no window any more.
        drop(windows(&statistics, 5));
        find(&statistics, "task", "worker 1", || drop(worker.run(move |_| block())));
        let timer = node.create_timer_repeating(Duration::from_millis(70), block).unwrap();
        find(&statistics, "timer 70ms", takes, || ());
        // The address of a primitive can be used again by the next one, which has another name.
        drop(timer);
        let _timer = node.create_timer_repeating(Duration::from_micros(70_500), block).unwrap();
        find(&statistics, "timer 70.5ms", takes, || ());
        drop(services);
    }
}

/// Returns rclrs's basic executor and ours, on the domain of this test: what they do has to be the same.
fn executors() -> [(&'static str, Executor); 3] {
    let context = context(domain(), &[]);
    [
        ("basic", context.create_basic_executor()),
        ("measured", context.create_executor(MeasuredExecutor::new())),
        ("single-threaded", context.create_executor(MeasuredExecutor::single_threaded())),
    ]
}

fn until(promise: Promise<()>) -> SpinOptions {
    SpinOptions::default().until_promise_resolved(promise).timeout(LIMIT)
}

#[test]
fn a_spin_ends_by_timeout_promise_halt_and_after_one_turn_as_the_basic_executors_does() {
    for (name, mut executor) in executors() {
        let _node = executor.create_node(name.replace('-', "_").as_str()).unwrap();
        for _ in 0..5 {
            let errors = executor.spin(SpinOptions::default().timeout(Duration::from_millis(1)));
            let is_timeout = |error: &RclrsError| {
                matches!(error, RclrsError::RclError { code: RclReturnCode::Timeout, .. })
            };
            assert!(errors.len() == 1 && is_timeout(&errors[0]), "{name}: {errors:?}");
        }
        let (sender, promise) = tokio::sync::oneshot::channel::<()>();
        let (_, notice) =
            executor.commands().create_notice(executor.commands().run(async { promise.await.unwrap() }));
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            sender.send(()).unwrap();
        });
        assert!(executor.spin(until(notice)).is_empty(), "{name}");
        thread.join().unwrap();

        let commands = Arc::clone(executor.commands());
        let mut spins = commands.query(async {});
        let thread = std::thread::spawn(move || {
            // A halt before the executor spins would have no effect.
            wait_for("spinning executor", || matches!(spins.try_recv(), Ok(Some(()))));
            commands.halt_spinning();
        });
        assert!(executor.spin(SpinOptions::default().timeout(LIMIT)).is_empty(), "{name}");
        thread.join().unwrap();

        let done = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&done);
        let _timer = executor
            .create_node("timer")
            .unwrap()
            .create_timer_oneshot(Duration::from_millis(1), move || set.store(true, Ordering::Relaxed))
            .unwrap();
        wait_for("timer", || {
            assert!(executor.spin(SpinOptions::spin_once().timeout(LIMIT)).is_empty(), "{name}");
            done.load(Ordering::Relaxed)
        });
        let spun = executor.spin_async(SpinOptions::default().timeout(Duration::from_millis(1)));
        let (mut executor, errors) = wait(spun);
        assert_eq!(errors.len(), 1, "{name}: {errors:?}");
        assert_eq!(
            executor.spin(SpinOptions::default().timeout(Duration::from_millis(1))).len(),
            1,
            "{name}"
        );
    }
}

/// Waits for a future that another thread completes.
fn wait<T>(future: impl std::future::Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut output = None;
    wait_for("future", || {
        let waker = std::task::Waker::noop();
        match future.as_mut().poll(&mut std::task::Context::from_waker(waker)) {
            std::task::Poll::Ready(value) => output = Some(value),
            std::task::Poll::Pending => {}
        }
        output.is_some()
    });
    output.unwrap()
}

#[test]
fn messages_requests_tasks_and_workers_are_handled_as_by_the_basic_executor() {
    const COUNT: i32 = 200;
    for (name, executor) in executors() {
        let node = executor.create_node(name.replace('-', "_").as_str()).unwrap();
        let received = Arc::new(Mutex::new(vec![]));
        let to = Arc::clone(&received);
        let topic = || "number".keep_all().reliable();
        let _subscription = node
            .create_subscription(topic(), move |message: Int32| to.lock().unwrap().push(message.data))
            .unwrap();
        let worker = node.create_worker(0_i32);
        let count = |payload: &mut i32, message: Int32| *payload += i32::from(message.data >= 0);
        let _on_worker = worker.create_subscription(topic(), count).unwrap();
        let publisher = node.create_publisher(topic()).unwrap();
        let all = worker.listen_until(|payload| (*payload == COUNT).then_some(*payload));
        let _service = node
            .create_async_service::<Empty, _>("switch", |_: Empty_Request| async {
                Empty_Response::default()
            })
            .unwrap();
        let client = node.create_client::<Empty>("switch").unwrap();
        let spinning = Spinning::start(executor);
        wait_for("subscriptions", || publisher.get_subscription_count().unwrap() == 2);
        for data in 0..COUNT {
            publisher.publish(Int32 { data }).unwrap();
        }
        wait_for("messages", || received.lock().unwrap().len() == COUNT as usize);
        assert_eq!(*received.lock().unwrap(), (0..COUNT).collect::<Vec<_>>(), "{name}: in order");
        assert_eq!(wait(all), Ok(COUNT), "{name}");

        // A task that awaits what other threads and other callbacks complete.
        let later = worker.run(|payload| std::mem::replace(payload, -1));
        let calling = Arc::clone(&client);
        let answered = node.commands().run(async move {
            calling.notify_on_service_ready().await.unwrap();
            let _response: Empty_Response = calling.call(Empty_Request::default()).unwrap().await.unwrap();
            later.await.unwrap()
        });
        assert_eq!(wait(answered), Ok(COUNT), "{name}");

        // A worker that is created while the executor spins, and a task that always wakes itself.
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let busy = node.commands().run(std::future::poll_fn(move |context| {
            context.waker().wake_by_ref();
            match stopped.load(Ordering::Relaxed) {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        }));
        let late = node.create_worker(String::new());
        // Before the timer: a new listener does not see what happened before, and nothing would wake the worker.
        let all_x = late.listen_until(|text| (text == "x").then_some(1));
        let _timer =
            late.create_timer_oneshot(Duration::from_millis(1), |text: &mut String| text.push('x')).unwrap();
        assert_eq!(wait(all_x), Ok(1), "{name}");
        let ticks = Arc::new(AtomicU64::new(0));
        let tick = Arc::clone(&ticks);
        let _ticks = node
            .create_timer_repeating(Duration::from_millis(1), move || {
                tick.fetch_add(1, Ordering::Relaxed);
            })
            .unwrap();
        wait_for("timer beside the busy task", || ticks.load(Ordering::Relaxed) > 20);
        stop.store(true, Ordering::Relaxed);
        assert_eq!(wait(busy), Ok(()), "{name}");

        // A panic ends its worker, and nothing else.
        drop(late.run(|_| panic!("the panic of the test")));
        wait_for("further ticks", || ticks.load(Ordering::Relaxed) > 40);
        assert_eq!(wait(worker.run(|payload| *payload)), Ok(-1), "{name}");
        drop(spinning);
    }
}

#[test]
fn the_first_statistics_of_an_executor_publish_it() {
    let (executor, node, first) = measured(MeasuredExecutor::new(), Duration::from_millis(50));
    assert_eq!(first.executor().unwrap().source_name(), "/robot:executor");
    let other = executor.create_node("other").unwrap();
    assert!(NodeStatistics::new(&other).unwrap().executor().is_none());
    assert!(NodeStatistics::new(&node).unwrap().executor().is_none());
    drop(first);
    let second = NodeStatistics::with_options(&other, options(Duration::from_millis(50))).unwrap();
    assert_eq!(second.executor().unwrap().source_name(), "/other:executor");
    let window = windows(&second, 1).remove(0);
    assert_eq!((window.count, executor_threads(&window)), (0, vec!["spin".to_owned(), "node".to_owned()]));
    let basic = context(domain(), &[]).create_basic_executor();
    assert!(NodeStatistics::new(&basic.create_node("basic").unwrap()).unwrap().executor().is_none());
}

fn executor_threads(window: &WindowStatistics) -> Vec<String> {
    executor(window).threads.iter().map(|thread| thread.name.to_string()).collect()
}

#[test]
fn the_metrics_of_an_executor_are_published_and_judged() {
    let domain = domain();
    let executor = context(domain, &[]).create_executor(MeasuredExecutor::single_threaded());
    let node = executor.create_node("robot").unwrap();
    let expected = rclrs_topic_statistics::health::Expectations::new()
        .error_unless("/robot:executor: busy<80%".parse().unwrap());
    let statistics =
        NodeStatistics::with_options(&node, options(Duration::from_millis(200)).expect(expected)).unwrap();
    let is_busy = Arc::new(AtomicBool::new(false));
    let busy = Arc::clone(&is_busy);
    let _timer = node
        .create_timer_repeating(Duration::from_millis(10), move || {
            let started = Instant::now();
            while busy.load(Ordering::Relaxed) && started.elapsed() < Duration::from_millis(100) {
                std::thread::sleep(Duration::from_millis(1));
            }
        })
        .unwrap();
    let mut reader = Reader::start(domain);
    let _spinning = Spinning::start(executor);
    let health = statistics.executor().unwrap().health();
    wait_for("health", || health.borrow().window.is_some());
    assert_eq!(health.borrow().level, Level::Ok, "{:?}", health.borrow());
    is_busy.store(true, Ordering::Relaxed);
    wait_for("error", || health.borrow().level == Level::Error);
    let text = health.borrow().to_string();
    assert!(text.contains("busy"), "{text}");

    let source = "/robot:executor";
    reader.read_until("busy windows", |metrics| {
        let is_full = |metric: &&test_support::Metric| metric.maximum() > 95.0;
        of(metrics, source, "busy").filter(is_full).count() >= 2
            && of(metrics, source, "longest_callback_ms").filter(|metric| metric.maximum() > 95.0).count()
                >= 2
            && of(metrics, source, "ready_to_run_ms").any(|metric| metric.maximum() > 50.0)
    });
    let units = ["busy", "ready_to_run_ms", "longest_callback_ms"]
        .map(|metric| reader.windows(source, metric)[0].unit.clone());
    assert_eq!(units, ["%", "ms", "ms"]);
}

/// Creates two timers. The second one makes the first one wait.
fn blocking_timers(node: &Node) -> [Timer; 2] {
    let short = node.create_timer_repeating(Duration::from_millis(10), || {}).unwrap();
    let block = || std::thread::sleep(Duration::from_millis(50));
    [short, node.create_timer_repeating(Duration::from_millis(200), block).unwrap()]
}

#[test]
fn which_callback_waits_for_which_is_on_diagnostics_without_expectations() {
    let domain = domain();
    let executor = context(domain, &[]).create_executor(MeasuredExecutor::single_threaded());
    let node = executor.create_node("robot").unwrap();
    let statistics = NodeStatistics::with_options(&node, options(Duration::from_millis(500))).unwrap();
    let reader = Program::start("diagnostics.py", &[], domain);
    let _timers = blocking_timers(&node);
    let _spinning = Spinning::start(executor);
    let mut status = Value::Null;
    // A window can be too short for both.
    wait_for("the longest callback and a wait", || {
        while let Some(line) = reader.try_read() {
            status = serde_json::from_str::<Value>(&line).unwrap()["status"][0].take();
            let text = |key: &str| status["values"][key].as_str().unwrap_or_default();
            let (longest, wait) = (text("longest_callback"), text("callback_wait_1"));
            if longest.starts_with("timer 200ms on spin, ")
                && longest.ends_with(" ms")
                && wait.starts_with("timer 10ms waited ")
                && wait.ends_with(" ms for timer 200ms")
            {
                return true;
            }
        }
        false
    });
    assert_eq!((&status["name"], &status["level"]), (&json!("robot: executor"), &json!(0)), "{status:#}");
    let values = &status["values"];
    assert_eq!(values["measurement_source_name"], "/robot:executor");
    let number = |key: &str| -> f64 { values[key].as_str().unwrap().parse().unwrap() };
    // The thread "node" has nothing to run with a single thread.
    assert_eq!(number("busy.spin"), number("busy.maximum"));
    assert!((5.0..=100.0).contains(&number("busy.spin")), "50 of 200 ms: {values:#}");

    // It is off where health is not published, and where no executor is measured.
    drop(statistics);
    let quiet = NodeStatisticsOptions::new().diagnostics(false);
    let other = context(test_support::domain(), &[]).create_executor(MeasuredExecutor::new());
    let other = other.create_node("other").unwrap();
    let quiet = NodeStatistics::with_options(&other, quiet).unwrap();
    assert!(quiet.executor().is_some());
    assert_eq!(other.count_publishers("/diagnostics").unwrap(), 0);
}
