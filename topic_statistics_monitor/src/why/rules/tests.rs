// SPDX-License-Identifier: Apache-2.0

use std::time::Duration;

use topic_statistics_core::incompatible::MatchedQos;

use super::{
    super::{transforms::Stamp, Received},
    *,
};

const IMU: &str = "sensor_msgs/msg/Imu";
const TWIST: &str = "geometry_msgs/msg/Twist";
const S: i64 = 1_000_000_000;

/// Returns an endpoint. `node` is the name of the node and the QoS: `/driver best_effort`, `/map latched`.
fn endpoint(message_type: &str, node: &str) -> Endpoint {
    let (node, qos) = node.split_once(' ').unwrap_or((node, ""));
    let infinite = Some(None);
    let qos = MatchedQos {
        is_reliable: Some(qos != "best_effort"),
        is_transient_local: Some(qos == "latched"),
        is_manual: Some(false),
        deadline: if qos == "deadline" { Some(Some(Duration::from_secs(1))) } else { infinite },
        lease: infinite,
    };
    Endpoint { node: node.to_owned(), message_type: message_type.to_owned(), qos }
}

pub type Topic<'a> = (&'a str, &'a str, &'a [&'a str], &'a [&'a str]);

/// Returns a graph of topics. Each topic has a name, a type, publishers and subscriptions.
pub fn graph(topics: &[Topic]) -> Graph {
    let mut graph = Graph::default();
    for (topic, message_type, publishers, subscriptions) in topics {
        let ends = |nodes: &[&str]| nodes.iter().map(|node| endpoint(message_type, node)).collect::<Vec<_>>();
        let entry = graph.topics.entry((*topic).to_owned()).or_default();
        entry.publishers.extend(ends(publishers));
        entry.subscriptions.extend(ends(subscriptions));
        let both = entry.publishers.iter().chain(&entry.subscriptions);
        graph.nodes.extend(both.map(|end| end.node.clone()));
    }
    graph
}

/// Returns the GID of publisher `number` of a process.
fn gid(process: &str, number: u8) -> Gid {
    let mut gid = Gid::default();
    gid.iter_mut().take(12).zip(process.bytes()).for_each(|(to, from)| *to = from);
    gid[15] = number;
    gid
}

/// Returns a snapshot in which each publisher sends 50 messages, except those of the topics `silent`.
fn look(graph: Graph, silent: &[&str]) -> Snapshot {
    let mut flows = BTreeMap::<String, Flows>::new();
    for (topic, ends) in graph.topics.iter().filter(|(_, ends)| !ends.publishers.is_empty()) {
        let flows = flows.entry(topic.clone()).or_default();
        let publishers = ends.publishers.iter().enumerate().filter(|_| !silent.contains(&&**topic));
        flows.extend(publishers.map(|(number, publisher)| (gid(&publisher.node, number as u8), 50)));
    }
    let (earlier, listened) = (graph.clone(), Duration::from_secs(5));
    let mut snapshot = Snapshot { earlier, graph, listened, flows, ..Snapshot::default() };
    (snapshot.has_participants, snapshot.matches_qos) = (true, true);
    snapshot
}

fn asked(topics: &[&str]) -> Vec<Pattern> {
    topics.iter().map(|topic| topic.parse().unwrap()).collect()
}

/// Returns the kind and the text of each problem.
fn problems(snapshot: &Snapshot) -> Vec<(Kind, String)> {
    let found = findings(snapshot).found.into_iter().filter(|finding| finding.is_problem);
    found.map(|finding| (finding.kind, finding.text)).collect()
}

fn kinds(snapshot: &Snapshot) -> Vec<Kind> {
    problems(snapshot).into_iter().map(|(kind, _)| kind).collect()
}

/// Asserts that there is exactly one problem, of this kind, whose text contains these parts.
fn assert_problem(snapshot: &Snapshot, kind: Kind, parts: &[&str]) {
    let problems = problems(snapshot);
    assert!(problems.len() == 1 && problems[0].0 == kind, "{problems:?}");
    let lacking: Vec<_> = parts.iter().filter(|part| !problems[0].1.contains(**part)).collect();
    assert!(lacking.is_empty(), "{problems:?} lacks {lacking:?}");
}

fn healthy() -> Graph {
    graph(&[
        ("/rosout", "rcl_interfaces/msg/Log", &["/driver latched", "/slam latched"], &[]),
        ("/parameter_events", "rcl_interfaces/msg/ParameterEvent", &["/driver"], &["/driver", "/slam"]),
        ("/imu", IMU, &["/driver"], &["/slam best_effort"]),
        ("/scan_1", "sensor_msgs/msg/LaserScan", &["/driver best_effort"], &["/slam best_effort"]),
        ("/scan_2", "sensor_msgs/msg/LaserScan", &[], &["/slam best_effort"]),
        ("/map", "nav_msgs/msg/OccupancyGrid", &["/slam latched"], &["/rviz latched"]),
        ("/latched_image", "sensor_msgs/msg/Image", &["/slam latched"], &["/rviz"]),
        ("/debug_image", "sensor_msgs/msg/Image", &["/slam"], &[]),
        ("/cmd_vel", TWIST, &["/teleop", "/slam"], &["/driver"]),
        ("/initialpose", "geometry_msgs/msg/PoseStamped", &[], &["/slam"]),
        ("/joint_states", JOINT_STATE, &["/driver", "/gripper"], &["/rviz"]),
        ("/tf", TRANSFORMS, &["/driver", "/model"], &["/slam", "/rviz"]),
        ("/tf_static", TRANSFORMS, &["/model latched"], &["/slam latched"]),
        ("/dock/_action/status", "action_msgs/msg/GoalStatusArray", &["/slam latched"], &[]),
        ("/robot1/pose", TWIST, &["/driver"], &[]),
        ("/robot2/pose", TWIST, &[], &["/slam"]),
    ])
}

#[test]
fn a_healthy_robot_has_no_problem() {
    let mut snapshot = look(healthy(), &["/map", "/latched_image", "/cmd_vel", "/parameter_events"]);
    // The broadcaster `/model` has no moving joint, and the gripper is off, so both are silent.
    for (topic, node) in [("/tf", "/model"), ("/joint_states", "/gripper")] {
        snapshot.flows.get_mut(topic).unwrap().remove(&gid(node, 1)).unwrap();
    }
    snapshot.other_domains = vec![7];
    assert_eq!(problems(&snapshot), []);
}

/// The case of ros2_medkit #572: all publishers, or only one of several, cannot serve a subscription.
#[test]
fn pairs_that_do_not_match_are_named_with_reason_and_remedy() {
    let pair = [("/imu", IMU, &["/driver best_effort"][..], &["/slam"][..])];
    let mut snapshot = look(graph(&pair), &[]);
    let parts =
        ["/slam receives nothing from /driver on /imu: ", "best effort", "subscribe with .best_effort()"];
    assert_problem(&snapshot, Kind::Qos, &parts);
    snapshot.matches_qos = false;
    assert_eq!(problems(&snapshot), [], "Zenoh matches without QoS");
    let several =
        [("/imu", IMU, &["/driver best_effort", "/other"][..], &["/slam", "/weak best_effort"][..])];
    assert_problem(&look(graph(&several), &[]), Kind::Qos, &["/slam", "only from 1 of 2 publishers"]);
    let none = [("/imu", IMU, &["/driver best_effort", "/other best_effort"][..], &["/slam"][..])];
    let problems = problems(&look(graph(&none), &[]));
    let is_nor = problems[0].1.contains("nor from any other of the 2 publishers");
    assert!(problems.len() == 2 && is_nor, "{problems:?}");
    let types = graph(&[("/imu", IMU, &["/driver"], &[]), ("/imu", TWIST, &[], &["/slam"])]);
    assert_problem(&look(types, &[]), Kind::Type, &["/slam receives nothing from /driver", IMU, TWIST]);
}

/// The case of ros2_medkit #577: the topic names of a publisher and a subscription differ by a typo.
#[test]
fn a_read_topic_has_the_nearest_published_name() {
    let pair = |published: &str, read: &str, others: &[&str]| {
        let topics = [(published, TWIST, &["/lidar"][..], others), (read, TWIST, &[], &["/slam"])];
        look(graph(&topics), &[])
    };
    let parts = [
        "nobody publishes /scan_row, which is read by /slam",
        "/scan_raw is published by /lidar",
        "wrong, or",
    ];
    assert_problem(&pair("/scan_raw", "/scan_row", &[]), Kind::NearName, &parts);
    assert_problem(&pair("/scan_raw", "/scan_row", &["/rviz"]), Kind::NearName, &["/scan_raw"]);
    assert_problem(&pair("/robot/scan", "/scan", &[]), Kind::NearName, &["/robot/scan is published"]);
    for (published, read) in [
        ("/lidar_1", "/lidar_2"),
        ("/robot1/scan", "/robot2/scan"),
        ("/a", "/b"),
        ("/robot/odom", "/other/odoms"),
    ] {
        assert_eq!(problems(&pair(published, read, &[])), [], "{published} {read}");
    }
    assert_eq!(problems(&pair("/robot/scan", "/scan", &["/rviz"])), [], "the publisher has its reader");
    let other_type = [("/scan_raw", IMU, &["/lidar"][..], &[][..]), ("/scan_row", TWIST, &[], &["/slam"])];
    assert_eq!(problems(&look(graph(&other_type), &[])), []);
}

/// The case of ros2_medkit #570 and #577: a problem of the last graph only is not reported but counted, so that the
/// program listens again.
#[test]
fn nodes_that_come_or_go_cause_no_finding() {
    let pair =
        graph(&[("/imu", IMU, &["/driver best_effort"], &["/slam"]), ("/scan_row", TWIST, &[], &["/slam"])]);
    let alone =
        graph(&[("/imu", IMU, &["/driver best_effort"], &[]), ("/scan_raw", TWIST, &["/driver"], &[])]);
    for (earlier, last, new_problems) in [(&pair, &alone, 0), (&alone, &pair, 1)] {
        let mut snapshot = look(last.clone(), &[]);
        snapshot.earlier = earlier.clone();
        assert_eq!(problems(&snapshot), []);
        assert_eq!(findings(&snapshot).new_problems, new_problems, "the QoS of the pair");
    }
}

#[test]
fn silent_publishers_are_named_with_their_nodes_and_the_cause_first() {
    let topics = |qos: &str| {
        let driver = format!("/driver{qos}");
        graph(&[
            ("/imu", IMU, &[&driver], &["/filter"]),
            ("/odom", "nav_msgs/msg/Odometry", &["/filter"], &["/nav"]),
        ])
    };
    let parts = ["/driver sent nothing on /imu in 5.0 s", "blocked"];
    assert_problem(&look(topics(""), &["/imu"]), Kind::Silent, &parts);
    let problems = problems(&look(topics(""), &["/imu", "/odom"]));
    assert!(problems[0].1.starts_with("/driver sent nothing"), "{problems:?}");
    assert!(problems[1].1.ends_with("probably because it receives nothing on /imu"), "{problems:?}");
    let found = kinds(&look(topics(" best_effort"), &["/odom"]));
    assert_eq!(found, [Kind::Qos, Kind::Silent], "the cause is first");
    let mut managed = look(topics(""), &["/imu"]);
    managed.graph.lifecycle.insert("/driver".to_owned());
    assert_problem(&managed, Kind::Silent, &["ros2 lifecycle get /driver"]);
    // A topic of commands may be silent, unless its publisher offers a deadline.
    let commands = |publisher| graph(&[("/cmd_vel", TWIST, &[publisher], &["/driver"])]);
    assert_eq!(kinds(&look(commands("/nav"), &["/cmd_vel"])), []);
    assert_eq!(kinds(&look(commands("/nav deadline"), &["/cmd_vel"])), [Kind::Silent]);
    let mut named = look(commands("/nav"), &["/cmd_vel"]);
    named.asked = asked(&["/cmd_vel"]);
    assert_problem(&named, Kind::Silent, &["/nav sent nothing on /cmd_vel"]);
}

/// The case of ros2_medkit #547: the rate of a topic hides a silent or slow publisher beside a fast one.
#[test]
fn a_publisher_is_not_hidden_by_another_one() {
    let topics = graph(&[
        ("/imu", IMU, &["/front", "/rear"], &["/slam"]),
        ("/front/status", TWIST, &["/front"], &["/slam"]),
        ("/rear/status", TWIST, &["/rear"], &["/slam"]),
    ]);
    let mut snapshot = look(topics, &[]);
    *snapshot.flows.get_mut("/imu").unwrap().get_mut(&gid("/rear", 1)).unwrap() = 5;
    let slow =
        findings(&snapshot).found.into_iter().find(|finding| finding.kind == Kind::SlowPublisher).unwrap();
    assert!(!slow.is_problem && slow.nodes == ["/rear"], "{slow:?}");
    snapshot.flows.get_mut("/imu").unwrap().remove(&gid("/rear", 1));
    assert_problem(&snapshot, Kind::Silent, &["/rear sent nothing on /imu", "unlike another publisher"]);
    snapshot.flows.remove("/rear/status");
    assert_problem(&snapshot, Kind::Silent, &["1 of 2 publishers (/front and /rear) sent nothing"]);
    snapshot.loggers.insert("rear".to_owned(), gid("/rear", 9));
    assert_problem(&snapshot, Kind::Silent, &["/rear sent nothing"]);
    snapshot.has_participants = false;
    assert_problem(&snapshot, Kind::Silent, &["1 of 2 publishers"]);
}

#[test]
fn simulated_time_without_a_clock_is_named() {
    let topics = graph(&[
        (CLOCK, "rosgraph_msgs/msg/Clock", &[], &["/nav", "/recorder"]),
        ("/imu", IMU, &["/nav"], &[]),
    ]);
    let mut snapshot = look(topics, &[]);
    snapshot.sim_time =
        [("/nav", Some(true)), ("/recorder", Some(false))].map(|(node, is)| (node.to_owned(), is)).into();
    assert_problem(&snapshot, Kind::NoClock, &["nobody publishes /clock, but use_sim_time is true in /nav,"]);
    snapshot.sim_time.insert("/nav".to_owned(), None);
    assert_problem(&snapshot, Kind::NoClock, &["read by /nav, ", "not known"]);
    snapshot.asked = asked(&["/imu"]);
    assert_eq!(kinds(&snapshot), [Kind::NoClock], "/nav publishes /imu");
    snapshot.asked = asked(&["/clock*"]);
    snapshot.sim_time.insert("/nav".to_owned(), Some(false));
    assert_eq!(kinds(&snapshot), []);
}

#[test]
fn a_subscription_that_receives_less_than_its_neighbour_is_named() {
    let mut snapshot = look(graph(&[("/imu", IMU, &["/driver"], &["/a", "/b", "/c"])]), &[]);
    let mut receive = |node: &str, messages, seconds| {
        snapshot.received.insert((node.to_owned(), "/imu".to_owned()), Received { messages, seconds });
        problems(&snapshot)
    };
    assert_eq!(receive("/a", 500, 5.0), []);
    assert_eq!(receive("/b", 82, 1.0), [], "82 %");
    let found = receive("/b", 79, 1.0);
    assert_eq!((found.len(), found[0].0), (1, Kind::FewerReceived));
    assert!(found[0].1.starts_with("/b receives 79.0 Hz on /imu, and /a 100.0 Hz"), "{found:?}");
    assert_eq!(receive("/c", 100, 1.0), found, "of equal neighbours, the first one is named");
    receive("/c", 19, 0.1);
    assert_eq!(receive("/a", 19, 0.1), [], "too few messages");
}

#[test]
fn a_missing_topic_has_the_nearest_name_and_other_domains() {
    let mut snapshot = look(graph(&[("/imu", IMU, &["/driver"], &["/slam"])]), &[]);
    (snapshot.other_domains, snapshot.asked) = (vec![3, 5], asked(&["/imuu"]));
    let parts = ["nobody publishes or reads /imuu; the nearest name is /imu", "domain 3 and 5"];
    assert_problem(&snapshot, Kind::NoTopic, &parts);
    snapshot.asked = asked(&["/imu"]);
    let arrives =
        findings(&snapshot).found.into_iter().find(|finding| finding.kind == Kind::Arrives).unwrap();
    assert_eq!(arrives.text, "50 messages on /imu arrived here in 5.0 s");
    let empty = Snapshot { other_domains: vec![5], ..Snapshot::default() };
    let parts = ["no other node in ROS domain 0", "use ROS domain 5: set ROS_DOMAIN_ID"];
    assert_problem(&empty, Kind::NoNode, &parts);
    assert_problem(&Snapshot::default(), Kind::NoNode, &["see whether the robot runs"]);
}

/// Adds transforms of a frame every 0.1 s. Each stamp is `ahead` ns after the reception of the transform.
fn send(snapshot: &mut Snapshot, node: &str, frames: [&str; 2], seconds: std::ops::Range<f64>, ahead: i64) {
    let [frame, parent] = frames;
    let steps = ((seconds.end - seconds.start) * 10.0) as u32;
    for step in 0..steps {
        let at = Duration::from_secs_f64(seconds.start + f64::from(step) / 10.0);
        let system = 1_000_000 * S + at.as_nanos() as i64;
        let ends = &snapshot.graph.topics["/tf"].publishers;
        let number = ends.iter().position(|end| end.node == node).unwrap() as u8;
        let clock = snapshot.flows.contains_key(CLOCK).then(|| 100 * S + at.as_nanos() as i64);
        let stamp = Stamp { stamp: system + ahead, at, system, clock };
        snapshot.transforms.add("/tf", frame, parent, gid(node, number), stamp);
    }
}

fn transforms() -> Snapshot {
    let topics = graph(&[
        ("/tf", TRANSFORMS, &["/base", "/amcl"], &["/nav"]),
        ("/base/odom", "nav_msgs/msg/Odometry", &["/base"], &["/nav"]),
        ("/amcl/pose", TWIST, &["/amcl"], &["/nav"]),
    ]);
    look(topics, &[])
}

#[test]
fn two_authorities_for_one_frame_are_named_but_not_a_restarted_one() {
    let mut snapshot = transforms();
    send(&mut snapshot, "/base", ["base", "odom"], 0.0..2.0, 0);
    send(&mut snapshot, "/amcl", ["base", "map"], 2.5..5.0, 0);
    assert_eq!(kinds(&snapshot), [Kind::Transform], "one ended, and another one began");
    send(&mut snapshot, "/base", ["base", "odom"], 2.0..5.0, 0);
    let parts = ["/amcl and /base both publish the transform of the frame base", "below odom and below map"];
    assert_problem(&snapshot, Kind::Authorities, &parts);
}

#[test]
fn stamps_in_the_future_or_the_past_are_named() {
    for (ahead, expected) in [
        (S, None), // AMCL stamps 1 s ahead by default
        (-9 * S, None),
        (5 * S, Some("/amcl publishes the transform of the frame odom stamped 5.0 s in the future")),
        (-60 * S, Some("stamped 60.0 s in the past, and tf2 keeps 10 s")),
        (i64::MIN / 2, Some("in the past")),
    ] {
        let mut snapshot = transforms();
        send(&mut snapshot, "/amcl", ["odom", "map"], 0.0..5.0, ahead);
        let found = problems(&snapshot);
        assert_eq!(found.first().map(|(kind, _)| *kind), expected.map(|_| Kind::Transform), "{found:?}");
        assert!(expected.is_none_or(|expected| found[0].1.contains(expected)), "{found:?}");
    }
    let mut snapshot = transforms();
    for ahead in [0, -S, -2 * S] {
        send(&mut snapshot, "/amcl", ["odom", "map"], 4.0..5.0, ahead);
    }
    assert_problem(&snapshot, Kind::Transform, &["with stamps that go back, 2 times of 30"]);
    let mut snapshot = transforms();
    snapshot.flows.insert(CLOCK.to_owned(), [(gid("/sim", 0), 50)].into());
    send(&mut snapshot, "/amcl", ["odom", "map"], 0.0..5.0, 0);
    assert_problem(&snapshot, Kind::Transform, &["stamps of the system clock", "set its use_sim_time"]);
}

/// The case of ros2_medkit #570: a broadcaster stops publishing while its process runs, so a frame is missing.
#[test]
fn transforms_that_stop_or_never_come_are_named() {
    let mut snapshot = transforms();
    send(&mut snapshot, "/base", ["base", "odom"], 0.0..5.0, 0);
    send(&mut snapshot, "/amcl", ["odom", "map"], 0.0..1.0, 0);
    let part = "/amcl publishes the transform of the frame odom no more, for 4.1 s";
    assert_problem(&snapshot, Kind::Transform, &[part]);
    let mut snapshot = transforms();
    send(&mut snapshot, "/base", ["base", "odom"], 0.0..5.0, 0);
    snapshot.flows.get_mut("/tf").unwrap().remove(&gid("/amcl", 1));
    assert_eq!(kinds(&snapshot), [], "one tree");
    send(&mut snapshot, "/base", ["marker", "map"], 0.0..5.0, 0);
    assert_problem(&snapshot, Kind::Silent, &["/amcl sent nothing on /tf"]);
}
