// SPDX-License-Identifier: Apache-2.0

//! The environment that the verbs work in, with a ROS 2 that is "sourced" and has nothing in it to build.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// A directory with a prefix that passes for a whole ROS 2.
struct Sandbox(tempfile::TempDir);

impl Sandbox {
    fn new() -> Sandbox {
        let directory = tempfile::tempdir().unwrap();
        let prefix = directory.path().join("ros");
        // One interface package that the generator of Rust crates can read.
        let description = r#"{"type_description_msg": {"type_description": {"type_name": "shapes/msg/Point", "fields": [
            {"name": "x", "type": {"type_id": 11, "capacity": 0, "string_capacity": 0, "nested_type_name": ""}}]},
            "referenced_type_descriptions": []}, "type_hashes": [
            {"type_name": "shapes/msg/Point", "hash_string": "RIHS01_0"}]}"#;
        let idl = "module shapes { module msg { struct Point { double x; }; }; };";
        for (file, content) in [
            ("lib/librcl.so", ""),
            ("share/statistics_msgs/package.xml", ""),
            ("share/topic_statistics_interfaces/package.xml", ""),
            ("share/ament_index/resource_index/rosidl_interfaces/shapes", "msg/Point.idl\nmsg/Point.json\n"),
            ("share/shapes/package.xml", "<package><version>1.0.0</version></package>"),
            ("share/shapes/msg/Point.idl", idl),
            ("share/shapes/msg/Point.json", description),
        ] {
            let file = prefix.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        Sandbox(directory)
    }

    fn path(&self, relative: &str) -> PathBuf {
        fs::canonicalize(self.0.path()).unwrap().join(relative)
    }

    /// xtask, with the prefix as the sourced ROS 2.
    fn xtask(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command
            .env("AMENT_PREFIX_PATH", self.path("ros"))
            .env("ROS_DISTRO", "kilted")
            .env_remove("XTASK_ROS_DIR");
        command
    }
}

/// Asserts success; gives standard output.
fn succeeded(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    assert!(!errors.contains("panicked"), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_copied_checkout_works_on_itself() {
    let sandbox = Sandbox::new();
    let copy = sandbox.path("copy");
    fs::create_dir_all(copy.join("xtask")).unwrap();

    // As `cargo run` sets it in the copy, whose target directory may have been copied too.
    succeeded(&sandbox.xtask().arg("setup").env("CARGO_MANIFEST_DIR", copy.join("xtask")).output().unwrap());

    assert!(names(&copy.join(".ros")).iter().any(|name| name.starts_with("sourced-kilted-")));
}

#[test]
fn a_reader_of_env_that_has_gone_is_no_error() {
    let sandbox = Sandbox::new();
    // With something to print.
    succeeded(&sandbox.xtask().arg("--ros-dir").arg(sandbox.path("made")).arg("env").output().unwrap());
    let prefix = sandbox.path("made").join(&names(&sandbox.path("made"))[0]);
    fs::create_dir_all(prefix.join("overlay")).unwrap();
    let mut env = sandbox.xtask();
    env.arg("--ros-dir").arg(sandbox.path("made")).arg("env");
    assert!(succeeded(&env.output().unwrap()).contains("export AMENT_PREFIX_PATH="));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);

    let env = env.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();

    succeeded(&env.wait_with_output().unwrap());
}

/// `cargo xtask run -- node & kill $!` ends the node.
#[test]
fn a_signal_reaches_the_program_that_is_run() {
    let sandbox = Sandbox::new();

    let run = sandbox.xtask().args(["run", "sh", "-c", "echo $$"]).stdout(Stdio::piped()).spawn().unwrap();

    let id = run.id();
    assert_eq!(succeeded(&run.wait_with_output().unwrap()), format!("{id}\n"));
}

#[test]
fn a_complete_prefix_that_cannot_be_written_is_used() {
    let sandbox = Sandbox::new();
    let ros_dir = sandbox.path("shared");
    let run = || {
        let mut command = sandbox.xtask();
        command.arg("--ros-dir").arg(&ros_dir).args(["run", "true"]);
        command
    };
    succeeded(&run().output().unwrap());
    let prefix = ros_dir.join(&names(&ros_dir)[0]);
    // A name that no file can have stands for a directory that root cannot write to either.
    fs::remove_file(prefix.join("lock")).unwrap();
    fs::create_dir(prefix.join("lock")).unwrap();

    succeeded(&run().output().unwrap());

    // Making something still needs the lock.
    fs::remove_file(prefix.join("steps/interfaces")).unwrap();
    let refused = run().output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("lock"), "{refused:?}");
}
