// SPDX-License-Identifier: Apache-2.0

//! Setup of an embedded ROS 2, really made: killed, completed, repeated; and its errors.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant, SystemTime},
};

/// The distribution that this run of the tests is for, if it is one that can be embedded.
fn distro() -> String {
    std::env::var("ROS_DISTRO").ok().filter(|distro| distro == "jazzy").unwrap_or("kilted".to_owned())
}

/// Whether there is an embedded ROS 2 for this machine: the tests run in one. On a sourced ROS 2 there may be no
/// wheels, or no network, and an embedded one is not what its user asked for.
fn can_be_embedded() -> bool {
    let embedded = std::env::var_os("_ROS_WHEELS_BOOTSTRAP_COMPLETE").is_some();
    if !embedded {
        println!(
            "skipped: the tests run on a sourced ROS 2; `cargo xtask test --embedded` makes embedded ones"
        );
    }
    embedded
}

fn xtask(ros_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("--ros-dir").arg(ros_dir).arg("--distro").arg(distro());
    // A killed process leaves its temporary directory.
    command.env("TMPDIR", ros_dir.parent().unwrap());
    command
}

fn output(command: &mut Command) -> (Output, String) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned();
    (output, text)
}

/// A directory of the test's own beside cargo's, where there is room for a ROS 2, and in it one named as users name
/// theirs.
fn ros_dir() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let ros_dir = directory.path().join("robôt ws");
    (directory, ros_dir)
}

/// Every file with its size and time of change.
fn snapshot(directory: &Path, files: &mut BTreeMap<PathBuf, (u64, SystemTime)>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        if metadata.is_dir() {
            snapshot(&path, files);
        } else {
            files.insert(path, (metadata.len(), metadata.modified().unwrap()));
        }
    }
}

/// Runs setup until `step` is under way and `deep_enough` into it, and kills it.
///
/// Only the process itself is killed, not its children: they go on, as after a kill by hand.
fn kill_in_step(ros_dir: &Path, step: usize, mut deep_enough: impl FnMut() -> bool) {
    let mut setup = xtask(ros_dir).arg("setup").stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(setup.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut announced = lines.skip_while(|line| !line.starts_with(&format!("[{step}/5]")));
    assert!(announced.next().is_some(), "step {step} was begun");
    let deadline = Instant::now() + Duration::from_secs(300);
    while !deep_enough() {
        assert!(Instant::now() < deadline && setup.try_wait().unwrap().is_none(), "step {step} is under way");
        std::thread::sleep(Duration::from_millis(5)); // between two looks
    }
    setup.kill().unwrap();
    setup.wait().unwrap();
}

#[test]
fn a_setup_that_is_killed_in_any_step_is_completed_by_the_next() {
    if !can_be_embedded() {
        return;
    }
    let (_directory, ros_dir) = ros_dir();
    let ros_dir = ros_dir.as_path();
    let prefix = ros_dir.join(distro());
    let stamp = |step: &str| prefix.join("steps").join(step).exists();
    let log_has = |name: &str, count: usize, needle: &str| {
        let log = fs::read_to_string(prefix.join(name)).unwrap_or_default();
        log.matches(needle).count() >= count
    };

    kill_in_step(ros_dir, 1, || log_has("wheels.log", 30, "Collecting "));
    assert!(!stamp("wheels"), "half of the wheels are not taken for all");
    // This step is short: on a busy machine it may be complete when it is killed, and is begun again.
    for _ in 0..5 {
        kill_in_step(ros_dir, 2, || log_has("repaired.log", 20, "print-needed"));
        if !stamp("repaired") {
            break;
        }
        fs::remove_file(prefix.join("steps/repaired")).unwrap();
        fs::remove_file(prefix.join("repaired.log")).unwrap();
    }
    assert!(stamp("wheels") && !stamp("repaired"));
    kill_in_step(ros_dir, 3, || log_has("statistics_msgs.log", 1, "[5/"));
    assert!(stamp("repaired") && !stamp("statistics_msgs"));
    kill_in_step(ros_dir, 4, || log_has("topic_statistics_interfaces.log", 1, "[5/"));
    assert!(stamp("statistics_msgs") && !stamp("topic_statistics_interfaces"));
    kill_in_step(ros_dir, 5, || true);

    let (completed, text) = output(xtask(ros_dir).arg("setup"));
    assert!(completed.status.success(), "{text}");
    let steps = ["wheels", "repaired", "statistics_msgs", "topic_statistics_interfaces", "interfaces"];
    assert!(steps.into_iter().all(stamp));
    let parts = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "part");
    let mut files = BTreeMap::new();
    snapshot(&prefix, &mut files);
    assert_eq!(files.keys().filter(|path| parts(path)).count(), 0, "no half-made file is left");

    // The prefix works: Python has the client library and the packages that were built here.
    let script = "import rclpy\nfrom statistics_msgs.msg import MetricsMessage as M\n\
                  from topic_statistics_interfaces.srv import GetTopicStatistics\nprint(M().unit == '')";
    let (python, text) = output(xtask(ros_dir).args(["run", "python3", "-B", "-c", script]));
    assert!(python.status.success() && text.trim() == "True", "{text}");
    // A Rust program's libraries do not ask for Python's.
    let (needed, text) = output(
        xtask(ros_dir).args(["run", "patchelf", "--print-needed"]).arg(prefix.join("venv/lib/librcl.so")),
    );
    assert!(needed.status.success() && text.contains(".so") && !text.contains("generator_py"), "{text}");

    let mut before = BTreeMap::new();
    snapshot(&prefix, &mut before);
    let started = Instant::now();
    let (again, text) = output(xtask(ros_dir).arg("setup"));
    println!("a second setup took {:.3} s", started.elapsed().as_secs_f32());
    assert!(again.status.success() && !text.contains("/5]"), "{text}");
    let mut after = BTreeMap::new();
    snapshot(&prefix, &mut after);
    before.remove(&prefix.join("lock"));
    after.remove(&prefix.join("lock"));
    assert_eq!(before.len(), after.len());
    let changed: Vec<_> = before.iter().filter(|(path, state)| after.get(*path) != Some(state)).collect();
    assert!(changed.is_empty(), "a second setup changes nothing: {changed:?}");

    // A step with a stale result is done again with all steps that depend on it, and no others.
    fs::write(prefix.join("steps/topic_statistics_interfaces"), "made from something else").unwrap();
    let (repaired, text) = output(xtask(ros_dir).arg("setup"));
    assert!(repaired.status.success() && !text.contains("[3/5]"), "{text}");
    assert!(["[4/5]", "[5/5]"].iter().all(|step| text.contains(step)), "{text}");
}

#[test]
fn what_is_missing_is_named_with_what_to_do() {
    if !can_be_embedded() {
        return;
    }
    let (_directory, ros_dir) = ros_dir();
    let refused = |variable: &str, value: &str| {
        let (setup, text) = output(xtask(&ros_dir).arg("setup").env(variable, value));
        assert_eq!(setup.status.code(), Some(1), "{text}");
        assert!(!ros_dir.join(distro()).join("steps/wheels").exists(), "{text}");
        text
    };
    let text = refused("PYTHON", "no-such-python3");
    assert!(text.contains("error: no-such-python3 was not found; install Python 3.10 to 3.13"), "{text}");
    let text = refused("CXX", "no-such-c++");
    assert!(text.contains("error: No C++ compiler was found (tried no-such-c++); install one"), "{text}");
    // Nothing listens on the discard port of this machine.
    let text = refused("PIP_INDEX_URL", "http://127.0.0.1:9/simple");
    assert!(text.contains("error: The package index PyPI cannot be reached; check the network"), "{text}");
}
