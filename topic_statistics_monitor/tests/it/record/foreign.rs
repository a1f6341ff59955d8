// SPDX-License-Identifier: Apache-2.0

//! Recordings, as other libraries read them: `foreign.py`.

use std::{
    collections::HashMap,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rclrs::*;
use ros_env::std_msgs::msg::String as StringMsg;
use serde_json::Value;
use test_support::{domain, middleware, program, wait_for, Process, Spinning};

use crate::{
    packages::packages,
    run::{Json, FAST},
};

/// What the middleware reported with a message: the source timestamp, and the content.
type Sent = (u64, String);

/// The messages of `/chatter`, by publisher and sequence number.
type Received = Arc<Mutex<HashMap<(String, u64), Sent>>>;

fn subscribe(node: &Node, received: &Received) -> Subscription<StringMsg> {
    let received = Arc::clone(received);
    node.create_subscription("chatter".keep_last(5000), move |message: StringMsg, info: MessageInfo| {
        let gid = info.publisher_gid.data.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let source = info.source_timestamp.unwrap().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let key = (gid, info.publication_sequence_number);
        received.lock().unwrap().insert(key, (source, message.data));
    })
    .unwrap()
}

/// Reads files by other libraries. Returns what they have read, by the name of the file.
fn read(packages: PathBuf, files: &[PathBuf]) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/record/foreign.py");
    let mut python = Command::new("python3");
    python.arg(script).args(files).env("PYTHONPATH", packages).stderr(Stdio::inherit());
    let output = python.output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn other_libraries_read_every_message_with_its_number_its_times_and_its_publisher() {
    if middleware::lacks_sequence_numbers("a recording with sequence numbers") {
        return;
    }
    let Some(packages) = packages() else {
        // Not `eprintln!`, which the test harness keeps to itself.
        let why = "skipped: recordings read by other libraries: they cannot be installed from PyPI";
        let _closed = writeln!(std::io::stderr(), "{why}");
        return;
    };
    let (domain, directory) = (domain(), tempfile::tempdir().unwrap());
    let executor = test_support::context(domain, &[]).create_basic_executor();
    let node = executor.create_node("second").unwrap();
    let received = Received::default();
    let _subscription = subscribe(&node, &received);
    let second = node.create_publisher::<StringMsg>("chatter".keep_last(1000)).unwrap();
    let _spinning = Spinning::start(executor);
    wait_for("own message", || {
        second.publish(StringMsg { data: "first".to_owned() }).unwrap();
        !received.lock().unwrap().is_empty()
    });
    let talker = Process::start(program("talker"), &FAST, domain);
    // Before the monitors start, so that this process knows both publishers when they do.
    wait_for("message of the talker", || {
        let received = received.lock().unwrap();
        received.keys().any(|(gid, _)| received.keys().any(|(other, _)| other != gid))
    });
    let compressions = ["none", "lz4", "zstd"];
    let files = compressions.map(|name| directory.path().join(format!("{name}.mcap")));
    let mut monitors: Vec<Json> = compressions
        .iter()
        .zip(&files)
        .map(|(compression, file)| {
            let file = file.to_str().unwrap();
            let arguments = ["/chatter", "/imu", "--record", file, "--compression", compression];
            Json::start(&arguments, domain)
        })
        .collect();
    for monitor in &monitors {
        for topic in ["/chatter", "/imu"] {
            monitor.until("messages", |object| {
                second.publish(StringMsg { data: "another".to_owned() }).unwrap();
                object["topic"] == topic && object["total"]["received"].as_u64() > Some(60)
            });
        }
    }
    // The QoS of a publisher that comes later differs from that of the others.
    let options = "chatter".keep_last(1000).lifespan_duration(Duration::from_secs(100));
    let third = node.create_publisher::<StringMsg>(options).unwrap();
    for monitor in &monitors {
        monitor.until("the third publisher", |object| {
            object["topic"] == "/chatter" && object["publishers"] == 3
        });
    }
    let before = received.lock().unwrap().len();
    third.publish(StringMsg { data: "of the third".to_owned() }).unwrap();
    wait_for("message of the third", || received.lock().unwrap().len() > before);
    for monitor in &monitors {
        // A monitor that knows of a publisher in the graph need not receive its messages yet.
        monitor.until("messages of all three", |object| {
            for publisher in [&second, &third] {
                publisher.publish(StringMsg { data: "another".to_owned() }).unwrap();
            }
            object["topic"] == "/chatter"
                && object["senders"].as_array().is_some_and(|senders| senders.len() == 3)
        });
    }
    // Before the monitors end, so that this process has received whatever they have.
    talker.stop();
    for monitor in &mut monitors {
        monitor.until("end of the messages", |object| object["received"] == 0);
        monitor.signal("INT");
        monitor.until_error("recorded ");
        assert_eq!(monitor.end(), Some(0));
    }

    let read = read(packages, &files);
    for (file, compression) in files.iter().zip(compressions) {
        let bag = &read[file.to_str().unwrap()];
        check(bag, &received.lock().unwrap(), compression);
    }
}

/// Asserts that a file has what was received.
fn check(bag: &Value, received: &HashMap<(String, u64), Sent>, compression: &str) {
    assert_eq!(bag["profile"], "ros2");
    assert_eq!(
        bag["compressions"],
        serde_json::json!([if compression == "none" { "" } else { compression }])
    );
    let messages = bag["messages"].as_array().unwrap();
    assert_eq!(bag["rosbags"]["count"].as_u64(), Some(messages.len() as u64), "as rosbags counts them");
    assert_eq!(
        bag["rosbags"]["topics"],
        serde_json::json!({
            "/chatter": "std_msgs/msg/String",
            "/imu": "sensor_msgs/msg/Imu",
        })
    );
    assert_eq!(bag["statistics"], messages.len());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut publishers: HashMap<&str, Option<&str>> = HashMap::new();
    let mut chatter = 0;
    for message in messages {
        let text = |key: &str| message[key].as_str();
        let number = |key: &str| message[key].as_u64().unwrap();
        let (log, publish) = (number("log_time"), number("publish_time"));
        assert!(publish <= log && log <= now && log - publish < 10_000_000_000, "{message}");
        assert_eq!(text("sequence_is"), Some("publication_sequence_number"), "{message}");
        assert!(text("qos").unwrap().contains("\"reliability\":1"), "{message}");
        assert!(text("type_hash").unwrap().starts_with("RIHS01_"), "{message}");
        assert_eq!(text("encoding"), Some("ros2msg"), "{message}");
        if text("topic") == Some("/chatter") {
            let key = (text("gid").unwrap().to_owned(), number("sequence"));
            let (source, data) = &received[&key];
            assert_eq!((publish, text("data")), (*source, Some(&**data)), "{message}");
            publishers.insert(text("gid").unwrap(), text("node"));
            chatter += 1;
        } else {
            // Not told by the middleware in time, on a busy machine; never another one.
            assert!(matches!(text("node"), Some("/talker") | None), "the only publisher of /imu: {message}");
            assert!(number("stamp") <= publish && publish - number("stamp") < 10_000_000_000, "{message}");
        }
    }
    assert!(chatter > 60 && messages.len() > chatter + 60, "{chatter} of {}", messages.len());
    assert_eq!(publishers.len(), 3, "a channel for each publisher");
}
