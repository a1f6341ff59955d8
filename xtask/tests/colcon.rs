//! A colcon workspace with this package and an application that depends on it: built, tested and run as its user does.

use std::{
    env,
    ffi::OsStr,
    fs,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use ignore::WalkBuilder;
use serde_json::Value;

/// How long statistics may take to come.
const LIMIT: Duration = Duration::from_secs(60);
/// The packages of this project that colcon builds.
const LIBRARY: &str = "rclrs_topic_statistics";
const EXAMPLES: &str = "rclrs_topic_statistics_examples";
const MONITOR: &str = "topic_statistics_monitor";
const EXPORTER: &str = "topic_statistics_exporter";
const GENERATOR: &str = "ros_interface_crates";
/// Without a terminal, colcon reads at most so many bytes of what `cargo metadata` prints, which is one line.
const LONGEST_METADATA: usize = 64 * 1024;
/// The path below which docs/colcon.md promises that this is enough.
const LONGEST_PATH: usize = 60;
/// The application in `colcon_app`.
const APPLICATION: &str = "imu_listener";

#[test]
fn colcon_builds_tests_and_installs_the_packages_and_an_application_that_depends_on_the_library() {
    let directory = tempfile::tempdir().unwrap(); // its path is short, which that of a target directory need not be
    let colcon = match Colcon::install(&directory.path().join("venv"), &[]) {
        Ok(colcon) => colcon,
        Err(reason) => {
            // Not `println!`, which the test harness keeps to itself.
            let _ = writeln!(io::stderr(), "skipped: the test of a colcon workspace, because {reason}");
            return;
        }
    };
    let workspace = Workspace::new(directory.path().join("ws"));

    // The library alone: its interface package, and no program.
    colcon.run(&workspace, &["build", "--packages-up-to", LIBRARY]);
    assert_eq!(workspace.installed(), [LIBRARY, "topic_statistics_interfaces"]);
    assert!(
        !workspace.0.join("install").join(LIBRARY).join("lib").join(LIBRARY).exists(),
        "it has no programs"
    );

    colcon.run(&workspace, &["build"]);
    let all = [APPLICATION, LIBRARY, EXAMPLES, GENERATOR, EXPORTER, "topic_statistics_interfaces", MONITOR];
    assert_eq!(workspace.installed(), all);
    // Found below `msg/`, where colcon does not look by itself.
    let share = "install/topic_statistics_interfaces/share/topic_statistics_interfaces";
    assert!(workspace.0.join(share).join("msg/MessagesLostEvent.msg").is_file());

    // The unit tests, and one that finds its processes and files where colcon has built them; the others would only run a
    // second time. (An argument that starts with a space is for cargo; colcon would take it for its own otherwise.)
    for (package, tests) in [
        (LIBRARY, &[" --lib"][..]),
        (EXAMPLES, &[" --test", "statistics"]),
        (EXPORTER, &[" --bins"]),
        (MONITOR, &[" --bins"]),
        (GENERATOR, &[" --lib"]),
    ] {
        let verbosely = ["test", "--packages-select", package, "--event-handlers", "console_cohesion+"];
        // It succeeds even if tests fail; then this output shows how.
        println!("{}", colcon.run(&workspace, &[&verbosely[..], &["--cargo-args"], tests].concat()));
    }
    let results = colcon.run(&workspace, &["test-result", "--verbose"]);
    assert!(
        results.contains("Summary: 10 tests, 0 errors, 0 failures, 0 skipped"),
        "tests and format of five packages: {results}"
    );

    workspace.check_launch_file();
    workspace.check_interface_crates();
    workspace.check_statistics();
    workspace.check_monitor();
}

#[test]
fn colcon_can_read_what_cargo_tells_of_the_workspace() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
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
    let reason = Colcon::install(directory.path(), &nowhere).err();
    assert_eq!(reason.as_deref(), Some("colcon cannot be installed: PyPI cannot be reached"));
}

/// colcon with its extensions for cargo, in a virtual environment.
struct Colcon {
    venv: PathBuf,
}

impl Colcon {
    /// Installs what the requirements pin, or says why this machine cannot.
    fn install(venv: &Path, variables: &[(&str, &str)]) -> Result<Colcon, String> {
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
                .args([
                    "--require-hashes",
                    "--no-deps",
                    "--no-build-isolation",
                    "--progress-bar",
                    "off",
                    "-r",
                ])
                .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("requirements").join(requirements))
                .envs(variables.iter().copied());
            let (installed, output) = self::output(&mut pip);
            if !installed && output.contains("after connection broken by") {
                return Err("colcon cannot be installed: PyPI cannot be reached".to_owned());
            }
            assert!(installed, "{output}");
        }
        Ok(Colcon { venv: venv.to_owned() })
    }

    /// Runs a verb of colcon in a workspace; gives what it prints.
    fn run(&self, workspace: &Workspace, arguments: &[&str]) -> String {
        let bin = self.venv.join("bin");
        // Behind all others: `cargo ament-build` has to be found, but python3 stays that of ROS 2.
        let path = env::var_os("PATH").unwrap();
        let path = env::join_paths(env::split_paths(&path).chain([bin.clone()])).unwrap();
        let mut colcon = Command::new(bin.join("python3"));
        colcon
            .arg("-I")
            .arg(bin.join("colcon"))
            .args(arguments)
            .current_dir(&workspace.0)
            .env("PATH", path)
            .env("COLCON_HOME", workspace.0.join("home")) // no defaults of whoever runs this
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("VIRTUAL_ENV")
            // What the packages have in common is compiled once (by cargo 1.91 or later), and without what only a
            // debugger or a second build needs.
            .env("CARGO_BUILD_BUILD_DIR", workspace.0.join("cargo"))
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_INCREMENTAL", "0");
        let (succeeded, output) = output(&mut colcon);
        assert!(succeeded, "colcon {arguments:?} failed:\n{output}");
        output
    }
}

struct Workspace(PathBuf);

impl Workspace {
    /// Makes a workspace of what a clone of this project has, and the application.
    fn new(directory: PathBuf) -> Workspace {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let sources = directory.join("src");
        let mut files = WalkBuilder::new(project);
        files
            .hidden(false)
            .parents(false)
            .require_git(false)
            .filter_entry(|entry| entry.file_name() != ".git");
        for file in files.build().map(Result::unwrap) {
            if file.file_type().is_some_and(|kind| kind.is_file()) {
                let relative = file.path().strip_prefix(project).unwrap();
                copy(file.path(), &sources.join(LIBRARY).join(relative));
            }
        }
        let application = sources.join(APPLICATION);
        for file in ["package.xml", "Cargo.toml", "src/main.rs"] {
            copy(&project.join("xtask/tests/colcon_app").join(file), &application.join(file));
        }
        // The versions that this package is tested with, not the newest ones.
        copy(&project.join("Cargo.lock"), &application.join("Cargo.lock"));
        Workspace(directory)
    }

    /// Returns the packages that are installed, in order.
    fn installed(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.join("install")).unwrap().map(Result::unwrap);
        let directories = entries.filter(|entry| entry.file_type().unwrap().is_dir());
        let mut names: Vec<_> = directories.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A command as in a shell that has sourced the workspace, on a ROS domain of this test's own.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", ". install/setup.sh && exec \"$@\"", "sh"])
            .arg(program)
            .current_dir(&self.0)
            .env("ROS_DOMAIN_ID", (1 + std::process::id() % 101).to_string())
            .env("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
            .stdin(Stdio::null());
        command
    }

    /// The directory that `ros2 run` and `ros2 launch` find for a package.
    fn prefix(&self, package: &str) -> PathBuf {
        let script =
            format!("import ament_index_python as index; print(index.get_package_prefix({package:?}))");
        let (found, text) = output(self.command("python3").args(["-c", &script]));
        assert!(found, "{text}");
        text.lines().next().unwrap().into()
    }

    /// Checks that the launch file is installed and can be loaded, where there is a `ros2 launch` to load it.
    fn check_launch_file(&self) {
        let launch = self.prefix(EXAMPLES).join("share").join(EXAMPLES).join("launch");
        let files = ["demo.launch.py", "health.launch.py"].map(|file| launch.join(file));
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
            assert_eq!(prefix, self.0.join("install").join(package));
            prefix.join("lib").join(package)
        });
        // As the launch file has it written.
        let parameters = self.0.join("parameters.yaml");
        let text = "/**:\n  ros__parameters:\n    callback_duration: 0.0\n    topic_statistics.publish_period: 0.5\n";
        fs::write(&parameters, text).unwrap();

        let reader = self.0.join("src").join(LIBRARY).join("examples/statistics_reader.py");
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
        let start = |command: &mut Command| Process(command.spawn().unwrap());
        let _application = start(&mut self.command(application.join("listener")));
        let _listener = start(
            self.command(examples.join("listener")).args(["--ros-args", "--params-file"]).arg(&parameters),
        );
        let talker = ["--ros-args", "-p", "rate:=100.0", "-p", "stamp_age:=0.05"];
        let _talker = start(self.command(examples.join("talker")).args(talker));

        let mut missing = vec![
            ("/imu_listener:/imu", "message_age"),
            ("/imu_listener:/imu", "message_period"),
            ("/listener:/imu", "message_age"),
            ("/listener:/imu", "message_period"),
        ];
        let deadline = Instant::now() + LIMIT;
        while !missing.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = received.recv_timeout(left).unwrap_or_else(|error| panic!("no {missing:?}: {error}"));
            let metric: Value = serde_json::from_str(&line).unwrap();
            let points = metric["statistics"].as_array().unwrap();
            let point = |of: u64| points.iter().find(|point| point[0] == of).unwrap()[1].as_f64();
            // A window through which messages came: the sample count, and then a minimum.
            if point(5).unwrap() < 20.0 {
                continue;
            }
            if metric["source"] == "/listener:/imu" {
                let [start, stop] = ["window_start", "window_stop"].map(|of| metric[of].as_i64().unwrap());
                assert!((stop - start) < 900_000_000, "half a second, as the parameter says: {line}");
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

/// Whether a command succeeds, and what it prints.
fn output(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned();
    (output.status.success(), text)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
}
