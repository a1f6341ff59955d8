// SPDX-License-Identifier: Apache-2.0

//! The collector of a hop: the path from a message that a process takes to the publication in the message's callback.

use crate::{
    collector::AgeCollector,
    distributions::Distributions,
    metric::Metric,
    record::{
        clocks::{clock::EndedWindow, stamp_filter::StampFilter},
        sources::windowed::{Collector, Present},
    },
    source_kind::SourceKind,
    summary::Summary,
};

/// A publication on the output topic of a hop.
#[derive(Clone, Copy, Debug)]
pub enum Output {
    /// The callback of a message on the input topic made the publication.
    Caused {
        /// The source timestamp of the message, in nanoseconds since the Unix epoch; 0 if unknown.
        source: i64,
        /// The time at which the message was taken, in nanoseconds on the monotonic clock.
        taken: i64,
        /// The time at which the publication began, in nanoseconds on the monotonic clock.
        published: i64,
    },
    /// The message that caused the publication is unknown.
    Ambiguous,
}

/// The collector of a hop: the path from an input topic to an output topic of a process.
#[derive(Debug, Default)]
pub struct Hop {
    ages: AgeCollector,
    /// Whether this window had a publication with an unknown cause. Then the window has no summary, because a mean
    /// would cover only some of the messages.
    is_ambiguous: bool,
    filter: StampFilter,
    /// The time at which the last step of the system clock was found, in nanoseconds on the monotonic clock.
    stepped: Option<i64>,
}

impl Collector for Hop {
    type Sample = Output;

    const KIND: SourceKind = SourceKind::Hop;

    #[inline]
    fn accept(&mut self, output: &Output, present: Present, distributions: &mut Distributions) {
        let Output::Caused { source, taken, published } = *output else {
            self.is_ambiguous = true;
            return;
        };
        // If a message was taken before a step was found, the message's stamp may be from the clock before the step.
        if self.stepped.is_some_and(|found| taken <= found) || self.filter.is_doubtful(source) {
            return;
        }
        let now = present.system.at(published);
        self.ages.accept(source, now);
        if let Some(sample) = AgeCollector::sample(source, now) {
            distributions.accept(Metric::InputToOutput, sample);
        }
    }

    fn take(&mut self, ended: &EndedWindow) -> (u64, Vec<(Metric, Summary)>) {
        let mut summary = self.ages.take();
        self.filter.end_window(ended);
        if ended.step.is_some() {
            (self.stepped, self.is_ambiguous) = (Some(ended.stop), true);
        }
        if std::mem::take(&mut self.is_ambiguous) {
            summary = Summary::default();
        }
        (summary.sample_count, vec![(Metric::InputToOutput, summary)])
    }

    fn clear(&mut self, start: i64, has_stepped: bool) {
        let mut filter = std::mem::take(&mut self.filter);
        filter.restart(start, has_stepped);
        *self = Self { filter, stepped: has_stepped.then_some(start), ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{
        clock::Step,
        test_clock::{at, MS},
    };

    /// Accepts a publication. The message that caused it was sent `milliseconds` earlier.
    fn accept(hop: &mut Hop, milliseconds: i64) {
        let published = at(0)();
        let source = Present::of_test().system.at(published) - milliseconds * MS;
        accept_output(hop, Output::Caused { source, taken: published, published });
    }

    fn accept_output(hop: &mut Hop, output: Output) {
        hop.accept(&output, Present::of_test(), &mut Distributions::default());
    }

    fn take(hop: &mut Hop, step: Option<Step>) -> Summary {
        let (count, metrics) = hop.take(&EndedWindow { step, stop: at(0)(), ..EndedWindow::of_test(false) });
        assert_eq!((count, metrics[0].0), (metrics[0].1.sample_count, Metric::InputToOutput));
        metrics[0].1
    }

    #[test]
    fn a_sample_is_from_the_source_timestamp_to_the_publication() {
        let mut hop = Hop::default();
        accept(&mut hop, 10);
        accept(&mut hop, 30);
        accept_output(&mut hop, Output::Caused { source: 0, taken: 1, published: at(0)() });
        let summary = take(&mut hop, None);
        assert_eq!((summary.sample_count, summary.average, summary.maximum), (2, 20.0, 30.0));
        assert!(take(&mut hop, None).average.is_nan());
    }

    #[test]
    fn a_message_taken_before_a_step_was_found_has_no_sample() {
        let mut hop = Hop::default();
        let step = Step { by: 3_600_000 * MS, suspended: 0 };
        assert_eq!(take(&mut hop, Some(step)).sample_count, 0);
        let (taken, published) = (at(-1)(), at(0)());
        let source = Present::of_test().system.at(published) + MS;
        accept_output(&mut hop, Output::Caused { source, taken, published });
        assert_eq!(take(&mut hop, None).sample_count, 0);
        hop.clear(at(0)(), true);
        accept(&mut hop, 10);
        assert_eq!(take(&mut hop, None).sample_count, 0, "every stamp is doubtful for 10 s after the step");
    }
}
