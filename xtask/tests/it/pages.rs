// SPDX-License-Identifier: Apache-2.0

//! Runs the commands in docs/colcon.md and docs/own_cargo_project.md, and the nodes that the commands build.

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use crate::{domain, note, output};

/// The directory of this repository.
const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// The URL from which the pages clone this project.
const REPOSITORY: &str = "https://github.com/rclrs-topic-statistics/rclrs_topic_statistics";
/// The variables that a setup file of a ROS 2 sets.
const SOURCED: [&str; 5] =
    ["AMENT_PREFIX_PATH", "CMAKE_PREFIX_PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "ROS_DISTRO"];
/// A Python program that publishes `imu` until it has read the statistics in its arguments.
const READER: &str = include_str!("reader.py");

/// Arguments of a node, with a condition on a percentile.
const NODE: &str = "--ros-args -p 'topic_statistics.warn_unless:=[\"/imu: age.p50<0.000001\"]'";

#[test]
fn the_pages_build_a_workspace_and_a_cargo_project() {
    // The path is short, like the path of a home directory. The path of the target directory may be longer.
    let directory = tempfile::Builder::new().prefix("c").rand_bytes(3).tempdir().unwrap();
    let home = Home(directory.path().join("u"));
    if let Err(reason) = home.make(&directory.path().join("venv")) {
        note(&format!("skipped: the test of the pages about packages, because {reason}"));
        return;
    }
    let page = |section, index| block("colcon", section, index);
    home.paste(&page("Make the workspace", 0));
    home.paste(&page("Make the workspace", 1));
    // The node must use the versions of crates with which this project is tested.
    home.paste("cp ~/repository/Cargo.lock src/imu_listener/");
    let build = page("Build on Kilted and Jazzy", 0);
    home.paste(&build);
    let run = page("Run", 0);
    let enter: Vec<_> = run.lines().take_while(|line| !line.starts_with("ros2")).collect();
    fs::remove_file(home.0.join("terminal")).unwrap(); // the page says "In another terminal"
    home.paste(&format!("source /opt/ros/kilted/setup.bash\n{}", enter.join("\n")));
    home.read(
        "install/imu_listener/lib/imu_listener/imu_listener",
        &["imu message_age", "imu message_period"],
    );
    let expected = ["imu_listener", "rclrs_topic_statistics"];
    let expected = expected.map(|package| format!("install/{package}/\n")).concat();
    assert_eq!(home.paste("ls -d install/*/"), expected, "no interfaces, no examples, no monitor");

    fs::remove_file(home.0.join("terminal")).unwrap();
    let page = |section, index| block("own_cargo_project", section, index);
    home.paste(&page("A node that builds", 1));
    home.paste(&page("A node that builds", 2));
    let with_lock = |commands: &str| {
        let (change, build) = commands.rsplit_once('\n').unwrap();
        assert_eq!(build, "cargo build");
        format!("{change}\ncp ~/repository/Cargo.lock .\n{build}")
    };
    home.paste(&with_lock(&format!("\n{}", page("A node that builds", 3))));
    let megabytes = || {
        home.paste("du -sm ~/build target | cut -f1").lines().map(|n| n.parse::<u64>().unwrap()).sum::<u64>()
    };
    let (before, begun) = (megabytes(), Instant::now());
    let add = page("Add the statistics", 0);
    home.paste(&with_lock(&add));
    let built = begun.elapsed();
    home.read("target/debug/imu_listener", &["imu message_age", "imu message_period"]);
    note(&format!(
        "From a node that builds to its first message on /statistics: {} commands, {:.0} s ({:.0} s to build), {} MB",
        add.lines().filter(|line| line.starts_with("cargo ") || line.starts_with("git ")).count(),
        begun.elapsed().as_secs_f64(),
        built.as_secs_f64(),
        megabytes() - before
    ));
    for (index, section) in [(1, "Your own messages"), (2, "Your own messages")] {
        home.paste(&page(section, index));
    }
    home.paste(&with_lock(&page("Your own messages", 3)));
    home.read("target/debug/imu_listener", &["heading publish_period", "imu message_age"]);
    // Enables the feature `interfaces`, with the interface package that it needs.
    home.paste(&with_lock(&page("Loss events, distributions as messages, and the service", 0)));
    home.read("target/debug/imu_listener", &["heading publish_period", "imu message_age"]);
}

/// Returns the shell commands in a code block of a page in docs/.
fn block(page: &str, section: &str, index: usize) -> String {
    let text = fs::read_to_string(format!("{PROJECT}/docs/{page}.md")).unwrap();
    let mut sections = text.split("\n## ").filter_map(|text| text.split_once('\n'));
    let (_, text) = sections.find(|(title, _)| *title == section).expect(section);
    let block = text.split("\n```sh\n").nth(index + 1).expect(section);
    block.split("\n```").next().unwrap().to_owned()
}

/// The home directory of a user who pastes commands into a terminal. Four things differ from the pages: colcon is
/// installed from PyPI, the repository is a copy of this one, ROS 2 is the test's ROS 2, and builds are not optimised.
struct Home(PathBuf);

impl Home {
    /// Makes the home directory. If this is not possible on this machine, returns the reason.
    fn make(&self, venv: &Path) -> Result<(), String> {
        // Without -I, colcon would find the empy of ROS 2 on PYTHONPATH, but colcon needs another version of empy.
        let (made, text) = output(Command::new("python3").args(["-I", "-m", "venv"]).arg(venv));
        if !made {
            return Err(format!("python3 makes no virtual environment (apt install python3-venv?): {text}"));
        }
        // `build` is installed first, as in setup: empy has no wheel, and is built with these tools.
        for requirements in ["build", "colcon"] {
            let mut pip = Command::new(venv.join("bin/python3"));
            let install = "-I -m pip install --require-hashes --no-deps --no-build-isolation -r";
            pip.args(install.split(' ')).arg(format!("{PROJECT}/xtask/requirements/{requirements}.txt"));
            let (installed, text) = output(&mut pip);
            if !installed && text.contains("after connection broken by") {
                return Err("colcon cannot be installed: PyPI cannot be reached".to_owned());
            }
            assert!(installed, "{text}");
        }
        for directory in ["bin", ".cargo", "build/debug/deps", "ros"] {
            fs::create_dir_all(self.0.join(directory)).unwrap();
        }
        let bin = venv.join("bin");
        let colcon = format!("#!/bin/sh\nexec {0}/python3 -I {0}/colcon \"$@\"\n", bin.display());
        fs::write(self.0.join("bin/colcon"), colcon).unwrap();
        symlink(bin.join("cargo-ament-build"), self.0.join("bin/cargo-ament-build")).unwrap();
        // cargo gets a separate home for installed programs and cloned repositories. Downloaded crates are shared.
        let default = || PathBuf::from(env::var_os("HOME").unwrap()).join(".cargo");
        let cargo_home = env::var_os("CARGO_HOME").map_or_else(default, PathBuf::from);
        for name in ["registry", "config.toml"] {
            symlink(cargo_home.join(name), self.0.join(".cargo").join(name)).unwrap();
        }
        let instead =
            format!("[url \"file://{}/repository\"]\n\tinsteadOf = {REPOSITORY}\n", self.0.display());
        fs::write(self.0.join(".gitconfig"), instead).unwrap();
        self.make_ros();
        // Copies the files of this project, and the compiled crates of registries, so that they are not built again.
        // Another cargo may replace a crate during the copy. cargo then builds the missing crate.
        let test = env::current_exe().unwrap();
        let built = test.ancestors().nth(2).unwrap().display();
        self.paste(&format!(
            "chmod +x ~/bin/colcon && mkdir ~/repository && tar -C '{PROJECT}' --exclude=./target --exclude=./.ros \
             --exclude=./.git --exclude=target --exclude=.ros -c . | tar -C ~/repository -x && cd ~/repository\n\
             git init -q && git add -A && git -c user.name=t -c user.email=t@localhost commit -q -m tested && cd\n\
             (cd '{built}' && cp -a .fingerprint build ~/build/debug && \
             cp -a deps/*.d deps/*.rlib deps/*.rmeta deps/*.so ~/build/debug/deps) || true"
        ));
        Ok(())
    }

    /// Makes `~/ros/setup.bash`, which replaces `/opt/ros/kilted/setup.bash` of the pages. It sources the test's ROS 2
    /// without the parts that the commands on the pages add.
    fn make_ros(&self) {
        const INTERFACES: &str = "topic_statistics_interfaces";
        let path = env::var_os("AMENT_PREFIX_PATH").expect("run the tests in the environment of a ROS 2");
        let record = format!("share/{INTERFACES}/rust/definition.json");
        let overlay = env::split_paths(&path).find(|prefix| prefix.join(&record).is_file());
        let overlay = overlay.map(|prefix| prefix.to_str().unwrap().to_owned());
        if let Some(overlay) = &overlay {
            self.paste(&format!(
                "cp -a '{overlay}' ~/ros/overlay && cd ~/ros/overlay && rm -r share/*/rust && cd share && \
                 rm -r ament_index/resource_index/rust_packages && \
                 find .. -depth -name '*{INTERFACES}*' -exec rm -r {{}} + && cd"
            ));
        }
        let ours = self.0.join("ros/overlay");
        let mut setup = String::new();
        for variable in SOURCED {
            let value = env::var(variable).unwrap_or_default();
            let value =
                overlay.iter().fold(value, |value, theirs| value.replace(theirs, ours.to_str().unwrap()));
            setup += &format!("export {variable}='{value}'\n");
        }
        fs::write(self.0.join("ros/setup.bash"), setup).unwrap();
    }

    /// Runs commands as a terminal does, on this test's ROS domain. Returns their output.
    fn paste(&self, commands: &str) -> String {
        let commands = commands.replace("/opt/ros/kilted", self.0.join("ros").to_str().unwrap());
        let commands = commands.replace("cargo install ", "cargo install --debug ");
        let script = format!(
            "cd; [ ! -f ~/terminal ] || . ~/terminal; set -e\n{commands}\n{{ export -p; echo \"cd '$PWD'\"; }} > ~/terminal"
        );
        let mut shell = Command::new("bash");
        for variable in SOURCED.iter().chain(&["CARGO_TARGET_DIR", "VIRTUAL_ENV"]) {
            shell.env_remove(variable);
        }
        let (path, installed) = (env::var_os("PATH").unwrap(), self.0.join(".cargo/bin"));
        // The directory with colcon comes last on PATH, so that `python3` remains the interpreter of ROS 2.
        let path = [installed].into_iter().chain(env::split_paths(&path)).chain([self.0.join("bin")]);
        let rustup_home = PathBuf::from(env::var_os("HOME").unwrap()).join(".rustup");
        shell
            .args(["-c", &script])
            .env("HOME", &self.0)
            .env("PATH", env::join_paths(path).unwrap())
            .env("CARGO_HOME", self.0.join(".cargo"))
            .env("RUSTUP_HOME", env::var_os("RUSTUP_HOME").map_or(rustup_home, PathBuf::from))
            .env("CARGO_NET_GIT_FETCH_WITH_CLI", "true") // git replaces the URL by the copy
            .env("COLCON_HOME", self.0.join("colcon")) // ignores the user's defaults
            // All builds share a directory (cargo 1.91 or later), so common dependencies are compiled only once. Builds
            // have no debug information and no incremental data.
            .env("CARGO_BUILD_BUILD_DIR", self.0.join("build"))
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_INCREMENTAL", "0")
            .env("ROS_DOMAIN_ID", domain::domain().expect("a free ROS domain").to_string())
            .env("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST");
        let (succeeded, text) = output(&mut shell);
        assert!(succeeded, "{commands}\nfailed:\n{text}");
        text
    }

    /// Runs the node until rclpy has read the `expected` statistics of this node.
    fn read(&self, node: &str, expected: &[&str]) {
        let expected: Vec<_> = expected.iter().map(|metric| format!("'/imu_listener:/{metric}'")).collect();
        fs::write(self.0.join("read.py"), READER).unwrap();
        let read = format!("python3 ~/read.py {}", expected.join(" "));
        self.paste(&format!(
            "{node} {NODE} > /dev/null & node=$!\nresult=0; {read} || result=$?\nkill $node; [ $result = 0 ]"
        ));
    }
}
