// SPDX-License-Identifier: Apache-2.0

//! Converts the topics of a bag to rows. A row has the figures of a topic, and is updated with each window.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use topic_statistics_bag::{BagClock, Topic, TopicWindow};
use topic_statistics_core::{Timestamp, Totals};
use topic_statistics_observe::{
    format,
    row::{row_window, Problem, Publisher, Row, Rows, Window},
};

/// Converts times of a bag to times of the monotonic clock, which the views of `topic_statistics_observe` need.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The time of the bag that corresponds to `instant`.
    pub start: Timestamp,
    instant: Instant,
}

#[derive(Debug)]
pub struct BagRows {
    rows: BTreeMap<String, BagRow>,
    /// The conversion of times. `None` before the first message.
    times: Option<Times>,
}

#[derive(Debug)]
struct BagRow {
    row: Row,
    /// The totals of the topic at the end of the last window, but the losses at the end of the last whole window.
    before: Totals,
    /// The losses since the last whole window, if there are any.
    losses: Option<Window>,
}

impl Times {
    pub fn new(start: Timestamp) -> Self {
        Self { start, instant: Instant::now() }
    }

    /// Converts a time of the bag to an instant. A time before the start is treated as the start.
    pub fn instant(&self, time: Timestamp) -> Instant {
        let since = time.as_nanoseconds().saturating_sub(self.start.as_nanoseconds());
        let since = Duration::from_nanos(since.try_into().unwrap_or_default());
        self.instant.checked_add(since).unwrap_or(self.instant)
    }
}

impl BagRow {
    fn new(row: Row) -> Self {
        Self { row, before: Totals::default(), losses: None }
    }
}

impl BagRows {
    /// Creates the rows of the topics that the arguments name, even of topics that the bag does not have.
    pub fn new<'a>(named: impl Iterator<Item = &'a str>) -> Self {
        let rows = named.map(|name| {
            let mut row = Row::new(name);
            row.problem = Some(Problem::Error(format!("there is no topic {name} in the bag")));
            row.publisher_count = Some(0);
            (name.to_owned(), BagRow::new(row))
        });
        Self { rows: rows.collect(), times: None }
    }

    /// Sets the start of the bag, or of its selected part.
    pub fn start(&mut self, start: Timestamp) {
        self.times = Some(Times::new(start));
    }

    /// Updates the row of a topic. Returns whether the row got a new window.
    ///
    /// As in `topic_monitor`, a window that is shorter than the full length has no line in the output, and is not
    /// compared with conditions or expectations. But its losses are: they count in the next whole window, or in
    /// [`add_losses`](Self::add_losses).
    pub fn add(&mut self, window: &TopicWindow<'_>) -> bool {
        let TopicWindow { topic, statistics, is_whole, .. } = window;
        let times = *self.times.get_or_insert_with(|| Times::new(statistics.window.start));
        let ended = times.instant(statistics.window.stop);
        let BagRow { row, before, losses } = self.row_of(topic);
        update(row, topic, &times);
        let totals = statistics.totals.unwrap_or_default();
        let window = row_window(statistics, before, ended);
        if *is_whole {
            row.last_minute.add_window(statistics, ended);
            row.add_window(window);
            (*before, *losses) = (totals, None);
        } else {
            before.received = totals.received;
            let Window { lost, lost_since, out_of_order, times, length, .. } = window;
            let only = Window::new(times, ended, length);
            let only = Window { lost, lost_since, out_of_order, has_only_losses: true, ..only };
            *losses = (lost.max(out_of_order) > Some(0)).then_some(only);
        }
        *is_whole
    }

    /// At the end of the bag, adds windows with the losses that no whole window has. Returns the names of their rows.
    pub fn add_losses(&mut self) -> Vec<String> {
        let add = |(name, BagRow { row, losses, .. }): (&String, &mut BagRow)| {
            row.add_window(losses.take()?);
            Some(name.clone())
        };
        self.rows.iter_mut().filter_map(add).collect()
    }

    /// Adds rows for those topics of the bag that have no measured message.
    pub fn finish(&mut self, topics: &[Topic]) {
        for topic in topics.iter().filter(|topic| topic.windows() == 0) {
            let BagRow { row, .. } = self.row_of(topic);
            row.message_type = topic.message_type().map(str::to_owned);
            let what = if topic.messages() == 0 { "" } else { " with a place on the clock" };
            let problem = format!("there is no message of {}{what} in the bag", format::name(topic.name()));
            row.problem = Some(Problem::Waiting(problem));
        }
    }

    fn row_of(&mut self, topic: &Topic) -> &mut BagRow {
        self.rows.entry(topic.name().to_owned()).or_insert_with(|| BagRow::new(Row::new(topic.name())))
    }

    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.get(name).map(|row| &row.row)
    }

    pub fn times(&self) -> Option<Times> {
        self.times
    }
}

impl Rows for BagRows {
    fn rows(&self) -> Vec<&Row> {
        self.rows.values().map(|row| &row.row).collect()
    }

    fn row_mut(&mut self, name: &str) -> Option<&mut Row> {
        self.rows.get_mut(name).map(|row| &mut row.row)
    }
}

/// Sets the fields of a row that do not depend on windows, such as totals and publishers.
fn update(row: &mut Row, topic: &Topic, times: &Times) {
    let totals = topic.totals();
    row.message_type = topic.message_type().map(str::to_owned);
    row.problem = None;
    row.is_latched = topic.is_latched();
    (row.received, row.lost, row.out_of_order) = (totals.received, totals.lost, totals.out_of_order);
    row.mean_period = 1000.0 / totals.rate();
    row.last_message = totals.last_message.map(|last| times.instant(last));
    row.publisher_count = totals.publishers.and_then(|publishers| publishers.try_into().ok());
    let publishers = topic.publishers().into_iter().map(|publisher| Publisher {
        gid: publisher.totals.gid.iter().map(|byte| format!("{byte:02x}")).collect(),
        node: publisher.node,
        received: publisher.totals.received,
        lost: publisher.totals.lost,
        out_of_order: publisher.totals.out_of_order,
        last_message: publisher.totals.last_message.as_nanoseconds(),
        last_received: times.instant(publisher.totals.last_message),
    });
    row.publishers = publishers.collect();
    row.nodes = row.publishers.iter().filter_map(|publisher| publisher.node.clone()).collect();
}

/// Returns a line for each reason why messages of a topic were read but not measured.
pub fn unmeasured(topic: &Topic, clock: BagClock) -> Vec<String> {
    let (name, messages) = (format::name(topic.name()), topic.messages());
    [
        (topic.without_time(), format!("have no time on the clock {clock}")),
        (topic.misplaced(), "come too late for their windows".to_owned()),
    ]
    .into_iter()
    .filter(|(number, _)| *number > 0)
    .map(|(number, what)| format!("{name}: {number} of {messages} messages {what}, and are left out"))
    .collect()
}
