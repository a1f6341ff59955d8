// SPDX-License-Identifier: Apache-2.0

//! Passes messages to the state of the exporter, and encodes the state in the formats that the exporter serves.

use std::{
    collections::BTreeMap,
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use ros_env::{
    builtin_interfaces::msg::Time,
    diagnostic_msgs::msg::{DiagnosticStatus, KeyValue},
    statistics_msgs::msg::{MetricsMessage, StatisticDataPoint},
    topic_statistics_interfaces::msg::MessagesLostEventTopicStat,
};
use topic_statistics_exporter::testing::{
    Diagnostic, Format, Limits, Losses, MetricDistribution, MetricState, MetricWindow, Now, Received, Sender,
    Source, State,
};

use super::from_statistics::{distribution, message};
use crate::{check::has_no_control, input::Input};

/// The number of time series must be bounded, and no two may be the same. A scraper must be able to read each line. A
/// counter must not fall while it exists. If series of one sender are left out, no other sender may hold more series
/// than both senders need together.
pub fn exposition(bytes: &[u8]) {
    let mut input = Input(bytes);
    // Every input starts at the same time. The clock is read only once, so that an input always gives the same result.
    static START: OnceLock<Now> = OnceLock::new();
    let mut now = *START.get_or_init(Now::read);
    let limits = Limits {
        max_series: 8 + usize::from(input.u8()),
        keep_windows: 1 + u32::from(input.u8()),
        keep_diagnostics: Duration::from_secs(10),
        ..Limits::default()
    };
    let mut state = State::new(limits.clone(), now);
    let mut counters = BTreeMap::new();
    for number in 0..200 {
        if input.is_empty() {
            break;
        }
        let elapsed = if input.below(8) == 0 { input.u16().into() } else { input.u8().into() };
        now = Now { monotonic: now.monotonic + Duration::from_millis(elapsed), ..now };
        if input.below(8) == 0 {
            now.system = SystemTime::UNIX_EPOCH + Duration::from_secs(input.u32().into());
        }
        let sender = Sender::new(&[input.u8() % 4; 12]);
        let received = match input.below(9) {
            0 => Diagnostic::new(&DiagnosticStatus {
                level: input.u8(),
                name: input.text(),
                hardware_id: input.text(),
                ..Default::default()
            })
            .map(Received::from),
            1 => {
                let lost =
                    MessagesLostEventTopicStat { topic_name: input.text(), messages_lost: input.u64() };
                Losses::new(&input.text(), &lost).map(Received::from)
            }
            2..=4 => MetricDistribution::new(&distribution(&mut input)).map(Received::from),
            5 => MetricWindow::new(&message(&mut input)).map(Received::from),
            6 => Diagnostic::new(&judged(&mut input)).map(Received::from),
            _ => MetricWindow::new(&usual(&mut input, number)).map(Received::from),
        };
        if let Err(refused) = &received {
            has_no_control(&refused.to_string(), "why a message is refused");
        }
        let room = Source::SERIES + MetricState::SERIES + limits.classic_buckets.series();
        if state.series() + room > limits.max_series {
            counters.clear(); // The state may remove old series. If they come back, they begin at 0.
        }
        let (is_window, left_out) =
            (matches!(received, Ok(Received::Window(_))), state.counts().beyond_max_series);
        state.accept_from(sender, received, now);
        if is_window && state.counts().beyond_max_series > left_out {
            let giving_way = state.shares().giving_way(sender, room);
            assert_eq!(giving_way, None, "{sender:?} got nothing of {:?}", state.shares());
        }
        match input.below(8) {
            0 => {
                state.expire(now.monotonic);
                counters.clear(); // The state may have removed series. If they come back, they begin at 0.
            }
            1 => counters = is_text(&state, now, &counters),
            _ => {}
        }
        assert!(state.series() <= limits.max_series, "{} series", state.series());
    }
    is_text(&state, now, &counters);
    let accept = input.text();
    let buffer = Format::negotiate(&accept).encode(&state, now.monotonic, 1e9, vec![]);
    Format::Protobuf.encode(&state, now.monotonic, 1e9, buffer);
    state.expire(now.monotonic + Duration::from_secs(400_000_000));
    assert_eq!((state.sources().len(), state.diagnostics().len(), state.series()), (0, 0, 0));
}

/// Returns a status of the source `/a:/b`. The status comes from one of two programs, which has compared the source
/// with its expectations.
fn judged(input: &mut Input) -> DiagnosticStatus {
    let value = |key: &str, value: String| KeyValue { key: key.to_owned(), value };
    let counts = [(); 4].map(|()| input.u8().to_string()).join(" ");
    DiagnosticStatus {
        level: input.u8() % 5,
        name: format!("{}: /a:/b", ["a", "topic_monitor"][input.below(2)]),
        values: vec![
            value("measurement_source_name", "/a:/b".to_owned()),
            value("windows_judged", counts),
            value("warn_unless", input.text()),
        ],
        ..Default::default()
    }
}

/// Returns a window of one of a few sources, which the exporter accepts. Some windows are a day long.
fn usual(input: &mut Input, number: i32) -> MetricsMessage {
    let average = f64::from(i8::from_le_bytes([input.u8()]));
    let (below, above) = (f64::from(input.u8()), f64::from(input.u8()));
    let figures =
        [(1, average), (3, average + above), (2, average - below), (5, input.u8().into()), (4, below)];
    MetricsMessage {
        measurement_source_name: ["/a:/b", "/a:/c", "/d:/e", "/f:g"][input.below(4)].to_owned(),
        metrics_source: ["message_age", "message_period"][input.below(2)].to_owned(),
        unit: "ms".to_owned(),
        window_start: Time { sec: if input.below(8) == 0 { number - 86_400 } else { number }, nanosec: 0 },
        window_stop: Time { sec: number + 1, nanosec: 0 },
        statistics: figures.map(|(data_type, data)| StatisticDataPoint { data_type, data }).into(),
    }
}

/// Panics if the exposition in text format has a line that a scraper cannot read. Returns the values of the counters.
fn is_text(state: &State, now: Now, before: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let text = String::from_utf8(Format::Text.encode(state, now.monotonic, 1e9, vec![])).expect("UTF-8");
    let mut all = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with("# ")) {
        has_no_control(line, "a line");
        let (name, value) = line.rsplit_once(' ').expect("a value");
        let value: f64 = value.parse().expect("a number");
        assert!(value.is_finite(), "{line}");
        // Only label values have quotes: after each value, there is a comma or the closing brace.
        let mut is_value = false;
        let mut characters = name.chars().peekable();
        while let Some(c) = characters.next() {
            match c {
                '\\' => assert!(is_value && matches!(characters.next(), Some('\\' | '"' | 'n')), "{line}"),
                '"' => {
                    is_value = !is_value;
                    assert!(is_value || matches!(characters.peek(), Some(',' | '}')), "{line}");
                }
                _ => {}
            }
        }
        assert!(!is_value, "{line}");
        assert!(all.insert(name.to_owned(), value).is_none(), "{line} comes twice");
    }
    let of_sources = all.keys().filter(|name| !name.contains("_exporter_")).count();
    assert!(of_sources <= state.series(), "{of_sources} time series, {} reserved", state.series());
    let is_counter = |name: &str| {
        let family = name.split('{').next().unwrap_or_default();
        ["_total", "_count", "_sum"].iter().any(|end| family.ends_with(end))
    };
    let counters: BTreeMap<_, _> = all.into_iter().filter(|(name, _)| is_counter(name)).collect();
    for (name, value) in before {
        assert!(counters.get(name).is_some_and(|now| now >= value), "{name} was {value}");
    }
    counters
}
