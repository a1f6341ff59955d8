// SPDX-License-Identifier: Apache-2.0

//! The program topic_monitor on real topics: in a terminal, whose screen is read, and in lines.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::ExitStatusExt,
    process::{Child, ChildStdout, Command, Output, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex,
    },
    time::{Duration, Instant},
};

use portable_pty::{native_pty_system, CommandBuilder, MasterPty, PtySize};
use serde_json::Value;
use test_support::{domain, program, wait_for, Process, Program, Reader};

/// Arguments of `sh` that start the monitor with SIGHUP ignored, as nohup does.
const WITHOUT_HANG_UP: [&str; 3] =
    ["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_topic_monitor")];

const FAST: [&str; 3] = ["--ros-args", "-p", "rate:=50.0"];

/// The monitor in a terminal.
struct Terminal {
    pty: Box<dyn MasterPty + Send>,
    monitor: Monitor,
    /// None before one is pressed: as it is dropped it writes an end of file, which would be a key too.
    keys: Option<Box<dyn Write + Send>>,
    screen: Arc<Mutex<vt100::Parser>>,
    is_closing: Arc<AtomicBool>,
}

impl Terminal {
    fn start(arguments: &[&str], domain: u32) -> Terminal {
        Self::start_program(env!("CARGO_BIN_EXE_topic_monitor"), arguments, domain)
    }

    /// Starts it so that it ignores SIGHUP.
    fn start_without_hang_up(arguments: &[&str], domain: u32) -> Terminal {
        Self::start_program("sh", &[&WITHOUT_HANG_UP, arguments].concat(), domain)
    }

    fn start_program(program: &str, arguments: &[&str], domain: u32) -> Terminal {
        let size = PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        command.env("TERM", "xterm-256color");
        command.env("ROS_DOMAIN_ID", domain.to_string());
        test_support::on_this_host().into_iter().for_each(|(name, value)| command.env(name, value));
        let child = pair.slave.spawn_command(command).unwrap();
        let mut output = pair.master.try_clone_reader().unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(24, 80, 0)));
        let written = Arc::clone(&screen);
        let is_closing = Arc::new(AtomicBool::new(false));
        let closes = Arc::clone(&is_closing);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(number @ 1..) = output.read(&mut bytes) {
                if closes.load(Ordering::Relaxed) {
                    return;
                }
                written.lock().unwrap().process(&bytes[..number]);
            }
        });
        Terminal { pty: pair.master, monitor: Monitor(child), keys: None, screen, is_closing }
    }

    /// Closes the terminal, as when its window is closed; returns the program.
    fn close(self) -> Monitor {
        assert!(self.keys.is_none());
        self.is_closing.store(true, Ordering::Relaxed);
        self.monitor // the thread that reads has the last of it, until the next screen is drawn
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    fn press(&mut self, keys: &str) {
        let writer = self.keys.get_or_insert_with(|| self.pty.take_writer().unwrap());
        writer.write_all(keys.as_bytes()).unwrap();
        writer.flush().unwrap();
    }

    /// Waits until the screen is as it should be.
    fn wait(&self, what: &str, is: impl Fn(&str) -> bool) {
        let started = std::time::Instant::now();
        while !is(&self.text()) {
            assert!(started.elapsed() < test_support::LIMIT, "no {what} on\n{}", self.text());
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
        let status = self.monitor.end();
        wait_for("terminal as it was", || {
            let parser = self.screen.lock().unwrap();
            !parser.screen().alternate_screen() && !parser.screen().hide_cursor()
        });
        status
    }
}

/// The process in a terminal, which ends with this.
struct Monitor(Box<dyn portable_pty::Child + Send + Sync>);

impl Monitor {
    fn id(&self) -> String {
        self.0.process_id().unwrap().to_string()
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args(["-s", name, &self.id()]).status().unwrap().success());
    }

    /// Waits for the end; returns the exit status.
    fn end(&mut self) -> u32 {
        let mut status = None;
        wait_for("end of the monitor", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().exit_code()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = self.0.kill();
        }
    }
}

fn command(arguments: &[&str], domain: u32) -> Command {
    test_support::command(env!("CARGO_BIN_EXE_topic_monitor"), arguments, domain)
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
    errors: std::sync::mpsc::Receiver<String>,
}

impl Json {
    fn start(arguments: &[&str], domain: u32) -> Json {
        let arguments = [&["--json", "--period", "0.25"], arguments].concat();
        let mut child =
            command(&arguments, domain).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = test_support::lines(child.stdout.take().unwrap());
        let errors = test_support::lines(child.stderr.take().unwrap());
        Json { child, lines, errors }
    }

    /// Reads on until it reports something on standard error.
    fn until_error(&self, text: &str) -> String {
        let deadline = Instant::now() + test_support::LIMIT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.errors.recv_timeout(left).unwrap_or_else(|error| panic!("no {text}: {error}"));
            if line.contains(text) {
                return line;
            }
        }
    }

    /// How many threads it has.
    fn threads(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap().count()
    }

    /// Reads on until an object is as it should be.
    fn until(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let deadline = std::time::Instant::now() + test_support::LIMIT;
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
    let _talker = Process::start(program("talker"), &FAST, domain);
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
    let mean: f64 = row.split_whitespace().nth(4).unwrap().parse().unwrap();
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
fn lose_messages(publisher: &mut Program, monitor: &Monitor) {
    let mut count = || publisher.ask("count").parse::<u64>().unwrap();
    monitor.signal("STOP");
    let before = count();
    wait_for("20 messages", || count() >= before + 20);
    monitor.signal("CONT");
}

#[test]
fn a_topic_with_losses_stands_out_and_tells_whose_they_are() {
    let domain = domain(13);
    let mut publisher = Program::start("qos_publisher.py", &[], domain);
    let mut terminal = Terminal::start(&["--depth", "5", "best_effort"], domain);
    terminal.wait("rate", |text| text.contains("10.0"));
    lose_messages(&mut publisher, &terminal.monitor);
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
    let _talker = Process::start(program("talker"), &["--ros-args", "-p", "rate:=100.0"], domain);
    assert_eq!(publisher.ask("late"), "done");
    let mut terminal = Terminal::start(&["--depth", "5"], domain);
    let wait = |terminal: &Terminal, seconds| {
        let started = std::time::Instant::now();
        terminal.wait("time", |_| started.elapsed().as_secs() >= seconds);
    };
    wait(&terminal, 30);
    lose_messages(&mut publisher, &terminal.monitor);
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
fn a_closed_terminal_ends_it_and_a_signal_gives_the_terminal_back() {
    let domain = domain(15);
    let view = |text: &str| text.contains("No topic yet");
    for is_hung_up in [true, false] {
        let start = if is_hung_up { Terminal::start } else { Terminal::start_without_hang_up };
        let terminal = start(&[], domain);
        terminal.wait("view", view);
        assert_eq!(terminal.close().end(), 0, "with SIGHUP: {is_hung_up}");
    }
    for signal in ["HUP", "TERM", "INT"] {
        let mut terminal = Terminal::start(&[], domain);
        terminal.wait("view", view);
        terminal.monitor.signal(signal);
        assert_eq!(terminal.end(), 0, "SIG{signal}");
    }
}

#[test]
fn an_incomplete_escape_sequence_holds_nothing_up() {
    let mut terminal = Terminal::start(&["--duration", "3"], domain(16));
    terminal.wait("view", |text| text.contains("No topic yet"));
    terminal.press("\x1b[1;"); // and nothing more, as over a slow line
    assert_eq!(terminal.end(), 0);
}

/// Starts it so that it writes JSON to a pipe that nobody reads; returns both once the pipe is full.
fn start_unread(arguments: &[&str], domain: u32) -> (Process, ChildStdout) {
    let arguments = [&["--json", "--period", "0.1"], arguments].concat();
    let mut child = command(&arguments, domain).stdout(Stdio::piped()).spawn().unwrap();
    let unread = child.stdout.take().unwrap();
    wait_until_full(&unread);
    (Process::from(child), unread)
}

/// Waits until nothing more goes into a pipe.
fn wait_until_full(pipe: &ChildStdout) {
    let (mut waiting, mut since) = (0, Instant::now());
    wait_for("full pipe", || {
        let waits = rustix::io::ioctl_fionread(pipe).unwrap();
        if waits != waiting {
            (waiting, since) = (waits, Instant::now());
        }
        waiting > 0 && since.elapsed() > Duration::from_secs(2)
    });
}

#[test]
fn a_signal_ends_it_while_nobody_reads_what_it_writes() {
    let domain = domain(17);
    let _talker = Process::start(program("talker"), &FAST, domain);
    let (mut monitor, _unread) = start_unread(&[], domain);
    monitor.signal("TERM");
    let status = monitor.wait();
    assert!(status.signal() == Some(15) || status.code() == Some(0), "{status}");
}

#[test]
fn a_window_has_its_own_rate_after_a_time_in_which_nobody_read() {
    let domain = domain(18);
    let _talker = Process::start(program("talker"), &FAST, domain);
    let (_monitor, unread) = start_unread(&["imu"], domain);
    let started = Instant::now();
    wait_for("time without a reader", || started.elapsed() >= Duration::from_secs(5));
    let lines = BufReader::new(unread).lines().map_while(Result::ok);
    let objects = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let number = |object: &Value, field: &str| object[field].as_f64();
    let (mut before, mut after_gap) = (None::<Value>, 0);
    for object in objects.take_while(|_| started.elapsed() < test_support::LIMIT) {
        let stop_before = before.as_ref().map(|before| before["window_stop"].as_i64().unwrap());
        let missed = stop_before.map_or(0, |stop| object["window_start"].as_i64().unwrap() - stop);
        // 5 messages in 0.1 s; more after a time in which the talker was held up.
        let received = number(&object, "received").unwrap();
        assert!(received <= 40.0 && number(&object, "rate").unwrap() <= 400.0, "{object}");
        assert_eq!(number(&object, "lost"), Some(0.0), "{object}");
        if missed > 3_000_000_000 || after_gap > 0 {
            after_gap += 1;
        }
        if after_gap > 5 {
            return;
        }
        before = Some(object);
    }
    panic!("no window after a gap");
}

#[test]
fn a_hang_up_that_is_ignored_stays_so() {
    let domain = domain(19);
    let _talker = Process::start(program("talker"), &FAST, domain);
    let arguments = [&WITHOUT_HANG_UP[..], &["--json", "--period", "0.25"]].concat();
    let mut child = test_support::command("sh", &arguments, domain).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut monitor = Process::from(child);
    assert!(lines.next().unwrap().is_ok());
    monitor.signal("HUP");
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(3) {
        assert!(lines.next().unwrap().is_ok());
    }
    monitor.signal("INT");
    assert_eq!(monitor.wait().code(), Some(0));
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
    let _talker = Process::start(program("talker"), &FAST, domain);
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
    let _talker = Process::start(program("talker"), &FAST, domain);
    let fulfilled =
        run(&["--require", "/imu:rate>=40 /imu:age.max<10000 /chatter:lost=0", "--duration", "50"], domain);
    assert_eq!(fulfilled.status.code(), Some(0), "{}", text(&fulfilled.stderr));
    let failed = run(&["imu", "--require", "rate>=1000 lost=0", "--timeout", "12"], domain);
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
    let _talker = Process::start(program("talker"), &FAST, domain);
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
    let _talker = Process::start(program("talker"), &FAST, domain);
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
    let _talker = Process::start(program("talker"), &FAST, domain);
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
    let _talker = Process::start(program("talker"), &FAST, domain);
    let _listener = Process::start(program("listener"), &[], domain);
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
fn sources_are_named_by_node_and_topic_in_patterns_and_conditions() {
    let domain = domain(20);
    let _talker = Process::start(program("talker"), &FAST, domain);
    let robot = |namespace: &str| {
        let namespace = format!("__ns:={namespace}");
        let arguments = ["--ros-args", "-r", &*namespace, "-r", "imu:=/imu"];
        Process::start(program("listener"), &arguments, domain)
    };
    let _robots = [robot("/r1"), robot("/r2")];
    let monitor = Json::start(&["--from-statistics", "/*/listener:/imu"], domain);
    let is_at_50_hz = |json: &Value| (40.0..60.0).contains(&json["rate"].as_f64().unwrap_or_default());
    for source in ["/r1/listener:/imu", "/r2/listener:/imu"] {
        monitor.until(source, |json| json["topic"] == source && is_at_50_hz(json));
    }
    for (condition, status) in [
        ("/r1/listener:/imu: rate>5 /r2/listener:/imu:rate<500", Some(0)),
        ("/r1/listener:/imu:rate>500", Some(1)),
        ("/r3/listener:/imu: rate>5", Some(1)),
    ] {
        let duration = if status == Some(0) { "50" } else { "4" };
        let output = run(&["--from-statistics", "--require", condition, "--duration", duration], domain);
        assert_eq!(output.status.code(), status, "{condition}: {}", text(&output.stderr));
    }
}

#[test]
fn no_name_from_the_network_reaches_the_terminal_as_it_is() {
    let domain = domain(21);
    let mut foreign = Program::start("foreign_statistics.py", &[], domain);
    let child = command(&["--from-statistics", "--plain"], domain)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    let (output, errors) = (
        test_support::lines(child.stdout.take().unwrap()),
        test_support::lines(child.stderr.take().unwrap()),
    );
    let _monitor = Process::from(child);
    let mut lines: Vec<String> = vec![];
    wait_for("lines of the names, and a report of the one that is none", || {
        assert_eq!(foreign.ask("names"), "done");
        lines.extend(output.try_iter().chain(errors.try_iter()));
        let has = |text: &str| lines.iter().any(|line| line.contains(text));
        has("\\u{1b}") && has("zzz") && has("messages not taken")
    });
    assert!(
        !lines.iter().any(|line| line.contains(|c: char| c.is_control() || c == '\u{202e}')),
        "{lines:#?}"
    );
    assert!(lines.iter().all(|line| !line.starts_with("/imu") && line.chars().count() < 200), "{lines:#?}");

    let monitor = Json::start(&["--from-statistics"], domain);
    let hostile = "x\u{1b}]0;PWNED\u{7}\u{1b}[2J\n/imu 1 100.0\u{7f}\u{9b}\u{202e}";
    let mut line = String::new();
    wait_for("the name in JSON", || {
        assert_eq!(foreign.ask("names"), "done");
        line = monitor.lines.try_iter().find(|line| line.contains("PWNED")).unwrap_or_default();
        !line.is_empty()
    });
    assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line:?}");
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["topic"], hostile);
}

#[test]
fn hostile_figures_and_more_sources_than_there_is_room_for_do_no_harm() {
    let domain = domain(22);
    let mut foreign = Program::start("foreign_statistics.py", &[], domain);
    let monitor = Json::start(&["--from-statistics", "--max-topics", "40"], domain);
    wait_for("windows of a liar", || {
        assert_eq!(foreign.ask("numbers"), "done");
        monitor.lines.try_iter().any(|line| line.contains("\"topic\":\"liar\""))
    });
    wait_for("report of what is left out", || {
        assert_eq!(foreign.ask("sources 100"), "done");
        monitor.errors.try_iter().any(|line| line.contains("left out (--max-topics)"))
    });
    let mut sources = std::collections::BTreeSet::new();
    let started = Instant::now();
    while sources.len() < 39 {
        assert!(started.elapsed() < test_support::LIMIT, "{sources:?}");
        assert_eq!(foreign.ask("sources 100"), "done");
        let objects = monitor.lines.try_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap());
        sources.extend(objects.map(|json| json["topic"].as_str().unwrap().to_owned()));
    }
    assert!(sources.len() <= 40, "{sources:?}");
}

/// How much memory a process holds, in kB.
fn memory(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let held = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    held.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_flood_of_statistics_is_bounded_while_nobody_reads_what_it_writes() {
    let domain = domain(23);
    let mut foreign = Program::start("foreign_statistics.py", &[], domain);
    let mut child = command(&["--from-statistics", "--json"], domain)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (output, errors) = (child.stdout.take().unwrap(), test_support::lines(child.stderr.take().unwrap()));
    let monitor = Process::from(child);
    wait_for("many lines", || {
        assert_eq!(foreign.ask("sources 900"), "done");
        rustix::io::ioctl_fionread(&output).unwrap() > 30_000
    });
    wait_until_full(&output);
    // 10 000 wait to be read, and 2000 in the middleware.
    (0..12).for_each(|_| assert_eq!(foreign.ask("flood 2000"), "done"));
    let memory = memory(monitor.id());
    assert!(memory < 300_000, "{memory} kB");
    let _lines = test_support::lines(output);
    wait_for("report of messages that were not taken", || {
        errors.try_iter().any(|line| line.contains("messages not taken"))
    });
}

#[test]
fn topics_that_come_and_go_take_a_bounded_number_of_threads() {
    let domain = domain(24);
    let mut publisher = Program::start("topics.py", &[], domain);
    assert_eq!(publisher.ask("add /keep /a0 /a1 /a2"), "done");
    let monitor = Json::start(&["--max-topics", "3"], domain);
    monitor.until_error("1 left out (--max-topics)");
    let mut most = 0;
    for round in 0..8 {
        let new = format!("/b{round}");
        let old: Vec<String> = if round == 0 {
            vec!["/a0".to_owned(), "/a1".to_owned(), "/a2".to_owned()]
        } else {
            vec![format!("/b{}", round - 1)]
        };
        assert_eq!(publisher.ask(&format!("remove {}", old.join(" "))), "done");
        assert_eq!(publisher.ask(&format!("add {new}")), "done");
        monitor.until(&new, |json| json["topic"] == *new && json["received"].as_u64() > Some(0));
        if round == 1 {
            most = monitor.threads();
        }
    }
    assert!(monitor.threads() <= most + 1, "{} threads, {most} before", monitor.threads());
    monitor.until("/keep", |json| json["topic"] == "/keep");
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
