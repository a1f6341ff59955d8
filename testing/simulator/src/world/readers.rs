// SPDX-License-Identifier: Apache-2.0

//! Readers of the node's topics, the messages that they must receive, and the list of ended sources.

use std::sync::{
    atomic::{AtomicBool, Ordering},
    Arc, Mutex,
};

use topic_statistics_core::{
    collector::Distribution,
    mutex::lock,
    record::{
        host,
        options::StatisticsState,
        source::{Source, WindowScheduler},
    },
    schedule::{
        losses::{MessagesLost, PublishLosses},
        outbox::{PublishError, PublishWindows},
    },
    Metric, Summary, Window, WindowStatistics,
};

use crate::equal::is_same;

/// A message on /statistics or /statistics/distribution.
#[derive(Debug)]
pub struct Published {
    pub source: String,
    pub metric: Metric,
    pub window: Window,
    pub figures: Figures,
}

#[derive(Debug)]
pub enum Figures {
    Summary(Summary),
    Distribution(Box<Distribution>),
}

/// A reader of `/statistics` and `/statistics/distribution`. Publications fail while the reader is stopped.
#[derive(Default)]
pub struct Reader {
    messages: Mutex<Vec<Published>>,
    pub is_stopped: AtomicBool,
    /// Whether the next publication fails and its repetition succeeds.
    pub fails_once: AtomicBool,
    /// Whether the last publication failed, so that the next publication must repeat it.
    is_repeated: AtomicBool,
    /// Whether a repeated publication of the batch failed again. Then no other publication of the batch is repeated.
    has_refused_twice: AtomicBool,
}

impl PublishWindows for Reader {
    fn publish_metric(
        &self,
        source: &str,
        metric: Metric,
        window: Window,
        summary: &Summary,
    ) -> Result<(), PublishError> {
        let figures = Figures::Summary(*summary);
        self.read(Published { source: source.to_owned(), metric, window, figures })
    }

    fn publish_distribution(
        &self,
        source: &str,
        metric: Metric,
        window: Window,
        distribution: &Distribution,
    ) -> Result<(), PublishError> {
        let figures = Figures::Distribution(Box::new(distribution.clone()));
        self.read(Published { source: source.to_owned(), metric, window, figures })
    }
}

impl Reader {
    /// Begins a batch. If `fails_once` is true, the first publication fails, and its repetition succeeds.
    pub fn begin_batch(&self, fails_once: bool) {
        self.fails_once.store(fails_once, Ordering::Relaxed);
        self.has_refused_twice.store(false, Ordering::Relaxed);
    }

    fn read(&self, message: Published) -> Result<(), PublishError> {
        let is_repeated = self.is_repeated.swap(false, Ordering::Relaxed);
        let is_stopped = self.is_stopped.load(Ordering::Relaxed);
        // As docs/reliability.md says, a failed publication is repeated once. After a repetition has failed, no other
        // publication of the batch is repeated.
        let may_repeat = !is_repeated && !self.has_refused_twice.load(Ordering::Relaxed);
        if may_repeat && (self.fails_once.swap(false, Ordering::Relaxed) || is_stopped) {
            self.is_repeated.store(true, Ordering::Relaxed);
            return Err("refused".into());
        }
        lock(&self.messages).push(message);
        self.has_refused_twice.fetch_or(is_stopped, Ordering::Relaxed);
        match is_stopped {
            true => Err("refused".into()),
            false => Ok(()),
        }
    }

    pub fn take(&self) -> Vec<Published> {
        std::mem::take(&mut *lock(&self.messages))
    }
}

/// A reader of /events/messages_lost.
#[derive(Default)]
pub struct EventReader(Mutex<Vec<MessagesLost>>);

impl PublishLosses for EventReader {
    fn publish(&self, lost: &MessagesLost) -> Result<(), PublishError> {
        lock(&self.0).push(lost.clone());
        Ok(())
    }
}

impl EventReader {
    pub fn take(&self) -> Vec<MessagesLost> {
        std::mem::take(&mut *lock(&self.0))
    }
}

/// Keeps the sources with dropped handles until the schedule removes them.
#[derive(Default)]
pub struct Retired(Mutex<Vec<Arc<Source>>>);

impl WindowScheduler for Retired {
    fn set_state(&self, _: &Arc<Source>, _: StatisticsState) {}

    fn remove(&self, source: &Arc<Source>) {
        lock(&self.0).push(Arc::clone(source));
    }
}

impl Retired {
    pub fn take(&self) -> Vec<Arc<Source>> {
        std::mem::take(&mut *lock(&self.0))
    }
}

pub struct Due {
    pub source: Arc<Source>,
    pub metric: Metric,
    /// Whether the message contains the metric's distribution, not its summary.
    pub is_distribution: bool,
    pub statistics: Arc<WindowStatistics>,
}

pub fn check_message(message: &Published, due: &Due) -> Result<(), String> {
    let is_of_host = due.metric == Metric::ClockOffset;
    let name = if is_of_host { host::name() } else { due.source.name.to_string() };
    let has_figures = match &message.figures {
        Figures::Summary(summary) if !due.is_distribution => {
            let expected = due.statistics.get(due.metric).copied().unwrap_or_default();
            summary.sample_count == expected.sample_count
                && [
                    (summary.average, expected.average),
                    (summary.maximum, expected.maximum),
                    (summary.minimum, expected.minimum),
                    (summary.standard_deviation, expected.standard_deviation),
                ]
                .into_iter()
                .all(|(figure, expected)| is_same(figure, expected, 1.0))
        }
        Figures::Distribution(distribution) if due.is_distribution => {
            due.statistics.distribution(due.metric) == Some(&**distribution)
        }
        _ => false,
    };
    if message.source != name
        || message.metric != due.metric
        || message.window != due.statistics.window
        || !has_figures
    {
        return Err(format!("message {message:?}, expected {} of {:?}", due.metric, due.statistics));
    }
    Ok(())
}
