// SPDX-License-Identifier: Apache-2.0

//! With a middleware that does nothing: what a message costs, `fork` and exit at any moment.

use std::process::Command;

use test_support::{command, domain, preload, Program};

use crate::{library, preloaded};

const START: &str = "
import ctypes, os, sys, time
rmw = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
support = ctypes.CDLL('libsensor_msgs__rosidl_typesupport_c.so')
handle = support.rosidl_typesupport_c__get_message_type_support_handle__sensor_msgs__msg__Imu
handle.restype = rmw.create.restype = ctypes.c_void_p
handle = ctypes.c_void_p(handle())
";

/// Runs a script with the middleware and the library. Returns what it prints; None without a C compiler.
fn run(script: &str, options: &[(&str, &str)]) -> Option<String> {
    let [printed, errors] = run_with_errors(script, options)?;
    assert!(errors.is_empty(), "{printed}{errors}");
    Some(printed)
}

/// The same, with what it prints on standard error.
pub fn run_with_errors(script: &str, options: &[(&str, &str)]) -> Option<[String; 2]> {
    let rmw = preload::library("null_rmw")?;
    let script = [START, script].concat();
    let mut command = command("python3", &["-c", &script, rmw.to_str().unwrap()], domain());
    preloaded(&mut command, options);
    Some(output(&mut command))
}

/// Returns what a command prints, also on standard error.
fn output(command: &mut Command) -> [String; 2] {
    let output = command.output().unwrap();
    let [printed, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{}: {printed}{errors}", output.status);
    [printed, errors]
}

#[test]
fn a_message_a_call_and_a_request_cost_no_allocation() {
    let (Some(rmw), Some(counting)) = (preload::library("null_rmw"), preload::library("count_malloc")) else {
        return;
    };
    let measure_once = |metrics: Option<&str>| -> [String; 2] {
        let mut command = Program::command("costs.py", &[rmw.to_str().unwrap(), "100000"], domain());
        let mut libraries = counting.display().to_string();
        if let Some(metrics) = metrics {
            preloaded(&mut command, &[("METRICS", metrics)]);
            libraries += &format!(":{}", library().display());
        }
        command.env("LD_PRELOAD", libraries);
        output(&mut command)
    };
    let measure = |metrics: Option<&str>| -> Vec<f64> {
        let mut measured = measure_once(metrics);
        // On a busy machine messages may be counted without being measured, which costs less.
        for _ in 1..10 {
            if !measured[1].contains("was preempted for too long") {
                break;
            }
            measured = measure_once(metrics);
        }
        let [printed, errors] = measured;
        assert!(errors.is_empty(), "{errors}");
        printed.split_whitespace().map(|value| value.parse().unwrap()).collect()
    };
    let [.., plain, allocations] = measure(None)[..] else { panic!("six figures") };
    assert_eq!(allocations, 0.0, "the middleware allocates nothing");
    for metrics in ["message_age,message_period", "message_age,message_period,input_to_output_ms", "all"] {
        let beyond_plain = || {
            let [.., bytes, allocations] = measure(Some(metrics))[..] else { panic!("six figures") };
            assert_eq!(allocations, 0.0, "{metrics}");
            println!("{metrics}: {plain} bytes, {bytes} with the library");
            bytes - plain
        };
        // That of the library is in benches/tests/it/cost.rs. On a busy machine a window may end meanwhile, whose
        // messages are counted, too.
        let is_small = (0..5).any(|_| (100.0..3072.0).contains(&beyond_plain()));
        assert!(is_small, "the bytes are printed above");
    }
}

/// The windows that a process has published, as null_rmw.c prints them.
pub struct Windows(pub String);

impl Windows {
    /// Returns the averages and sample counts of a metric in all windows of a source.
    fn samples(&self, source: &str, metric: &str) -> impl Iterator<Item = (f64, f64)> + '_ {
        let begin = format!("{source} {metric} ");
        let figures = self.0.lines().filter_map(move |line| line.strip_prefix(&begin)?.split_once(' '));
        figures.map(|(average, count)| (average.parse().unwrap(), count.parse().unwrap()))
    }

    /// Returns a metric in all windows of a source.
    pub fn of(&self, source: &str, metric: &str) -> impl Iterator<Item = f64> + '_ {
        self.samples(source, metric).map(|(average, _)| average)
    }

    /// Returns the number of samples of a metric in all windows of a source, and their sum.
    pub fn total(&self, source: &str, metric: &str) -> (f64, f64) {
        let samples = self.samples(source, metric).filter(|(_, count)| *count > 0.0);
        samples.fold((0.0, 0.0), |(counts, sum), (average, count)| (counts + count, sum + average * count))
    }

    /// Returns the sum of a metric in all windows of a source.
    pub fn sum(&self, source: &str, metric: &str) -> f64 {
        self.of(source, metric).filter(|value| !value.is_nan()).sum()
    }

    /// Returns the number of windows with a metric, and of those in which it is not NaN.
    fn figures(&self, source: &str, metric: &str) -> (usize, usize) {
        let is_known = |value: &f64| !value.is_nan();
        (self.of(source, metric).count(), self.of(source, metric).filter(is_known).count())
    }
}

/// A function for scripts that have a client and a service. It waits until the windows that are under way when it is called
/// are published.
pub const WAIT_FOR_WINDOWS: &str = "
def wait_for_windows():
    # The first that is published from now on may have ended before.
    end = rmw.windows() + 3
    deadline = time.monotonic() + 60
    while rmw.windows() < end:
        assert time.monotonic() < deadline, 'no windows'
        time.sleep(0.01)
";

/// Runs a script that creates a client and a service, with windows of 50 ms. Returns all windows.
fn windows(script: &str) -> Option<Windows> {
    let create = "\nos.environ['PRINT_STATISTICS'] = '1'\nrmw.create_services()\n";
    let script = [WAIT_FOR_WINDOWS, create, script, "\nwait_for_windows()\n"].concat();
    run(&script, &[("PERIOD", "0.05")]).map(Windows)
}

/// The metrics that depend on what a middleware reports with a message, and their sources.
const OF_THE_MIDDLEWARE: [(&str, &str); 6] = [
    ("/measured:/imu", "header_to_source_ms"),
    ("/measured:/imu", "source_to_receive_ms"),
    ("/measured:/imu", "receive_to_callback_ms"),
    ("/measured:/imu", "source_to_callback_ms"),
    ("/measured:/imu", "publication_seq_gap"),
    ("/measured:/imu:/out", "input_to_output_ms"),
];

#[test]
fn what_a_middleware_does_not_report_is_unknown_and_never_a_number() {
    const SET: (&str, &str) = ("1700000000000000005", "1700000000000000006");
    const UNSUPPORTED: &str = "0xffffffffffffffff";
    const GARBAGE: &str = "7";
    // The middleware by its name in the table of docs/late.md, its source and received timestamp, its sequence number
    // if it is always the same, and whether each metric of OF_THE_MIDDLEWARE has figures.
    for (name, source, received, number, known) in [
        ("rmw_fastrtps_cpp", SET.0, SET.1, "0", [true; 6]),
        ("rmw_fastrtps_dynamic_cpp", SET.0, SET.1, "0", [true; 6]),
        ("rmw_zenoh_cpp", SET.0, SET.1, "0", [true; 6]),
        ("rmw_connextdds", SET.0, SET.1, "0", [true; 6]),
        ("rmw_cyclonedds_cpp", SET.0, SET.1, UNSUPPORTED, [true, false, false, true, false, true]),
        ("rmw_cyclonedds_cpp", SET.0, "0", GARBAGE, [true, false, false, true, false, true]),
        ("rmw_unknown_cpp", SET.0, SET.1, "0", [true, false, false, true, true, true]),
        ("rmw_unknown_cpp", SET.0, SET.1, UNSUPPORTED, [true, false, false, true, false, true]),
        ("rmw_fastrtps_cpp", "0", SET.1, "0", [false, false, true, false, true, false]),
        ("rmw_fastrtps_cpp", SET.0, "0", UNSUPPORTED, [true, false, false, true, false, true]),
        ("rmw_fastrtps_cpp", "0", "0", UNSUPPORTED, [false; 6]),
    ] {
        let play = format!(
            "
os.environ['PRINT_STATISTICS'] = '1'
rmw.play(b'{name}', ctypes.c_long({source}), ctypes.c_long({received}), ctypes.c_ulong({number}))
rmw.chain(handle) # half a second, many windows
"
        );
        let options = [("PERIOD", "0.05"), ("METRICS", "all")];
        let Some([printed, errors]) = run_with_errors(&play, &options) else { return };
        assert!(errors.lines().all(|line| line.contains(" NaN")), "{errors}");
        let windows = Windows(printed);
        let figures = OF_THE_MIDDLEWARE.map(|(source, metric)| windows.figures(source, metric));
        let case = format!("{name}, source {source}, received {received}, number {number}");
        assert!(figures.iter().all(|(windows, _)| *windows > 0), "{case}: {figures:?}");
        assert_eq!(figures.map(|(_, known)| known > 0), known, "{case}");
    }
}

/// What the process has allocated and not freed, in bytes: `mallinfo2().h`.
const MALLINFO: &str = "
class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in 'abcdefghij'] # uordblks is the eighth
mallinfo2 = ctypes.CDLL(None).mallinfo2
mallinfo2.restype = Mallinfo
";

pub const CLIENT: &str = "/measured:/plan";
pub const SERVICE: &str = "/measured:/plan (2)";

#[test]
fn a_response_that_another_thread_takes_before_the_call_has_returned_ends_that_call() {
    let Some(windows) = windows("rmw.call(ctypes.c_long(1000), 1)") else { return };
    assert_eq!((windows.sum(CLIENT, "calls"), windows.sum(CLIENT, "responses")), (1000.0, 1000.0));
    assert_eq!(windows.of(CLIENT, "oldest_call_ms").last(), Some(0.0), "none waits");
}

#[test]
fn calls_and_requests_without_responses_take_bounded_memory_and_the_others_are_measured_on() {
    const MEMORY: &str = "
def leave(count):
    rmw.call(ctypes.c_long(count), 2)
    rmw.serve(ctypes.c_long(count), False)
    return mallinfo2().h
first = leave(2000)
second = leave(100000)
assert abs(second - first) < 100000, (first, second)
rmw.call(ctypes.c_long(10), 0)
rmw.serve(ctypes.c_long(10), True)
";
    let Some(windows) = windows(&[MALLINFO, MEMORY].concat()) else { return };
    assert_eq!((windows.sum(CLIENT, "calls"), windows.sum(CLIENT, "responses")), (102_010.0, 10.0));
    assert_eq!(windows.sum(SERVICE, "requests"), 102_010.0);
    assert!(
        windows.sum(CLIENT, "oldest_call_ms") > 0.0 && windows.sum(SERVICE, "response_duration_ms") > 0.0
    );
    assert!(windows.sum(SERVICE, "active_requests") > 0.0);
}

#[test]
fn the_memory_of_endpoints_that_come_and_go_returns() {
    // The first ones fill what is bounded, as the schedule's lists.
    const COME_AND_GO: &str = "
def come_and_go(count):
    rmw.come_and_go(handle, ctypes.c_long(count))
    time.sleep(0.2)
    return mallinfo2().h
first = come_and_go(3000)
second = come_and_go(10000)
assert second - first < 20000, (first, second)
rmw.call(ctypes.c_long(10), 0)
";
    let Some(windows) = windows(&[MALLINFO, COME_AND_GO].concat()) else { return };
    assert_eq!(windows.sum(CLIENT, "calls"), 10.0);
}

#[test]
fn nothing_is_published_once_the_exit_has_begun() {
    const EXIT: &str = "
publisher = ctypes.c_void_p(rmw.create(handle))
time.sleep(0.1)
sys.exit(0) # the middleware aborts the process if a message is published while it ends
";
    run(EXIT, &[("PERIOD", "0.001")]);
}

#[test]
fn a_child_forked_at_any_moment_publishes_and_exits() {
    // A child in which a lock of the statistics is held for ever would be killed by its alarm.
    const FORK: &str = "
import signal
publisher = ctypes.c_void_p(rmw.create(handle))
for _ in range(1000):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        rmw.publish(publisher, ctypes.c_long(1000))
        os._exit(0)
    rmw.publish(publisher, ctypes.c_long(100))
    status = os.waitpid(child, 0)[1]
    assert status == 0, status
";
    run(FORK, &[("PERIOD", "0.001")]);
}
