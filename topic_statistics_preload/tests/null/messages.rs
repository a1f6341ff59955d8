// SPDX-License-Identifier: Apache-2.0

//! What the library measures of the calls of client libraries: takes, publications, callbacks, requests and responses.

use crate::{run, run_silently};

const CLIENT: &str = "/plan";
const SERVICE: &str = "/plan (2)";

/// An expected delay of more than 1e10 ms: it starts at a timestamp of the middleware, which is years old in the tests.
const YEARS: f64 = 1e10;
const NAN: f64 = f64::NAN;

#[test]
fn unreported_fields_are_unknown_and_reported_ones_exact() {
    const STAMP: i64 = 1_700_000_000_000_000_005;
    const SOURCE: i64 = STAMP + 250_000_000;
    const RECEIVED: i64 = SOURCE + 1_000_000_000;
    const UNSUPPORTED: u64 = u64::MAX;
    const GARBAGE: u64 = 7;
    const METRICS: [&str; 6] = [
        "header_to_source_ms",
        "source_to_receive_ms",
        "receive_to_callback_ms",
        "source_to_callback_ms",
        "publication_seq_gap",
        "input_to_output_ms",
    ];
    const ALL: [f64; 6] = [250.0, 1000.0, YEARS, YEARS, 0.0, YEARS];
    // Each row has the name of a middleware, the source and the received timestamp, the sequence number of each message
    // (0 if the numbers increase), and the expected mean of each metric. docs/late.md has a table of the middlewares.
    let cases = [
        ("rmw_fastrtps_cpp", SOURCE, RECEIVED, 0, ALL),
        ("rmw_fastrtps_dynamic_cpp", SOURCE, RECEIVED, 0, ALL),
        ("rmw_zenoh_cpp", SOURCE, RECEIVED, 0, ALL),
        ("rmw_connextdds", SOURCE, RECEIVED, 0, ALL),
        ("rmw_cyclonedds_cpp", SOURCE, RECEIVED, UNSUPPORTED, [250.0, NAN, NAN, YEARS, NAN, YEARS]),
        ("rmw_cyclonedds_cpp", SOURCE, 0, GARBAGE, [250.0, NAN, NAN, YEARS, NAN, YEARS]),
        ("rmw_unknown_cpp", SOURCE, RECEIVED, 0, [250.0, NAN, NAN, YEARS, 0.0, YEARS]),
        ("rmw_unknown_cpp", SOURCE, RECEIVED, UNSUPPORTED, [250.0, NAN, NAN, YEARS, NAN, YEARS]),
        ("rmw_fastrtps_cpp", 0, RECEIVED, 0, [NAN, NAN, YEARS, NAN, 0.0, NAN]),
        ("rmw_fastrtps_cpp", SOURCE, 0, UNSUPPORTED, [250.0, NAN, NAN, YEARS, NAN, YEARS]),
        ("rmw_fastrtps_cpp", 0, 0, UNSUPPORTED, [NAN; 6]),
    ];
    let mut script = String::from(
        "cases = {}
def play(number, name, source, received, sequence, steps):
    rmw.play(name, long(source), long(received), ctypes.c_ulong(sequence))
    if number not in cases:
        cases[number] = case(number)
    does(steps, cases[number])
",
    );
    // The source of a hop is created only at the end of the window with the hop's first publication: the script waits
    // for it.
    for steps in ["wc", "cc"] {
        for (number, (name, source, received, sequence, _)) in cases.iter().enumerate() {
            script += &format!("play({number}, b'{name}', {source}, {received}, {sequence}, '{steps}')\n");
        }
        script += "wait_for_windows()\n";
    }
    script +=
        &format!("rmw.play(b'rmw_fastrtps_cpp', long({SOURCE}), long({RECEIVED}), ctypes.c_ulong(0))\n");
    script += "rmw.call(long(10), 0)\n";
    // Fast DDS does not report when a request arrived, so the received timestamp is 0.
    script += &format!("rmw.play(b'rmw_fastrtps_cpp', long({SOURCE}), long(0), ctypes.c_ulong(0))\n");
    script += "rmw.serve(long(10), True)\n";
    let Some((windows, errors)) = run(&script, &[("METRICS", "all")]) else { return };
    assert!(errors.lines().all(|line| line.contains(" NaN")), "{errors}");
    let assert_mean = |source: &str, metric: &str, expected: f64| {
        let (samples, (count, mean)) = (windows.samples(source, metric), windows.total(source, metric));
        assert!(!samples.is_empty() && (count > 0.0) != expected.is_nan(), "{source} {metric}: {samples:?}");
        let unknown = samples.iter().filter(|(_, count)| *count == 0.0).all(|(mean, _)| mean.is_nan());
        let is_expected = if expected == YEARS { mean > YEARS } else { (mean - expected).abs() < 1e-3 };
        assert!(unknown && (is_expected || expected.is_nan()), "{source} {metric}: {samples:?}");
    };
    for (number, (.., expected)) in cases.iter().enumerate() {
        for (metric, expected) in METRICS.into_iter().zip(expected) {
            let output =
                if metric == "input_to_output_ms" { format!(":/own_{number}_out") } else { "".into() };
            assert_mean(&format!("/own_{number}_in{output}"), metric, *expected);
        }
    }
    for (source, metric, expected) in [
        (CLIENT, "source_to_receive_ms", 1000.0),
        (CLIENT, "receive_to_callback_ms", YEARS),
        (CLIENT, "source_to_callback_ms", YEARS),
        (SERVICE, "source_to_callback_ms", YEARS),
        (SERVICE, "receive_to_callback_ms", NAN),
    ] {
        assert_mean(source, metric, expected);
    }
}

#[test]
fn only_the_callback_of_a_subscription_makes_a_hop() {
    let cases = [
        ("Itdtdtdt", 0.0),   // timers of the EventsExecutor after discarded copies
        ("dtcdtcIdtc", 3.0), // such timers between callbacks: only the callbacks make hops
        ("xtpTpt", 0.0),     // a callback that throws, timers, and a timer that takes a message
        ("IdcIdIdpwc", 2.0), // discarded copies: a subscription in another process exists
        ("fcffwcfp", 2.0),   // feedback of an action
        ("occo", 4.0),       // callbacks that also take from another subscription
        ("IidIidc", 3.0),    // intra-process callbacks, and a callback for a message of another process
        ("JJii", 2.0),       // intra-process callbacks: no other process receives the topic
        ("cpxwp", 1.0),      // publications after a callback has returned, and after one has thrown
    ];
    let mut script = format!("cases = [case(number) for number in range({})]\n", cases.len());
    // The source of a hop is created only at the end of the window with the hop's first publication: the script waits
    // for it.
    script += "for case in cases:\n    does('wcwp', case)\nwait_for_windows()\nwait_for_windows()\n";
    for (number, (steps, _)) in cases.iter().enumerate() {
        script += &format!("does('w{steps}', cases[{number}])\n");
    }
    let options = [("METRICS", "message_age,input_to_output_ms")];
    let Some(windows) = run_silently(&script, &options) else { return };
    for (number, (steps, count)) in cases.into_iter().enumerate() {
        let hop = format!("/own_{number}_in:/own_{number}_out");
        assert_eq!(windows.total(&hop, "input_to_output_ms").0, count, "{steps}: {}", windows.0);
    }
    let hops = windows.sources().into_iter().filter(|source| source.contains(':'));
    assert_eq!(hops.count(), cases.len(), "{:?}", windows.sources());
}

#[test]
fn takes_without_a_callback_history_and_unknown_types() {
    // Messages count if they are from another process, or from this process's publisher before this publisher uses
    // intra-process communication. Later copies from this process's publisher do not count, except at a subscription
    // without intra-process communication. The durabilities are rmw's: transient local, best available, system default
    // and volatile. All messages were sent long ago.
    let script = "
own = case('copies')
does('llcc' + 'Id' * 20 + 'c', own)
does('Il' * 5, [own[1], *own[1:]])
rmw.destroy_publisher(own[3])
own[3] = advertise('/own_copies_in')
does('ll', own)
for durability in 1, 4, 0, 2:
    does('cccccccccc', [subscribe(f'/own_{durability}', durability=durability), *own[1:]])
unknown = pointer(rmw.unknown_type)
first, second = (subscribe('/own_' + name, of=unknown) for name in ('first', 'second'))
does('c', [first, *own[1:]])
# A node with a clock may be on simulated time.
timed = case('clock')
def age(count):
    does('c' * count, timed)
    wait_for_windows()
age(1)
first, second = (subscribe('/clock', of=type_of('rosgraph_msgs', 'msg', 'Clock')) for _ in range(2))
age(2)
rmw.destroy_subscription(first)
age(3)
rmw.destroy_subscription(second)
age(4)
";
    let Some((windows, errors)) = run(script, &[]) else { return };
    assert!(errors.contains("ages of /own_first, ") && errors.lines().count() == 1, "{errors}");
    for (source, messages) in [("copies_in", 7.0), ("copies_other", 5.0), ("first", 0.0), ("clock_in", 5.0)] {
        assert_eq!(windows.total(&format!("/own_{source}"), "message_age").0, messages, "{source}");
    }
    for (source, has_history) in [("/own_1", true), ("/own_4", true), ("/own_0", false), ("/own_2", false)] {
        let samples = windows.samples(source, "message_age");
        assert_eq!(samples.iter().map(|(_, count)| count).sum::<f64>(), 10.0, "{source}");
        // The first message of a window has no period.
        let between: f64 = samples.iter().map(|(_, count)| (count - 1.0).max(0.0)).sum();
        let expected = if has_history { 0.0 } else { between };
        assert_eq!(windows.total(source, "message_period").0, expected, "{source}");
    }
    assert_eq!(run(script, &[("METRICS", "message_period")]).unwrap().1, "", "no ages are wanted");
}

#[test]
fn what_a_content_filter_leaves_out_is_not_lost() {
    // `take` takes messages with these sequence numbers, which the middleware received at the time `at`.
    let script = "
now = time.time_ns()
source = subscribe('/own_in')
def take(*numbers, at=0, by=source):
    rmw.play(b'rmw_fastrtps_cpp', long(now + at), long(now + at), ctypes.c_ulong(0))
    for number in numbers:
        rmw.take_number(by, ctypes.c_ulong(number))
    wait_for_windows()
take(1, 2, 5)                   # 0, 2
rmw.filter(source, True)
take(15, 25)
rmw.filter(source, False)
take(35)                        # on its way when the filter was removed
later = 3600_000_000_000
take(45, 46, 48, at=later)      # nothing, 0, 1
rmw.filter(source, True)
rmw.filter(source, False)       # nothing passed
take(148, 149, at=2 * later)    # nothing, 0
take(1, 5, 9, by=subscribe('/own_filtered', filtered=True))
";
    let Some(windows) = run_silently(script, &[("METRICS", "publication_seq_gap")]) else { return };
    assert_eq!(windows.total("/own_in", "publication_seq_gap"), (5.0, 3.0 / 5.0));
    assert_eq!(windows.total("/own_filtered", "publication_seq_gap").0, 0.0);
}

#[test]
fn a_lifecycle_nodes_own_names_are_measured_if_named() {
    let script = "
services = 'ChangeState', 'GetState', 'GetAvailableStates', 'GetAvailableTransitions'
names = 'change_state', 'get_state', 'get_available_states', 'get_available_transitions'
for service, name in [*zip(services, names), ('GetAvailableTransitions', 'get_transition_graph')]:
    rmw.create_service(type_of('lifecycle_msgs', 'srv', service), f'/own_{name}/{name}'.encode())
advertise('/own_node/transition_event', type_of('lifecycle_msgs', 'msg', 'TransitionEvent'))
# Another one of that name.
rmw.create_service(type_of('sensor_msgs', 'srv', 'SetCameraInfo'), b'/own_arm/get_state')
";
    let named = "/plan,/own_get_state/get_state,/own_node/transition_event";
    for (options, expected) in [
        (&[][..], &["/own_arm/get_state"][..]),
        (&[("TOPICS", named)], &["/own_get_state/get_state", "/own_node/transition_event"]),
    ] {
        let Some((windows, errors)) = run(script, options) else { return };
        let sources: Vec<&str> =
            windows.sources().into_iter().filter(|source| source.starts_with("/own")).collect();
        assert_eq!((&sources[..], &*errors), (expected, ""));
    }
}

#[test]
fn a_response_that_is_taken_before_its_call_has_returned_ends_it() {
    let Some((windows, errors)) = run("rmw.call(long(1000), 1)", &[]) else { return };
    assert_eq!([windows.sum(CLIENT, "calls"), windows.sum(CLIENT, "responses")], [1000.0; 2], "{errors}");
    assert_eq!(windows.samples(CLIENT, "oldest_call_ms").last().unwrap().0, 0.0, "none waits");
}
