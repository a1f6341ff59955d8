// SPDX-License-Identifier: Apache-2.0

//! The page of `--report`: its content in a real browser; when it is written, and when it cannot be.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Instant,
};

use serde_json::Value;
use test_support::{domain, middleware, program, wait_for, Process, Program};

use crate::{
    browser::Browser,
    run::{command, objects, run, text, Json, FAST},
    terminal::Terminal,
};

/// A directory of the test's own, and a file in it.
fn report() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("report.html");
    (directory, file)
}

fn names(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

/// The figures of a row of a table on the page, by their names. Of several with one name, the first.
fn figures<'a>(found: &'a Value, attributes: &[(&str, &str)]) -> BTreeMap<&'a str, f64> {
    let is_it = |row: &&Value| {
        ["topic", "metric", "condition"].iter().all(|name| {
            let expected =
                attributes.iter().find(|(attribute, _)| attribute == name).map(|(_, value)| *value);
            row[*name].as_str() == expected
        })
    };
    let rows: Vec<&Value> = found["figures"].as_array().unwrap().iter().filter(is_it).collect();
    assert_eq!(rows.len(), 1, "rows of {attributes:?} in {found:#}");
    let mut figures = BTreeMap::new();
    for figure in rows[0]["figures"].as_array().unwrap() {
        figures.entry(figure[0].as_str().unwrap()).or_insert(figure[1].as_f64().unwrap());
    }
    figures
}

fn is_near(value: f64, expected: f64) -> bool {
    (value - expected).abs() <= 1e-9 * expected.abs().max(1.0)
}

/// The figures of a metric in all windows of the JSON, as one window of the same samples would have them.
fn merged(windows: &[&Value], metric: &str) -> BTreeMap<&'static str, f64> {
    let metrics = windows.iter().map(|window| &window["metrics"][metric]);
    let metrics: Vec<&Value> = metrics.filter(|metric| metric["count"].as_u64() > Some(0)).collect();
    let number = |metric: &Value, figure: &str| metric[figure].as_f64();
    let count: f64 = metrics.iter().filter_map(|metric| number(metric, "count")).sum();
    if metrics.is_empty() {
        return BTreeMap::from([("count", 0.0)]);
    }
    let weighted = |figure: &dyn Fn(&Value) -> f64| {
        metrics.iter().map(|metric| figure(metric) * number(metric, "count").unwrap()).sum::<f64>() / count
    };
    let mean = weighted(&|metric| number(metric, "mean").unwrap());
    let square = |metric: &Value| {
        number(metric, "std_dev").unwrap_or(0.0).powi(2) + (number(metric, "mean").unwrap() - mean).powi(2)
    };
    let all = |figure: &str, pick: fn(f64, f64) -> f64| {
        metrics.iter().filter_map(|metric| number(metric, figure)).reduce(pick).unwrap()
    };
    BTreeMap::from([
        ("count", count),
        ("mean", mean),
        ("min", all("min", f64::min)),
        ("max", all("max", f64::max)),
        ("std_dev", weighted(&square).sqrt()),
    ])
}

#[test]
fn the_page_has_the_figures_of_the_json_of_the_same_run() {
    let Some(browser) = Browser::find("the page of a report") else { return };
    let domain = domain();
    let (_directory, file) = report();
    let _talker = Process::start(program("talker"), &FAST, domain);
    let conditions = "/imu:rate>=1 /imu:age<0 /chatter:age<1000 /nope:lost=0";
    let arguments =
        ["--json", "--duration", "12", "--require", conditions, "--report", file.to_str().unwrap()];
    let once = || {
        let output = run(&[&arguments[..], &["imu", "chatter"]].concat(), domain);
        (objects(&output), output)
    };
    // A busy machine may hold up the monitor for the whole of a window: then there is another try.
    let is_undisturbed = |(objects, _): &(Vec<Value>, Output)| {
        let windows = |topic: &'static str| objects.iter().filter(move |object| object["topic"] == topic);
        ["/imu", "/chatter"].into_iter().all(|topic| {
            let follows = |pair: &[&Value]| pair[0]["window_stop"] == pair[1]["window_start"];
            let windows: Vec<&Value> = windows(topic).collect();
            let have_messages = windows.iter().all(|window| window["received"].as_u64() > Some(0));
            windows.len() >= 5 && windows.windows(2).all(follows) && have_messages
        })
    };
    let (objects, output) = (0..5).map(|_| once()).find(is_undisturbed).expect("an undisturbed run");
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let found = browser.look(&file, 1280, false);

    for topic in ["/imu", "/chatter"] {
        let windows: Vec<&Value> = objects.iter().filter(|object| object["topic"] == topic).collect();
        let last = windows.last().unwrap();
        let metrics = last["metrics"].as_object().unwrap();
        assert!(metrics.len() >= 10, "{last:#}");
        for metric in metrics.keys() {
            let json = merged(&windows, metric);
            if json["count"] == 0.0 {
                let is_row = |row: &Value| row["topic"] == topic && row["metric"] == **metric;
                let rows = found["figures"].as_array().unwrap();
                assert!(!rows.iter().any(is_row), "what was not measured has no row: {metric} of {topic}");
                continue;
            }
            let page = figures(&found, &[("topic", topic), ("metric", metric)]);
            for (figure, expected) in &json {
                let is_one = *figure == "std_dev" && json["count"] < 2.0;
                assert!(
                    is_one || page.get(figure).is_some_and(|value| is_near(*value, *expected)),
                    "{figure} of {metric} of {topic}: {page:?} instead of {json:?}"
                );
            }
            assert!(page.len() > 1, "what was measured has figures: {page:?}");
        }
        let overview = figures(&found, &[("topic", topic)]);
        assert_eq!(overview["received"], last["total"]["received"].as_f64().unwrap());
        assert_eq!(overview.get("lost").copied(), last["total"]["lost"].as_f64());
        let period = figures(&found, &[("topic", topic), ("metric", "message_period")]);
        // All windows are in the last minute, and the JSON has its percentiles.
        let minute = &last["last_minute"]["message_period"];
        assert_eq!(minute["count"].as_f64(), Some(period["count"]));
        assert!(period["count"] > 100.0, "{period:?}");
        for quantile in ["p50", "p90", "p99", "p99_9"] {
            match (period.get(quantile), minute[quantile].as_f64()) {
                (Some(page), Some(json)) => assert!(is_near(*page, json), "{quantile}: {page}, {json}"),
                (page, json) => assert_eq!(page.copied(), json, "{quantile} of {topic}"),
            }
        }
        let seconds = |window: &Value| {
            (window["window_stop"].as_i64().unwrap() - window["window_start"].as_i64().unwrap()) as f64 / 1e9
        };
        let all: f64 = windows.iter().map(|window| seconds(window)).sum();
        let messages: f64 = windows.iter().filter_map(|window| window["received"].as_f64()).sum();
        // The windows' lengths are on the monotonic clock, their stamps on the system clock.
        assert!((overview["rate"] - messages / all).abs() < 0.01 * overview["rate"], "{overview:?}");
        let lowest = windows.iter().filter_map(|window| window["rate"].as_f64()).reduce(f64::min);
        assert!(is_near(overview["lowest_rate"], lowest.unwrap()), "{overview:?}");
    }

    let failed = figures(&found, &[("topic", "/imu"), ("condition", "age<0")]);
    let ages: Vec<f64> = objects
        .iter()
        .filter(|object| object["topic"] == "/imu")
        .filter_map(|object| object["metrics"]["message_age"]["mean"].as_f64())
        .collect();
    assert_eq!((failed["failed"], failed["judged"]), (ages.len() as f64, ages.len() as f64));
    assert!(
        is_near(failed["first"], ages[0]) && is_near(failed["last"], *ages.last().unwrap()),
        "{failed:?}"
    );
    let page = found["text"].as_str().unwrap();
    for text in
        ["3 failed.", "no topic matches", "not measured in any window", "sensor_msgs/msg/Imu", "/talker"]
    {
        assert!(page.contains(text), "no {text}: {page}");
    }
    assert!(!page.contains("rate>=1\t"), "a condition that was fulfilled: {page}");
    for error in ["/nope: lost=0 fails", "/imu: age<0 failed in ", "/chatter: age<1000 failed: not measured"]
    {
        assert!(errors.contains(error), "{errors}");
    }
}

#[test]
fn the_page_is_readable_on_a_phone_in_print_in_light_and_dark_and_needs_no_network() {
    let Some(browser) = Browser::find("a report on a phone and in print") else { return };
    let domain = domain();
    let (directory, file) = report();
    let _talker = Process::start(program("talker"), &FAST, domain);
    let output = run(&["--json", "--duration", "8", "--report", file.to_str().unwrap(), "imu"], domain);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let (desktop, phone) = (browser.look(&file, 1280, false), browser.look(&file, 390, true));
    for (found, width) in [(&desktop, 1280), (&phone, 390)] {
        assert_eq!(found["width"], width, "nothing is wider than the window");
        for nothing in ["scripts", "images", "loaded"] {
            assert_eq!(found[nothing], 0, "{nothing}");
        }
        let charts = found["charts"].as_array().unwrap();
        let captions: Vec<&str> = charts.iter().map(|chart| chart["caption"].as_str().unwrap()).collect();
        for caption in ["Rate, Hz", "Period, ms", "Age, ms", "Delays, ms:", "Distribution of message_age"] {
            assert!(captions.iter().any(|shown| shown.starts_with(caption)), "no {caption}: {captions:?}");
        }
        let widths = charts.iter().map(|chart| chart["width"].as_f64().unwrap());
        assert!(widths.into_iter().all(|width| (340.0..640.0).contains(&width)), "{charts:?}");
    }
    assert_eq!(desktop["background"], "rgb(255, 255, 255)");
    assert_eq!(phone["background"], "rgb(22, 24, 27)");
    assert_ne!(desktop["line"], phone["line"]);

    // To look at them, set the variable to a directory.
    let pictures = match std::env::var_os("REPORT_PICTURES") {
        Some(pictures) => PathBuf::from(pictures),
        None => directory.path().to_owned(),
    };
    assert!(browser.print(&file, &pictures.join("report.pdf")) > 20_000);
    let desktop = ["--window-size=1280,1600"];
    assert!(browser.screenshot(&file, &pictures.join("desktop.png"), &desktop) > 20_000);
    let dark = ["--window-size=1280,1600", "--blink-settings=preferredColorScheme=0"];
    assert!(browser.screenshot(&file, &pictures.join("dark.png"), &dark) > 20_000);
}

#[test]
fn names_from_the_network_are_text_on_the_page() {
    let Some(browser) = Browser::find("hostile names in a report") else { return };
    let domain = domain();
    let (_directory, file) = report();
    let mut foreign = Program::start("foreign_statistics.py", &[], domain);
    let mut monitor = Json::start(&["--from-statistics", "--report", file.to_str().unwrap()], domain);
    let started = Instant::now();
    wait_for("a window of the hostile names", || {
        assert_eq!(foreign.request("markup"), "done");
        monitor.lines.try_iter().any(|line| line.contains("alert")) || started.elapsed() > test_support::LIMIT
    });
    monitor.signal("TERM");
    assert_eq!(monitor.end(), Some(0));
    let found = browser.look(&file, 390, false);
    for nothing in ["scripts", "images", "loaded"] {
        assert_eq!(found[nothing], 0, "{nothing}");
    }
    let page = found["text"].as_str().unwrap();
    for text in ["<script>alert(1)</script>", "</style></title>", "<img src=x onerror=alert(2)>", "&lt;"] {
        assert!(page.contains(text), "no {text}: {page}");
    }
    assert!(found["title"].as_str().unwrap().starts_with("ROS 2 topics on "), "{found:#}");
}

#[test]
fn a_signal_ends_the_run_with_a_page_and_before_that_there_is_none() {
    for signal in ["INT", "TERM"] {
        let domain = domain();
        let (directory, file) = report();
        let _talker = Process::start(program("talker"), &FAST, domain);
        let mut monitor = Json::start(&["imu", "--report", file.to_str().unwrap()], domain);
        monitor.until("window", |json| json["topic"] == "/imu");
        assert!(names(directory.path()).is_empty(), "{:?}", names(directory.path()));
        monitor.signal(signal);
        assert_eq!(monitor.end(), Some(0));
        assert_eq!(names(directory.path()), ["report.html"]);
        let page = fs::read_to_string(&file).unwrap();
        assert!(page.contains("<h2>/imu</h2>") && page.ends_with("</html>"), "{page}");
    }
}

#[test]
fn a_closed_pipe_ends_the_run_with_a_page() {
    let domain = domain();
    let (_directory, file) = report();
    let _talker = Process::start(program("talker"), &FAST, domain);
    let arguments = ["--json", "--period", "0.25", "imu", "--report", file.to_str().unwrap()];
    let mut child = command(&arguments, domain).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().is_ok());
    drop(lines);
    assert_eq!(Process::from(child).wait().code(), Some(0));
    assert!(fs::read_to_string(&file).unwrap().contains("<h2>/imu</h2>"));
}

#[test]
fn the_live_view_ends_with_a_page_too() {
    let domain = domain();
    let (directory, file) = report();
    let _talker = Process::start(program("talker"), &FAST, domain);
    let mut terminal = Terminal::start(&["imu", "--report", file.to_str().unwrap()], domain);
    terminal.wait("rate", |text| {
        let row = text.lines().find_map(|line| line.split_once("/imu ")).unwrap_or_default().1;
        let rate = row.split_whitespace().nth(1).and_then(|rate| rate.parse::<f64>().ok());
        rate.is_some_and(|rate| (40.0..60.0).contains(&rate))
    });
    assert!(names(directory.path()).is_empty());
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
    let page = fs::read_to_string(&file).unwrap();
    assert!(page.contains("<h2>/imu</h2>") && page.contains("Rate, Hz"), "{page}");
}

#[test]
fn losses_are_on_the_page() {
    if middleware::lacks_sequence_numbers("losses in a report") {
        return;
    }
    let Some(browser) = Browser::find("losses in a report") else { return };
    let domain = domain();
    let (_directory, file) = report();
    let mut publisher = Program::start("qos_publisher.py", &[], domain);
    let arguments =
        ["--depth", "5", "best_effort", "--require", "lost=0", "--report", file.to_str().unwrap()];
    let mut monitor = Json::start(&arguments, domain);
    monitor.until("messages", |json| json["received"].as_u64() > Some(1));
    let mut count = || publisher.request("count").parse::<u64>().unwrap();
    // If the monitor takes them as fast as they leave the socket after the stop, none is lost: then again.
    let is_lossy = |json: &Value| json["lost"].as_u64() > Some(0);
    let lossy = (0..20).find_map(|_| {
        monitor.signal("STOP");
        let before = count();
        wait_for("20 messages", || count() >= before + 20);
        monitor.signal("CONT");
        let windows = Cell::new(0);
        let is_last = || windows.replace(windows.get() + 1) >= 5;
        Some(monitor.until("windows", |json| is_lossy(json) || is_last())).filter(is_lossy)
    });
    let lossy = lossy.expect("losses");
    monitor.signal("INT");
    assert_eq!(monitor.end(), Some(1));
    let found = browser.look(&file, 1280, false);
    let captions = found["charts"].as_array().unwrap().iter().map(|chart| chart["caption"].as_str().unwrap());
    assert!(captions.into_iter().any(|caption| caption == "Messages lost"), "{found:#}");
    let failed = figures(&found, &[("topic", "/best_effort"), ("condition", "lost=0")]);
    assert_eq!(failed["first"], lossy["lost"].as_f64().unwrap());
    assert!(found["text"].as_str().unwrap().contains("LOSS "), "{found:#}");
}

#[test]
fn a_report_that_cannot_be_written_is_an_error_before_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    for (wrong, why) in [
        (path("missing/report.html"), "No such file or directory"),
        (path(""), "no regular file"),
        ("/dev/null".to_owned(), "no regular file"),
        ("/proc/report.html".to_owned(), "cannot write the report /proc/report.html: "),
    ] {
        let started = Instant::now();
        let output = run(&["--json", "--duration", "60", "--report", &wrong], domain());
        assert_eq!(output.status.code(), Some(3), "{wrong}");
        let errors = text(&output.stderr);
        assert!(errors.contains("cannot write the report ") && errors.contains(why), "{wrong}: {errors}");
        assert!(output.stdout.is_empty() && started.elapsed().as_secs() < 50, "{wrong}");
    }
    assert!(names(directory.path()).is_empty());
}
