// SPDX-License-Identifier: Apache-2.0

//! The same file of expectations, and the same conditions, live and on a bag of the same messages.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::BufWriter,
    path::Path,
    process::Command,
    sync::mpsc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use mcap::{records::MessageHeader, WriteOptions};
use rclrs::*;
use ros_env::sensor_msgs::msg::Imu;
use test_support::{domain, middleware, program, Process, Spinning};

use crate::run::{command, text, FAST};

/// A message as it was received.
struct Received {
    stamp: (i32, u32),
    info: MessageInfo,
}

/// Receives the messages of /imu for some time.
fn receive(domain: u32, duration: Duration) -> Vec<Received> {
    let executor = test_support::context(domain, &[]).create_basic_executor();
    let node = executor.create_node("recorder").unwrap();
    let (sender, messages) = mpsc::channel();
    let _subscription = node
        .create_subscription("imu".keep_last(1000), move |message: Imu, info: MessageInfo| {
            let stamp = (message.header.stamp.sec, message.header.stamp.nanosec);
            let _ended = sender.send(Received { stamp, info });
        })
        .unwrap();
    let _spinning = Spinning::start(executor);
    let end = Instant::now() + duration;
    let next = || messages.recv_timeout(end.saturating_duration_since(Instant::now())).ok();
    std::iter::from_fn(next).collect()
}

/// Writes messages as a bag: their headers, and what the middleware reported.
fn write(path: &Path, messages: &[Received]) {
    const HEADER: &str = "builtin_interfaces/Time stamp\nstring frame_id\n\
        ================================================================================\n\
        MSG: builtin_interfaces/Time\nint32 sec\nuint32 nanosec\n";
    let file = BufWriter::new(File::create(path).unwrap());
    let mut bag = WriteOptions::new().profile("ros2").create(file).unwrap();
    let schema = bag.add_schema("std_msgs/msg/Header", "ros2msg", HEADER.as_bytes()).unwrap();
    let gid: String = messages[0].info.publisher_gid.data.iter().map(|byte| format!("{byte:02x}")).collect();
    let keys = [
        ("topic_statistics:sequence", "publication_sequence_number"),
        ("topic_statistics:publisher_gid", &gid),
    ];
    let metadata: BTreeMap<_, _> =
        keys.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let channel_id = bag.add_channel(schema, "/imu", "cdr", &metadata).unwrap();
    let nanoseconds =
        |time: Option<SystemTime>| time.unwrap().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    for Received { stamp, info } in messages {
        let header = MessageHeader {
            channel_id,
            sequence: info.publication_sequence_number as u32,
            log_time: nanoseconds(info.received_timestamp),
            publish_time: nanoseconds(info.source_timestamp),
        };
        let data =
            [&[0, 1, 0, 0][..], &stamp.0.to_le_bytes(), &stamp.1.to_le_bytes(), &[1, 0, 0, 0, 0]].concat();
        bag.write_to_known_channel(&header, &data).unwrap();
    }
    bag.finish().unwrap();
}

#[test]
fn expectations_and_conditions_have_the_same_result_live_and_on_a_bag() {
    if middleware::lacks_sequence_numbers("a bag that proves losses") {
        return;
    }
    let (domain, directory) = (domain(), tempfile::tempdir().unwrap());
    let path = |name: &str| directory.path().join(name);
    let file = |name: &str, text: &str| {
        fs::write(path(name), text).unwrap();
        path(name).to_str().unwrap().to_owned()
    };
    let pages = ["good", "bad"].map(|name| path(&format!("{name}.html")).to_str().unwrap().to_owned());
    // Every window is judged: a talker or a monitor that is held up once makes the rate of one lower or higher. The
    // condition that is bad fails in most windows all the same.
    let good = file("good.yaml", "topics: {/imu: {error_unless: rate=50±90% age<500ms lost=0}}");
    let bad = file("bad.yaml", "topics: {/imu: {error_unless: rate>=90}}");
    let missing = file("missing.yaml", "topics: {/imu: {}, /scan: {error_unless: rate>1, silence: error}}");
    let cases: [(&[&str], i32); 5] = [
        (&["--expect", &good], 0),
        (&["--expect", &bad], 1),
        (&["--expect", &missing], 1),
        (&["/imu", "--report", &pages[0], "--require", "rate=50±90% age<500ms lost=0"], 0),
        (&["/imu", "--report", &pages[1], "--require", "rate>=90"], 1),
    ];

    let _talker = Process::start(program("talker"), &FAST, domain);
    let live = cases.map(|(arguments, _)| {
        let arguments = [&["--plain", "--duration", "20"], arguments].concat();
        let mut monitor = command(&arguments, domain);
        monitor.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap()
    });
    let messages = receive(domain, Duration::from_secs(20));
    let bag = path("imu.mcap");
    write(&bag, &messages);
    for ((arguments, expected), live) in cases.into_iter().zip(live) {
        let live = live.wait_with_output().unwrap();
        assert_eq!(live.status.code(), Some(expected), "live {arguments:?}: {}", text(&live.stderr));
        // What is a name of a topic for topic_monitor is a file for bag_statistics.
        let arguments = arguments.iter().filter(|argument| **argument != "/imu");
        let offline = Command::new(program("bag_statistics")).arg(&bag).args(arguments).output().unwrap();
        assert_eq!(offline.status.code(), Some(expected), "bag, {expected}: {}", text(&offline.stderr));
    }
}
