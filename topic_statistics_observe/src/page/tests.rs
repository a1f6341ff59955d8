// SPDX-License-Identifier: Apache-2.0

use std::{collections::BTreeSet, fs};

use super::*;
use crate::{
    recording::{Merged, Timeline},
    require::Conditions,
    row::{Problem, Row, Window},
    testing::{at, window, without_samples},
};

fn recording(conditions: &str) -> Recording {
    let conditions = conditions.parse::<Conditions>().map_or(vec![], |conditions| conditions.0);
    let mut recording = Recording::new(Duration::from_secs(1), conditions);
    recording.started = at(0);
    recording
}

fn origin() -> Origin {
    Origin {
        title: "ROS 2 topics on robot".to_owned(),
        facts: vec![("Host", "robot".to_owned())],
        program: "topic_monitor",
        arguments: ["--report", "a b.html", "--require", "rate>5"].map(str::to_owned).to_vec(),
    }
}

#[test]
fn a_topic_has_rows_and_charts_of_what_was_measured_only() {
    let mut recording = recording("");
    let [mut silent, mut imu, mut unknown, mut waiting] =
        ["/silent", "/imu", "/unknown", "/waiting"].map(Row::new);
    for stop in 1..=3 {
        let empty = without_samples(window(stop, 0.0, 0));
        unknown.add_window(Window { rate: f64::NAN, lost: None, received: None, ..empty.clone() });
        silent.add_window(empty);
        let mut window = window(stop, 100.0, 0);
        window.metrics[0].figures = topic_statistics_core::Summary::default(); // the message age
        imu.add_window(window);
        [&silent, &imu, &unknown].into_iter().for_each(|row| recording.add(row));
    }
    waiting.problem = Some(Problem::Waiting("/waiting has no publisher; waiting for one".to_owned()));
    recording.finish(&[&silent, &imu, &unknown, &waiting], at(3));
    let page = render(&recording, &origin(), at(3));
    assert!(!page.contains("NaN") && page.contains("/waiting has no publisher; waiting for one"), "{page}");
    let section = |topic: &str| {
        let heading = format!("<h2>{topic}</h2>");
        page.split("<section").find(|part| part.contains(&heading)).unwrap()
    };
    for nothing in ["/silent", "/unknown"] {
        let section = section(nothing);
        assert!(section.contains("Nothing was measured.") && section.contains("in 3 windows"), "{section}");
        assert!(!section.contains("<svg") && !section.contains("data-metric"), "{section}");
    }
    let imu = section("/imu");
    assert!(imu.contains("<svg") && !imu.contains("Nothing was measured."), "{imu}");
    assert!(imu.contains("data-metric=\"message_period\"") && !imu.contains("data-metric=\"message_age\""));
    assert!(imu.contains("Not measured: message_age."), "{imu}");
}

#[test]
fn markup_in_names_and_problems_is_text() {
    let mut recording = recording("");
    let [mut row, mut waiting] = ["/a<q>", "/b<q>"].map(Row::new);
    row.add_window(window(1, 100.0, 0));
    recording.add(&row);
    waiting.problem = Some(Problem::Waiting("no <q> yet".to_owned()));
    recording.finish(&[&row, &waiting], at(1));
    let facts = vec![("Host", "<q>".to_owned())];
    let page = render(&recording, &Origin { title: "<q>".to_owned(), facts, ..origin() }, at(1));
    assert!(!page.contains("<q>"), "{page}");
    for text in ["/a&lt;q&gt;", "/b&lt;q&gt;", "no &lt;q&gt; yet"] {
        assert!(page.contains(text), "{text}: {page}");
    }
}

#[test]
fn failed_conditions_are_on_the_page_with_time_and_value() {
    let page = |conditions, windows: &[(i64, f64)]| {
        let (mut recording, mut imu) = (recording(conditions), Row::new("/imu"));
        for (stop, rate) in windows {
            imu.add_window(window(*stop, *rate, 0));
            recording.add(&imu);
        }
        recording.finish(&[&imu], at(64));
        render(&recording, &origin(), at(64))
    };
    let failed = page("rate>=90 /nope:lost=0", &[(1, 100.0), (62, 80.5), (63, 85.0), (64, 100.0)]);
    for part in [
        "2 failed.",
        r#"<tr data-topic="/imu" data-condition="rate&gt;=90">"#,
        r#"(after 1 min 2 s)</td><td><data class="first" value="80.5">80.50</data>"#,
        r#"(after 1 min 3 s)</td><td><data class="last" value="85.0">85.00</data>"#,
        "/nope: lost=0",
    ] {
        assert!(failed.contains(part), "{part}: {failed}");
    }
    let fulfilled = page("rate>=70", &[(64, 100.0)]);
    assert!(fulfilled.contains("Fulfilled in each window") && !fulfilled.contains("failed windows"));
}

#[test]
fn topics_that_are_left_out_are_on_the_page() {
    let mut recording = recording("");
    assert!(!render(&recording, &origin(), at(1)).contains("left out"));
    recording.left_out = 7;
    let page = render(&recording, &origin(), at(1));
    assert!(page.contains("too many topics: 7 windows of further topics."), "{page}");
}

fn slots(rates: &[Option<f64>]) -> Timeline {
    let mut timeline = Timeline::new(Duration::from_secs(1));
    for (rate, stop) in rates.iter().zip(1..) {
        if let Some(rate) = rate {
            let window = window(stop, 1.0, if *rate == 7.0 { 3 } else { 0 });
            timeline.add(Slot::new(&window, at(0), Merged::of_rate(*rate, window.length)));
        }
    }
    timeline
}

fn lines(rates: &[Option<f64>], from_zero: bool, until: f64) -> Option<String> {
    chart::lines(&[Line::new(&slots(rates).parts(), |slot| slot.rate)], from_zero, until)
}

/// Returns the x and y coordinates of the points of each line in a chart.
fn points(svg: &str) -> Vec<Vec<(i32, i32)>> {
    let points = svg.lines().filter(|line| line.starts_with("<polyline") && line.contains("#1F6FB5"));
    let points = points.map(|line| line.split("points=\"").nth(1).unwrap().split('"').next().unwrap());
    let point = |(x, y): (&str, &str)| (x.parse().unwrap(), y.parse().unwrap());
    points
        .map(|all| all.split_whitespace().map(|text| point(text.split_once(',').unwrap())).collect())
        .collect()
}

#[test]
fn a_gap_interrupts_the_line_and_zero_is_drawn() {
    let rates = [Some(10.0), Some(12.0), None, None, Some(0.0), Some(10.0)];
    let points = points(&lines(&rates, true, 6.0).unwrap());
    let [first, second] = &points[..] else { panic!("{points:?}") };
    // The lines go from 0 s to 2 s and from 4 s to 6 s. The whole run of 6 s goes from x = 124 to x = 849.
    let ends = |line: &[(i32, i32)]| (line[0].0, line[line.len() - 1].0);
    assert_eq!((ends(first), ends(second)), ((124, 365), (607, 849)));
    // 0 Hz is at the bottom of the chart, above 44 units of labels.
    assert_eq!(second[0].1, 360 - 44 - 1, "{second:?}");
    assert!(first.iter().all(|(_, y)| *y < 100), "{first:?}");
    assert!(Line::new(&slots(&rates).parts(), |_| Merged::NONE).is_empty());
    // Values that are too large are not drawn.
    assert!(lines(&[f64::MAX, f64::MIN, 1.1e15].map(Some), false, 9.0).is_none());
    let some = lines(&[1.0, f64::MAX, -1e15, 1e15, f64::MIN, 2.0].map(Some), false, 9.0).unwrap();
    assert_eq!(self::points(&some).len(), 3, "{some}");
}

#[test]
fn losses_are_bars_and_all_colours_have_a_dark_one() {
    let timeline = slots(&[Some(10.0), Some(7.0), Some(10.0)]);
    let svg = chart::losses(&timeline.parts(), 3.0).unwrap();
    let bars = svg.lines().find(|line| line.contains("#C62828")).unwrap();
    // Only the second of three seconds has losses, so only its bar is above 0.
    assert!(bars.contains("\"124,315 124,315 365,315 365,32 607,32 607,315 849,315 849,315 \""), "{bars}");
    assert!(chart::losses(&slots(&[Some(10.0); 3]).parts(), 3.0).is_none());
    // Each colour has a corresponding colour for the dark page.
    let parts = timeline.parts();
    let line = || Line::new(&parts, |slot| slot.rate);
    let all = svg + &chart::lines(&[line(), line(), line()], true, 2.0).unwrap();
    let colours: BTreeSet<&str> = all.split('"').filter(|value| value.starts_with('#')).collect();
    assert_eq!(colours.len(), 6, "{colours:?}");
    for colour in colours {
        assert!(chart::dark_style().contains(&format!("[stroke=\"{colour}\"]")), "{colour}");
    }
}

#[test]
fn labels_tell_figures_apart() {
    for (low, high) in [(0.0, 0.0), (9.9995, 10.0005), (0.0, 1e-6), (0.0, 2e6), (-5.0, 5.0), (1e12, 1.1e12)] {
        let svg = lines(&[Some(low), Some(high)], low == high, 600.0).unwrap();
        let texts: Vec<&str> = svg.lines().filter(|line| !line.starts_with('<')).collect();
        let distinct: BTreeSet<&str> = texts.iter().copied().collect();
        assert!(texts.len() == distinct.len() && texts.contains(&"10 min") && texts.len() > 4, "{texts:?}");
    }
}

#[test]
fn the_file_is_there_whole_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let names = || {
        let names = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect::<Vec<_>>()
    };
    let file = PageFile::new(&path("report.html")).unwrap();
    assert!(names().is_empty(), "the directory is empty before the page is written");
    file.write("first").unwrap();
    file.write("second").unwrap();
    assert_eq!(names(), ["report.html"]);

    // Writing a page does not follow a symbolic link.
    std::os::unix::fs::symlink(path("report.html"), path("link.html")).unwrap();
    PageFile::new(&path("link.html")).unwrap().write("by a link").unwrap();
    let read = |name| fs::read_to_string(path(name)).unwrap();
    assert_eq!((&*read("report.html"), &*read("link.html")), ("second", "by a link"));
    assert!(!path("link.html").is_symlink());

    // The directory of the page is removed before the page is written.
    let gone = tempfile::tempdir().unwrap();
    let file = PageFile::new(&gone.path().join("report.html")).unwrap();
    drop(gone);
    assert!(file.write("third").unwrap_err().starts_with("cannot write the report "));
    for (wrong, why) in [
        (path(""), "no regular file"),
        ("/dev/null".into(), "no regular file"),
        (path("missing/report.html"), "No such file"),
        ("/proc/report.html".into(), ""),
        ("".into(), "No such file"),
    ] {
        let error = PageFile::new(&wrong).unwrap_err();
        assert!(error.starts_with("cannot write the report ") && error.contains(why), "{wrong:?}: {error}");
    }
}

#[test]
fn durations_and_the_command_line_are_readable() {
    let lengths =
        [0.25, 59.94, 61.0, 3599.0, 7260.0, 90_000.0].map(|seconds| length(Duration::from_secs_f64(seconds)));
    assert_eq!(lengths, ["0.2 s", "59.9 s", "1 min 1 s", "59 min 59 s", "2 h 1 min", "1 d 1 h"]);
    assert_eq!(command(&origin().arguments), "--report 'a b.html' --require 'rate>5'");
    assert_eq!(command(&["it's".to_owned(), String::new()]), "'it'\\''s' ''");
}
