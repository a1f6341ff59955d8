// SPDX-License-Identifier: Apache-2.0

//! The hops of a publisher: a source of statistics for each topic whose messages cause its publications.
//!
//! Which hops there are, only the first publication of each shows. The thread that publishes is the host's: it leaves a
//! mark, and the thread of the statistics creates the source when it next publishes a window.

use std::sync::{
    atomic::{AtomicBool, AtomicU32, Ordering},
    Arc, Mutex, OnceLock, Weak,
};

use topic_statistics_core::{
    mutex::lock,
    record::{
        hops::{Hop, Output as Publication},
        options::SourceOptions,
        source::{Source, SourceHandle},
        source_name::SourceNames,
        windowed::Windowed,
    },
    schedule::scheduler::Scheduler,
    Escaped,
};

use crate::{cause::Cause, log::line, output::Output};

/// The topics of subscriptions; one's number is its index plus 1.
static TOPICS: Mutex<Vec<Box<str>>> = Mutex::new(Vec::new());
/// The largest number of topics. Messages of further ones are of topics that are not measured.
const TOPICS_BOUND: usize = 4096;

/// The publishers with hops.
static PUBLISHERS: Mutex<Vec<Weak<PublisherHops>>> = Mutex::new(Vec::new());
/// Whether there is a mark.
static IS_MARKED: AtomicBool = AtomicBool::new(false);

/// Returns the number of a topic; 0 if there are too many.
pub fn number_of(topic: &str) -> u32 {
    let mut topics = lock(&TOPICS);
    let found = topics.iter().position(|known| **known == *topic);
    let index = found.unwrap_or_else(|| {
        if topics.len() < TOPICS_BOUND {
            topics.push(topic.into());
        }
        topics.len() - 1
    });
    match *topics[index] == *topic {
        true => index as u32 + 1,
        false => 0,
    }
}

/// The hops of a publisher.
pub struct PublisherHops {
    node: String,
    topic: String,
    names: Arc<SourceNames>,
    output: Arc<Output>,
    hops: [Slot; PublisherHops::BOUND],
    /// Whether there was another one, and whether that was said.
    is_full: AtomicBool,
    is_reported: AtomicBool,
}

#[derive(Default)]
struct Slot {
    /// The number of the topic; 0 if the slot is free.
    input: AtomicU32,
    /// None until the thread of the statistics has created it.
    hop: OnceLock<CreatedHop>,
}

struct CreatedHop {
    _source: SourceHandle,
    collector: Arc<Windowed<Hop>>,
}

impl PublisherHops {
    /// The largest number of hops of a publisher.
    const BOUND: usize = 8;

    pub fn new(node: String, topic: String, names: Arc<SourceNames>, output: Arc<Output>) -> Arc<Self> {
        let hops = Default::default();
        let (is_full, is_reported) = Default::default();
        let new = Arc::new(Self { node, topic, names, output, hops, is_full, is_reported });
        let mut publishers = lock(&PUBLISHERS);
        publishers.retain(|publisher| publisher.strong_count() > 0);
        publishers.push(Arc::downgrade(&new));
        new
    }

    /// Records a publication that began at that time, on the monotonic clock.
    #[inline]
    pub fn record(&self, cause: Cause, published: i64) {
        match cause {
            Cause::Message(message) if message.topic != 0 => {
                if let Some(hop) = self.of(message.topic) {
                    let (source, taken) = (message.source, message.taken);
                    hop.collector.record(|| Publication::Caused { source, taken, published });
                }
            }
            Cause::Message(_) | Cause::Other => {}
            Cause::Ambiguous => {
                for hop in self.hops.iter().filter_map(|slot| slot.hop.get()) {
                    hop.collector.record(|| Publication::Ambiguous);
                }
            }
        }
    }

    /// Returns the hop from a topic. Marks it to be created if there is none.
    #[inline]
    fn of(&self, topic: u32) -> Option<&CreatedHop> {
        for slot in &self.hops {
            let present = slot.input.compare_exchange(0, topic, Ordering::Relaxed, Ordering::Relaxed);
            match present {
                Ok(_) => {
                    IS_MARKED.store(true, Ordering::Release);
                    return None;
                }
                Err(present) if present == topic => return slot.hop.get(),
                Err(_) => {}
            }
        }
        if !self.is_full.swap(true, Ordering::Relaxed) {
            IS_MARKED.store(true, Ordering::Release);
        }
        None
    }

    /// Creates the hops that are marked.
    fn create(&self, scheduler: &Arc<Scheduler>) {
        for slot in self.hops.iter().filter(|slot| slot.hop.get().is_none()) {
            let Some(index) = slot.input.load(Ordering::Relaxed).checked_sub(1) else { continue };
            let Some(input) = lock(&TOPICS).get(index as usize).cloned() else { continue };
            let name = format!("{}:{input}:{}", self.node, self.topic);
            let name = self.names.reserve(&self.node, &name);
            let collector = Arc::new(Windowed::new(Hop::default()));
            let source = Source::new(name, Arc::clone(&collector) as _, None);
            let added = scheduler.add(
                Arc::clone(&collector) as _,
                SourceOptions::default(),
                Some(Arc::clone(&self.output) as _),
            );
            let _is_new = slot.hop.set(CreatedHop { _source: added.complete(Arc::new(source)), collector });
        }
        if self.is_full.load(Ordering::Relaxed) && !self.is_reported.swap(true, Ordering::Relaxed) {
            line(format_args!(
                "publications of {} on {} are caused by more than {} topics: those of others have no input_to_output_ms",
                Escaped(&self.node),
                Escaped(&self.topic),
                Self::BOUND
            ));
        }
    }
}

/// Creates the hops that are marked. The thread of the statistics calls it.
pub fn create_marked(scheduler: &Arc<Scheduler>) {
    if IS_MARKED.swap(false, Ordering::Acquire) {
        let publishers: Vec<_> = lock(&PUBLISHERS).iter().filter_map(Weak::upgrade).collect();
        publishers.iter().for_each(|publisher| publisher.create(scheduler));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_has_a_number_and_there_is_a_bound() {
        let first = number_of("/first");
        assert_ne!(first, 0);
        assert_eq!(number_of("/first"), first);
        assert_ne!(number_of("/second"), first);
        for number in 0..TOPICS_BOUND {
            number_of(&format!("/{number}"));
        }
        assert_eq!((number_of("/one/more"), number_of("/first")), (0, first));
    }
}
