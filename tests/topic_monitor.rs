//! The program topic_monitor on real topics: in a terminal, whose screen is read, and in lines.

#![cfg(feature = "monitor")]

mod common;

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
};

use common::{domain, wait_for, Process, Program, Reader};
use portable_pty::{native_pty_system, CommandBuilder, MasterPty, PtySize};
use serde_json::Value;

const MONITOR: &str = env!("CARGO_BIN_EXE_topic_monitor");
const TALKER: &str = env!("CARGO_BIN_EXE_talker");
const LISTENER: &str = env!("CARGO_BIN_EXE_listener");

const FAST: [&str; 3] = ["--ros-args", "-p", "rate:=50.0"];

/// The monitor in a terminal.
struct Terminal {
    pty: Box<dyn MasterPty + Send>,
    child: Box<dyn portable_pty::Child + Send + Sync>,
    keys: Box<dyn Write + Send>,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl Terminal {
    fn start(arguments: &[&str], domain: u32) -> Terminal {
        let size = PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(MONITOR);
        command.args(arguments);
        command.env("TERM", "xterm-256color");
        command.env("ROS_DOMAIN_ID", domain.to_string());
        command.env("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST");
        let child = pair.slave.spawn_command(command).unwrap();
        let mut output = pair.master.try_clone_reader().unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(24, 80, 0)));
        let written = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(number @ 1..) = output.read(&mut bytes) {
                written.lock().unwrap().process(&bytes[..number]);
            }
        });
        let keys = pair.master.take_writer().unwrap();
        Terminal { pty: pair.master, child, keys, screen }
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits until the screen is as it should be.
    fn wait(&self, what: &str, is: impl Fn(&str) -> bool) {
        let started = std::time::Instant::now();
        while !is(&self.text()) {
            assert!(started.elapsed() < common::LIMIT, "no {what} on\n{}", self.text());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    fn resize(&self, rows: u16, cols: u16) {
        self.screen.lock().unwrap().set_size(rows, cols);
        self.pty.resize(PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }).unwrap();
    }

    /// Whether the program has the alternate screen, and the cursor is hidden.
    fn has_terminal(&self) -> bool {
        let parser = self.screen.lock().unwrap();
        parser.screen().alternate_screen() && parser.screen().hide_cursor()
    }

    /// Waits for the end; returns the exit status.
    fn end(&mut self) -> u32 {
        let mut status = None;
        wait_for("end of the monitor", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        wait_for("terminal as it was", || {
            let parser = self.screen.lock().unwrap();
            !parser.screen().alternate_screen() && !parser.screen().hide_cursor()
        });
        status.unwrap().exit_code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

fn command(arguments: &[&str], domain: u32) -> Command {
    common::command(MONITOR, arguments, domain)
}

/// Runs the monitor to its end.
fn run(arguments: &[&str], domain: u32) -> Output {
    command(arguments, domain).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn objects(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The monitor as it writes JSON, until it is dropped.
struct Json {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Json {
    fn start(arguments: &[&str], domain: u32) -> Json {
        let arguments = [&["--json", "--period", "0.25"], arguments].concat();
        let mut child = command(&arguments, domain).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Json { child, lines }
    }

    /// Reads on until an object is as it should be.
    fn until(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let deadline = std::time::Instant::now() + common::LIMIT;
        let mut last = String::new();
        loop {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            let line =
                self.lines.recv_timeout(left).unwrap_or_else(|error| panic!("no {what}: {error}; {last}"));
            let object = serde_json::from_str(&line).unwrap();
            if is(&object) {
                return object;
            }
            last = line;
        }
    }
}

impl Drop for Json {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_live_view_shows_sorts_filters_details_resizes_and_quits() {
    let domain = domain(0);
    let _talker = Process::start(TALKER, &FAST, domain);
    let mut terminal = Terminal::start(&[], domain);
    let first_topic =
        |text: &str| text.lines().nth(3).map(|line| line.trim_start_matches(['>', '!', ' ']).to_owned());
    let is_first =
        |topic: &'static str| move |text: &str| first_topic(text).is_some_and(|line| line.starts_with(topic));

    terminal.wait("rows with figures", |text| {
        let has_rate = |topic: &str| text.lines().any(|line| line.contains(topic) && line.contains(" 50."));
        has_rate("/chatter") && has_rate("/imu") && text.contains("sensor_msgs/msg/Imu") && text.contains('█')
    });
    assert!(terminal.has_terminal());
    let row = terminal.text().lines().find(|line| line.contains("/imu ")).unwrap().to_owned();
    let mean: f64 = row.split_whitespace().nth(5).unwrap().parse().unwrap();
    assert!((18.0..22.0).contains(&mean), "a period of 20 ms: {row}");

    assert!(is_first("/chatter")(&terminal.text()));
    terminal.press("r");
    terminal.wait("reversed order", is_first("/imu"));
    terminal.press("r");
    terminal.wait("order", is_first("/chatter"));
    terminal.press("ssss"); // topic, state, rate, period, age: the imu has one
    terminal.wait("order by age", |text| text.contains("sort age") && is_first("/imu")(text));

    terminal.press("/chat");
    terminal.wait("filtered rows", |text| text.contains("filter: chat") && !text.contains("/imu"));
    terminal.press("\x1b");
    terminal.wait("all rows", |text| text.contains("/imu") && text.contains("/chatter"));

    terminal.press("g\r");
    terminal.wait("details", |text| {
        text.contains("source_to_receive_ms")
            && text.contains("publication_seq_gap")
            && text.lines().any(|line| line.ends_with("/talker") && line.len() > 60)
    });
    terminal.press("\x7f");
    terminal.wait("list", |text| text.contains("sort age"));

    terminal.resize(10, 200);
    terminal.wait("wide view", |text| text.contains("last minute") && text.contains("/imu"));
    terminal.resize(6, 40);
    terminal.wait("small view", |text| text.contains("/imu") && !text.contains("last minute"));
    terminal.resize(24, 80);
    terminal.wait("view", |text| text.contains("/chatter"));

    terminal.press("q");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn a_topic_that_went_silent_stands_out_and_control_c_ends() {
    let domain = domain(1);
    let mut publisher = Program::start("qos_publisher.py", &[], domain);
    let mut terminal = Terminal::start(&[], domain);
    terminal.wait("best-effort topic with a rate", |text| {
        text.lines().any(|line| line.contains("/best_effort") && line.contains("10.0"))
    });
    assert_eq!(publisher.ask("pause"), "done");
    terminal.wait("STALE", |text| text.contains("STALE") && text.contains("1 stale"));
    terminal.press("\x03");
    assert_eq!(terminal.end(), 0);
}

/// Stops the monitor while 20 messages come to `/best_effort`, of which it has room for fewer.
fn lose_messages(publisher: &mut Program, monitor: u32) {
    let signal = |name: &str| {
        let id = monitor.to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    };
    let mut count = || publisher.ask("count").parse::<u64>().unwrap();
    signal("STOP");
    let before = count();
    wait_for("20 messages", || count() >= before + 20);
    signal("CONT");
}

#[test]
fn a_topic_with_losses_stands_out_and_tells_whose_they_are() {
    let domain = domain(13);
    let mut publisher = Program::start("qos_publisher.py", &[], domain);
    let mut terminal = Terminal::start(&["--depth", "5", "best_effort"], domain);
    terminal.wait("rate", |text| text.contains("10.0"));
    lose_messages(&mut publisher, terminal.child.process_id().unwrap());
    terminal.wait("LOSS", |text| text.contains("LOSS ") && text.contains("1 with losses"));
    terminal.press("\r");
    terminal.wait("losses of the publisher", |text| {
        let sender = text.lines().find(|line| line.ends_with("/qos_publisher") && line.len() > 60);
        let lost = sender.and_then(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
        lost.is_some_and(|lost| lost > 0)
    });
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
}

/// Prints a screen for the README.
#[test]
#[ignore = "cargo xtask test -- --test topic_monitor --features monitor -- --ignored --nocapture screenshot"]
fn screenshot() {
    let domain = domain(14);
    let mut publisher = Program::start("qos_publisher.py", &[], domain);
    let _talker = Process::start(TALKER, &["--ros-args", "-p", "rate:=100.0"], domain);
    assert_eq!(publisher.ask("late"), "done");
    let mut terminal = Terminal::start(&["--depth", "5"], domain);
    let wait = |terminal: &Terminal, seconds| {
        let started = std::time::Instant::now();
        terminal.wait("time", |_| started.elapsed().as_secs() >= seconds);
    };
    wait(&terminal, 30);
    lose_messages(&mut publisher, terminal.child.process_id().unwrap());
    wait(&terminal, 20);
    println!("{}", terminal.text());
    assert_eq!(publisher.ask("pause"), "done");
    wait(&terminal, 8);
    println!("{}", terminal.text());
    terminal.press("jj\r");
    wait(&terminal, 2);
    println!("{}", terminal.text());
}

#[test]
fn a_panic_gives_the_terminal_back_and_is_told() {
    let mut terminal = Terminal::start(&["--panic-after", "1"], domain(2));
    terminal.wait("view", |text| text.contains("No topic yet"));
    assert_eq!(terminal.end(), 101);
    terminal.wait("message", |text| text.contains("as --panic-after asks"));
}

#[test]
fn best_effort_and_transient_local_topics_are_heard() {
    let domain = domain(3);
    let mut publisher = Program::start("qos_publisher.py", &[], domain);
    let monitor = Json::start(&[], domain);
    let heard = monitor.until("best effort", |json| json["topic"] == "/best_effort" && json["received"] == 3);
    assert!(heard["qos"].as_str().unwrap().starts_with("best effort, volatile"), "{heard}");
    assert_eq!(heard["lost"], 0, "{heard}");
    assert!(heard["metrics"]["message_age"]["mean"].as_f64().unwrap() < 1000.0, "{heard}");
    let latched =
        monitor.until("latched", |json| json["topic"] == "/latched" && json["total"]["received"] == 1);
    assert!(latched["qos"].as_str().unwrap().starts_with("reliable, transient local"), "{latched}");
    assert!(latched["metrics"]["message_age"]["mean"].is_null(), "{latched}");

    // A topic that appears later, and then a publisher that the subscription could not hear.
    assert_eq!(publisher.ask("late"), "done");
    let late = monitor.until("late", |json| json["topic"] == "/late" && json["received"].as_u64() > Some(1));
    assert!(late["qos"].as_str().unwrap().starts_with("reliable, volatile"), "{late}");
    assert_eq!(publisher.ask("weak"), "done");
    let both = monitor.until("both", |json| json["topic"] == "/late" && json["received"].as_u64() > Some(4));
    assert!(both["qos"].as_str().unwrap().starts_with("best effort"), "{both}");
    assert_eq!(both["publishers"], 2, "{both}");
    assert_eq!(both["senders"].as_array().unwrap().len(), 2, "{both}");
    assert!(both["total"]["received"].as_u64() > late["total"]["received"].as_u64(), "{both}");
}

#[test]
fn once_writes_one_whole_window_of_each_topic() {
    let domain = domain(4);
    let _talker = Process::start(TALKER, &FAST, domain);
    let output = run(&["--once", "--json", "imu", "chatter"], domain);
    let objects = objects(&output);
    assert_eq!(objects.len(), 2, "{objects:#?}");
    for object in &objects {
        let rate = object["rate"].as_f64().unwrap();
        assert!((30.0..70.0).contains(&rate), "{object}"); // the talker may be held up
        let length = object["window_stop"].as_i64().unwrap() - object["window_start"].as_i64().unwrap();
        let received = object["received"].as_f64().unwrap();
        assert!((rate * length as f64 / 1e9 - received).abs() < 0.1, "{object}");
        assert!((900_000_000..1_200_000_000).contains(&length), "{object}");
        assert_eq!(object["nodes"][0], "/talker");
        assert_eq!(object["senders"][0]["node"], "/talker");
    }
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn conditions_decide_about_the_exit_status() {
    let domain = domain(5);
    let _talker = Process::start(TALKER, &FAST, domain);
    let fulfilled =
        run(&["--require", "/imu:rate>=40 /imu:age.max<10000 /chatter:lost=0", "--duration", "50"], domain);
    assert_eq!(fulfilled.status.code(), Some(0), "{}", text(&fulfilled.stderr));
    let failed = run(&["imu", "--require", "rate>=1000 lost=0", "--timeout", "5"], domain);
    assert_eq!(failed.status.code(), Some(1));
    let errors = text(&failed.stderr);
    assert!(
        errors.contains("/imu: rate>=1000 fails: rate is ") && !errors.contains("lost=0 fails"),
        "{errors}"
    );
    let missing = run(&["nobody", "--require", "rate>0", "--duration", "3"], domain);
    assert_eq!(missing.status.code(), Some(1));
    let errors = text(&missing.stderr);
    assert!(errors.contains("there is no topic /nobody yet; waiting for it"), "{errors}");
}

#[test]
fn lines_have_a_header_end_after_the_duration_and_with_their_reader() {
    let domain = domain(6);
    let _talker = Process::start(TALKER, &FAST, domain);
    let output = run(&["--duration", "5", "/im?"], domain);
    let lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    assert!(lines[1].starts_with("topic "), "{lines:#?}");
    assert!(lines.len() >= 4 && lines[2..].iter().all(|line| line.starts_with("/imu ")), "{lines:#?}");
    assert_eq!(output.status.code(), Some(0));

    let mut child =
        command(&["--period", "0.2"], domain).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().is_ok());
    drop(lines);
    let mut status = None;
    wait_for("end with the reader", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(0));
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(!errors.contains("ipe"), "{errors}");
}

#[test]
fn an_interrupt_ends_it_cleanly() {
    let domain = domain(7);
    let _talker = Process::start(TALKER, &FAST, domain);
    let mut monitor = Json::start(&[], domain);
    monitor.until("window", |json| json["topic"] == "/imu");
    let id = monitor.child.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    let mut status = None;
    wait_for("end", || {
        status = monitor.child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(0));
}

#[test]
fn windows_are_published_if_asked_for_and_only_then() {
    let domain = domain(8);
    let _talker = Process::start(TALKER, &FAST, domain);
    let mut reader = Reader::start(domain);
    let silent = Json::start(&["imu", "--ros-args", "-r", "__node:=silent"], domain);
    silent.until("window", |json| json["received"].as_u64() > Some(5));
    let _publishing = Json::start(&["--publish", "imu"], domain);
    reader.read_until("windows of the monitor", |metrics| {
        let of = |metric: &str| metrics.iter().any(|of| of.metric == metric && of.count() > 5.0);
        of("message_age") && of("message_period") && of("publication_seq_gap")
    });
    assert!(reader.metrics.iter().any(|of| of.source == "/topic_monitor:/imu"));
    assert!(reader.metrics.iter().all(|of| !of.source.starts_with("/silent")), "{:#?}", reader.metrics);
}

#[test]
fn the_statistics_of_other_nodes_are_shown() {
    let domain = domain(9);
    let _talker = Process::start(TALKER, &FAST, domain);
    let _listener = Process::start(LISTENER, &[], domain);
    let monitor = Json::start(&["--from-statistics", "/listener:/imu"], domain);
    let imu = monitor.until("statistics of imu at 50 Hz", |json| {
        let age = &json["metrics"]["message_age"];
        let period = json["metrics"]["message_period"]["mean"].as_f64().unwrap_or_default();
        let rate = json["rate"].as_f64().unwrap_or_default();
        age["count"].as_u64() > Some(40) && (15.0..25.0).contains(&period) && (40.0..60.0).contains(&rate)
    });
    assert_eq!(imu["topic"], "/listener:/imu");

    let mut terminal = Terminal::start(&["--from-statistics"], domain);
    terminal.wait("sources", |text| text.contains("/listener:/imu") && text.contains("/listener:/chatter"));
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn the_statistics_of_a_cpp_node_are_shown() {
    let domain = domain(12);
    let _node = Program::start("rclcpp_statistics.py", &[], domain);
    let monitor = Json::start(&["--from-statistics"], domain);
    let window = monitor.until("window", |json| json["topic"] == "cpp_listener");
    let figures = |metric: &str| {
        ["mean", "min", "max", "std_dev", "count"].map(|of| window["metrics"][metric][of].as_f64().unwrap())
    };
    assert_eq!(figures("message_age"), [1.5, 0.5, 2.5, 0.25, 50.0]);
    assert_eq!(figures("message_period"), [20.0, 19.0, 21.0, 0.25, 50.0]);
    assert_eq!(window["rate"], 50.0);
    assert!(window["lost"].is_null() && window["publishers"].is_null(), "{window}");
    let healthy = run(
        &["--from-statistics", "--require", "age.max<3 period.min>18 rate=50", "--duration", "50"],
        domain,
    );
    assert_eq!(healthy.status.code(), Some(0), "{}", text(&healthy.stderr));
}

#[test]
fn an_unknown_type_names_the_package_that_is_missing() {
    let domain = domain(10);
    let mut publisher = Program::start("qos_publisher.py", &[], domain);
    assert_eq!(publisher.ask("unknown"), "done");
    // A prefix with all packages but test_msgs: what makes a package one is its marker.
    let prefix = std::env::temp_dir().join(format!("topic_monitor-{}", std::process::id()));
    let index = prefix.join("share/ament_index/resource_index/packages");
    std::fs::create_dir_all(&index).unwrap();
    for whole in std::env::split_paths(&std::env::var_os("AMENT_PREFIX_PATH").unwrap()) {
        let Ok(packages) = std::fs::read_dir(whole.join("share/ament_index/resource_index/packages")) else {
            continue;
        };
        for package in packages.flatten().filter(|package| package.file_name() != "test_msgs") {
            let _there_already = std::fs::write(index.join(package.file_name()), "");
        }
        if whole.join("lib/libtest_msgs__rosidl_typesupport_c.so").exists() {
            let _there_already = std::os::unix::fs::symlink(whole.join("lib"), prefix.join("lib"));
        }
    }
    let output = command(&["unknown", "best_effort", "--duration", "5", "--json"], domain)
        .env("AMENT_PREFIX_PATH", &prefix)
        .output()
        .unwrap();
    std::fs::remove_dir_all(&prefix).unwrap();
    let errors = text(&output.stderr);
    assert!(
        errors.contains("/unknown has the type test_msgs/msg/BasicTypes, and the package test_msgs"),
        "{errors}"
    );
    assert!(errors.contains("-test-msgs, or source the workspace that has test_msgs"), "{errors}");
    assert!(
        objects(&output).iter().any(|json| json["topic"] == "/best_effort"),
        "the others are shown: {errors}"
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn wrong_usage_is_told_with_what_is_right() {
    for (arguments, expected) in [
        (&["--require", "rte>=90"][..], "there is no metric \"rte\"; it has to be one of rate, period, age"),
        (&["--require", "age.mx<5"], "it has to be one of mean, min, max, std, count"),
        (&["--require", "rate>=fast"], "number, as 90 or 0.5, not \"fast\""),
        (&["imu//front"], "no part without a character"),
        (&["9imu"], "no part of a topic's name starts with a digit"),
        (&["imu-front"], "letters, digits, _ and / only, not '-'"),
        (&["--period", "0"], "more than 0 seconds"),
    ] {
        let output = run(arguments, domain(11));
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(expected), "{arguments:?}: {}", text(&output.stderr));
    }
    let output = run(&["--once", "--ros-args", "-r", "__node:=not/a/name"], domain(11));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("topic_monitor: "), "{}", text(&output.stderr));
}
