// SPDX-License-Identifier: Apache-2.0

//! The alerts in situations: which ones fire, and that no other one ever does. promtool evaluates the rules.

use std::{collections::BTreeSet, fs, process::Command};

use serde_json::{json, Value};

use crate::{
    mixin::alerts,
    prometheus::{find, folder},
};

const MINUTE: u32 = 60;
const HOUR: u32 = 60 * MINUTE;
const DAY: u32 = 24 * HOUR;

const PAGE: &str = "page";
const TICKET: &str = "ticket";

/// Time series over some time, and the alerts that fire in it.
struct Situation {
    name: String,
    length: u32,
    /// From one scrape to the next, in seconds.
    interval: u32,
    evaluation: u32,
    series: Vec<Value>,
    /// Alerts with their severities, and a time at which each one fires. No others ever fire.
    fires: Vec<(&'static str, &'static str, u32)>,
    /// Alerts, and a time at which each one does not fire.
    rests: Vec<(&'static str, u32)>,
}

impl Situation {
    fn new(name: &str, length: u32, interval: u32) -> Self {
        let name = format!("{name}, scraped every {interval} s");
        Self { name, length, interval, evaluation: MINUTE, series: vec![], fires: vec![], rests: vec![] }
    }

    /// Adds a time series. `value` has its value at a time, None while it is not there.
    fn series(mut self, series: &str, value: impl Fn(u32) -> Option<f64>) -> Self {
        let samples: Vec<_> =
            (0..=self.length / self.interval).map(|scrape| value(scrape * self.interval)).collect();
        self.series.push(json!({"series": series, "values": notation(&samples)}));
        self
    }

    fn constant(self, series: &str, value: f64) -> Self {
        self.series(series, |_| Some(value))
    }

    /// Adds an exporter that is scraped while `is_up`.
    fn exporter(self, labels: &str, is_up: impl Fn(u32) -> bool) -> Self {
        let (up, info) =
            (format!("up{{{labels}}}"), format!("topic_statistics_exporter_build_info{{{labels}}}"));
        self.series(&up, |time| Some(f64::from(u8::from(is_up(time)))))
            .series(&info, |time| is_up(time).then_some(1.0))
    }

    /// Adds a subscription of a node that runs all the time: windows, and messages received at a time.
    fn topic(self, topic: &str, window: f64, received: impl Fn(u32) -> f64) -> Self {
        self.topic_while(topic, window, |_| true, received)
    }

    fn topic_while(
        self,
        topic: &str,
        window: f64,
        is_there: impl Fn(u32) -> bool,
        received: impl Fn(u32) -> f64,
    ) -> Self {
        let labels = format!("{R1}, node=\"/n\", topic=\"{topic}\"");
        // What the windows up to now have.
        let ended = |time: u32| (f64::from(time) / window).floor();
        let received = |time: u32| is_there(time).then(|| received((ended(time) * window) as u32).floor());
        self.series(&format!("topic_statistics_windows_total{{{labels}}}"), |time| {
            is_there(time).then(|| ended(time))
        })
        .series(
            &format!("topic_statistics_messages_received_total{{{labels}, kind=\"subscription\"}}"),
            received,
        )
    }

    fn fires(mut self, alert: &'static str, severity: &'static str, at: u32) -> Self {
        self.fires.push((alert, severity, at));
        self
    }

    fn rests(mut self, alert: &'static str, at: u32) -> Self {
        self.rests.push((alert, at));
        self
    }

    /// Returns the test for promtool.
    fn test(&self) -> Value {
        let firing = |expression: &str, time: u32, alerts: BTreeSet<(&str, &str)>| {
            let sample = |(name, severity): (&str, &str)| {
                let labels = format!("{{alertname=\"{name}\", severity=\"{severity}\"}}");
                json!({"labels": labels, "value": 1})
            };
            let expected: Vec<_> = alerts.into_iter().map(sample).collect();
            let expression = format!("group by (alertname, severity) ({expression})");
            json!({"expr": expression, "eval_time": format!("{time}s"), "exp_samples": expected})
        };
        let mut tests: Vec<_> = self
            .fires
            .iter()
            .map(|(name, severity, time)| {
                let alert =
                    format!("ALERTS{{alertstate=\"firing\", alertname=\"{name}\", severity=\"{severity}\"}}");
                firing(&alert, *time, BTreeSet::from([(*name, *severity)]))
            })
            .collect();
        tests.extend(self.rests.iter().map(|(name, time)| {
            firing(&format!("ALERTS{{alertstate=\"firing\", alertname=\"{name}\"}}"), *time, BTreeSet::new())
        }));
        let ever = format!("last_over_time(ALERTS{{alertstate=\"firing\"}}[{}s])", self.length);
        tests.push(firing(
            &ever,
            self.length,
            self.fires.iter().map(|(name, severity, _)| (*name, *severity)).collect(),
        ));
        json!({
            "name": self.name,
            "interval": format!("{}s", self.interval),
            "input_series": self.series,
            "promql_expr_test": tests,
        })
    }
}

/// Writes samples as promtool reads them: `0+15x3` is 0 15 30 45, and `_x2` two that are missing.
fn notation(samples: &[Option<f64>]) -> String {
    let mut words = vec![];
    let mut rest = samples;
    while let Some(first) = rest.first() {
        let Some(value) = first else {
            let missing = rest.iter().take_while(|sample| sample.is_none()).count();
            words.push(format!("_x{missing}"));
            rest = &rest[missing..];
            continue;
        };
        let step = rest.get(1).copied().flatten().map_or(0.0, |next| next - value);
        let goes_on = |(index, sample): &(usize, &Option<f64>)| {
            sample.is_some_and(|sample| {
                (sample - (value + step * *index as f64)).abs() < 1e-9 * sample.abs().max(1.0)
            })
        };
        let length = rest.iter().enumerate().take_while(goes_on).count();
        words.push(format!("{value}{step:+}x{}", length - 1));
        rest = &rest[length..];
    }
    words.join(" ")
}

const R1: &str = "job=\"topic_statistics\", instance=\"r1\"";
const ALWAYS_ON: &str = "job=\"topic_statistics\", instance=\"r1\", always_on=\"true\"";
const SCAN: &str = "job=\"topic_statistics\", instance=\"r1\", node=\"/n\", topic=\"/scan\"";

const PLAN: &str = "topic=\"/plan\"";
const MAP: &str = "topic=\"/map\"";
const TIMER: &str = "name=\"timer/10ms\"";
const EXECUTOR: &str = "name=\"executor\"";

/// A robot whose topics are well, each in its own way.
fn healthy(name: &str, length: u32, interval: u32, is_on: fn(u32) -> bool) -> Situation {
    let is_ok = |level: &'static str| {
        move |time: u32| is_on(time).then_some(if level == "ok" { f64::from(time) } else { 0.0 })
    };
    let judged = |level: &str| format!("topic_statistics_windows_judged_total{{{SCAN}, level=\"{level}\"}}");
    let while_on = |value: f64| move |time: u32| is_on(time).then_some(value);
    Situation::new(name, length, interval)
        .exporter(R1, is_on)
        .topic_while("/scan", 1.0, is_on, |time| 10.0 * f64::from(time))
        .topic_while("/fast_windows", 0.1, is_on, |time| 100.0 * f64::from(time))
        .topic_while("/long_windows", 300.0, is_on, |time| 10.0 * f64::from(time))
        .topic_while("/latched", 1.0, is_on, |_| 1.0)
        .topic_while("/at_0.1_hz", 1.0, is_on, |time| f64::from(time / 10))
        .series(
            &format!("topic_statistics_messages_lost_total{{{R1}, node=\"/n\", topic=\"/at_0.1_hz\"}}"),
            |time| is_on(time).then(|| f64::from(time / HOUR)),
        )
        .topic_while("/burst_each_10_minutes", 1.0, is_on, |time| 100.0 * f64::from(time / (10 * MINUTE)))
        .topic_while("/burst_each_3_hours", 1.0, is_on, |time| 1e5 * f64::from(time / (3 * HOUR)))
        // Neither ages nor periods: nothing is counted.
        .topic_while("/without_header_at_1_hz", 1.0, is_on, |_| 0.0)
        .series(&format!("topic_statistics_health_level{{{SCAN}}}"), while_on(0.0))
        .series(&format!("topic_statistics_judged_rate_hertz{{{SCAN}}}"), while_on(10.0))
        .series(
            &format!("topic_statistics_expected_rate_hertz{{{SCAN}, bound=\"lower\", level=\"warn\"}}"),
            while_on(9.0),
        )
        .series(&judged("ok"), is_ok("ok"))
        .series(&judged("error"), is_ok("error"))
        // The topic begins 45 s after power on.
        .series(&judged("stale"), move |time| is_on(time).then(|| f64::from((time % DAY).min(45))))
        .series(
            &format!("topic_statistics_messages_lost_total{{{SCAN}, kind=\"subscription\"}}"),
            while_on(7.0),
        )
        .series(&format!("topic_statistics_clock_offset_seconds{{{R1}, host=\"r1\"}}"), while_on(-0.005))
        .series(&format!("topic_statistics_diagnostic_level{{{R1}, name=\"x\"}}"), while_on(1.0))
        // A call now and then that takes 5 minutes, and one of a thousand without a response.
        .series(&waiting("oldest_call_seconds", PLAN), |time| is_on(time).then_some(f64::from(time % 300)))
        .series(&waiting("responses_total", PLAN), |time| is_on(time).then_some(f64::from(time)))
        .series(&waiting("dropped_calls_total", PLAN), |time| is_on(time).then(|| f64::from(time / 1000)))
        // Another service is called once in 10 s, and a call of an hour has no response.
        .series(&waiting("responses_total", MAP), |time| is_on(time).then(|| f64::from(time / 10)))
        .series(&waiting("dropped_calls_total", MAP), |time| is_on(time).then(|| f64::from(time / HOUR)))
        .series(&process_start(R1), move |time| is_on(time).then(|| f64::from(time / DAY * DAY)))
        .series(&waiting("callback_panics_total", PLAN), while_on(1.0))
        // One skipped period of a thousand.
        .series(&waiting("timer_period_seconds_count", TIMER), |time| {
            is_on(time).then(|| 100.0 * f64::from(time))
        })
        .series(&waiting("skipped_periods_total", TIMER), |time| is_on(time).then(|| f64::from(time / 10)))
        .series(&waiting("busy_percent_max", EXECUTOR), |time| {
            is_on(time).then_some(if time % (20 * MINUTE) < 10 * MINUTE { 100.0 } else { 60.0 })
        })
}

/// When an exporter was started.
fn process_start(labels: &str) -> String {
    format!("process_start_time_seconds{{{labels}}}")
}

/// A time series of what waits.
fn waiting(metric: &str, labels: &str) -> String {
    format!("topic_statistics_{metric}{{{R1}, node=\"/n\", {labels}}}")
}

fn always(_: u32) -> bool {
    true
}

/// The time since a robot was switched on: after 10 min, and again after a reboot. None while it is off.
fn since_boot(time: u32) -> Option<u32> {
    match time {
        time if time < 10 * MINUTE => None,
        time if time < 30 * MINUTE => Some(time - 10 * MINUTE),
        time => time.checked_sub(32 * MINUTE),
    }
}

/// A simulated month of a robot that is switched off at night, and over a weekend.
fn a_month() -> Situation {
    let is_on = |time: u32| time / HOUR % 24 < 14 && !(12..14).contains(&(time / DAY));
    let month = healthy("a month with nights and a weekend", 30 * DAY, MINUTE, is_on);
    Situation { evaluation: 10 * MINUTE, ..month }
}

/// All others, at one interval of scrapes.
fn situations(interval: u32) -> Vec<Situation> {
    let from = 3 * HOUR;
    let new = |name: &str, length: u32| Situation::new(name, length, interval).exporter(R1, always);
    // Nothing else is known before.
    let boot = 30 * MINUTE;
    let since = move |value: f64| move |time: u32| Some(if time >= from { value } else { 0.0 });
    let counter = move |per_second: f64| {
        move |time: u32| Some((per_second * f64::from(time.saturating_sub(from))).floor())
    };
    let lost = |name: &str| format!("topic_statistics_messages_{name}_total{{{SCAN}}}");
    let exporter = |name: &str, labels: &str| format!("topic_statistics_exporter_{name}{{{R1}, {labels}}}");
    let site = |situation: Situation, site: &str, is_up: fn(u32) -> bool| {
        (0..10).fold(situation, |situation, robot| {
            let labels = format!(
                "job=\"topic_statistics\", instance=\"{site}_{robot}\", site=\"{site}\", always_on=\"true\""
            );
            situation.exporter(&labels, is_up)
        })
    };
    let judge = |name: &str, judge: &str, labels: &str| {
        format!("topic_statistics_{name}{{{SCAN}, judge=\"{judge}\"{labels}}}")
    };
    let age_limit = ", figure=\"mean\", bound=\"upper\", level=\"warn\"";
    let info = |labels: &str| format!("topic_statistics_exporter_build_info{{{labels}}}");
    let other = &ALWAYS_ON.replace("r1", "r2");
    let pushing = "job=\"topic_statistics_exporter\", instance=\"r2\", always_on=\"true\"";
    vec![
        healthy("a healthy robot", 8 * HOUR, interval, always),
        // Power on after 10 min, a reboot of 2 min; a topic that begins 45 s after each. The exporter counts anew.
        healthy("the first hours of a robot", 2 * HOUR, interval, |time| since_boot(time).is_some())
            .series(&judge("health_level", "n", ", name=\"slow\""), |time| {
                since_boot(time).map(|time| if time < 45 { 3.0 } else { 0.0 })
            })
            .series(&judge("windows_judged_total", "n", ", name=\"slow\", level=\"stale\""), |time| {
                since_boot(time).map(|time| f64::from(time.min(45)))
            })
            .series(&judge("windows_judged_total", "n", ", name=\"slow\", level=\"ok\""), |time| {
                since_boot(time).map(|time| f64::from(time.saturating_sub(45)))
            }),
        new("a topic that violates its expectations", 4 * HOUR)
            .series(&judge("health_level", "n", ""), since(2.0))
            // The status on /diagnostics that says the same.
            .series(
                &format!(
                    "topic_statistics_diagnostic_level{{{R1}, name=\"n: /scan\", hardware_id=\"none\"}}"
                ),
                since(2.0),
            )
            .fires("TopicStatisticsUnhealthy", PAGE, from + 4 * MINUTE),
        new("timers of two nodes of one name that violate their expectations", 4 * HOUR)
            .series(&format!("topic_statistics_health_level{{{R1}, node=\"/a/n\", name=\"timer/10ms\", judge=\"n\"}}"), since(2.0))
            .series(&format!("topic_statistics_health_level{{{R1}, node=\"/b/n\", name=\"timer/10ms\", judge=\"n\"}}"), since(2.0))
            .series(&format!("topic_statistics_diagnostic_level{{{R1}, name=\"n: timer/10ms\"}}"), since(2.0))
            .fires("TopicStatisticsUnhealthy", PAGE, from + 4 * MINUTE),
        // Its node says that it is an error, and topic_monitor that all is well; each has limits of its own.
        new("a topic of which two judges say different things", 4 * HOUR)
            .series(&judge("health_level", "n", ""), since(2.0))
            .constant(&judge("health_level", "topic_monitor", ""), 0.0)
            .series(&judge("judged_rate_hertz", "n", ""), |time| Some(if time >= from { 5.0 } else { 10.0 }))
            .constant(&judge("judged_rate_hertz", "topic_monitor", ""), 10.0)
            .constant(&judge("expected_rate_hertz", "n", ", bound=\"lower\", level=\"warn\""), 9.0)
            .constant(&judge("expected_rate_hertz", "topic_monitor", ", bound=\"lower\", level=\"warn\""), 8.0)
            .series(&format!("topic_statistics_message_age_mean_seconds{{{SCAN}}}"), since(0.2))
            .constant(&judge("expected_message_age_seconds", "n", age_limit), 0.1)
            .constant(&judge("expected_message_age_seconds", "topic_monitor", age_limit), 0.3)
            .series(&judge("windows_judged_total", "n", ", level=\"ok\""), |time| Some(f64::from(time.min(from))))
            .series(&judge("windows_judged_total", "n", ", level=\"error\""), counter(1.0))
            .series(&judge("windows_judged_total", "topic_monitor", ", level=\"ok\""), |time| Some(f64::from(time)))
            .constant(&judge("windows_judged_total", "topic_monitor", ", level=\"error\""), 0.0)
            .series(
                &format!("topic_statistics_diagnostic_level{{{R1}, name=\"n: /scan\", hardware_id=\"none\"}}"),
                since(2.0),
            )
            .fires("TopicStatisticsUnhealthy", PAGE, from + 4 * MINUTE)
            .fires("TopicStatisticsRateOff", TICKET, from + 12 * MINUTE)
            .fires("TopicStatisticsAgeHigh", TICKET, from + 12 * MINUTE)
            .fires("TopicStatisticsErrorBudgetBurn", PAGE, from + 15 * MINUTE),
        // topic_monitor --from-statistics judges what the node does not, and its status names the whole source.
        new("a source that topic_monitor finds silent", 4 * HOUR)
            .series(&judge("health_level", "topic_monitor", ""), since(3.0))
            .series(&format!("topic_statistics_diagnostic_level{{{R1}, name=\"topic_monitor: /n:/scan\"}}"), since(3.0))
            .fires("TopicStatisticsStale", TICKET, from + 7 * MINUTE),
        new("a node that crashes while it is an error, and starts again", 4 * HOUR + 30 * MINUTE)
            .topic_while("/scan", 1.0, |time| time < from + 5 * MINUTE || time >= from + HOUR, f64::from)
            .series(&format!("topic_statistics_health_level{{{SCAN}}}"), |time| match time {
                time if time < from => Some(0.0),
                time if time < from + 6 * MINUTE => Some(2.0),
                time if time < from + HOUR => None,
                _ => Some(0.0),
            })
            .fires("TopicStatisticsUnhealthy", PAGE, from + 55 * MINUTE)
            .fires("TopicStatisticsNodesEnded", TICKET, from + 20 * MINUTE)
            .rests("TopicStatisticsUnhealthy", from + HOUR + 2 * MINUTE),
        new("a node that starts, is an error, and crashes for good", 4 * HOUR)
            .series(&format!("topic_statistics_health_level{{{SCAN}}}"), |time| {
                (from..from + 10 * MINUTE).contains(&time).then_some(2.0)
            })
            .fires("TopicStatisticsUnhealthy", PAGE, 4 * HOUR),
        new("a node that is an error, crashes, and is said to be gone", 4 * HOUR)
            .series(&format!("topic_statistics_health_level{{{SCAN}}}"), |time| {
                (from..from + 10 * MINUTE).contains(&time).then_some(2.0)
            })
            .series("topic_statistics:gone{instance=\"r1\", node=\"/n\"}", |time| {
                (time >= from + 30 * MINUTE).then_some(1.0)
            })
            .fires("TopicStatisticsUnhealthy", PAGE, from + 28 * MINUTE)
            .rests("TopicStatisticsUnhealthy", from + 32 * MINUTE),
        Situation::new("a robot that is switched off while a node is an error", 4 * HOUR, interval)
            .exporter(R1, |time| time < from + 10 * MINUTE)
            .series(&format!("topic_statistics_health_level{{{SCAN}}}"), |time| {
                (from..from + 10 * MINUTE).contains(&time).then_some(2.0)
            })
            .fires("TopicStatisticsUnhealthy", PAGE, from + 20 * MINUTE)
            .rests("TopicStatisticsUnhealthy", from + 32 * MINUTE),
        // Nothing is known of the time before: three quarters of a minute are no tenth of an hour.
        Situation::new("a robot that boots, and whose topic begins after 45 s", 2 * HOUR, interval)
            .exporter(R1, |time| time >= boot)
            .series(&judge("windows_judged_total", "n", ", level=\"stale\""), |time| {
                (time >= boot).then(|| f64::from((time - boot).min(45)))
            })
            .series(&judge("windows_judged_total", "n", ", level=\"ok\""), |time| {
                (time >= boot).then(|| f64::from((time - boot).saturating_sub(45)))
            }),
        Situation::new("a robot that boots, and whose topic is bad for 12 minutes", 2 * HOUR, interval)
            .exporter(R1, |time| time >= boot)
            .series(&judge("windows_judged_total", "n", ", level=\"error\""), |time| {
                (time >= boot).then(|| f64::from((time - boot).min(12 * MINUTE)))
            })
            .series(&judge("windows_judged_total", "n", ", level=\"ok\""), |time| {
                (time >= boot).then(|| f64::from((time - boot).saturating_sub(12 * MINUTE)))
            })
            .fires("TopicStatisticsErrorBudgetBurn", PAGE, boot + 12 * MINUTE),
        new("a topic that is silent for longer than its author expects", 4 * HOUR)
            .series(&format!("topic_statistics_health_level{{{SCAN}}}"), since(3.0))
            .fires("TopicStatisticsStale", TICKET, from + 7 * MINUTE),
        new("an error that lasts for a minute", 4 * HOUR).series(
            &format!("topic_statistics_health_level{{{SCAN}}}"),
            |time| Some(if (from..from + MINUTE).contains(&time) { 2.0 } else { 0.0 }),
        ),
        new("a rate below what is expected", 4 * HOUR)
            .series(&format!("topic_statistics_judged_rate_hertz{{{SCAN}}}"), |time| {
                Some(if time >= from { 8.0 } else { 10.0 })
            })
            .constant(&format!("topic_statistics_expected_rate_hertz{{{SCAN}, bound=\"lower\", level=\"warn\"}}"), 9.0)
            .constant(&format!("topic_statistics_expected_rate_hertz{{{SCAN}, bound=\"lower\", level=\"error\"}}"), 5.0)
            .fires("TopicStatisticsRateOff", TICKET, from + 12 * MINUTE),
        new("an age above what is expected", 4 * HOUR)
            .series(&format!("topic_statistics_message_age_mean_seconds{{{SCAN}, kind=\"subscription\"}}"), |time| {
                Some(if time >= from { 0.2 } else { 0.01 })
            })
            .constant(
                &format!(
                    "topic_statistics_expected_message_age_seconds{{{SCAN}, figure=\"mean\", bound=\"upper\", \
                     level=\"warn\"}}"
                ),
                0.1,
            )
            .fires("TopicStatisticsAgeHigh", TICKET, from + 12 * MINUTE),
        new("half of the windows is bad", 6 * HOUR + 30 * MINUTE)
            .series(&format!("topic_statistics_windows_judged_total{{{SCAN}, level=\"ok\"}}"), |time| {
                Some(f64::from(time) - 0.5 * f64::from(time.saturating_sub(from)))
            })
            .series(&format!("topic_statistics_windows_judged_total{{{SCAN}, level=\"error\"}}"), counter(0.5))
            .fires("TopicStatisticsErrorBudgetBurn", PAGE, from + HOUR)
            .fires("TopicStatisticsErrorBudgetBurn", TICKET, from + 3 * HOUR + 20 * MINUTE),
        new("a steady topic that stops", 4 * HOUR)
            .topic("/odom", 1.0, |time| 10.0 * f64::from(time.min(from)))
            .fires("TopicStatisticsTopicStopped", TICKET, from + 22 * MINUTE),
        new("a topic that is renamed", 4 * HOUR)
            .topic_while("/odom", 1.0, |time| time < from, |time| 10.0 * f64::from(time))
            .topic_while("/odometry", 1.0, |time| time >= from, |time| 10.0 * f64::from(time)),
        new("a node that ends", 4 * HOUR)
            .topic_while("/odom", 1.0, |time| time < from, |time| 10.0 * f64::from(time))
            .fires("TopicStatisticsNodesEnded", TICKET, from + 17 * MINUTE),
        new("nodes that come and go", 4 * HOUR)
            .topic_while("/odom", 1.0, |time| time % (10 * MINUTE) < 5 * MINUTE, |time| 10.0 * f64::from(time)),
        new("losses by gaps", 4 * HOUR)
            .topic("/scan", 1.0, |time| 10.0 * f64::from(time))
            .series(&lost("lost"), counter(1.0))
            .fires("TopicStatisticsMessagesLost", TICKET, from + 3 * MINUTE),
        new("losses of one event", 4 * HOUR)
            .topic("/scan", 1.0, |time| 10.0 * f64::from(time))
            .series(&lost("reported_lost"), since(500.0))
            .fires("TopicStatisticsMessagesLost", TICKET, from + 3 * MINUTE),
        new("ten per cent of loss on Wi-Fi, as expected", 4 * HOUR)
            .topic("/scan", 1.0, |time| 9.0 * f64::from(time))
            .series(&lost("lost"), counter(1.0))
            .constant(
                &format!("topic_statistics_expected_window_messages_lost{{{SCAN}, bound=\"upper\", level=\"warn\"}}"),
                3.0,
            ),
        Situation::new("an exporter that dies, of a robot that is always on", 4 * HOUR, interval)
            .exporter(ALWAYS_ON, |time| time < from)
            .fires("TopicStatisticsExporterDown", PAGE, from + 7 * MINUTE),
        new("an exporter that restarts", 4 * HOUR)
            .exporter(&ALWAYS_ON.replace("r1", "r2"), |time| !(from..from + 2 * MINUTE).contains(&time)),
        new("a robot that is switched off", 4 * HOUR)
            .exporter("job=\"topic_statistics\", instance=\"r2\"", |time| time < from),
        new("a pushing exporter that ends, and comes back", 5 * HOUR + 30 * MINUTE)
            .series(&info(pushing), |time| (time < from || time >= 5 * HOUR).then_some(1.0))
            .fires("TopicStatisticsExporterSilent", PAGE, from + 12 * MINUTE)
            // Long after the hour in which it was known.
            .fires("TopicStatisticsExporterSilent", PAGE, 5 * HOUR - MINUTE)
            .rests("TopicStatisticsExporterSilent", 5 * HOUR + 2 * MINUTE),
        new("a pushing exporter that ends, of a robot that is said to be gone", 5 * HOUR + 30 * MINUTE)
            .series(&info(pushing), |time| (time < from).then_some(1.0))
            .series("topic_statistics:gone{instance=\"r2\"}", |time| (time >= 5 * HOUR).then_some(1.0))
            .fires("TopicStatisticsExporterSilent", PAGE, 5 * HOUR - MINUTE)
            .rests("TopicStatisticsExporterSilent", 5 * HOUR + 2 * MINUTE),
        new("a target that is always on, and is removed", 4 * HOUR)
            .series(&format!("up{{{other}}}"), |time| (time < from).then_some(1.0))
            .series(&info(other), |time| (time < from).then_some(1.0)),
        new("an exporter that ends soon after each start", 4 * HOUR)
            .series(&process_start(R1), |time| Some(f64::from(time.saturating_sub(from) / 120)))
            .fires("TopicStatisticsExporterRestarts", TICKET, from + 30 * MINUTE),
        site(site(new("a site that cannot be reached", 4 * HOUR), "north", |time| time < 3 * HOUR), "south", always)
            .fires("TopicStatisticsSiteUnreachable", PAGE, from + 7 * MINUTE),
        (0..5)
            .fold(new("robots of no site, most of which are away", 4 * HOUR), |situation, robot| {
                let labels = format!("job=\"topic_statistics\", instance=\"lone_{robot}\", always_on=\"true\"");
                situation.exporter(&labels, |time| robot == 0 || time < from)
            })
            .fires("TopicStatisticsExporterDown", PAGE, from + 7 * MINUTE),
        new("a collector that denies", 4 * HOUR)
            .series(&exporter("push_attempts_failed_total", "reason=\"denied\""), counter(0.1))
            .series(&exporter("push_requests_accepted_total", ""), |time| Some(0.1 * f64::from(time.min(from))))
            .fires("TopicStatisticsPushDenied", TICKET, from + 24 * MINUTE),
        new("a collector that denies for 5 s", 4 * HOUR)
            .series(&exporter("push_attempts_failed_total", "reason=\"denied\""), since(5.0))
            .series(&exporter("push_requests_accepted_total", ""), |time| Some((0.1 * f64::from(time)).floor())),
        new("a collector that is away for a while", 4 * HOUR)
            .series(&exporter("push_attempts_failed_total", "reason=\"unreachable\""), counter(0.1)),
        new("a buffer that is full", 4 * HOUR)
            .series(&exporter("push_requests_lost_total", "reason=\"overflow\""), counter(0.1))
            .fires("TopicStatisticsPushLost", TICKET, from + 3 * MINUTE),
        new("too many sources", 4 * HOUR)
            .series(&exporter("messages_refused_total", "reason=\"series_limit\""), counter(1.0))
            .series(&exporter("messages_refused_total", "reason=\"duplicate\""), counter(1.0))
            .fires("TopicStatisticsSeriesLimit", TICKET, from + 18 * MINUTE),
        new("clocks that are off", 4 * HOUR)
            .series(&format!("topic_statistics_clock_offset_seconds{{{R1}, host=\"r1\"}}"), since(-0.02))
            .series(&format!("topic_statistics_message_age_negative_windows_total{{{SCAN}}}"), counter(0.1))
            .fires("TopicStatisticsClockOffset", TICKET, from + 17 * MINUTE)
            .fires("TopicStatisticsClocksDiffer", TICKET, from + 18 * MINUTE),
        new("a diagnostic status that is an error", 4 * HOUR)
            .series(&format!("topic_statistics_diagnostic_level{{{R1}, name=\"x\"}}"), since(2.0))
            .fires("TopicStatisticsDiagnosticError", TICKET, from + 12 * MINUTE),
        new("a service that is stuck", 4 * HOUR)
            .series(&waiting("oldest_call_seconds", PLAN), |time| Some(f64::from(time.saturating_sub(from))))
            .fires("TopicStatisticsCallWaits", TICKET, from + 14 * MINUTE),
        new("a service that is stuck, as its author expects", 4 * HOUR)
            .series(&waiting("oldest_call_seconds", PLAN), |time| Some(f64::from(time.saturating_sub(from))))
            .constant(&waiting("health_level", PLAN), 0.0),
        new("calls without a response", 4 * HOUR)
            .series(&waiting("responses_total", PLAN), |time| Some(f64::from(time)))
            .series(&waiting("dropped_calls_total", PLAN), counter(0.1))
            .fires("TopicStatisticsCallsDropped", TICKET, from + 5 * MINUTE),
        new("a callback that panics", 4 * HOUR)
            .series(&waiting("callback_panics_total", PLAN), since(1.0))
            .fires("TopicStatisticsCallbackPanics", TICKET, from + 3 * MINUTE),
        new("a timer that skips one of ten periods", 4 * HOUR)
            .series(&waiting("timer_period_seconds_count", TIMER), |time| Some(9.0 * f64::from(time)))
            .series(&waiting("skipped_periods_total", TIMER), counter(1.0))
            .fires("TopicStatisticsTimerSkips", TICKET, from + 5 * MINUTE),
        new("a timer whose executor is blocked", 4 * HOUR)
            .series(&waiting("timer_period_seconds_count", TIMER), |time| Some(10.0 * f64::from(time.min(from))))
            .series(&waiting("skipped_periods_total", TIMER), counter(10.0))
            .fires("TopicStatisticsTimerSkips", TICKET, from + 5 * MINUTE),
        new("an executor without a pause", 4 * HOUR)
            .series(&waiting("busy_percent_max", EXECUTOR), since(99.5))
            .fires("TopicStatisticsExecutorBusy", TICKET, from + 17 * MINUTE),
    ]
}

/// Situations that take days.
fn long_situations() -> Vec<Situation> {
    let new = |name: &str, length: u32| Situation {
        evaluation: 5 * MINUTE,
        ..Situation::new(name, length, MINUTE).exporter(R1, always)
    };
    vec![
        new("a robot that is away for 4 days", 6 * DAY)
            .exporter("job=\"topic_statistics\", instance=\"r2\"", |time| time < DAY)
            .fires("TopicStatisticsRobotMissing", TICKET, 4 * DAY + 2 * HOUR),
        new("a target that is removed", 6 * DAY)
            .series("up{job=\"topic_statistics\", instance=\"r2\"}", |time| (time < DAY).then_some(1.0))
            .series(
                "topic_statistics_exporter_build_info{job=\"topic_statistics\", instance=\"r2\"}",
                |time| (time < DAY).then_some(1.0),
            )
            .fires("TopicStatisticsRobotMissing", TICKET, 4 * DAY + 2 * HOUR),
        new("two of a hundred windows are bad", 6 * DAY)
            .series(&format!("topic_statistics_windows_judged_total{{{SCAN}, level=\"ok\"}}"), |time| {
                Some((0.98 * f64::from(time)).floor())
            })
            .series(&format!("topic_statistics_windows_judged_total{{{SCAN}, level=\"error\"}}"), |time| {
                Some((0.02 * f64::from(time)).floor())
            })
            .fires("TopicStatisticsErrorBudgetBurn", TICKET, 5 * DAY),
        Situation { evaluation: 5 * MINUTE, ..Situation::new("nothing at all", DAY, MINUTE) }
            .constant("up{job=\"node\", instance=\"r1\"}", 1.0)
            .fires("TopicStatisticsNothingScraped", TICKET, 2 * HOUR),
    ]
}

/// Runs situations of the same evaluation interval by promtool.
fn run(situations: &[Situation]) {
    let Some(promtool) = find("promtool", "the alerts with promtool") else { return };
    let rules =
        ["alerts.yml", "rules.yml"].map(|name| fs::canonicalize(folder("grafana").join(name)).unwrap());
    let names = [
        "rates",
        "objective_5m",
        "objective_1h",
        "objective_28d",
        "exporters",
        "health",
        "topics",
        "waiting",
    ];
    let groups = names.map(|name| format!("topic_statistics_{name}"));
    let test = json!({
        "rule_files": rules,
        "evaluation_interval": format!("{}s", situations[0].evaluation),
        // Without this, the order in promtool changes from run to run, and alerts see a recorded value one evaluation
        // later.
        "group_eval_order": groups,
        "tests": situations.iter().map(Situation::test).collect::<Vec<_>>(),
    });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.yml");
    // JSON is YAML.
    fs::write(&path, test.to_string()).unwrap();
    let mut promtool = Command::new(promtool);
    // Go's garbage collector would take a fifth of the time.
    let output = promtool.args(["test", "rules"]).arg(path).env("GOGC", "800").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn each_alert_fires_in_time_and_no_other_one() {
    for interval in [5, 60] {
        run(&situations(interval));
    }
}

#[test]
fn alerts_that_take_days() {
    run(&long_situations());
}

#[test]
fn a_month_without_a_false_alert() {
    run(&[a_month()]);
}

#[test]
fn each_alert_has_a_situation() {
    let long = long_situations();
    let situations = situations(60);
    let fired: BTreeSet<_> = situations
        .iter()
        .chain(&long)
        .flat_map(|situation| &situation.fires)
        .map(|(name, severity, _)| (*name, *severity))
        .collect();
    let all = alerts();
    let all: BTreeSet<_> = all.iter().map(|(name, severity)| (&**name, &**severity)).collect();
    assert_eq!(fired, all);
}

#[test]
fn promtool_reads_all_rules() {
    let Some(promtool) = find("promtool", "the rules with promtool") else { return };
    let rules = ["alerts.yml", "rules.yml"].map(|name| folder("grafana").join(name));
    let output = Command::new(promtool)
        .args(["check", "rules", "--lint=all", "--lint-fatal"])
        .args(rules)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn the_notation_is_that_of_promtool() {
    let samples = [Some(0.0), Some(15.0), Some(30.0), None, None, Some(1.0), Some(1.0), Some(7.5)];
    assert_eq!(notation(&samples), "0+15x2 _x2 1+0x1 7.5+0x0");
}
