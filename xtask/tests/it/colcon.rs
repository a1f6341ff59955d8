//! The commands of docs/colcon.md and docs/own_cargo_project.md are pasted; the results are tested and run.

use std::{
    env,
    ffi::OsStr,
    fs,
    io::{self, BufRead, BufReader, Write},
    os::unix::fs::{symlink, PermissionsExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use ignore::WalkBuilder;
use serde_json::Value;

use crate::domain;

/// How long statistics may take to come.
const LIMIT: Duration = Duration::from_secs(60);
/// The packages of this project that colcon builds.
const LIBRARY: &str = "rclrs_topic_statistics";
const EXAMPLES: &str = "rclrs_topic_statistics_examples";
const MONITOR: &str = "topic_statistics_monitor";
const EXPORTER: &str = "topic_statistics_exporter";
const GENERATOR: &str = "ros_interface_crates";
const INTERFACES: &str = "topic_statistics_interfaces";
/// Without a terminal, colcon reads at most this number of bytes of `cargo metadata`'s output of one line.
const LONGEST_METADATA: usize = 64 * 1024;
/// The path below which docs/colcon.md promises that this is enough.
const LONGEST_PATH: usize = 80;
/// The node of the pages.
const APPLICATION: &str = "imu_listener";
/// Where the pages clone this project.
const REPOSITORY: &str = "https://github.com/rclrs-topic-statistics/rclrs_topic_statistics";
/// The variables that a setup file of a ROS 2 sets.
const SOURCED: [&str; 5] =
    ["AMENT_PREFIX_PATH", "CMAKE_PREFIX_PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "ROS_DISTRO"];
/// The error of a build without `generate`.
const CHANGED: &str =
    "The Rust crate of my_msgs was generated from another definition of my_msgs/msg/Heading";

#[test]
fn the_pages_build_a_workspace_and_a_cargo_project_with_messages_of_ones_own() {
    // Its path is as short as that of a home directory, which that of a target directory need not be.
    let directory = tempfile::Builder::new().prefix("c").rand_bytes(3).tempdir().unwrap();
    let venv = directory.path().join("venv");
    if let Err(reason) = install_colcon(&venv, &[]) {
        // Not `println!`, which the test harness keeps to itself.
        let _ = writeln!(io::stderr(), "skipped: the test of the pages about packages, because {reason}");
        return;
    }
    let home = Home::new(directory.path().join("u"), &venv);
    in_a_colcon_workspace(&home);
    in_a_cargo_project(&home);
    in_a_workspace_that_is_moved(&home);
}

fn in_a_colcon_workspace(home: &Home) {
    let page = Page::read("colcon");
    home.paste(&page.blocks("Make the workspace"));
    home.keep_tested_versions(&home.workspace().join("src").join(APPLICATION));
    home.paste(&page.blocks("Build on Kilted and Jazzy"));
    let mut all = vec![APPLICATION, LIBRARY, EXAMPLES, GENERATOR, EXPORTER, INTERFACES, MONITOR];
    assert_eq!(home.installed(), all);
    let part = &page.blocks("Build a part")[0];
    let listed = home.paste(&[part.replace("colcon build", "colcon list --names-only")]);
    let mut listed: Vec<_> = listed.lines().collect();
    listed.sort_unstable();
    assert_eq!(listed, [APPLICATION, LIBRARY, INTERFACES], "no examples, no monitor");

    // The unit tests, and one that finds its processes and files where colcon has built them; the others would only run
    // a second time. The exporter and the monitor depend on ROS and on the project's packages as the examples do, and
    // their tests take minutes to build. (An argument that starts with a space is for cargo; colcon would take it for
    // its own otherwise.)
    for (package, tests) in
        [(LIBRARY, "' --lib'"), (EXAMPLES, "' --test' it statistics::"), (GENERATOR, "' --lib'")]
    {
        let handlers = "--event-handlers console_cohesion+";
        // It succeeds even if tests fail; then this output shows how.
        let test = format!("colcon test --packages-select {package} {handlers} --cargo-args {tests}");
        println!("{}", home.paste(&[test]));
    }
    let results = home.paste(&["colcon test-result --verbose".to_owned()]);
    assert!(
        results.contains("Summary: 6 tests, 0 errors, 0 failures, 0 skipped"),
        "tests and format of three packages: {results}"
    );
    let run = page.blocks("Run");
    let enter: Vec<_> = run[0].lines().take_while(|line| !line.starts_with("ros2")).collect();
    let building = home.leave(); // "In another terminal"
    home.paste(&[
        page.blocks("Build on Kilted and Jazzy")[0].lines().next().unwrap().to_owned(),
        enter.join("\n"),
    ]);
    // Found below `msg/`, where colcon does not look by itself.
    assert!(home
        .prefix(INTERFACES)
        .join("share")
        .join(INTERFACES)
        .join("msg/MessagesLostEvent.msg")
        .is_file());
    assert!(!home.prefix(LIBRARY).join("lib").join(LIBRARY).exists(), "it has no programs");
    home.check_launch_file();
    home.check_monitor();

    home.enter(&building);
    home.paste(&page.blocks("Add your own messages"));
    all.push("my_msgs");
    all.sort_unstable();
    assert_eq!(home.installed(), all);
    home.check_change(&page.blocks("Change a message"));
    // As in a terminal that has sourced the workspace: colcon hands the installed manifests of all packages to cargo.
    home.paste(&[enter.join("\n"), format!("colcon build --packages-select {APPLICATION}")]);
    home.check_interface_crates();
    home.check_statistics();
    home.check_update(&page.blocks("Update this repository"));
}

fn in_a_cargo_project(home: &Home) {
    let _ = home.leave();
    let page = Page::read("own_cargo_project");
    home.paste(&page.blocks("Build the interface packages"));
    // As of a package that was renamed.
    let left_over = home.directory.join("rust_interfaces/share/left_over_msgs/rust");
    let crates = left_over.ancestors().nth(2).unwrap().to_owned();
    fs::create_dir_all(left_over.parent().unwrap()).unwrap();
    let copied = Command::new("cp").arg("-r").args([crates.join("my_msgs/rust"), left_over.clone()]).status();
    assert!(copied.unwrap().success());
    home.paste(&page.blocks("Generate the Rust interface crates"));
    assert!(!left_over.exists(), "`generate` removes its own");
    home.paste(&page.blocks("Make the project"));
    home.keep_tested_versions(&home.directory.join(APPLICATION));
    // The others run the node, and repeat the environment for another terminal.
    home.paste(&page.blocks("Build and run")[..1]);
    home.check_change(&page.blocks("Change a message"));

    let talker = home.workspace().join("install").join(EXAMPLES).join("lib").join(EXAMPLES).join("talker");
    let _talker = Process(home.command(talker).args(["--ros-args", "-p", "rate:=100.0"]).spawn().unwrap());
    let _application = Process(home.command("target/debug/imu_listener").spawn().unwrap());
    home.wait_for(&[("/imu_listener:/heading", "publish_period")]);
}

fn in_a_workspace_that_is_moved(home: &Home) {
    let _ = home.leave();
    let page = Page::read("colcon");
    let build = &page.blocks("Build on Kilted and Jazzy")[0];
    let is_environment = |line: &&str| line.starts_with("source") || line.starts_with("export");
    let environment: Vec<_> = build.lines().filter(is_environment).collect();
    let moved = page.blocks("Move the workspace").concat();
    let moved: Vec<_> = moved.lines().collect();
    let [mv, rm, build] = moved[..] else { panic!("three commands: {moved:?}") };
    home.paste(&[environment.join("\n"), mv.to_owned()]);
    let (built, stdout, stderr) = home.try_paste(build);
    assert!(!built && stderr.contains("CMakeCache.txt"), "it needs no remedy: {stdout}\n{stderr}");
    home.paste(&[rm.to_owned(), build.to_owned()]);
    let program = Path::new("robot_ws/install").join(APPLICATION).join("lib").join(APPLICATION);
    assert!(home.directory.join(program).join(APPLICATION).is_file());
}

#[test]
fn colcon_can_read_what_cargo_tells_of_the_workspace() {
    let project = project();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--format-version=1"]).current_dir(project);
    let metadata = String::from_utf8(cargo.env_remove("CARGO_TARGET_DIR").output().unwrap().stdout).unwrap();
    let paths = metadata.matches(project.to_str().unwrap()).count();
    let length = metadata.len() - paths * project.as_os_str().len() + paths * LONGEST_PATH;
    assert!(paths > 0 && length < LONGEST_METADATA, "{length} bytes: the workspace has too many packages");
}

#[test]
fn an_index_that_cannot_be_reached_is_a_reason_to_skip() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    // Nothing listens on the discard port of this machine.
    let nowhere = [("PIP_INDEX_URL", "http://127.0.0.1:9/simple")];
    let reason = install_colcon(directory.path(), &nowhere).err();
    assert_eq!(reason.as_deref(), Some("colcon cannot be installed: PyPI cannot be reached"));
}

/// Installs colcon with its extensions for cargo, as the requirements pin them, in a virtual environment; or says why
/// this machine cannot.
fn install_colcon(venv: &Path, variables: &[(&str, &str)]) -> Result<(), String> {
    // -I, here and below: colcon wants another empy than the one that ROS 2 has on PYTHONPATH.
    let (made, output) = output(Command::new("python3").args(["-I", "-m", "venv"]).arg(venv));
    if !made {
        return Err(format!(
            "python3 cannot make a virtual environment (apt install python3-venv?): {output}"
        ));
    }
    // Two steps, as in setup: empy has no wheel and is built with what `build` has installed.
    for requirements in ["build.txt", "colcon.txt"] {
        let mut pip = Command::new(venv.join("bin/python3"));
        pip.args(["-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input"])
            .args(["--require-hashes", "--no-deps", "--no-build-isolation", "--progress-bar", "off", "-r"])
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("requirements").join(requirements))
            .envs(variables.iter().copied());
        let (installed, output) = self::output(&mut pip);
        if !installed && output.contains("after connection broken by") {
            return Err("colcon cannot be installed: PyPI cannot be reached".to_owned());
        }
        assert!(installed, "{output}");
    }
    Ok(())
}

/// The shell commands of a page of docs/, by section.
struct Page(Vec<(String, String)>);

impl Page {
    fn read(name: &str) -> Page {
        let text = fs::read_to_string(project().join("docs").join(name).with_extension("md")).unwrap();
        let (mut section, mut blocks) = ("", vec![]);
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(title) = line.strip_prefix("## ") {
                section = title;
            } else if line == "```sh" {
                let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
                blocks.push((section.to_owned(), block.join("\n")));
            }
        }
        Page(blocks)
    }

    fn blocks(&self, section: &str) -> Vec<String> {
        let blocks = self.0.iter().filter(|(title, _)| title == section);
        let blocks: Vec<_> = blocks.map(|(_, block)| block.clone()).collect();
        assert!(!blocks.is_empty(), "the page has no commands in {section:?}");
        blocks
    }
}

/// The home directory of a user who pastes commands into a terminal. Four things differ from the pages: colcon comes
/// from PyPI, the repository is a clone of this one, the ROS 2 is the one that runs this test, and the generator is not
/// optimised.
struct Home {
    directory: PathBuf,
}

impl Home {
    fn new(directory: PathBuf, venv: &Path) -> Home {
        let home = Home { directory };
        home.install_tools(venv);
        home.copy_artifacts();
        home.make_repository();
        home.make_ros();
        home
    }

    fn install_tools(&self, venv: &Path) {
        let bin = self.directory.join("bin");
        fs::create_dir_all(&bin).unwrap();
        let venv = venv.join("bin");
        let colcon = bin.join("colcon");
        let text = format!("#!/bin/sh\nexec {0}/python3 -I {0}/colcon \"$@\"\n", venv.display());
        fs::write(&colcon, text).unwrap();
        fs::set_permissions(&colcon, fs::Permissions::from_mode(0o755)).unwrap();
        symlink(venv.join("cargo-ament-build"), bin.join("cargo-ament-build")).unwrap();
        // cargo's own home, for what it installs and clones; the crates are downloaded already.
        let (from, to) = (self.cargo_home(), self.directory.join(".cargo"));
        fs::create_dir_all(&to).unwrap();
        for name in ["registry", "config.toml"] {
            if from.join(name).exists() {
                symlink(from.join(name), to.join(name)).unwrap();
            }
        }
    }

    /// Copies what has been built beside this test: crates of a registry are the same, and are not compiled again.
    fn copy_artifacts(&self) {
        let (test, to) = (env::current_exe().unwrap(), self.build_directory().join("debug"));
        let from = test.ancestors().nth(2).unwrap();
        fs::create_dir_all(to.join("deps")).unwrap();
        let script = "cp -a .fingerprint build \"$0\" && cp -a deps/*.d deps/*.rlib deps/*.rmeta deps/*.so \"$0/deps\"";
        let status = Command::new("sh").args(["-c", script]).arg(to).current_dir(from).status();
        // Another cargo may replace a file meanwhile; whatever is missing is built.
        println!("copied from {}: {}", from.display(), status.unwrap());
    }

    /// Where cargo builds.
    fn build_directory(&self) -> PathBuf {
        self.directory.join("build")
    }

    /// Makes the repository that the pages clone, of the files of this project.
    fn make_repository(&self) {
        let repository = self.directory.join("repository");
        let mut files = WalkBuilder::new(project());
        files
            .hidden(false)
            .parents(false)
            .require_git(false)
            .filter_entry(|entry| entry.file_name() != ".git");
        for file in files.build().map(Result::unwrap) {
            if file.file_type().is_some_and(|kind| kind.is_file()) {
                copy(file.path(), &repository.join(file.path().strip_prefix(project()).unwrap()));
            }
        }
        let instead = format!("[url \"file://{}\"]\n\tinsteadOf = {REPOSITORY}\n", repository.display());
        fs::write(self.directory.join(".gitconfig"), instead).unwrap();
        let commit = "git init -q && git add -A && \
                      git -c user.name=test -c user.email=test@localhost commit -q -m tested";
        self.paste(&[format!("cd ~/repository && {commit} && cd")]);
    }

    /// Makes `~/ros/setup.bash`, which the pages source as `/opt/ros/kilted/setup.bash`: the ROS 2 of this test without
    /// what the pages add to it.
    fn make_ros(&self) {
        let ros = self.directory.join("ros");
        let path = env::var_os("AMENT_PREFIX_PATH").expect("run the tests in the environment of a ROS 2");
        let record = Path::new("share").join(INTERFACES).join("rust/definition.json");
        let overlay = env::split_paths(&path).find(|prefix| prefix.join(&record).is_file());
        let (from, to) = match &overlay {
            Some(overlay) => (overlay.to_str().unwrap(), ros.to_str().unwrap()),
            None => ("", ""),
        };
        if !from.is_empty() {
            let script = format!(
                "cp -a {from} {to} && cd {to} && rm -r share/*/rust share/ament_index/resource_index/rust_packages && \
                 find . -depth -name '*{INTERFACES}*' -exec rm -r {{}} + && cd"
            );
            self.paste(&[script]);
        }
        let mut setup = String::new();
        for variable in SOURCED {
            if let Ok(value) = env::var(variable) {
                let value = if from.is_empty() { value } else { value.replace(from, to) };
                setup += &format!("export {variable}='{value}'\n");
            }
        }
        fs::create_dir_all(&ros).unwrap();
        fs::write(ros.join("setup.bash"), setup).unwrap();
    }

    fn cargo_home(&self) -> PathBuf {
        let default = || PathBuf::from(env::var_os("HOME").unwrap()).join(".cargo");
        env::var_os("CARGO_HOME").map_or_else(default, PathBuf::from)
    }

    fn workspace(&self) -> PathBuf {
        self.directory.join("ws")
    }

    /// The file with the environment of the terminal.
    fn terminal(&self) -> PathBuf {
        self.directory.join("terminal")
    }

    /// Leaves the terminal, and gives its environment; the next command is in a new one.
    fn leave(&self) -> Vec<u8> {
        let environment = fs::read(self.terminal()).unwrap();
        fs::remove_file(self.terminal()).unwrap();
        environment
    }

    /// Goes back to a terminal, in the directory of the last one.
    fn enter(&self, environment: &[u8]) {
        fs::write(self.terminal(), environment).unwrap();
    }

    /// Uses the versions of crates that this project is tested with, not the newest ones.
    fn keep_tested_versions(&self, package: &Path) {
        copy(&project().join("Cargo.lock"), &package.join("Cargo.lock"));
    }

    /// Pastes commands into the terminal; returns their standard output.
    fn paste(&self, blocks: &[String]) -> String {
        let (succeeded, stdout, stderr) = self.try_paste(&blocks.join("\n"));
        assert!(succeeded, "{}\nfailed:\n{stdout}\n{stderr}", blocks.join("\n"));
        stdout
    }

    fn try_paste(&self, commands: &str) -> (bool, String, String) {
        let commands = commands.replace("/opt/ros/kilted", self.directory.join("ros").to_str().unwrap());
        // In the profile in which colcon builds the same crates.
        let commands = commands.replace("cargo install ", "cargo install --debug ");
        let script =
            format!("set -e\n{commands}\nexport -p > {0}\npwd > {0}.directory\n", self.terminal().display());
        let output = self.command("bash").args(["-c", &script]).output().unwrap();
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.success(), stdout, stderr)
    }

    /// A command in the terminal, on a ROS domain of this test's own.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let enter = format!(
            "if [ -f {0} ]; then . {0}; cd \"$(cat {0}.directory)\"; else cd; fi; exec \"$@\"",
            self.terminal().display()
        );
        let installed = self.directory.join(".cargo/bin");
        let path = env::var_os("PATH").unwrap();
        // colcon behind all others: python3 stays that of ROS 2.
        let path = [installed].into_iter().chain(env::split_paths(&path)).chain([self.directory.join("bin")]);
        let rustup_home = self.cargo_home().with_file_name(".rustup");
        let mut command = Command::new("bash");
        command.args(["-c", &enter, "bash"]).arg(program).stdin(Stdio::null());
        for variable in SOURCED.iter().chain(&["CARGO_TARGET_DIR", "VIRTUAL_ENV"]) {
            command.env_remove(variable);
        }
        command
            .env("HOME", &self.directory)
            .env("PATH", env::join_paths(path).unwrap())
            .env("CARGO_HOME", self.directory.join(".cargo"))
            .env("RUSTUP_HOME", env::var_os("RUSTUP_HOME").map_or(rustup_home, PathBuf::from))
            .env("CARGO_NET_GIT_FETCH_WITH_CLI", "true") // git knows the repository
            .env("COLCON_HOME", self.directory.join("colcon")) // no defaults of whoever runs this
            // The packages' common dependencies are compiled once (by cargo 1.91 or later), without data for a debugger
            // or a second build.
            .env("CARGO_BUILD_BUILD_DIR", self.build_directory())
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_INCREMENTAL", "0")
            .env("ROS_DOMAIN_ID", domain::domain().expect("a free ROS domain").to_string())
            .env("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST");
        command
    }

    /// Returns the packages that are installed in the workspace, in order.
    fn installed(&self) -> Vec<String> {
        let entries = fs::read_dir(self.workspace().join("install")).unwrap().map(Result::unwrap);
        let directories = entries.filter(|entry| entry.file_type().unwrap().is_dir());
        let mut names: Vec<_> = directories.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The directory that `ros2 run` and `ros2 launch` find for a package.
    fn prefix(&self, package: &str) -> PathBuf {
        let script =
            format!("import ament_index_python as index; print(index.get_package_prefix({package:?}))");
        let (found, text) = output(self.command("python3").args(["-c", &script]));
        assert!(found, "{text}");
        text.lines().next().unwrap().into()
    }

    /// Pastes the section about a changed message, at first without `generate`.
    fn check_change(&self, blocks: &[String]) {
        let block = blocks.concat();
        let lines: Vec<_> = block.lines().collect();
        let is_generate = |line: &&str| line.contains("ros_interface_crates generate");
        let generate = lines.iter().position(is_generate).unwrap();
        let without = [&lines[..generate], &lines[generate + 1..]].concat().join("\n");
        let (built, stdout, stderr) = self.try_paste(&without);
        let output = stdout + &stderr;
        assert!(!built && output.contains(CHANGED), "without generate: {output}");
        self.paste(&[lines[generate..].join("\n")]);
    }

    /// Pastes the section about a new state of the repository, which has another `Cargo.lock`.
    fn check_update(&self, blocks: &[String]) {
        let commit = "cd ~/repository && sed -i '1s/$/ /' Cargo.lock && \
                      git -c user.name=test -c user.email=test@localhost commit -q -a -m next && cd ~/ws";
        self.paste(&[commit.to_owned()]);
        let changed = ["git -C src/rclrs_topic_statistics status --short".to_owned()];
        assert_eq!(self.paste(&changed), " M Cargo.lock\n");
        let (pulled, _, stderr) = self.try_paste("git -C src/rclrs_topic_statistics pull");
        assert!(!pulled && stderr.contains("would be overwritten by merge"), "it needs no remedy: {stderr}");
        let block = blocks.concat();
        let commands: Vec<_> = block.lines().collect();
        // The rest was pasted before, of other sections.
        let (pull, build) = commands.split_at(2);
        assert!(pull[1].ends_with(" pull") && build.last() == Some(&"colcon build"), "{commands:?}");
        self.paste(&[pull.join("\n")]);
        assert_eq!(self.paste(&changed), "");
    }

    /// Checks that the launch file is installed and can be loaded, where there is a `ros2 launch` to load it.
    fn check_launch_file(&self) {
        let launch = self.prefix(EXAMPLES).join("share").join(EXAMPLES).join("launch");
        let files =
            ["any_node.launch.py", "demo.launch.py", "health.launch.py"].map(|file| launch.join(file));
        let (compiled, text) = output(self.command("python3").args(["-m", "py_compile"]).args(files));
        assert!(compiled, "{text}");

        if !output(self.command("python3").args(["-c", "import ros2launch, launch_ros"])).0 {
            let _ =
                writeln!(io::stderr(), "skipped: loading the launch file, because there is no ros2launch");
            return;
        }
        let launch = ["launch", "--show-args", EXAMPLES, "demo.launch.py"];
        let (loaded, text) = output(self.command("ros2").args(launch));
        assert!(loaded, "{text}");
        for argument in ["'rate'", "'callback_duration'", "'publish_period'"] {
            assert!(text.contains(argument), "{text}");
        }
    }

    /// Runs ros_interface_crates as it is installed. The crate of topic_statistics_interfaces is the underlay's, its
    /// definition the workspace's.
    fn check_interface_crates(&self) {
        let program = self.prefix(GENERATOR).join("lib").join(GENERATOR).join(GENERATOR);
        let (fits, text) = output(self.command(program).arg("check"));
        assert!(fits && text.ends_with(" packages checked, 0 problems\n"), "{text}");
    }

    /// Runs the talker and the monitor as they are installed, with the expectations that are installed.
    fn check_monitor(&self) {
        let [talker, monitor] = [(EXAMPLES, "talker"), (MONITOR, "topic_monitor")]
            .map(|(package, program)| self.prefix(package).join("lib").join(package).join(program));
        let _talker = Process(self.command(talker).args(["--ros-args", "-p", "rate:=50.0"]).spawn().unwrap());
        let condition = ["imu", "--require", "rate>5 lost=0", "--duration", "60"];
        let (healthy, text) = output(self.command(&monitor).args(condition));
        assert!(healthy, "{text}");
        let expectations =
            self.prefix(EXAMPLES).join("share").join(EXAMPLES).join("launch/expectations.yaml");
        let mut judge = self.command(monitor);
        let (healthy, text) = output(judge.arg("--expect").arg(expectations).args(["--duration", "6"]));
        assert!(healthy, "{text}");
    }

    /// Runs the demo pair and the application as they are installed until rclpy has read statistics of both.
    fn check_statistics(&self) {
        let [examples, application] = [EXAMPLES, APPLICATION].map(|package| {
            let prefix = self.prefix(package);
            assert_eq!(prefix, self.workspace().join("install").join(package));
            prefix.join("lib").join(package)
        });
        // As the launch file has it written.
        let parameters = self.directory.join("parameters.yaml");
        let text = "/**:\n  ros__parameters:\n    callback_duration: 0.0\n    topic_statistics.publish_period: 0.5\n";
        fs::write(&parameters, text).unwrap();
        let start = |command: &mut Command| Process(command.spawn().unwrap());
        let _application = start(&mut self.command(application.join(APPLICATION)));
        let _listener = start(
            self.command(examples.join("listener")).args(["--ros-args", "--params-file"]).arg(&parameters),
        );
        let talker = ["--ros-args", "-p", "rate:=100.0", "-p", "stamp_age:=0.05"];
        let _talker = start(self.command(examples.join("talker")).args(talker));
        self.wait_for(&[
            ("/imu_listener:/imu", "message_age"),
            ("/imu_listener:/imu", "message_period"),
            ("/imu_listener:/heading", "publish_period"),
            ("/listener:/imu", "message_age"),
            ("/listener:/imu", "message_period"),
        ]);
    }

    /// Waits until rclpy has read windows with samples of these sources and metrics.
    fn wait_for(&self, expected: &[(&str, &str)]) {
        let reader = self.directory.join("repository/examples/statistics_reader.py");
        let mut reader = self
            .command("python3")
            .arg(reader)
            .arg("--json")
            .stdout(Stdio::piped())
            .spawn()
            .map(Process)
            .unwrap();
        let lines = BufReader::new(reader.0.stdout.take().unwrap()).lines().map_while(Result::ok);
        let (sender, received) = mpsc::channel();
        std::thread::spawn(move || lines.into_iter().try_for_each(|line| sender.send(line)));
        let mut missing = expected.to_vec();
        let deadline = Instant::now() + LIMIT;
        while !missing.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = received.recv_timeout(left).unwrap_or_else(|error| panic!("no {missing:?}: {error}"));
            let metric: Value = serde_json::from_str(&line).unwrap();
            let points = metric["statistics"].as_array().unwrap();
            let point =
                |data_type: u64| points.iter().find(|point| point[0] == data_type).unwrap()[1].as_f64();
            // A window with messages throughout. Data type 5 is the sample count, 2 the minimum.
            if point(5).unwrap() < 20.0 {
                continue;
            }
            if metric["source"] == "/listener:/imu" {
                let [start, stop] = ["window_start", "window_stop"].map(|key| metric[key].as_i64().unwrap());
                // Half a second, as the parameter says; longer only if the thread that ends it was held up.
                if stop - start > 700_000_000 {
                    continue;
                }
            }
            if metric["metric"] == "message_age" {
                assert!(point(2).unwrap() >= 50.0, "stamped 50 ms in the past: {line}");
            }
            missing.retain(|(source, name)| metric["source"] != *source || metric["metric"] != *name);
        }
    }
}

/// A child process that ends with its handle.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a command succeeds, and its output.
fn output(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned();
    (output.status.success(), text)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
}

/// The repository.
fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}
