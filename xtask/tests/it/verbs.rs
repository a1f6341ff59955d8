// SPDX-License-Identifier: Apache-2.0

//! Tests of the verbs `setup`, `env`, `run` and `demo`.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{note, output};

const XTASK: &str = env!("CARGO_BIN_EXE_xtask");

/// The test makes a prefix that looks like a ROS 2 and has one interface package. So the test needs no whole ROS 2.
#[test]
fn a_sourced_ros_is_completed_and_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = |relative: &str| fs::canonicalize(directory.path()).unwrap().join(relative);
    let description = r#"{"type_description_msg": {"type_description": {"type_name": "shapes/msg/Point", "fields": [
        {"name": "x", "type": {"type_id": 11, "capacity": 0, "string_capacity": 0, "nested_type_name": ""}}]},
        "referenced_type_descriptions": []}, "type_hashes": [
        {"type_name": "shapes/msg/Point", "hash_string": "RIHS01_0"}]}"#;
    for (file, content) in [
        ("lib/librcl.so", ""),
        ("share/statistics_msgs/package.xml", ""),
        ("share/topic_statistics_interfaces/package.xml", ""),
        ("share/ament_index/resource_index/rosidl_interfaces/shapes", "msg/Point.idl\nmsg/Point.json\n"),
        ("share/shapes/package.xml", "<package><version>1.0.0</version></package>"),
        ("share/shapes/msg/Point.idl", "module shapes { module msg { struct Point { double x; }; }; };"),
        ("share/shapes/msg/Point.json", description),
    ] {
        let file = path("ros").join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
    let xtask = |distro: &str, arguments: &[&str]| {
        let mut xtask = Command::new(XTASK);
        xtask.args(arguments).env("AMENT_PREFIX_PATH", path("ros")).env("ROS_DISTRO", distro);
        // `cargo run` sets this variable. xtask must use it, because the target directory may be from another checkout.
        xtask.env("CARGO_MANIFEST_DIR", path("copy/xtask")).env_remove("XTASK_ROS_DIR");
        xtask
    };
    fs::create_dir_all(path("copy/xtask")).unwrap();
    for (distro, refusal) in
        [("humble", "is Humble, which installs no type descriptions"), ("iron", "\"iron\"")]
    {
        let (made, text) = output(&mut xtask(distro, &["setup"]));
        assert!(!made && text.contains(refusal), "{text}");
    }

    let (made, text) = output(&mut xtask("kilted", &["env"]));
    assert!(made && text.contains("export AMENT_PREFIX_PATH="), "{text}");
    let made = fs::read_dir(path("copy/.ros")).unwrap().next().unwrap().unwrap().path();
    assert!(made.join("overlay/share/shapes/rust/Cargo.toml").is_file());

    // A complete setup needs no write permission. The lock becomes a directory, so not even root can write to it.
    fs::remove_file(made.join("lock")).unwrap();
    fs::create_dir(made.join("lock")).unwrap();
    // If the reader has closed its end, as in `cargo xtask env | head -1`, this must not be an error.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert!(xtask("kilted", &["env"]).stdout(writer).status().unwrap().success());
    // `cargo xtask run -- node & kill $!` must end the node.
    let run = xtask("kilted", &["run", "sh", "-c", "echo $$"]).stdout(Stdio::piped()).spawn().unwrap();
    let id = run.id();
    assert_eq!(run.wait_with_output().unwrap().stdout, format!("{id}\n").into_bytes());
}

/// The name of the directory contains a space and an accent, as a user's directory may. The directory is beside cargo's
/// target directory, where there is enough disk space.
#[test]
fn a_killed_setup_is_completed_and_a_third_changes_nothing() {
    // If the tests run on a sourced ROS 2, there may be no wheels and no network, and the user wants no embedded ROS 2.
    if env::var_os("_ROS_WHEELS_BOOTSTRAP_COMPLETE").is_none() {
        note("skipped: setup: the tests run on a sourced ROS 2; `cargo xtask test --embedded` makes embedded ones");
        return;
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let ros_dir = directory.path().join("robôt ws");
    let (prefix, distro) = (ros_dir.join("kilted"), ["--distro", "kilted"]);
    let xtask = |arguments: &[&str]| {
        let mut xtask = Command::new(XTASK);
        xtask.arg("--ros-dir").arg(&ros_dir).args(distro).args(arguments);
        xtask
    };
    // Port 9 (discard) of this machine has no server, so pip cannot reach a package index.
    let (made, text) = output(xtask(&["setup"]).env("PIP_INDEX_URL", "http://127.0.0.1:9/simple"));
    assert!(!made && text.contains("error: The package index PyPI cannot be reached; check the"), "{text}");
    let mut killed = xtask(&["setup"]).stderr(Stdio::null()).process_group(0).spawn().unwrap();
    let log = || fs::read_to_string(prefix.join("wheels.log")).unwrap_or_default();
    let deadline = Instant::now() + Duration::from_secs(300);
    while log().matches("Collecting ").count() < 30 {
        assert!(Instant::now() < deadline && killed.try_wait().unwrap().is_none(), "{}", log());
        std::thread::sleep(Duration::from_millis(5)); // before the next check
    }
    assert!(output(Command::new("kill").args(["-KILL", "--", &format!("-{}", killed.id())])).0);
    killed.wait().unwrap();
    assert!(!prefix.join("steps/wheels").exists(), "half of the wheels are not taken for all");

    let (made, text) = output(&mut xtask(&["setup"]));
    assert!(made && text.contains("[5/5]"), "{text}");
    let script = "import rclpy\nfrom statistics_msgs.msg import MetricsMessage as M\n\
                  from topic_statistics_interfaces.srv import GetTopicStatistics\nprint(M().unit == '')";
    let (works, text) = output(&mut xtask(&["run", "python3", "-B", "-c", script]));
    assert!(works && text.trim() == "True", "{text}");
    // Libraries for Rust programs must not need the libraries of Python. CMake files must name no other directory.
    let script = "! { grep -rl /opt/python/ share/*/cmake || cd lib && patchelf --print-needed librcl.so \
                  libstd_msgs__*_c.so | grep generator_py; } && [ -z \"$(find .. -name '*.part')\" ]";
    let (repaired, text) = output(xtask(&["run", "sh", "-c", script]).current_dir(prefix.join("venv")));
    assert!(repaired, "{text}");

    let changes = || output(Command::new("find").arg(&prefix).args(["-type", "f", "-printf", "%p %T@\n"]));
    let before = changes();
    let (again, text) = output(&mut xtask(&["setup"]));
    assert!(again && !text.contains("/5]"), "{text}");
    assert!(before.1.lines().count() > 1000 && changes() == before, "files have changed");
}

/// The ROS 2 in which the tests run counts as the sourced ROS 2.
#[test]
fn the_demo_shows_both_topics_and_leaves_no_process() {
    let mark = format!("MARK={}", std::process::id());
    let alive = || {
        let marked = |process: &fs::DirEntry| {
            let environment = fs::read(process.path().join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        };
        fs::read_dir("/proc").unwrap().flatten().filter(marked).count()
    };
    let id = std::process::id().to_string();
    let mut demo = Command::new(XTASK);
    let mut demo = demo.arg("demo").env("MARK", id).stdout(Stdio::piped()).spawn().unwrap();
    let mut rows = BufReader::new(demo.stdout.take().unwrap()).lines().map(Result::unwrap);
    // A String has no header, so it has no age.
    let age = |row: &str| row.split_whitespace().nth(10)?.parse::<f64>().ok();
    assert!(rows.any(|row| row.starts_with("/listener:/imu") && age(&row).is_some()), "no age of imu");
    let chatter = rows.find(|row| row.starts_with("/listener:/chatter")).unwrap();
    assert_eq!(age(&chatter), None, "{chatter}");
    assert!(alive() >= 3, "the demo, the talker, the listener");
    demo.kill().unwrap();
    demo.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while alive() > 0 {
        assert!(Instant::now() < deadline, "{}", alive());
        std::thread::sleep(Duration::from_millis(10)); // before the next check
    }
}
