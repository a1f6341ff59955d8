// SPDX-License-Identifier: Apache-2.0

//! The executor that measures its callbacks.

use std::{
    sync::atomic::AtomicBool,
    task::{Poll, Waker},
};

use ros_env::test_msgs::{
    action::{Fibonacci, Fibonacci_Goal},
    srv::{Empty, Empty_Request, Empty_Response},
};

use crate::waiting::*;

#[test]
fn a_blocked_thread_is_judged_and_its_callbacks_published() {
    let executor = context(domain(), &[]).create_executor(StatsExecutor::single_threaded());
    let node = executor.create_node("robot").unwrap();
    let expected = Expectations::new().error_unless("/robot:executor: busy<80%".parse().unwrap());
    // Each window is longer than the callback that blocks for 500 ms.
    let options = options().publish_period(Duration::from_millis(600)).expect(expected);
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let is_blocking = Arc::new(AtomicBool::new(false));
    let blocks = Arc::clone(&is_blocking);
    let _waits = node.create_timer_repeating(Duration::from_millis(10), || {}).unwrap();
    let _blocks = node.create_timer_repeating(Duration::from_millis(70), move || {
        if blocks.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    let mut reader = Reader::start(domain());
    let diagnostics = Program::start("diagnostics.py", &[], domain());
    let _spinning = Spinning::start(executor);
    let executor_source = statistics.executor().unwrap();
    let (windows, health) = (Windows::collect(executor_source.watch()), executor_source.health());
    windows.wait_for_more(1);
    assert_eq!(health.borrow().level, Level::Ok, "{:?}", health.borrow());
    is_blocking.store(true, Ordering::Relaxed);
    wait_for("error", || health.borrow().level == Level::Error);
    assert!(health.borrow().to_string().contains("busy"), "{:?}", health.borrow());

    wait_for("the callbacks", || {
        let window = executor_source.latest().unwrap();
        let status = window.executor.as_ref().unwrap();
        let (Some(longest), [worst, ..]) = (&status.longest, &status.waits[..]) else { return false };
        let names = [&longest.callback, &worst.waiting, &worst.running].map(ToString::to_string);
        let ready_to_run = window.get(Metric::ReadyToRun).unwrap().maximum;
        let delays =
            [longest.milliseconds, worst.milliseconds, ready_to_run, windows.most(Metric::LongestCallback)];
        names == ["timer 70ms", "timer 10ms", "timer 70ms"]
            && &*longest.thread == "spin"
            && delays.iter().all(|delay| (250.0..5000.0).contains(delay))
    });
    assert!((80.0..=100.0).contains(&windows.most(Metric::Busy)));
    read_all(&mut reader, "/robot:executor", SourceKind::Executor.metrics());
    let mut status = Value::Null;
    wait_for("the callbacks on /diagnostics", || {
        let Some(line) = diagnostics.try_read() else { return false };
        status = serde_json::from_str::<Value>(&line).unwrap()["status"][0].take();
        let text = |key: &str| status["values"][key].as_str().unwrap_or_default();
        text("longest_callback").starts_with("timer 70ms on spin, ")
            && text("callback_wait_1").starts_with("timer 10ms waited ")
            && text("callback_wait_1").ends_with(" ms for timer 70ms")
    });
    assert_eq!(status["name"], "robot: executor");
    assert_eq!(status["values"]["busy.spin"], status["values"]["busy.maximum"]);
}

#[test]
fn each_kind_of_callback_has_its_name_and_thread() {
    const LONG: Duration = Duration::from_millis(50);
    let block = || std::thread::sleep(LONG);
    for (runtime, [spin, takes]) in
        [(StatsExecutor::new(), ["spin", "node"]), (StatsExecutor::single_threaded(), ["spin", "spin"])]
    {
        let executor = context(domain(), &[]).create_executor(runtime);
        let node = executor.create_node("robot").unwrap();
        let statistics = statistics(&node);
        let worker = node.create_worker(());
        let serve = move |_: Empty_Request| {
            block();
            Empty_Response::default()
        };
        let _service = node.create_service::<Empty, _>("switch", serve).unwrap();
        let _of_worker = worker.create_service::<Empty, _>("worker_switch", serve).unwrap();
        let decide = move |goal: RequestedGoal<Fibonacci>| async move {
            block();
            goal.reject()
        };
        let _server = node.create_action_server::<Fibonacci, _>("fibonacci", decide).unwrap();
        let goals = node.create_action_client::<Fibonacci>("fibonacci").unwrap();
        let numbers = node.create_publisher::<Int32>("number").unwrap();
        let _subscription = node.create_subscription("number", move |_: Int32| block()).unwrap();
        let clients = ["switch", "worker_switch"].map(|name| node.create_client::<Empty>(name).unwrap());
        let _spinning = Spinning::start(executor);
        wait_for("services", || clients.iter().all(|client| client.service_is_ready().unwrap()));
        let call = |index: usize| drop(clients[index].call::<_, Empty_Response>(Empty_Request::default()));
        // Triggers a callback until a window reports it as the longest callback of this thread.
        let find = |callback: &str, thread: &str, trigger: &mut dyn FnMut()| {
            let mut polls = 0..;
            wait_for(&format!("{callback} on {thread}"), || {
                // Triggers only at each 20th poll, so that callbacks do not queue up.
                if polls.next().is_some_and(|polls: u32| polls % 20 == 0) {
                    trigger();
                }
                let Some(window) = statistics.executor().unwrap().latest() else { return false };
                let longest = window.executor.as_ref().unwrap().longest.as_ref();
                longest.is_some_and(|longest| {
                    (&*longest.callback.to_string(), &*longest.thread) == (callback, thread)
                })
            });
        };
        find("service /switch", spin, &mut || call(0));
        find("service /worker_switch", "worker 1", &mut || call(1));
        find("subscription /number", spin, &mut || numbers.publish(Int32 { data: 1 }).unwrap());
        // In Jazzy, rcl_action returns the action name as it was given, without `/`.
        let is_jazzy = std::env::var("ROS_DISTRO").is_ok_and(|distro| distro == "jazzy");
        let server = if is_jazzy { "action server fibonacci" } else { "action server /fibonacci" };
        find(server, spin, &mut || drop(goals.request_goal(Fibonacci_Goal::default())));
        find("task", spin, &mut || drop(node.commands().run(async move { block() })));
        find("task", "worker 1", &mut || drop(worker.run(move |_| block())));
        let timer = node.create_timer_repeating(Duration::from_millis(70), block).unwrap();
        find("timer 70ms", takes, &mut || ());
        // The new timer may get the address of the dropped timer. The executor must not report the old timer's name.
        drop(timer);
        let _timer = node.create_timer_repeating(Duration::from_micros(70_500), block).unwrap();
        find("timer 70.5ms", takes, &mut || ());
    }

    // The first `NodeStatistics` on an executor publishes the executor's metrics. After its drop, another
    // `NodeStatistics` can publish them.
    let executor = context(domain(), &[]).create_executor(StatsExecutor::new());
    let [one, other] = ["one", "other"].map(|name| executor.create_node(name).unwrap());
    let first = NodeStatistics::new(&one).unwrap();
    assert_eq!(first.executor().unwrap().source_name(), "/one:executor");
    assert!(NodeStatistics::new(&other).unwrap().executor().is_none());
    drop(first);
    let quiet = NodeStatisticsOptions::new().diagnostics(false);
    let second = NodeStatistics::with_options(&other, quiet).unwrap();
    assert_eq!(second.executor().unwrap().source_name(), "/other:executor");
    let basic = context(domain(), &[]).create_basic_executor();
    assert!(NodeStatistics::new(&basic.create_node("basic").unwrap()).unwrap().executor().is_none());
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut output = Poll::Pending;
    wait_for("future", || {
        output = future.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop()));
        output.is_ready()
    });
    let Poll::Ready(output) = output else { unreachable!() };
    output
}

#[test]
fn it_runs_and_ends_like_the_basic_executor() {
    let context = context(domain(), &[]);
    for (name, executor) in [
        ("basic", context.create_basic_executor()),
        ("measured", context.create_executor(StatsExecutor::new())),
        ("single_threaded", context.create_executor(StatsExecutor::single_threaded())),
    ] {
        let node = executor.create_node(name).unwrap();
        let executor = spins_end(executor, &node);
        handles_all(executor, &node);
    }
}

/// Asserts that spinning ends by a timeout, by a promise, by a halt, and after one turn with `spin_once`.
fn spins_end(mut executor: Executor, node: &Node) -> Executor {
    let short = || SpinOptions::default().timeout(Duration::from_millis(1));
    let errors = executor.spin(short());
    let is_timeout = matches!(errors[..], [RclrsError::RclError { code: RclReturnCode::Timeout, .. }]);
    assert!(is_timeout, "{errors:?}");
    run(&mut executor, async {});
    let commands = Arc::clone(executor.commands());
    // The halt is requested by a task of the executor, because a halt before the executor spins has no effect.
    let _halt = node.commands().run(async move { commands.halt_spinning() });
    assert!(executor.spin(SpinOptions::default().timeout(LIMIT)).is_empty());
    let is_called = Arc::new(AtomicBool::new(false));
    let called = Arc::clone(&is_called);
    let call = move || called.store(true, Ordering::Relaxed);
    let _timer = node.create_timer_oneshot(Duration::from_millis(1), call).unwrap();
    wait_for("timer", || {
        assert!(executor.spin(SpinOptions::spin_once().timeout(LIMIT)).is_empty());
        is_called.load(Ordering::Relaxed)
    });
    let (executor, errors) = wait(executor.spin_async(short()));
    assert_eq!(errors.len(), 1, "{errors:?}");
    executor
}

/// Asserts that the executor handles messages, requests, tasks and workers, and continues after a panic on a worker.
fn handles_all(executor: Executor, node: &Node) {
    const COUNT: i32 = 200;
    let received = Arc::new(Mutex::new(vec![]));
    let to = Arc::clone(&received);
    let name = node.name();
    let topic = || name.as_str().keep_all().reliable();
    let receive = move |message: Int32| to.lock().unwrap().push(message.data);
    let _subscription = node.create_subscription(topic(), receive).unwrap();
    let worker = node.create_worker(0_i32);
    let count = |payload: &mut i32, _: Int32| *payload += 1;
    let _on_worker = worker.create_subscription(topic(), count).unwrap();
    let all = worker.listen_until(|payload| (*payload == COUNT).then_some(*payload));
    let serve = |_: Empty_Request| async { Empty_Response::default() };
    let _service = node.create_async_service::<Empty, _>("switch", serve).unwrap();
    let client = node.create_client::<Empty>("switch").unwrap();
    let publisher = node.create_publisher(topic()).unwrap();
    let ticks = Arc::new(AtomicU64::new(0));
    let ticking = Arc::clone(&ticks);
    let tick = move || {
        ticking.fetch_add(1, Ordering::Relaxed);
    };
    let _timer = node.create_timer_repeating(Duration::from_millis(1), tick).unwrap();
    let _spinning = Spinning::start(executor);
    wait_for("subscriptions", || publisher.get_subscription_count().unwrap() == 2);
    (0..COUNT).for_each(|data| publisher.publish(Int32 { data }).unwrap());
    assert_eq!(wait(all), Ok(COUNT));
    wait_for("messages", || received.lock().unwrap().len() == COUNT as usize);
    assert!(received.lock().unwrap().iter().copied().eq(0..COUNT), "in order");

    // This task awaits a result of the worker's thread and results of callbacks.
    let later = worker.run(|payload| std::mem::replace(payload, -1));
    let answered = node.commands().run(async move {
        client.notify_on_service_ready().await.unwrap();
        let _response: Empty_Response = client.call(Empty_Request::default()).unwrap().await.unwrap();
        later.await.unwrap()
    });
    assert_eq!(wait(answered), Ok(COUNT));

    // A timer must run although a task always wakes itself, and while a worker is created.
    let until = ticks.load(Ordering::Relaxed) + 20;
    let ticked = Arc::clone(&ticks);
    let busy = node.commands().run(std::future::poll_fn(move |context| {
        context.waker().wake_by_ref();
        if ticked.load(Ordering::Relaxed) > until {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }));
    assert_eq!(wait(busy), Ok(()));
    let late = node.create_worker(());
    assert_eq!(wait(late.run(|_| 7)), Ok(7));

    // A panic must end only the worker in which it occurs.
    drop(late.run(|_| panic!("the panic of the test")));
    let before = ticks.load(Ordering::Relaxed);
    wait_for("further ticks", || ticks.load(Ordering::Relaxed) > before + 20);
    assert_eq!(wait(worker.run(|payload| *payload)), Ok(-1));
}
