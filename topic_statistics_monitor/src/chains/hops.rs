// SPDX-License-Identifier: Apache-2.0

//! The hops of the last minute, and the paths that consist of these hops.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use rclrs_topic_statistics::{Metric, Summary};
use topic_statistics_observe::row::Window;

/// The statistics that nodes have published about hops, and about the subscriptions and publishers of the hops' topics.
#[derive(Debug, Default)]
pub struct Hops {
    /// The sources by name. If a node has several sources of the same name, the names end with numbers: `NAME (2)`.
    sources: BTreeMap<String, Source>,
}

/// The windows of each metric of [`Hops::METRICS`].
type Source = BTreeMap<Metric, Windows>;

/// A hop: messages from an input topic through a node to an output topic.
struct Hop<'a> {
    id: HopId,
    windows: &'a Windows,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HopId {
    pub node: String,
    pub input: String,
    pub output: String,
}

impl HopId {
    /// Reads the name of a hop, `NODE:INPUT:OUTPUT`, with or without a number such as ` (2)` at its end.
    fn parse(source: &str) -> Option<Self> {
        let (node, topics) = plain(source).split_once(':')?;
        let (input, output) = topics.split_once(':')?;
        Some(Self { node: node.to_owned(), input: input.to_owned(), output: output.to_owned() })
    }
}

/// Returns a source's name without a number such as ` (2)` at its end. ROS names contain no space.
fn plain(source: &str) -> &str {
    match source.rsplit_once(" (") {
        Some((name, number)) if number.ends_with(')') => name,
        _ => source,
    }
}

type Span = (Instant, Instant);

/// The windows of the last minute, the oldest window first. The last window is kept even if it is older than a minute.
#[derive(Debug, Default)]
struct Windows(VecDeque<(Instant, Duration, Summary)>);

impl Windows {
    const KEPT: Duration = Duration::from_secs(60);
    /// The maximum number of windows kept: enough for a minute of windows of 60 ms or more.
    const BOUND: usize = 1000;

    fn add(&mut self, window: &Window, figures: Summary) {
        self.0.push_back((window.ended, window.length, figures));
        while self.0.len() > Self::BOUND {
            self.0.pop_front();
        }
    }

    /// Removes windows that ended more than a minute ago. Returns whether the source still publishes.
    fn forget(&mut self, now: Instant) -> bool {
        let is_old = |ended: &Instant| now.saturating_duration_since(*ended) > Self::KEPT;
        while self.0.len() > 1 && self.0.front().is_some_and(|(ended, ..)| is_old(ended)) {
            self.0.pop_front();
        }
        let limit = |length: Duration| Self::KEPT.max(3 * length);
        let last = self.0.back();
        last.is_some_and(|(ended, length, _)| now.saturating_duration_since(*ended) <= limit(*length))
    }

    fn within(&self, span: Span) -> impl Iterator<Item = &Summary> {
        let is_within = move |ended: &Instant| *ended > span.0 && *ended <= span.1;
        self.0.iter().filter(move |(ended, ..)| is_within(ended)).map(|(.., figures)| figures)
    }

    /// Returns the longer length of the last two windows.
    fn usual_length(&self) -> Duration {
        self.0.iter().rev().take(2).map(|(_, length, _)| *length).max().unwrap_or_default()
    }

    /// Returns the start of the first window that ends in a span. The first window of a source is longer than others,
    /// so it may start before the span.
    fn start(&self, span: Span) -> Option<Instant> {
        let first = self.0.iter().find(|(ended, ..)| *ended > span.0 && *ended <= span.1);
        first.and_then(|(ended, length, _)| ended.checked_sub(*length))
    }

    /// Returns the largest number of samples in one window. Of a window that is longer than the last two, such as the
    /// first window of a source, only the part counts that has their length.
    fn most_samples(&self, span: Span) -> u64 {
        let usual = self.usual_length();
        let windows = self.0.iter().filter(|(ended, ..)| *ended > span.0 && *ended <= span.1);
        let samples =
            windows.filter(|(.., figures)| !figures.average.is_nan()).map(|(_, length, figures)| {
                let part = usual.as_secs_f64() / usual.max(*length).as_secs_f64();
                (figures.sample_count as f64 * part).ceil() as u64
            });
        samples.max().unwrap_or_default()
    }

    fn count(&self, span: Span) -> u64 {
        self.within(span).map(|figures| figures.sample_count).fold(0, u64::saturating_add)
    }
}

#[derive(Clone, Debug)]
pub struct PathHop {
    pub id: HopId,
    /// The mean delay of the hop in milliseconds. NaN without a sample.
    pub mean: f64,
    pub min: f64,
    pub max: f64,
    pub count: u64,
    /// The largest number of samples in one window of the usual length. The counts of two hops can differ by this
    /// number, because their windows end at different times.
    of_one_window: u64,
    /// The number of messages received on the input topic. `None` if unknown.
    pub received: Option<u64>,
    /// The number of messages lost on the input topic. `None` if unknown.
    pub lost: Option<u64>,
    /// The number of publications on the output topic. `None` if unknown.
    pub publications: Option<u64>,
}

impl PathHop {
    /// Returns whether the node also publishes messages on the output topic that are not caused by this hop's input.
    pub fn is_partial(&self) -> bool {
        self.publications.is_some_and(|all| all > self.count.saturating_add(self.of_one_window))
    }
}

#[derive(Clone, Debug)]
pub struct Path(pub Vec<PathHop>);

impl Path {
    /// Returns the mean time from the source timestamp on the first topic to the publication on the last one, in ms.
    pub fn mean(&self) -> f64 {
        self.0.iter().map(|hop| hop.mean).sum()
    }

    /// Returns the index of the hop with the highest mean delay. `None` if no hop has a mean.
    pub fn worst(&self) -> Option<usize> {
        let known = (0..self.0.len()).filter(|index| !self.0[*index].mean.is_nan());
        known.max_by(|one, other| self.0[*one].mean.total_cmp(&self.0[*other].mean))
    }

    /// Returns the number of messages lost on the path. `None` if the losses of a hop are unknown.
    pub fn lost(&self) -> Option<u64> {
        self.0.iter().try_fold(0, |sum: u64, hop| Some(sum.saturating_add(hop.lost?)))
    }

    /// Returns whether all hops probably measured the same messages. If not, the sum of the hops' means is not exact.
    pub fn is_of_same_messages(&self) -> bool {
        let low = self.0.iter().map(|hop| hop.count).min().unwrap_or_default();
        let slack = self.0.iter().map(|hop| hop.of_one_window).max().unwrap_or_default();
        self.0.iter().all(|hop| hop.count - low <= 2 * slack && !hop.is_partial())
    }

    pub fn topics(&self) -> impl Iterator<Item = &str> {
        let first = self.0.first().map(|hop| &*hop.id.input);
        first.into_iter().chain(self.0.iter().map(|hop| &*hop.id.output))
    }
}

impl Hops {
    const METRICS: [Metric; 4] =
        [Metric::InputToOutput, Metric::SourceToCallback, Metric::PublicationSeqGap, Metric::PublishDuration];
    /// The maximum number of hops in a path. The search for paths is limited, because any process can publish any hops.
    const LONGEST: usize = 16;
    /// The maximum number of paths.
    const MOST: usize = 100;
    /// The maximum number of hops that are tried in one search for paths.
    const STEPS: u32 = 100_000;

    pub fn add_window(&mut self, source: &str, window: &Window) {
        for metric in Self::METRICS {
            if let Some(measured) = window.metrics.iter().find(|measured| measured.name == metric.name()) {
                let windows = self.sources.entry(source.to_owned()).or_default();
                windows.entry(metric).or_default().add(window, measured.figures);
            }
        }
    }

    pub fn forget(&mut self, now: Instant) {
        self.sources.retain(|_, windows| {
            windows.retain(|_, windows| windows.forget(now));
            !windows.is_empty()
        });
    }

    pub fn longest_window(&self) -> Duration {
        let windows = self.sources.values().flat_map(BTreeMap::values).flat_map(|windows| &windows.0);
        windows.map(|(_, length, _)| *length).max().unwrap_or_default()
    }

    pub fn has_node(&self, node: &str) -> bool {
        self.sources.keys().any(|source| source.split_once(':').is_some_and(|(of, _)| of == node))
    }

    pub fn iter(&self) -> impl Iterator<Item = HopId> + '_ {
        self.hops().map(|hop| hop.id)
    }

    fn hops(&self) -> impl Iterator<Item = Hop<'_>> {
        let hops = self.sources.iter().map(|(source, windows)| {
            Some(Hop { id: HopId::parse(source)?, windows: windows.get(&Metric::InputToOutput)? })
        });
        hops.flatten()
    }

    /// Returns the paths from one topic to another. No path visits a topic twice.
    pub fn paths(&self, first: &str, last: &str) -> Vec<Path> {
        let (hops, mut found, mut steps): (Vec<_>, _, _) = (self.hops().collect(), vec![], Self::STEPS);
        extend(&hops, &mut vec![], first, last, &mut found, &mut steps);
        found.iter().map(|path| self.path(path)).collect()
    }

    /// Returns the statistics of a path, for the span of time in which all its hops have windows.
    fn path(&self, path: &[&Hop]) -> Path {
        // Windows of two nodes belong together if their ends differ by less than half a window.
        let ends = || path.iter().filter_map(|hop| hop.windows.0.back());
        let half = ends().map(|(_, length, _)| *length).min().unwrap_or_default() / 2;
        let first = path.iter().filter_map(|hop| Some(hop.windows.0.front()?.0)).max();
        let last = ends().map(|(ended, ..)| *ended).min();
        let span = first.and_then(|first| Some((first.checked_sub(half)?, last? + half)));
        Path(path.iter().filter_map(|hop| Some(self.path_hop(hop, span?))).collect())
    }

    fn path_hop(&self, hop: &Hop, span: Span) -> PathHop {
        let known = || {
            hop.windows.within(span).filter(|figures| figures.sample_count > 0 && !figures.average.is_nan())
        };
        let count = known().map(|figures| figures.sample_count).fold(0, u64::saturating_add);
        let sum: f64 = known().map(|figures| figures.average * figures.sample_count as f64).sum();
        let HopId { node, input, output } = &hop.id;
        let sum_of = |metric, topic: &str, get: &dyn Fn(&Windows) -> Option<u64>| {
            let name = format!("{node}:{topic}");
            let found = self.sources.iter().filter(|(source, _)| plain(source) == name);
            found.filter_map(|(_, source)| get(source.get(&metric)?)).reduce(u64::saturating_add)
        };
        // The node's subscriptions and publishers are counted in the time that the hop's windows cover.
        let start = hop.windows.start(span);
        let covered =
            |windows: &Windows| (start.map_or(span.0, |start| start + windows.usual_length() / 2), span.1);
        let lost = |windows: &Windows| {
            // If no sample of the sequence gap exists, the losses are unknown: the middleware may provide no sequence
            // numbers.
            let gaps =
                || windows.within(covered(windows)).filter(|gap| gap.sample_count > 0 && gap.average >= 0.0);
            gaps().next()?;
            let lost = gaps().map(|gap| (gap.average * gap.sample_count as f64).round() as u64);
            Some(lost.fold(0, u64::saturating_add))
        };
        PathHop {
            id: hop.id.clone(),
            mean: sum / count as f64,
            min: known().map(|figures| figures.minimum).fold(f64::NAN, f64::min),
            max: known().map(|figures| figures.maximum).fold(f64::NAN, f64::max),
            count,
            of_one_window: hop.windows.most_samples(span),
            // If no sample exists, the number of received messages is unknown, because the middleware may provide no
            // source timestamps.
            received: sum_of(Metric::SourceToCallback, input, &|windows| {
                Some(windows.count(covered(windows))).filter(|count| *count > 0)
            }),
            lost: sum_of(Metric::PublicationSeqGap, input, &lost),
            publications: sum_of(Metric::PublishDuration, output, &|windows| {
                Some(windows.count(covered(windows)))
            }),
        }
    }
}

/// Adds to `found` each path that begins with `path` and ends at the topic `last`; `path` itself ends at the topic
/// `at`.
fn extend<'a>(
    hops: &'a [Hop<'a>],
    path: &mut Vec<&'a Hop<'a>>,
    at: &str,
    last: &str,
    found: &mut Vec<Vec<&'a Hop<'a>>>,
    steps: &mut u32,
) {
    if path.len() >= Hops::LONGEST {
        return;
    }
    for hop in hops.iter().filter(|hop| hop.id.input == at) {
        let output = &hop.id.output;
        if found.len() >= Hops::MOST || *steps == 0 {
            return;
        }
        *steps -= 1;
        if path.iter().any(|before| before.id.input == *output) || *output == hop.id.input {
            continue;
        }
        path.push(hop);
        match output == last {
            true => found.push(path.clone()),
            false => extend(hops, path, output, last, found, steps),
        }
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use topic_statistics_observe::testing::{self, at, metric};

    use super::*;

    /// Returns a window of one second that ends at `stop`, with metrics that have these means and counts.
    fn window(stop: i64, metrics: &[(&str, f64, u64)]) -> Window {
        let metrics = metrics.iter().map(|(name, mean, count)| metric(name, *mean, *count)).collect();
        Window { metrics, ..testing::window(stop, f64::NAN, 0) }
    }

    const COST: &str = "input_to_output_ms";

    fn add(hops: &mut Hops, source: &str, stop: i64, mean: f64, count: u64) {
        hops.add_window(source, &window(stop, &[(COST, mean, count)]));
    }

    #[test]
    fn a_path_has_the_sum_the_worst_hop_and_the_losses() {
        let mut hops = Hops::default();
        for stop in 1..4 {
            add(&mut hops, "/a:/scan:/points", stop, 10.0 + stop as f64, 10);
            add(&mut hops, "/b:/points:/cmd_vel", stop, 30.0, 10);
            hops.add_window("/a:/scan", &window(stop, &[("publication_seq_gap", 0.0, 10)]));
            let input = [("publication_seq_gap", 0.5, 4), ("source_to_callback_ms", 5.0, 12)];
            hops.add_window("/b:/points", &window(stop, &input));
            hops.add_window("/b:/cmd_vel", &window(stop, &[("publish_duration_ms", 0.1, 10)]));
            add(&mut hops, "/c:/other:/cmd_vel", stop, 1.0, 10);
        }
        let paths = hops.paths("/scan", "/cmd_vel");
        let [path] = &paths[..] else { panic!("{paths:?}") };
        assert_eq!((path.mean(), path.worst(), path.lost()), (12.0 + 30.0, Some(1), Some(6)));
        assert!(path.topics().eq(["/scan", "/points", "/cmd_vel"]) && path.is_of_same_messages());
        assert_eq!(path.0.iter().map(|hop| hop.publications).collect::<Vec<_>>(), [None, Some(30)]);
        assert_eq!(path.0.iter().map(|hop| hop.received).collect::<Vec<_>>(), [None, Some(36)]);
        // After a minute, only the last window of each source is kept. After another second, no window is kept.
        hops.forget(at(63));
        assert_eq!(hops.paths("/scan", "/cmd_vel")[0].0[0].count, 10);
        hops.forget(at(64));
        assert!(hops.paths("/scan", "/cmd_vel").is_empty() && !hops.has_node("/a"));
    }

    #[test]
    fn a_hop_without_samples_makes_the_whole_unknown() {
        let mut hops = Hops::default();
        add(&mut hops, "/a:/scan:/points", 1, 10.0, 10);
        add(&mut hops, "/b:/points:/cmd_vel", 1, f64::NAN, 0);
        let path = &hops.paths("/scan", "/cmd_vel")[0];
        assert!(path.mean().is_nan() && path.lost().is_none());
        assert_eq!(path.worst(), Some(0));
    }

    #[test]
    fn hops_with_other_messages_are_named() {
        let same = |counts: [u64; 2], publications: u64| {
            let mut hops = Hops::default();
            for stop in 1..11 {
                add(&mut hops, "/a:/scan:/points", stop, 10.0, counts[0]);
                add(&mut hops, "/b:/points:/cmd_vel", stop, 10.0, counts[1]);
                hops.add_window("/b:/cmd_vel", &window(stop, &[("publish_duration_ms", 0.1, publications)]));
            }
            hops.paths("/scan", "/cmd_vel")[0].is_of_same_messages()
        };
        assert!(same([10, 10], 10) && same([10, 9], 9));
        assert!(!same([10, 5], 5), "every second message has caused no publication");
        assert!(!same([10, 10], 20), "half of the publications have another cause");
    }

    #[test]
    fn a_long_first_window_does_not_hide_other_messages() {
        let same = |counts: [[u64; 2]; 4]| {
            let mut hops = Hops::default();
            for (stop, counts) in (1..).zip(counts) {
                let length = Duration::from_secs(if stop == 1 { 2 } else { 1 });
                for (source, count) in ["/a:/scan:/points", "/b:/points:/cmd_vel"].into_iter().zip(counts) {
                    let window = window(stop, &[(COST, 10.0, count)]);
                    hops.add_window(source, &Window { length, ..window });
                }
            }
            hops.paths("/scan", "/cmd_vel")[0].is_of_same_messages()
        };
        assert!(
            !same([[40, 13], [20, 7], [20, 6], [20, 7]]),
            "the second node publishes for every third message"
        );
        assert!(same([[40, 20], [20, 20], [20, 20], [20, 20]]), "the second hop appeared a second later");
    }

    #[test]
    fn a_hop_counts_the_messages_of_the_same_time_as_its_subscription_and_publisher() {
        let mut hops = Hops::default();
        for stop in 1..6 {
            let input = [("source_to_callback_ms", 5.0, 10), ("publication_seq_gap", 0.5, 10)];
            hops.add_window("/a:/scan", &window(stop, &input));
            hops.add_window("/a:/cmd_vel", &window(stop, &[("publish_duration_ms", 0.1, 10)]));
            // The first window of the hop has the messages of two windows of the subscription.
            let (length, count) = if stop == 3 { (2, 20) } else { (1, 10) };
            let window = window(stop, &[(COST, 10.0, count)]);
            if stop >= 3 {
                let length = Duration::from_secs(length);
                hops.add_window("/a:/scan:/cmd_vel", &Window { length, ..window });
                let hop = &hops.paths("/scan", "/cmd_vel")[0].0[0];
                let all = 10 * (stop as u64 - 1);
                let counts = (hop.count, hop.received, hop.publications, hop.lost);
                assert_eq!(counts, (all, Some(all), Some(all), Some(all / 2)));
            }
        }
    }

    #[test]
    fn all_paths_are_found_and_no_detour() {
        let mut hops = Hops::default();
        for source in
            "/a:/scan:/x /b:/scan:/x /c:/x:/cmd /d:/scan:/cmd /e:/x:/scan /f:/x:/x /g:/cmd:/x".split(' ')
        {
            add(&mut hops, source, 1, 1.0, 1);
        }
        add(&mut hops, "/c:/x:/cmd (2)", 1, 1.0, 1);
        let mut paths: Vec<Vec<String>> = (hops.paths("/scan", "/cmd").iter())
            .map(|path| path.0.iter().map(|hop| hop.id.node.clone()).collect())
            .collect();
        paths.sort();
        let expected: [&[&str]; 5] = [&["/a", "/c"], &["/a", "/c"], &["/b", "/c"], &["/b", "/c"], &["/d"]];
        assert_eq!(paths, expected);
        // In a dense graph, the number of paths is limited.
        for from in 0..30 {
            for to in 0..30 {
                add(&mut hops, &format!("/n:/{from}:/{to}"), 1, 1.0, 1);
            }
        }
        assert_eq!(hops.paths("/0", "/29").len(), Hops::MOST);
        assert!(hops.paths("/0", "/nowhere").is_empty(), "the search ends");
    }

    #[test]
    fn a_path_has_at_most_16_hops() {
        let mut hops = Hops::default();
        for hop in 0..17 {
            add(&mut hops, &format!("/n:/{hop}:/{}", hop + 1), 1, 1.0, 1);
        }
        let paths = hops.paths("/0", "/16");
        assert_eq!(paths.iter().map(|path| path.0.len()).collect::<Vec<_>>(), [16]);
        assert!(hops.paths("/0", "/17").is_empty());
    }
}
