// SPDX-License-Identifier: Apache-2.0

use std::{collections::BTreeSet, fs, sync::Arc};

use topic_statistics_core::collector::Distribution;

use super::*;
use crate::{
    recording::{Merged, Timeline},
    require::Conditions,
    row::{Figures, MetricFigures, Problem, Publisher, Row, Window},
    testing::{at, row, window},
};

/// Forbidden results of foreign names.
const MARKUP: &str =
    "\"'></style></title><script>alert(1)</script><img src=x onerror=alert(1)>&lt;\u{202e}\u{1b}[2J";

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

/// A window with all metrics of a subscription, which differ from window to window.
fn any_window(stop: i64) -> Window {
    let random = |index: usize| {
        let product = (stop as u64 * 100 + index as u64).wrapping_mul(6_364_136_223_846_793_005);
        (product >> 11) as f64 / (1_u64 << 53) as f64 // from 0 to 1
    };
    let metrics = Metric::OF_SUBSCRIPTIONS.iter().filter(|metric| **metric != Metric::CallbackDuration);
    let (metrics, distributions) = metrics
        .enumerate()
        .map(|(index, metric)| {
            let mut distribution = Distribution::default();
            let samples = [0, 1, 2, 3, 4].map(|sample| 10.0 * random(5 * index + sample).powi(8));
            samples.iter().for_each(|sample| assert!(distribution.accept(*sample)));
            let (min, max) = (distribution.minimum(), distribution.maximum());
            let figures =
                Figures { mean: samples.iter().sum::<f64>() / 5.0, min, max, std_dev: 1.0, count: 5 };
            let (name, unit) = (metric.name().to_owned(), metric.unit().to_owned());
            (MetricFigures { name, unit, figures }, (*metric, Arc::new(distribution)))
        })
        .unzip();
    Window { metrics, distributions, ..window(stop, 100.0 * random(98), (10.0 * random(99)) as u64) }
}

fn publisher(number: usize) -> Publisher {
    Publisher {
        gid: format!("{number:032x}"),
        node: Some("/talker".to_owned()),
        received: 60_000,
        lost: Some(3),
        out_of_order: None,
        last_message: 0,
        last_received: at(0),
    }
}

#[test]
fn the_page_does_not_grow_with_the_run() {
    let page = |seconds: i64| {
        let (mut recording, mut topic) =
            (recording("rate>50 age<1"), Row::new("/robot_1/sensor_1/image_raw"));
        topic.publishers = (0..4).map(publisher).collect();
        for stop in 1..=seconds {
            topic.add_window(any_window(stop));
            recording.add(&topic);
        }
        render(&recording, &origin(), at(seconds))
    };
    // Both have as many slots as there can be.
    let (short, long) = (page(200), page(200 * 8));
    assert!((long.len() as f64) < 1.1 * short.len() as f64, "{} bytes, {} bytes", short.len(), long.len());
    assert!((20_000..100_000).contains(&long.len()), "{} bytes: 50 topics are below 5 MB", long.len());
    assert_eq!(long.matches("<svg").count(), 9, "seven over time, and of these two with a distribution");
}

#[test]
fn foreign_text_becomes_no_markup() {
    let page = |text: &str| {
        let mut recording = recording("rate>1000");
        let mut topic = row(text, 100.0, 0);
        (topic.message_type, topic.nodes) = (Some(text.to_owned()), vec![text.to_owned()]);
        topic.publishers = vec![Publisher { node: Some(text.to_owned()), ..publisher(0) }];
        let figures = Figures { mean: 1.0, min: 0.5, max: 2.0, std_dev: 0.1, count: 5 };
        let mut last = window(1, 10.0, 1);
        last.metrics.push(MetricFigures { name: text.to_owned(), unit: text.to_owned(), figures });
        topic.add_window(last);
        recording.add(&topic);
        recording.finish(&[&topic], at(1));
        let origin = Origin {
            title: text.to_owned(),
            facts: vec![("Host", text.to_owned()), ("ROS 2", text.to_owned())],
            arguments: vec![text.to_owned()],
            ..origin()
        };
        render(&recording, &origin, at(1))
    };
    let (hostile, plain) = (page(MARKUP), page("plain"));
    assert!(hostile.matches("&lt;script&gt;alert(1)&lt;/script&gt;").count() > 10);
    for special in ["<", ">", "\"", "<svg", "<script", "<img", "</style"] {
        assert_eq!(hostile.matches(special).count(), plain.matches(special).count(), "{special}");
    }
    assert!(!hostile.contains(|c: char| c == '\u{202e}' || c.is_control() && c != '\n'));
    assert!(hostile.contains("&amp;lt;"), "an entity in a name is text, too");
}

#[test]
fn a_topic_has_rows_and_charts_of_what_was_measured_only() {
    let mut recording = recording("");
    let [mut silent, mut imu, mut unknown, mut waiting] =
        ["/silent", "/imu", "/unknown", "/waiting"].map(Row::new);
    for stop in 1..=3 {
        let mut empty = window(stop, 0.0, 0);
        empty.metrics.iter_mut().for_each(|metric| metric.figures = Figures::NONE);
        unknown.add_window(Window { rate: f64::NAN, lost: None, received: None, ..empty.clone() });
        silent.add_window(empty);
        let mut window = window(stop, 100.0, 0);
        window.metrics[0].figures = Figures::NONE; // of the age
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
    assert!(
        imu.contains("data-metric=\"message_period\"") && imu.contains("Not measured: message_age."),
        "{imu}"
    );
    assert!(!imu.contains("data-metric=\"message_age\""), "{imu}");
}

#[test]
fn each_failed_condition_is_on_the_page_with_time_value_and_limit() {
    let (mut recording, mut imu) = (recording("rate>=90 /nope:lost=0"), Row::new("/imu"));
    for (stop, rate) in [(1, 100.0), (62, 80.5), (63, 85.0), (64, 100.0)] {
        imu.add_window(window(stop, rate, 0));
        recording.add(&imu);
    }
    recording.finish(&[&imu], at(64));
    let page = render(&recording, &origin(), at(64));
    assert!(page.contains("2 failed."), "{page}");
    assert!(page.contains(r#"<tr data-topic="/imu" data-condition="rate&gt;=90">"#), "{page}");
    assert!(
        page.contains("(after 1 min 2 s)</td><td><data class=\"first\" value=\"80.5\">80.50</data>"),
        "{page}"
    );
    assert!(
        page.contains("(after 1 min 3 s)</td><td><data class=\"last\" value=\"85.0\">85.00</data>"),
        "{page}"
    );
    assert!(page.contains("/nope: lost=0"), "{page}");

    recording = self::recording("rate>=70");
    recording.add(&imu);
    recording.finish(&[&imu], at(64));
    let page = render(&recording, &origin(), at(64));
    assert!(page.contains("Fulfilled in each window") && !page.contains("failed windows"), "{page}");
}

/// The figures of a slot of one second.
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

/// The lines of a chart.
fn paths(svg: &str) -> Vec<&str> {
    svg.lines().filter(|line| line.starts_with("<polyline") && line.contains("#1F6FB5")).collect()
}

#[test]
fn a_gap_interrupts_the_line_and_zero_is_drawn() {
    let timeline = slots(&[Some(10.0), Some(12.0), None, None, Some(0.0), Some(10.0)]);
    let parts = timeline.parts();
    let line = || Line::new(&parts, |slot| slot.rate);
    let svg = chart::lines(&[line()], true, 6.0).unwrap();
    let paths = paths(&svg);
    assert_eq!(paths.len(), 2, "{svg}");
    let points = |path: &str| {
        let points = path.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        let point = |point: &str| {
            let (x, y) = point.split_once(',').unwrap();
            (x.parse::<i32>().unwrap(), y.parse::<i32>().unwrap())
        };
        points.split_whitespace().map(point).collect::<Vec<_>>()
    };
    // From 0 to 2 s and from 4 to 6 s of 6 s, between 124 and 849 units.
    let (first, second) = (points(paths[0]), points(paths[1]));
    assert_eq!(
        [first[0].0, first.last().unwrap().0, second[0].0, second.last().unwrap().0],
        [124, 365, 607, 849]
    );
    // 0 Hz is at the bottom of the chart, above 44 units of labels.
    assert_eq!(second[0].1, 360 - 44 - 1, "{second:?}");
    assert!(first.iter().all(|(_, y)| *y < 100), "{first:?}");
    assert!(Line::new(&parts, |_| Merged::NONE).is_empty());

    // Figures that are too large are not drawn.
    let line = |rates: &[f64]| {
        let timeline = slots(&rates.iter().copied().map(Some).collect::<Vec<_>>());
        chart::lines(&[Line::new(&timeline.parts(), |slot| slot.rate)], false, 9.0)
    };
    assert!(line(&[f64::MAX, f64::MIN, 1.1e15]).is_none());
    let svg = line(&[1.0, f64::MAX, -1e15, 1e15, f64::MIN, 2.0]).unwrap();
    assert_eq!(self::paths(&svg).len(), 3, "{svg}");
}

#[test]
fn losses_are_bars_and_all_colours_have_a_dark_one() {
    let timeline = slots(&[Some(10.0), Some(7.0), Some(10.0)]);
    let svg = chart::losses(&timeline.parts(), 3.0).unwrap();
    let bars = svg.lines().find(|line| line.contains("#C62828")).unwrap();
    // Only the second of three seconds has losses, and nothing else is above 0.
    assert!(
        bars.contains("points=\"124,315 124,315 365,315 365,32 607,32 607,315 849,315 849,315 \""),
        "{bars}"
    );
    assert!(chart::losses(&slots(&[Some(10.0); 3]).parts(), 3.0).is_none());
    // All colours have a dark one.
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
        let timeline = slots(&[Some(low), Some(high)]);
        let svg =
            chart::lines(&[Line::new(&timeline.parts(), |slot| slot.rate)], low == high, 600.0).unwrap();
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
    assert!(names().is_empty(), "nothing is there before the end");
    file.write("first").unwrap();
    file.write("second").unwrap();
    assert_eq!(names(), ["report.html"]);

    // No link is followed.
    std::os::unix::fs::symlink(path("report.html"), path("link.html")).unwrap();
    PageFile::new(&path("link.html")).unwrap().write("by a link").unwrap();
    let read = |name| fs::read_to_string(path(name)).unwrap();
    assert_eq!((&*read("report.html"), &*read("link.html")), ("second", "by a link"));
    assert!(!path("link.html").is_symlink());

    // The directory goes away during the run.
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
