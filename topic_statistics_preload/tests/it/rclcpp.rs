// SPDX-License-Identifier: Apache-2.0

//! Subscriptions and publishers of rclcpp, whose calls null_rclcpp.c makes in their order: takes that no callback gets,
//! intra-process communication, timers of another thread, content filters.

use test_support::preload;

use crate::null_rmw::{run_with_errors, Windows, WAIT_FOR_WINDOWS};

const CREATE: &str = "
rmw.create_services() # their windows are counted
rclcpp = ctypes.CDLL(os.environ['NULL_RCLCPP'], ctypes.RTLD_GLOBAL)
def pointer(function, *arguments):
    function.restype = ctypes.c_void_p
    return ctypes.c_void_p(function(*arguments))
def subscribe(topic, intra_process=True, filtered=False, of=handle, durability=2):
    return pointer(rclcpp.create_subscription, of, topic, intra_process, filtered, durability)
def advertise(topic):
    return pointer(rclcpp.create_publisher, handle, topic)
def does(steps, by=None):
    rclcpp.does(steps, by or source, other, feedback, own, out)
    wait_for_windows()
def type_of(package, kind, name):
    library = ctypes.CDLL(f'lib{package}__rosidl_typesupport_c.so')
    what = 'message' if kind == 'msg' else 'service'
    return pointer(library[f'rosidl_typesupport_c__get_{what}_type_support_handle__{package}__{kind}__{name}'])
source, other = subscribe(b'/own_in'), subscribe(b'/own_other', False)
feedback = pointer(rclcpp.create_feedback, handle, b'/own_do/_action/feedback')
own, out = advertise(b'/own_in'), advertise(b'/own_out')
";

/// Runs a script that has all of it, with windows of 50 ms. Returns all windows; None without a C compiler.
fn windows(script: &str, options: &[(&str, &str)]) -> Option<Windows> {
    let (windows, errors) = windows_with_errors(script, options)?;
    assert!(errors.is_empty(), "{errors}");
    Some(windows)
}

/// The same, with what it prints on standard error.
fn windows_with_errors(script: &str, options: &[(&str, &str)]) -> Option<(Windows, String)> {
    let library = preload::library("null_rclcpp")?;
    let set = format!(
        "\nos.environ['PRINT_STATISTICS'] = '1'\nos.environ['NULL_RCLCPP'] = '{}'\n",
        library.display()
    );
    let script = [&set, WAIT_FOR_WINDOWS, CREATE, script].concat();
    let [printed, errors] = run_with_errors(&script, &[&[("PERIOD", "0.05")], options].concat())?;
    Some((Windows(printed), errors))
}

const IN: &str = "/measured:/own_in";
const OTHER: &str = "/measured:/own_other";
const HOP: &str = "/measured:/own_in:/own_out";

#[test]
fn a_copy_that_rclcpp_discards_is_no_message() {
    // Of its own publisher, before that has intra-process communication; of other processes; of its own publisher,
    // discarded by one subscription, and received by another one, which has no intra-process communication.
    let script = "
does(b'llcc' + b'Id' * 20 + b'c')
does(b'Il' * 5, other)
rclcpp.destroy_publisher(own)
own = advertise(b'/own_in')
does(b'll')
";
    let Some(windows) = windows(script, &[]) else { return };
    assert_eq!(windows.total(IN, "message_age").0, 7.0);
    assert_eq!(windows.total(OTHER, "message_age").0, 5.0);
}

#[test]
fn a_subscription_is_not_silent_while_it_receives_intra_process_messages() {
    let script = "
def say(what):
    os.write(1, what) # at once
does(b'c')
say(b'heard\\n')
does(b'Idi' * 3)
say(b'within the process\\n')
wait_for_windows()
say(b'and on\\n')
does(b'c')
";
    let Some(Windows(printed)) = windows(script, &[("METRICS", "time_since_last_message_ms")]) else {
        return;
    };
    let (heard, rest) = printed.split_once("heard\n").unwrap();
    let (within, rest) = rest.split_once("within the process\n").unwrap();
    let (on, again) = rest.split_once("and on\n").unwrap();
    let last = |part: &str| Windows(part.into()).of(IN, "time_since_last_message_ms").last().unwrap();
    assert!(last(heard) >= 0.0 && last(again) >= 0.0);
    assert!(last(within).is_nan() && last(on).is_nan(), "{} and {}", last(within), last(on));
}

/// Returns the samples of the hop in a script's steps, once there is the hop, and all its windows.
fn hop(steps: &str) -> Option<(f64, Windows)> {
    let script = format!("does(b'cwp')\ndoes(b'{steps}')\n");
    let windows = windows(&script, &[("METRICS", "message_age,input_to_output_ms")])?;
    Some((windows.total(HOP, "input_to_output_ms").0, windows))
}

#[test]
fn only_the_callback_of_a_subscription_makes_a_hop() {
    for (steps, samples) in [
        ("Itdtdtdt", 0.0),   // timers of the EventsExecutor after discarded copies
        ("dtcdtcIdtc", 3.0), // and between callbacks; of the first hop, only the end of a window knows
        ("xtpTpt", 0.0),     // callbacks that throw, timers that take
        ("IdcIdIdpwc", 2.0), // copies that are watched from outside
        ("fcffwcfp", 2.0),   // feedback of an action
        ("occo", 4.0),       // a callback that takes what it needs besides
        ("Iidiidci", 1.0),   // intra-process callbacks
    ] {
        let Some((counted, windows)) = hop(steps) else { return };
        let hops: Vec<&str> = windows.0.lines().filter(|line| line.contains("input_to_output_ms")).collect();
        assert!(hops.iter().all(|line| line.starts_with(HOP)), "{steps}: {hops:#?}");
        assert_eq!(counted, samples, "{steps}");
    }
}

#[test]
fn what_a_content_filter_leaves_out_is_not_lost() {
    // Times are numbers: those of messages that the middleware received then.
    let script = "
now = time.time_ns()
def take(*numbers, at=0, by=source):
    rmw.play(b'rmw_fastrtps_cpp', ctypes.c_long(now + at), ctypes.c_long(now + at), ctypes.c_ulong(0))
    for number in numbers:
        rclcpp.take_number(by, ctypes.c_ulong(number))
    wait_for_windows()
take(1, 2, 5)                       # 0, 2
rclcpp.set_filter(source, True)
take(15, 25)
rclcpp.set_filter(source, False)
take(35)                            # on its way when the filter was removed
later = 3600_000_000_000
take(45, 46, 48, at=later)          # nothing, 0, 1
rclcpp.set_filter(source, True)
rclcpp.set_filter(source, False)    # nothing passed
take(148, 149, at=2 * later)        # nothing, 0
take(1, 5, 9, by=subscribe(b'/own_filtered', False, True))
";
    let Some(windows) = windows(script, &[("METRICS", "publication_seq_gap")]) else { return };
    assert_eq!(windows.total(IN, "publication_seq_gap"), (5.0, 3.0));
    assert_eq!(windows.total("/measured:/own_filtered", "publication_seq_gap"), (0.0, 0.0));
}

#[test]
fn history_of_transient_local_publishers_has_no_period() {
    // Transient local, the best that is available, the default of the system and volatile: 1, 4, 0 and 2 of rmw. All
    // messages were sent long ago. No window ends while they are taken, which may cost it its periods.
    let script = "
for durability in 1, 4, 0, 2:
    latched = subscribe(f'/own_{durability}'.encode(), False, durability=durability)
    rclcpp.does(b'cccccccccc', latched, other, feedback, own, out)
wait_for_windows()
";
    let Some(windows) = windows(script, &[("PERIOD", "1")]) else { return };
    for (durability, has_history) in [(1, true), (4, true), (0, false), (2, false)] {
        let source = format!("/measured:/own_{durability}");
        let counts = ["message_age", "message_period"].map(|metric| windows.total(&source, metric).0);
        assert_eq!(counts, [10.0, if has_history { 0.0 } else { 9.0 }], "{durability}");
    }
}

#[test]
fn ages_are_known_again_once_the_node_has_no_clock_any_more() {
    let script = "
clock = type_of('rosgraph_msgs', 'msg', 'Clock')
does(b'c')
first, second = (subscribe(b'/own_clock', False, of=clock) for _ in range(2))
does(b'cc')
rclcpp.destroy_subscription(first)
does(b'ccc')
rclcpp.destroy_subscription(second)
does(b'cccc')
";
    let Some(windows) = windows(script, &[("TOPICS", "/own_in,/plan")]) else { return };
    assert_eq!(windows.total(IN, "message_age").0, 5.0);
}

#[test]
fn a_type_without_introspection_has_one_line() {
    let script = "
unknown = pointer(rclcpp.unknown_type)
first, second = (subscribe(b'/own_' + name, False, of=unknown) for name in (b'first', b'second'))
does(b'c', first)
";
    let Some((windows, errors)) = windows_with_errors(script, &[]) else { return };
    assert!(errors.contains("ages of /own_first, ") && errors.lines().count() == 1, "{errors}");
    assert_eq!(windows.total("/measured:/own_first", "message_age").0, 0.0);
    let without_ages = windows_with_errors(script, &[("METRICS", "message_period")]).unwrap().1;
    assert_eq!(without_ages, "");
}

#[test]
fn what_each_lifecycle_node_has_is_left_out_unless_it_is_named() {
    let script = "
services = 'ChangeState', 'GetState', 'GetAvailableStates', 'GetAvailableTransitions'
names = 'change_state', 'get_state', 'get_available_states', 'get_available_transitions'
for service, name in [*zip(services, names), ('GetAvailableTransitions', 'get_transition_graph')]:
    rclcpp.create_service(type_of('lifecycle_msgs', 'srv', service), f'/own_{name}/{name}'.encode())
pointer(rclcpp.create_publisher, type_of('lifecycle_msgs', 'msg', 'TransitionEvent'), b'/own_node/transition_event')
# Another one of that name.
rclcpp.create_service(type_of('sensor_msgs', 'srv', 'SetCameraInfo'), b'/own_arm/get_state')
does(b'w')
";
    let sources = |options: &[(&str, &str)]| {
        let windows = windows(script, options)?;
        let sources = windows.0.lines().filter_map(|line| line.split(' ').next()?.strip_prefix("/measured:"));
        let is_own = |source: &&str| source.ends_with("_state") || source.ends_with("_event");
        let sources: std::collections::BTreeSet<_> = sources.filter(is_own).map(str::to_owned).collect();
        assert!(!windows.0.contains("/get_available") && !windows.0.contains("_graph"), "{}", windows.0);
        Some(sources.into_iter().collect::<Vec<_>>())
    };
    let Some(by_default) = sources(&[]) else { return };
    assert_eq!(by_default, ["/own_arm/get_state"]);
    let named = [("TOPICS", "/plan,/own_get_state/get_state,/own_node/transition_event")];
    assert_eq!(sources(&named).unwrap(), ["/own_get_state/get_state", "/own_node/transition_event"]);
}
