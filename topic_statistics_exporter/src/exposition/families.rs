// SPDX-License-Identifier: Apache-2.0

//! Goes through the state and writes all metric families with their time series.

use std::{
    cell::OnceCell,
    sync::LazyLock,
    time::{Instant, SystemTime},
};

use rclrs_topic_statistics::{Metric, SourceKind};
use topic_statistics_core::condition::Figure;

use super::{
    health::write_health,
    metric_families::{MetricFamilies, Shape, OF_METRICS},
    writer::{counter, family, Family, Kind, SummaryValue, Writer},
};
use crate::{
    model::{MetricName, SourceName},
    state::{FirstZero, MetricState, ProcessFigures, Source, State, WindowState},
};

/// Writes all families of the state with `writer`. `unix_time` is the Unix time of `now`, in seconds.
pub fn write_state<W: Writer>(state: &State, now: Instant, unix_time: f64, mut writer: W) -> W::Output {
    let sources: Vec<_> =
        state.sources().map(|(name, source)| (SourceLabels::<W>::new(name, source), source)).collect();
    let mut of_metrics: Vec<Vec<(W::Labels, &MetricState)>> = vec![vec![]; OF_METRICS.len()];
    for (labels, source) in &sources {
        for (name, metric) in &source.metrics {
            let index = OF_METRICS.iter().position(|families| families.metric == name.known());
            let Some(of_metric) = of_metrics.get_mut(index.unwrap_or(OF_METRICS.len() - 1)) else { continue };
            let labels = match name {
                MetricName::Known(metric) => labels.of_kind(kind_of(*metric, source)).clone(),
                MetricName::Other { name, unit } => labels.with([("metric", name), ("unit", unit)]),
            };
            of_metric.push((labels, metric));
        }
    }
    for (families, metrics) in OF_METRICS.iter().zip(&of_metrics) {
        write_metric(&mut writer, families, metrics, state.limits.classic_buckets.bounds(), now);
    }
    write_sources(&mut writer, &sources, now, unix_time);
    write_reported_losses(&mut writer, state);
    write_diagnostics(&mut writer, state);
    write_health(&mut writer, state, |metric| {
        let families = OF_METRICS.iter().find(|families| families.metric == Some(metric));
        families.map_or(("other", ""), |families| (families.base_name, families.distribution.unit))
    });
    write_exporter(&mut writer, state);
    if let Some(process) = &state.process {
        write_process(&mut writer, process);
    }
    writer.finish()
}

fn first_zero<W: Writer>(count: FirstZero) -> f64 {
    (if W::BEGINS_AT_ZERO { count.scraped() } else { count.count() }) as f64
}

fn write_metric<W: Writer>(
    writer: &mut W,
    families: &MetricFamilies,
    metrics: &[(W::Labels, &MetricState)],
    bounds: &[f64],
    now: Instant,
) {
    if metrics.is_empty() {
        return;
    }
    let windows =
        || metrics.iter().filter_map(|(labels, metric)| Some((labels, *metric, metric.window.as_ref()?)));
    let gauges = [
        (&families.mean, Figure::Average),
        (&families.min, Figure::Minimum),
        (&families.max, Figure::Maximum),
        (&families.std_dev, Figure::StandardDeviation),
    ];
    let gauges = match families.shape {
        Shape::Samples => &gauges[..],
        Shape::OneValue | Shape::Frequency => &gauges[..1],
        Shape::Count => &[],
    };
    for (family, figure) in gauges {
        writer.family(family);
        for (labels, _, window) in windows().filter(|(_, _, window)| window.life.is_current(now)) {
            let value = figure.read(&window.figures);
            if !value.is_nan() {
                writer.gauge(labels, value);
            }
        }
    }
    if families.shape == Shape::OneValue {
        return;
    }
    writer.family(&families.summary);
    for (labels, metric, window) in windows() {
        let (total, created) = (window.total, window.life.created);
        match families.shape {
            Shape::Frequency => writer.counter(labels, total.count as f64, created),
            Shape::Count if total.count > 0 => writer.counter(labels, total.sum, created),
            // Nothing is written: the metric had no samples, or each window had a negative sample and was therefore not
            // added to the total.
            _ if total.count == 0 => {}
            _ => {
                let last = metric.distribution.as_ref().filter(|own| own.life.is_current(now));
                let quantiles = last.map_or_else(Default::default, |own| own.quantiles);
                let summary = SummaryValue { count: total.count, sum: total.sum, created, quantiles };
                writer.summary(labels, summary);
            }
        }
    }
    if matches!(families.shape, Shape::Frequency | Shape::Count) {
        return;
    }
    writer.family(&families.negative_windows);
    let has_negative = |window: &WindowState| window.total.negative_windows != FirstZero::default();
    for (labels, _, window) in windows().filter(|(_, _, window)| has_negative(window)) {
        writer.counter(labels, first_zero::<W>(window.total.negative_windows), window.life.created);
    }
    writer.family(&families.distribution);
    // The bounds of classic buckets are in seconds, so metrics in other units have no classic buckets.
    let bounds = if families.distribution.unit == "seconds" { bounds } else { &[] };
    for (labels, metric) in metrics {
        if let Some(distribution) = metric.distribution.as_ref().filter(|own| own.total.count > 0) {
            writer.histogram(labels, &distribution.total, bounds, distribution.life.created);
        }
    }
}

fn write_sources<W: Writer>(
    writer: &mut W,
    sources: &[(SourceLabels<'_, W>, &Source)],
    now: Instant,
    unix_time: f64,
) {
    type Get<'a> = &'a dyn Fn(&Source) -> Option<f64>;
    let (subscription, publisher) = (Some(SourceKind::Subscription), Some(SourceKind::Publisher));
    let families: [(Family, Option<SourceKind>, Get<'_>); 7] = [
        (
            counter(
                "messages_received",
                "Messages that a subscription has received, at least: the largest sample count of each window. High: \
                 the topic is busy",
            ),
            subscription,
            &|source| source.received().map(|count| count as f64),
        ),
        (
            counter(
                "messages_published",
                "Messages that a publisher has published, at least: the largest sample count of each window. High: \
                 the topic is busy",
            ),
            publisher,
            &|source| source.published.map(|count| count as f64),
        ),
        (
            counter(
                "messages_lost",
                "Messages that a subscription has lost, by all gaps in sequence numbers; one that came late is among \
                 them. High: messages are lost on the network or in a queue",
            ),
            subscription,
            &|source| source.lost.map(first_zero::<W>),
        ),
        (
            family(
                "receive_rate",
                Kind::Gauge,
                "hertz",
                "Messages received per second in the last window. High: the topic is busy",
            ),
            subscription,
            &|source| source.rate(Metric::MessagePeriod, &Source::RECEIVED, now),
        ),
        (
            family(
                "publish_rate",
                Kind::Gauge,
                "hertz",
                "Messages published per second in the last window. High: the topic is busy",
            ),
            publisher,
            &|source| source.rate(Metric::PublishPeriod, &Source::PUBLISHED, now),
        ),
        (
            counter(
                "windows",
                "Windows of statistics that a source has published. High: its windows are short",
            ),
            None,
            &|source| Some(source.total_windows as f64).filter(|windows| *windows > 0.0),
        ),
        (
            family(
                "last_window_timestamp",
                Kind::Gauge,
                "seconds",
                "When the last window of a source was received, in seconds since the epoch. Low: the node has ended \
                 or hangs",
            ),
            None,
            &|source| source.last_window(now, unix_time),
        ),
    ];
    for (family, kind, get) in families {
        writer.family(&family);
        for (labels, source) in sources {
            if let Some(value) = get(source) {
                writer.single(family.kind, labels.of_kind(kind), value, source.created);
            }
        }
    }
}

fn write_reported_losses<W: Writer>(writer: &mut W, state: &State) {
    let help = "Messages that the subscriptions of a node to a topic have lost together, as the node has reported in \
                events. High: messages are lost on the network or in a queue";
    writer.family(&counter("messages_reported_lost", help));
    for (name, losses) in &state.reported_losses {
        let topic = name.name.as_deref().unwrap_or_default();
        writer.counter(
            &W::labels(&[("node", &name.node), ("topic", topic)]),
            first_zero::<W>(losses.lost),
            losses.created,
        );
    }
}

fn write_diagnostics<W: Writer>(writer: &mut W, state: &State) {
    let help = "Level of a diagnostic status: 0 OK, 1 warning, 2 error, 3 stale. High: something is wrong";
    writer.family(&family("diagnostic_level", Kind::Gauge, "", help));
    for (name, diagnostic) in state.diagnostics() {
        let labels = W::labels(&[("name", &name.name), ("hardware_id", &name.hardware_id)]);
        writer.gauge(&labels, f64::from(diagnostic.level as u8));
    }
}

/// Writes figures of the exporter itself: the counts of received messages and of requests to a collector, and how many
/// time series are used.
fn write_exporter<W: Writer>(writer: &mut W, state: &State) {
    let gauge = |name, unit, help| family(name, Kind::Gauge, unit, help);
    let mut write = |family: Family, label, values: &[(&str, f64)]| {
        writer.family(&family);
        for (name, value) in values {
            writer.single(family.kind, &W::labels(&[(label, name)]), *value, state.created);
        }
    };
    write(
        gauge("exporter_build_info", "", "The version of the exporter; always 1"),
        "version",
        &[(env!("CARGO_PKG_VERSION"), 1.0)],
    );
    let help = "Sources of statistics that the exporter knows. High: many nodes, or names that change";
    write(gauge("exporter_sources", "", help), "", &[("", state.sources().len() as f64)]);
    let help =
        "Time series that are reserved for sources and diagnostics. Near the limit: some will be left out";
    write(gauge("exporter_series", "", help), "", &[("", state.series() as f64)]);
    let help = "Time series that there can be at most";
    write(gauge("exporter_series_limit", "", help), "", &[("", state.limits.max_series as f64)]);
    let counts = state.counts();
    write(
        counter(
            "exporter_messages_accepted",
            "What was accepted, by its kind. High: many nodes, or short windows",
        ),
        "kind",
        &[
            ("window", counts.windows as f64),
            ("distribution", counts.distributions as f64),
            ("losses", counts.losses as f64),
            ("diagnostic", counts.diagnostics as f64),
        ],
    );
    write(
        counter(
            "exporter_messages_refused",
            "What was not accepted, by the reason. High: nodes publish what is wrong or the same twice, a limit of \
             time series is too low, or nodes are excluded",
        ),
        "reason",
        &[
            ("duplicate", counts.duplicate as f64),
            ("excluded", counts.excluded as f64),
            ("invalid", counts.invalid as f64),
            ("node_limit", counts.beyond_max_of_node as f64),
            ("series_limit", counts.beyond_max_series as f64),
            ("too_wide", counts.too_wide as f64),
        ],
    );
    let Some(push) = &state.push else { return };
    let help = "Requests that the OpenTelemetry collector has accepted. Constant: it cannot be reached";
    write(counter("exporter_push_requests_accepted", help), "", &[("", push.accepted as f64)]);
    write(
        counter(
            "exporter_push_requests_lost",
            "Requests that no collector has, by the reason. High: the collector was away for too long, or does not \
             take them",
        ),
        "reason",
        &[
            ("expired", push.dropped.expired as f64),
            ("overflow", push.dropped.overflow as f64),
            ("refused", push.refused as f64),
        ],
    );
    let help = "Data points of accepted requests that the collector has rejected. High: it does not take what they are";
    write(counter("exporter_push_data_points_rejected", help), "", &[("", push.rejected_data_points as f64)]);
    write(
        counter(
            "exporter_push_attempts_failed",
            "Attempts after which a request waits and is sent again, by the reason. High: the collector is away or \
             busy, or it does not know the exporter",
        ),
        "reason",
        &[
            ("busy", push.failed_attempts.busy as f64),
            ("denied", push.failed_attempts.denied as f64),
            ("unreachable", push.failed_attempts.unreachable as f64),
        ],
    );
    let help = "Requests that wait for the collector. High: it is away or busy, and requests will be lost";
    write(gauge("exporter_push_requests_waiting", "", help), "", &[("", push.waiting as f64)]);
    let help = "Bytes of the requests that wait, compressed. Near the limit: the oldest will be lost";
    write(gauge("exporter_push_waiting", "bytes", help), "", &[("", push.waiting_bytes as f64)]);
}

/// Writes the resources that the exporter's process uses, with the names that Prometheus's client libraries use.
fn write_process<W: Writer>(writer: &mut W, process: &ProcessFigures) {
    let no_labels = W::labels(&[]);
    let mut write = |name: &str, kind, unit, help: &str, value| {
        writer.family(&Family { name: name.to_owned(), help: help.to_owned(), kind, unit });
        writer.single(kind, &no_labels, value, process.started);
    };
    let cpu = "Processor time of the exporter. High: many nodes, or it is scraped often";
    write("process_cpu_seconds", Kind::Counter, "seconds", cpu, process.cpu);
    let open = "Open file descriptors of the exporter. Near the limit: connections will be refused";
    write("process_open_fds", Kind::Gauge, "", open, process.open_fds as f64);
    if let Some(max) = process.max_fds {
        let help = "The largest number of open file descriptors of the exporter";
        write("process_max_fds", Kind::Gauge, "", help, max as f64);
    }
    let memory = "Virtual memory of the exporter. High: it is normal, most is not used";
    write("process_virtual_memory_bytes", Kind::Gauge, "bytes", memory, process.virtual_memory as f64);
    let memory = "Memory of the exporter. High: many sources, or requests that wait in memory";
    write("process_resident_memory_bytes", Kind::Gauge, "bytes", memory, process.resident_memory as f64);
    let started = process.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let help =
        "When the exporter was started, in seconds since the epoch. It changes: it ends again and again";
    write("process_start_time_seconds", Kind::Gauge, "seconds", help, started.as_secs_f64());
}

/// The labels of a source. Most sources have the labels `node` and `topic`. The label `topic` also contains the name of
/// a service. A stopwatch, a counter or a timer has the labels `node` and `name`. The clock of a host has the label
/// `host`. The labels are encoded once for all time series with the same label `kind`.
struct SourceLabels<'a, W: Writer> {
    /// The labels (name and value) except `kind`. An empty value means that the source does not have this label.
    values: [(&'static str, &'a str); 6],
    /// The encoded labels for each kind of source. The last element has no label `kind`.
    of_kinds: [OnceCell<W::Labels>; SourceKind::ALL.len() + 1],
}

impl<'a, W: Writer> SourceLabels<'a, W> {
    fn new(name: &'a SourceName, source: &Source) -> Self {
        let node = &*name.node;
        let is_host =
            name.name.is_none() && source.metrics.contains_key(&MetricName::Known(Metric::ClockOffset));
        let (node, host) = if is_host { ("", node) } else { (node, "") };
        // A name that begins with a slash is the name of a topic or a service.
        let (topic, name) = match name.name.as_deref() {
            Some(topic) if topic.starts_with('/') => (topic, ""),
            name => ("", name.unwrap_or_default()),
        };
        let values = [("node", node), ("topic", topic), ("name", name), ("host", host), ("", ""), ("", "")];
        Self { values, of_kinds: Default::default() }
    }

    /// Returns the labels of a time series, with the label `kind` unless `kind` is `None`.
    fn of_kind(&self, kind: Option<SourceKind>) -> &W::Labels {
        let index = kind.and_then(|kind| SourceKind::ALL.iter().position(|known| *known == kind));
        let label = index.map_or("", |index| &KINDS[index]);
        let labels = &self.of_kinds[index.unwrap_or(SourceKind::ALL.len())];
        labels.get_or_init(|| self.with([("kind", label), ("", "")]))
    }

    fn with(&self, others: [(&'static str, &'a str); 2]) -> W::Labels {
        let mut values = self.values;
        (values[4], values[5]) = (others[0], others[1]);
        W::labels(&values)
    }
}

/// The value of the label `kind` for each kind of source.
static KINDS: LazyLock<[String; SourceKind::ALL.len()]> =
    LazyLock::new(|| SourceKind::ALL.map(|kind| kind.to_string().replace(' ', "_")));

/// Returns the kind of source for the label `kind` of a metric's time series. If only one kind of source can have this
/// metric, the metric alone decides the kind. So the label `kind` of this metric never changes. If the label changed,
/// the counters would end.
///
/// Services, clients and timers share some metrics with subscriptions, and action servers share some metrics with
/// action clients. For a shared metric, the other metrics of the source decide the kind. A source publishes all its
/// metrics within milliseconds, so its kind is soon known.
fn kind_of(metric: Metric, source: &Source) -> Option<SourceKind> {
    // Both subscriptions and publishers measure message sizes, so this metric does not show the kind of its source. The
    // clock offset belongs to a host, which has no kind.
    if matches!(metric, Metric::MessageSize | Metric::ClockOffset) {
        return None;
    }
    let mut kinds = SourceKind::ALL.into_iter().filter(|kind| kind.measures(metric));
    let (first, others) = (kinds.next()?, kinds.count());
    let own = source.kind().filter(|kind| others > 0 && kind.measures(metric));
    own.or((others == 0 || first == SourceKind::Subscription).then_some(first))
}
