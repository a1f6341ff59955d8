// SPDX-License-Identifier: Apache-2.0

//! Statistics live as long as a handle of a source, whatever else is dropped. After that, they leave nothing behind.

use std::{
    any::Any,
    panic::{catch_unwind, AssertUnwindSafe},
    process::Output,
    sync::{atomic::AtomicBool, OnceLock},
};

use ros_env::test_msgs::{
    action::Fibonacci,
    srv::{Empty, Empty_Request, Empty_Response},
};

use crate::support::*;

type Finished = watch::Receiver<Option<Arc<WindowStatistics>>>;

/// Returns whether a thread of statistics runs in this process.
pub fn has_thread() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let mut names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.any(|name| name.trim() == "topic_stats")
}

fn wait_for_window(windows: &mut Finished) {
    windows.mark_unchanged();
    wait_for("a window", || windows.has_changed().unwrap());
}

fn wait_for_end(windows: &Finished) {
    wait_for("the end", || windows.has_changed().is_err() && !has_thread());
}

#[test]
fn the_last_handle_ends_the_statistics() {
    if shares_its_process() {
        return;
    }
    macro_rules! kept {
        ($handle:expr) => {{
            let handle = $handle;
            let windows = handle.statistics().watch();
            (Box::new(handle), windows)
        }};
    }
    type Create = fn(&NodeStatistics) -> (Box<dyn Any>, Finished);
    let creations: [Create; 9] = [
        |statistics| kept!(statistics.create_subscription("imu", |_: Imu| ()).unwrap()),
        |statistics| kept!(statistics.create_publisher::<Imu>("imu").unwrap()),
        |statistics| {
            kept!(statistics
                .create_service::<Empty, _>("empty", |_: Empty_Request| Empty_Response::default())
                .unwrap())
        },
        |statistics| kept!(statistics.create_client::<Empty>("empty").unwrap()),
        |statistics| kept!(statistics.create_timer_repeating(Duration::from_secs(1), || ()).unwrap()),
        |statistics| {
            kept!(statistics
                .create_action_server::<Fibonacci, _>("plan", |goal| async { goal.reject() })
                .unwrap())
        },
        |statistics| kept!(statistics.create_action_client::<Fibonacci>("plan").unwrap()),
        |statistics| kept!(statistics.create_stopwatch("call")),
        |statistics| kept!(statistics.create_counter("calls")),
    ];
    let executor = context(domain(), &[]).create_executor(StatsExecutor::new()); // the executor's source has no handle
    let returning = executor.create_node("returning").unwrap();
    let create = || NodeStatistics::with_options(&returning, every(10)).unwrap();
    for create_handle in creations {
        let (handle, mut windows) = create_handle(&create());
        (0..3).for_each(|_| wait_for_window(&mut windows));
        drop(handle);
        wait_for_end(&windows);
    }

    // The executor drops the callback. The callback then drops the handle that it captured, and this drop ends the
    // statistics.
    let (executor, capturing, statistics) = measured("capturing", every(10));
    let call = statistics.create_stopwatch("call");
    let mut windows = call.statistics().watch();
    drop(statistics.create_subscription("imu", move |_: Imu| call.time(|| ())).unwrap());
    drop((statistics, capturing));
    wait_for_window(&mut windows);
    drop(executor);
    wait_for_end(&windows);

    // A callback with a weak handle to its own subscription must not keep the subscription alive.
    let statistics = create();
    let own = Arc::new(OnceLock::new());
    let captured = Arc::clone(&own);
    let imu = statistics.create_subscription("imu", move |_: Imu| assert!(captured.get().is_some())).unwrap();
    own.get_or_init(|| Arc::downgrade(&imu));
    let windows = imu.statistics().watch();
    drop((imu, own, statistics));
    wait_for_end(&windows);
}

#[test]
fn everything_may_be_created_and_dropped_in_any_order() {
    let domain = domain();
    let (executor, listener) = node("reader", &[]);
    let talker = listener.create_publisher::<Imu>("imu".keep_last(10).best_effort()).unwrap();
    let _spinning = Spinning::start(executor);
    let (done, dropped) = mpsc::channel();
    for mut order in 0..24 {
        let done = done.clone();
        thread::spawn(move || {
            let executor = context(domain, &[]).create_basic_executor();
            let node = executor.create_node(&format!("leaving_{order}")).unwrap();
            let called = Arc::new(AtomicU64::new(0));
            let spinning = Spinning::start(executor);
            // Messages arrive while the subscription and the publisher of its loss events are being created.
            let losses = every(10).metrics([Metric::MessageAge, Metric::PublicationSeqGap]);
            let statistics = NodeStatistics::with_options(&node, losses).unwrap();
            let imu = statistics.create_subscription("imu".best_effort(), counting::<Imu>(&called)).unwrap();
            wait_for("as many messages as calls", || {
                let received = imu.statistics().totals().unwrap().received;
                received > 3 && received == called.load(Ordering::Relaxed)
            });
            let mut things: Vec<Box<dyn Any>> =
                vec![Box::new(imu), Box::new(statistics), Box::new(node), Box::new(spinning)];
            while !things.is_empty() {
                let next = order % things.len();
                order /= things.len();
                drop(things.remove(next));
            }
            done.send(()).unwrap();
        });
    }
    let mut ends = 0;
    wait_for("end of all, without a deadlock", || {
        talker.publish(Imu::default()).unwrap();
        ends += dropped.try_iter().count();
        ends == 24
    });
    wait_for("end of all nodes", || {
        !listener.get_node_names().unwrap().iter().any(|other| other.name.starts_with("leaving"))
    });
}

/// The program of the next test. The program drops its statistics, while `fsync` takes five seconds.
#[test]
#[ignore = "is the program of another test"]
fn ends_on_a_busy_disk() {
    let executor = Context::default_from_env().unwrap().create_basic_executor();
    let node = executor.create_node("busy").unwrap();
    let options = NodeStatisticsOptions::new().totals_file(std::env::var_os("TOTALS").unwrap());
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let begun = Instant::now();
    drop(statistics);
    assert!(begun.elapsed() < Duration::from_secs(5), "it waited for the disk");
}

#[test]
fn a_busy_disk_neither_delays_the_exit_nor_loses_the_totals() {
    let Some(library) = preload::library("slow_fsync") else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("totals.yaml");
    let mut program = itself("lifetime::ends_on_a_busy_disk", domain());
    preload::preload(&mut program, &library);
    let Output { status, stdout, stderr } = program.env("TOTALS", &file).output().unwrap();
    let text = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(status.success() && text.contains("1 passed") && !text.contains("[ERROR]"), "{text}");
    let totals = std::fs::read_to_string(file).unwrap();
    assert!(totals.contains("node_name: /busy"), "{totals}");
}

/// The program of the next test. The test kills the program, because rclrs's threads run on after a panic. A process
/// that exits while they run may crash in the middleware.
#[test]
#[ignore = "is the program of another test"]
fn panics_in_callbacks() {
    let (mut executor, node, statistics) = measured("panicking", every(10));
    let talker = node.create_publisher::<Imu>("imu".keep_last(100)).unwrap();
    let panicked = Arc::new(AtomicBool::new(false));
    let panics_at = |number: f64| {
        let panicked = Arc::clone(&panicked);
        move |message: Imu| {
            if message.linear_acceleration.x == number {
                panicked.store(true, Ordering::Relaxed);
                panic!("the panic of this test");
            }
        }
    };
    let imu = || "imu".keep_last(100);
    let (bad, good) = (node.create_worker(()), node.create_worker(()));
    let on_bad_worker = statistics.create_worker_subscription(&bad, imu(), panics_at(1.0)).unwrap();
    let on_worker = statistics.create_worker_subscription(&good, imu(), |_: Imu| ()).unwrap();
    let on_node = statistics.create_subscription(imu(), panics_at(2.0)).unwrap();
    let spinning = thread::spawn(move || {
        let spin = || executor.spin(SpinOptions::default().timeout(LIMIT));
        (catch_unwind(AssertUnwindSafe(spin)).is_err(), executor)
    });
    let publish = |number: f64, what: &str, is_there: &mut dyn FnMut() -> bool| {
        let mut message = Imu::default();
        message.linear_acceleration.x = number;
        wait_for(what, || {
            talker.publish(message.clone()).unwrap();
            is_there()
        });
    };
    let continues = |mut windows: Finished| {
        windows.mark_unchanged();
        publish(0.0, "windows with messages", &mut || {
            windows.has_changed().unwrap()
                && windows.borrow_and_update().as_ref().is_some_and(|window| window.count > 0)
        });
    };
    let panic = |number: f64| {
        panicked.store(false, Ordering::Relaxed);
        publish(number, "panic", &mut || panicked.load(Ordering::Relaxed));
    };
    panic(1.0);
    continues(on_worker.statistics().watch());
    continues(on_node.statistics().watch());
    panic(2.0);
    wait_for("the panic unwinds from spin", || spinning.is_finished());
    let (has_unwound, executor) = spinning.join().unwrap();
    assert!(has_unwound);
    // rclrs 0.8 cannot spin this executor again, so callbacks of the node no longer run. Callbacks of workers still
    // run, because workers have their own threads.
    continues(on_worker.statistics().watch());
    let silent_from = on_node.statistics().latest().unwrap().window.stop;
    wait_for("silent window", || {
        on_node
            .statistics()
            .latest()
            .is_some_and(|window| window.window.start > silent_from && window.count == 0)
    });
    println!("all is measured");
    let _kept = (on_bad_worker, on_worker, on_node, statistics, talker, node, executor);
    thread::sleep(LIMIT);
}

/// Statistics continue after a panic that ends a worker, and after a panic that unwinds from `spin`.
#[test]
fn a_panic_ends_no_statistics() {
    let mut program = itself("lifetime::panics_in_callbacks", domain());
    let (_killed, output) = Process::spawn_printing(&mut program);
    assert!(output.iter().any(|line| line.ends_with("all is measured")), "the program has failed");
}
