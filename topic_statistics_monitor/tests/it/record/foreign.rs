// SPDX-License-Identifier: Apache-2.0

//! A test that other libraries can read recordings, with the script `foreign.py`.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    time::{Duration, UNIX_EPOCH},
};

use rclrs::*;
use ros_env::{sensor_msgs::msg::Imu, std_msgs::msg::String as StringMsg};
use serde_json::{json, Value};
use test_support::{domain, middleware, node, skip, wait_for, Spinning};

use crate::{
    packages::packages,
    run::{text, Json},
};

/// The source timestamp and the text of each received message, by the GID of its publisher and its sequence number.
type Received = HashMap<(String, u64), (u64, String)>;

#[test]
fn other_libraries_read_every_message() {
    if middleware::lacks_sequence_numbers("a recording with sequence numbers") {
        return;
    }
    let Some(packages) = packages() else {
        return skip("recordings read by other libraries", "they cannot be installed from PyPI");
    };
    let (domain, directory) = (domain(), tempfile::tempdir().unwrap());
    let (executor, node) = node("talker", &[]);
    let received = Arc::new(Mutex::new(Received::new()));
    let to = Arc::clone(&received);
    let receive = move |message: StringMsg, info: MessageInfo| {
        let gid = info.publisher_gid.data.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let source = info.source_timestamp.unwrap().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        to.lock().unwrap().insert((gid, info.publication_sequence_number), (source, message.data));
    };
    let _subscription = node.create_subscription("chatter".keep_last(5000), receive).unwrap();
    let _spinning = Spinning::start(executor);
    let publisher = |options: PrimitiveOptions| node.create_publisher::<StringMsg>(options).unwrap();
    let message = || StringMsg { data: "a text".to_owned() };
    let first = publisher("chatter".keep_last(1000));
    let imu: Publisher<Imu> = node.create_publisher("imu".keep_last(1000)).unwrap();
    let wait_for_publishers = |publisher: &Publisher<StringMsg>, number| {
        wait_for("own message", || {
            publisher.publish(message()).unwrap();
            let received = received.lock().unwrap();
            received.keys().map(|(gid, _)| gid).collect::<HashSet<_>>().len() == number
        });
    };
    wait_for_publishers(&first, 1);
    let compressions = ["none", "lz4", "zstd"];
    let files = compressions.map(|name| directory.path().join(format!("{name}.mcap")));
    let mut monitors = [0, 1, 2].map(|index| {
        let (compression, file) = (compressions[index], files[index].to_str().unwrap());
        let arguments = ["/chatter", "/imu", "--record", file, "--compression", compression];
        Json::start(&arguments, domain)
    });
    let send_until = |late: Option<&Publisher<StringMsg>>, monitor: &Json, topic: &str, senders: usize| {
        monitor.until(topic, |object| {
            let mut stamped = Imu::default();
            stamped.header.stamp.sec = 7;
            imu.publish(stamped).unwrap();
            late.into_iter().chain([&first]).for_each(|publisher| publisher.publish(message()).unwrap());
            let known = object["senders"].as_array().map_or(0, Vec::len);
            object["topic"] == topic && known == senders && object["total"]["received"].as_u64() > Some(10)
        });
    };
    for monitor in &monitors {
        send_until(None, monitor, "/chatter", 1);
        send_until(None, monitor, "/imu", 1);
    }
    // A publisher with another QoS appears later.
    let late = publisher("chatter".keep_last(1000).lifespan_duration(Duration::from_secs(100)));
    wait_for_publishers(&late, 2);
    for monitor in &mut monitors {
        send_until(Some(&late), monitor, "/chatter", 2);
    }
    for monitor in &mut monitors {
        monitor.until_of("/chatter", |object| object["received"] == 0);
        assert_eq!(monitor.end("INT"), Some(0));
    }

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/record/foreign.py");
    let mut python = Command::new("python3");
    let output = python.arg(script).args(&files).env("PYTHONPATH", packages).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let read: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (file, compression) in files.iter().zip(compressions) {
        check(&read[file.to_str().unwrap()], &received.lock().unwrap(), compression);
    }
}

/// Asserts that a file has the messages that were received.
fn check(bag: &Value, received: &Received, compression: &str) {
    let compression = if compression == "none" { "" } else { compression };
    assert_eq!((&bag["profile"], &bag["compressions"]), (&"ros2".into(), &json!([compression])));
    let messages = bag["messages"].as_array().unwrap();
    assert_eq!(bag["rosbags"]["count"], messages.len(), "the number of messages that rosbags reads");
    assert_eq!(bag["statistics"], messages.len());
    let types = json!({"/chatter": "std_msgs/msg/String", "/imu": "sensor_msgs/msg/Imu"});
    assert_eq!(bag["rosbags"]["topics"], types);
    let (mut publishers, mut chatter) = (HashSet::new(), 0);
    for message in messages {
        let text = |key: &str| message[key].as_str();
        let number = |key: &str| message[key].as_u64().unwrap();
        let (log, publish) = (number("log_time"), number("publish_time"));
        assert!(publish <= log && log - publish < 60_000_000_000, "{message}");
        assert_eq!(text("sequence_is"), Some("publication_sequence_number"), "{message}");
        assert!(text("qos").unwrap().contains("\"reliability\":1"), "{message}");
        assert!(text("type_hash").unwrap().starts_with("RIHS01_"), "{message}");
        // On a busy machine, the name of the node may be missing, but the name is never wrong.
        assert!(matches!(text("node"), Some("/talker") | None), "{message}");
        assert_eq!(text("encoding"), Some("ros2msg"), "{message}");
        if text("topic") == Some("/chatter") {
            let key = (text("gid").unwrap().to_owned(), number("sequence"));
            assert_eq!((publish, text("data")), (received[&key].0, Some(&*received[&key].1)), "{message}");
            publishers.insert(text("gid").unwrap());
            chatter += 1;
        } else {
            assert_eq!(number("stamp"), 7_000_000_000, "{message}");
        }
    }
    assert!(chatter > 10 && messages.len() > chatter + 10, "{chatter} of {}", messages.len());
    assert_eq!(publishers.len(), 2, "each publisher has a channel");
}
