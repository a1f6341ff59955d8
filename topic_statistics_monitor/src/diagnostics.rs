// SPDX-License-Identifier: Apache-2.0

//! `--diagnostics`: the health of the rows on `/diagnostics`.

use std::time::{Duration, Instant};

use rclrs::{Node, Publisher, RclrsError};
use rclrs_topic_statistics::{health::Level, Summary};
use ros_env::diagnostic_msgs::msg::{DiagnosticArray, DiagnosticStatus, KeyValue};
use topic_statistics_core::{
    health::{Judge, LastWindow, SourceStatus},
    Escaped,
};
use topic_statistics_observe::row::{MetricFigures, Row};

use crate::arguments::Arguments;

#[derive(Clone)]
struct Identity {
    node: String,
    fully_qualified: String,
    hardware_id: String,
    /// Whether the name of a status is the topic's name only, without the node's name.
    by_topic: bool,
}

/// Publishes the health of all rows on `/diagnostics` each second, and the health of a row at once when the row becomes
/// ERROR.
pub struct Diagnostics {
    node: Node,
    identity: Identity,
    publisher: Publisher<DiagnosticArray>,
    published: Option<Instant>,
}

impl Diagnostics {
    pub const TOPIC: &str = "/diagnostics";
    const PERIOD: Duration = Duration::from_secs(1);

    pub fn new(node: &Node, arguments: &Arguments) -> Result<Self, RclrsError> {
        let publisher = node.create_publisher(Self::TOPIC)?;
        let identity = Identity {
            node: node.name(),
            fully_qualified: node.fully_qualified_name(),
            hardware_id: arguments.hardware_id.clone(),
            by_topic: arguments.diagnostics_by_topic,
        };
        Ok(Self { node: node.clone(), identity, publisher, published: None })
    }

    /// Publishes the statuses that are due now. `new_errors` has the names of the rows that have just become ERROR.
    pub fn publish<'a>(
        &mut self,
        judged: impl Iterator<Item = (&'a Row, &'a Judge)>,
        new_errors: &[String],
        now: Instant,
    ) -> Result<(), RclrsError> {
        let is_due = self.published.is_none_or(|last| now.saturating_duration_since(last) >= Self::PERIOD);
        if is_due {
            self.published = Some(now);
        } else if new_errors.is_empty() {
            return Ok(());
        }
        let statuses = judged
            .filter(|(row, _)| is_due || new_errors.contains(&row.name))
            .map(|(row, judge)| status(&self.identity, row, judge));
        let mut message = DiagnosticArray { status: statuses.collect(), ..Default::default() };
        if message.status.is_empty() {
            return Ok(());
        }
        // `to_ros_msg` never fails for a time of the node's clock.
        message.header.stamp = self.node.get_clock().now().to_ros_msg().unwrap_or_default();
        self.publisher.publish(message)
    }
}

/// Returns the diagnostic status of a row, with the same keys as the statuses of nodes that use this library.
fn status(identity: &Identity, row: &Row, judge: &Judge) -> DiagnosticStatus {
    let metrics = row
        .window
        .iter()
        .flat_map(|window| &window.metrics)
        .map(|MetricFigures { name, figures, .. }| (Escaped(name).to_string(), *figures));
    let metrics: Vec<(String, Summary)> = metrics.collect();
    let window = row.window.as_ref().map(|window| {
        let metrics = metrics.iter().map(|(name, summary)| (&**name, *summary)).collect();
        let mut last = LastWindow::new(window.length, metrics);
        (last.messages, last.rate) = (window.received, window.rate);
        (last.received, last.lost) = (window.received.map(|_| row.received), row.lost);
        last
    });
    // The last window of a silent row is not published, because the window does not show the silence that followed.
    let window = window.filter(|_| judge.health().level != Level::Stale);
    // A row of --from-statistics is named like its source. For the row of a topic, the source is named like the one
    // that --publish publishes.
    let is_source = row.name.contains(':');
    let source =
        if is_source { row.name.clone() } else { format!("{}:{}", identity.fully_qualified, row.name) };
    let status = SourceStatus::new(&identity.node, &row.name, &source, judge, window.as_ref());
    DiagnosticStatus {
        level: status.level as u8,
        name: if identity.by_topic { Escaped(&row.name).to_string() } else { status.name },
        message: status.message,
        hardware_id: identity.hardware_id.clone(),
        values: status.values.into_iter().map(|(key, value)| KeyValue { key, value }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rclrs_topic_statistics::{health::Expectations, Window};
    use topic_statistics_core::health::{JudgedWindow, Value};
    use topic_statistics_observe::testing::{row, window};

    #[test]
    fn a_status_has_the_names_figures_and_conditions_of_its_row() {
        let expectations = Expectations::new().error_unless("rate>=50".parse().unwrap());
        let mut judge = Judge::new(expectations);
        for second in 0..5 {
            let window = Window::from_nanoseconds(second * 1_000_000_000, (second + 1) * 1_000_000_000);
            let window = JudgedWindow::new(window, Duration::from_secs(1), Some(40));
            judge.accept(&window, |_| Value::Unknown);
        }
        let mut imu = row("/imu\u{1b}", 40.0, 3);
        let mut last = window(101, 40.0, 3);
        last.metrics[0].name = "odd\n".to_owned();
        imu.add_window(last);
        let [node, fully_qualified, hardware_id] =
            ["topic_monitor", "/r1/topic_monitor", "robot7"].map(str::to_owned);
        let identity = Identity { node, fully_qualified, hardware_id, by_topic: false };
        let by_topic = super::status(&Identity { by_topic: true, ..identity.clone() }, &imu, &judge);
        assert_eq!(by_topic.name, "/imu\\u{1b}");
        let status = status(&identity, &imu, &judge);
        assert_eq!((status.level, &*status.name), (2, "topic_monitor: /imu\\u{1b}"));
        assert_eq!(status.hardware_id, "robot7");
        assert!(status.message.starts_with("rate 40 Hz, expected at least 50, since "), "{}", status.message);
        let value = |key: &str| status.values.iter().find(|pair| pair.key == key).map(|pair| &*pair.value);
        assert_eq!(value("measurement_source_name"), Some("/r1/topic_monitor:/imu\\u{1b}"));
        assert_eq!(value("Events in window"), Some("40"));
        assert_eq!(value("Minimum acceptable frequency (Hz)"), Some("50.000000"));
        assert_eq!(value("total_dropped_frames"), Some("3"));
        assert_eq!(value("error_unless"), Some("rate>=50"));
        assert_eq!(value("odd\\u{a}.average"), Some("2.500000"));
        assert!(status.values.iter().all(|pair| !pair.value.contains("NaN")), "{:?}", status.values);
    }
}
