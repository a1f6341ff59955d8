// SPDX-License-Identifier: Apache-2.0

use super::*;

#[test]
fn every_form_of_timer_is_measured() {
    let (executor, node) = node("controller", &[]);
    let statistics = statistics(&node);
    let worker = node.create_worker(0_u64);
    let (mut names, mut forms) = (vec![], vec![]);
    macro_rules! form {
        ($create:ident($($given:expr),*), [$($argument:ty),*] $(, $set:ident)?) => {
            let calls = Arc::<AtomicU64>::default();
            let count = Arc::clone(&calls);
            let callback = move |$(_: $argument),*| {
                count.fetch_add(1, Ordering::Relaxed);
            };
            let timer = form!(@created ($create, $($given),*), callback $(, $set)?);
            names.push(timer.statistics().source_name().to_owned());
            let windows = Windows::collect(timer.statistics().watch());
            forms.push((calls, windows, Box::new(move || timer.cancel().unwrap()) as Box<dyn Fn()>));
        };
        (@created ($create:ident, $($given:expr),*), $callback:ident) => {
            statistics.$create($($given,)* $callback).unwrap()
        };
        // In this form, the method `$set` replaces another callback by the measured callback.
        (@created ($create:ident, $($given:expr),*), $callback:ident, $set:ident) => {{
            let timer = statistics.$create($($given,)* || panic!("it is replaced")).unwrap();
            timer.set_inert();
            timer.$set($callback);
            timer
        }};
    }
    let (ms20, once) = (Duration::from_millis(20), Duration::from_millis(100));
    let start = StatisticsOptions::new().source_name(SourceName::Custom("start".to_owned()));
    form!(create_timer_repeating(ms20), []);
    form!(create_timer_repeating(ms20), [&Timer], set_repeating);
    form!(create_timer_repeating(ms20.system_time()), [Time]);
    form!(create_worker_timer_repeating(&worker, ms20.node_time()), []);
    form!(create_worker_timer_repeating(&worker, ms20), [&mut u64], set_worker_repeating);
    form!(create_worker_timer_repeating(&worker, ms20), [&mut u64, &WorkerTimer<u64>]);
    form!(create_timer_repeating(Duration::from_micros(1500)), []);
    form!(create_timer_oneshot(once.statistics(start)), []);
    form!(create_timer_repeating(once), [&Timer], set_oneshot);
    form!(create_worker_timer_repeating(&worker, once), [&mut u64], set_worker_oneshot);
    let timer = |period: &str| format!("/controller:timer/{period}");
    assert_eq!(names[0], timer("20ms"));
    let last = [&*timer("20ms (6)"), &timer("1.5ms"), "start", &timer("100ms"), &timer("100ms (2)")];
    assert_eq!(names[5..], last);

    // The callback takes 500 ms, longer than the timer's period. So each further call is late, and periods are skipped.
    let (period, on_its_own) = (Duration::from_millis(50), node.create_worker(()));
    let block = || std::thread::sleep(DELAY);
    let blocked = statistics.create_worker_timer_repeating(&on_its_own, period, block).unwrap();
    let late = Windows::collect(blocked.statistics().watch());
    let replaces = |timer: &Timer| drop(timer.set_repeating(|| ()));
    let replaced = statistics.create_timer_repeating(ms20, replaces).unwrap();
    let mut reader = Reader::start(domain());
    let _spinning = Spinning::start(executor);
    for (index, (name, (calls, windows, cancel))) in names.iter().zip(&forms).enumerate() {
        let is_repeating = index < 7;
        let calls = || calls.load(Ordering::Relaxed);
        wait_for("calls", || calls() >= if is_repeating { 10 } else { 1 });
        // Not every call has a sample: the very first call has no period, and a preempted call may lack figures.
        let measured = [Metric::TimerPeriod, Metric::TimerLateness, Metric::CallbackShare];
        wait_for("samples", || !is_repeating || !windows.totals(measured).contains(&0));
        cancel();
        wait_for("all calls", || windows.total(Metric::CallbackDuration) == calls());
        windows.wait_for(Metric::CallbackDuration, calls());
        assert!(is_repeating || calls() == 1, "{name}");
        assert!(windows.total(Metric::TimerLateness) <= calls(), "{name}");
        assert!(windows.all(Metric::TimerLateness).iter().all(|lateness| lateness.minimum >= 0.0), "{name}");
    }
    read_all(&mut reader, &timer("20ms"), SourceKind::Timer.metrics());

    // The first call is not late, so there must be three more calls.
    wait_for("late calls", || late.total(Metric::TimerLateness) >= 3);
    wait_for("skipped periods", || late.total(Metric::SkippedPeriods) > 0);
    for (metric, expected) in [
        (Metric::TimerLateness, 250.0..5000.0),
        (Metric::SkippedPeriods, 5.0..100.0),
        (Metric::CallbackShare, 999.9..10_000.0),
    ] {
        assert!(expected.contains(&late.most(metric)), "{metric}: {}", late.most(metric));
    }
    wait_for("the end of the statistics", || !replaced.statistics().is_enabled());
}

#[test]
fn a_jump_of_simulated_time_is_not_lateness() {
    let (executor, node) = node("controller", &["--ros-args", "-p", "use_sim_time:=true"]);
    let statistics = statistics(&node);
    let timer = statistics.create_timer_repeating(Duration::from_millis(100).node_time(), || ()).unwrap();
    let windows = Windows::collect(timer.statistics().watch());
    let mut simulator = Program::start("simulator.py", &["--speed", "4", "--start", "2000"], domain());
    let _spinning = Spinning::start(executor);
    windows.wait_for_more(2);
    assert_eq!(windows.total(Metric::TimerLateness), 0, "simulated time has not begun");
    simulator.send("begin");
    for jump in ["500", "-300", "0"] {
        let calls = windows.total(Metric::TimerLateness);
        wait_for("calls", || windows.total(Metric::TimerLateness) > calls + 40);
        simulator.send(&format!("jump {jump}"));
    }
    let periods = windows.all(Metric::TimerPeriod);
    assert!(!periods.is_empty() && windows.total(Metric::CallbackShare) == 0, "no share of simulated time");
    // /clock advances in steps of 40 ms. If the jump of 500 s counted as lateness, the figures would exceed these
    // limits.
    let (latest, skipped) = (windows.most(Metric::TimerLateness), windows.most(Metric::SkippedPeriods));
    assert!((0.0..50_000.0).contains(&latest) && skipped < 500.0, "{latest} ms, {skipped} periods");
}
