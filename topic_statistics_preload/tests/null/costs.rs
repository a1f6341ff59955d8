// SPDX-License-Identifier: Apache-2.0

//! The allocations for messages, and the memory of endpoints.

use test_support::{preload, Program};

use crate::{output, preloaded, run};

#[test]
fn messages_calls_and_requests_allocate_nothing() {
    let (Some(rmw), Some(counting)) = (preload::library("null_rclcpp"), preload::library("count_malloc"))
    else {
        return;
    };
    let measure = |metrics: Option<&str>| -> [f64; 2] {
        let mut command = Program::command("costs.py", &[rmw.to_str().unwrap(), "100000"], 0);
        let mut libraries = counting.display().to_string();
        if let Some(metrics) = metrics {
            // With this period, no window ends during the test. With a shorter one, windows could wait too long on a
            // busy machine.
            preloaded(&mut command, &[("METRICS", metrics), ("PERIOD", "3600")]);
            libraries += &format!(":{}", preload::statistics().display());
        }
        let (_, printed, errors) = output(command.env("LD_PRELOAD", libraries));
        // On a busy machine, the library may count messages without measuring them. In that case, the library writes a
        // line with this text.
        assert!(errors.lines().all(|line| line.contains("was preempted for too long")), "{errors}");
        let figures: Vec<f64> = printed.split_whitespace().map(|figure| figure.parse().unwrap()).collect();
        [figures[8], figures[9]]
    };
    let [plain, allocations] = measure(None);
    assert_eq!(allocations, 0.0, "the middleware allocates nothing");
    for metrics in
        ["message_age,message_period", "message_age,message_period,input_to_output_ms", "busy", "all"]
    {
        let [bytes, allocations] = measure(Some(metrics));
        assert_eq!(allocations, 0.0, "{metrics}");
        // The memory of a subscription. benches/tests/it/cost.rs tests this memory for rclrs_topic_statistics.
        assert!((100.0..10_000.0).contains(&(bytes - plain)), "{metrics}: {bytes} bytes, {plain} without it");
    }
}

#[test]
fn memory_of_endpoints_and_of_what_waits_is_bounded() {
    // The test measures only later growth, because the first endpoints fill bounded lists, such as the schedule's
    // lists. In the script, `h` is the field `uordblks` of mallinfo2: the allocated bytes. A leak of 10,000 endpoints
    // takes at least 240 kB, and windows that are not published yet take 30 kB.
    let script = "
class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in 'abcdefghij']
mallinfo2 = ctypes.CDLL(None).mallinfo2
mallinfo2.restype = Mallinfo
def growth(function, first, second):
    bytes = []
    for count in first, second:
        function(count)
        wait_for_windows()
        bytes.append(mallinfo2().h)
    return bytes[1] - bytes[0]
def leave(count):
    rmw.call(long(count), 2)
    rmw.serve(long(count), False)
assert growth(leave, 2000, 100000) < 100000
assert growth(lambda count: rmw.come_and_go(imu, long(count)), 3000, 10000) < 100000
rmw.call(long(10), 0)
rmw.serve(long(10), True)
";
    let Some((windows, errors)) = run(script, &[]) else { return };
    let [client, service] = ["/plan", "/plan (2)"];
    let counts = [(client, "calls"), (client, "responses"), (service, "requests")];
    assert_eq!(
        counts.map(|(source, metric)| windows.sum(source, metric)),
        [102_010.0, 10.0, 102_010.0],
        "{errors}"
    );
    assert_eq!(windows.total(service, "response_duration_ms").0, 10.0);
    assert!(windows.sum(client, "oldest_call_ms") > 0.0 && windows.sum(service, "active_requests") > 0.0);
}
