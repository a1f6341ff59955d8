// SPDX-License-Identifier: Apache-2.0

//! The sources of hops. A hop is the way of a message through the node: from a subscription to the publication that the
//! message causes. At the first publication of a hop, the publishing thread of the host only marks the hop. Later, the
//! thread of the statistics creates the hop's source before it publishes the next window.

use std::sync::{
    atomic::{AtomicBool, Ordering},
    Arc, LazyLock, Mutex, Weak,
};

use topic_statistics_core::{
    mutex::lock,
    record::{
        hops::Hop,
        options::SourceOptions,
        publisher_hops::{Marks, PublisherHops as Hops},
        source::{Source, SourceHandle},
        source_name::SourceNames,
        windowed::Windowed,
    },
    schedule::scheduler::Scheduler,
    Escaped,
};

use crate::{log::line, output::Output};

/// The topics of subscriptions. The number of a topic is the topic's index plus 1.
static TOPICS: Mutex<Vec<Box<str>>> = Mutex::new(Vec::new());
/// The largest number of topics. Messages on further topics are treated as not measured.
const TOPICS_BOUND: usize = 4096;

static PUBLISHERS: Mutex<Vec<Weak<PublisherHops>>> = Mutex::new(Vec::new());
static MARKS: LazyLock<Arc<Marks>> = LazyLock::new(Arc::default);

/// Returns the number of a topic; 0 if the process has too many topics.
pub fn topic_number(topic: &str) -> u32 {
    let mut topics = lock(&TOPICS);
    if let Some(index) = topics.iter().position(|known| **known == *topic) {
        return index as u32 + 1;
    }
    if topics.len() == TOPICS_BOUND {
        return 0;
    }
    topics.push(topic.into());
    topics.len() as u32
}

pub struct PublisherHops {
    node: String,
    topic: String,
    names: Arc<SourceNames>,
    output: Arc<Output>,
    pub hops: Hops,
    sources: Mutex<Vec<SourceHandle>>,
    /// Whether this warning was logged: messages of too many topics cause publications.
    is_reported: AtomicBool,
}

impl PublisherHops {
    pub fn new(node: String, topic: String, names: Arc<SourceNames>, output: Arc<Output>) -> Arc<Self> {
        let hops = Hops::new(Arc::clone(&MARKS));
        let (sources, is_reported) = Default::default();
        let new = Arc::new(Self { node, topic, names, output, hops, sources, is_reported });
        let mut publishers = lock(&PUBLISHERS);
        publishers.retain(|publisher| publisher.strong_count() > 0);
        publishers.push(Arc::downgrade(&new));
        new
    }

    fn create(&self, scheduler: &Arc<Scheduler>) {
        self.hops.create(|input| {
            let input = lock(&TOPICS).get(input as usize - 1).cloned()?;
            let name = format!("{}:{input}:{}", self.node, self.topic);
            let name = self.names.reserve(&self.node, &name);
            let collector = Arc::new(Windowed::new(Hop::default()));
            let source = Source::new(name, Arc::clone(&collector) as _, None);
            let added = scheduler.add(
                Arc::clone(&collector) as _,
                SourceOptions::default(),
                Some(Arc::clone(&self.output) as _),
            );
            lock(&self.sources).push(added.complete(Arc::new(source)));
            Some(collector)
        });
        if self.hops.is_full() && !self.is_reported.swap(true, Ordering::Relaxed) {
            line(format_args!(
                "publications of {} on {} are caused by more than {} topics: \
                 those of others have no input_to_output_ms",
                Escaped(&self.node),
                Escaped(&self.topic),
                Hops::BOUND
            ));
        }
    }
}

/// Creates the marked hops of all publishers. The thread of the statistics calls this function.
pub fn create_marked(scheduler: &Arc<Scheduler>) {
    if MARKS.take() {
        let publishers: Vec<_> = lock(&PUBLISHERS).iter().filter_map(Weak::upgrade).collect();
        publishers.iter().for_each(|publisher| publisher.create(scheduler));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_beyond_the_bound_have_number_0() {
        let first = topic_number("/first");
        assert_ne!(first, 0);
        assert_eq!(topic_number("/first"), first);
        assert_ne!(topic_number("/second"), first);
        for number in 0..TOPICS_BOUND {
            topic_number(&format!("/{number}"));
        }
        assert_eq!((topic_number("/one/more"), topic_number("/first")), (0, first));
    }
}
