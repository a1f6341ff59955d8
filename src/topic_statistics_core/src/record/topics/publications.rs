// SPDX-License-Identifier: Apache-2.0

//! The collectors of a publisher: period, duration and size of its publications.

use crate::{
    collector::{milliseconds_between, FirstPeriod, SummaryCollector},
    distributions::Distributions,
    metric::Metric,
    record::{
        clocks::clock::EndedWindow,
        sources::{
            periods::Periods,
            windowed::{Collector, Present, Windowed},
        },
    },
    source_kind::SourceKind,
    summary::Summary,
};

/// The collectors of a publisher.
pub struct Publications {
    period: Periods,
    duration: SummaryCollector,
    count: u64,
    /// The sizes of the messages in bytes; `None` if sizes are not measured.
    size: Option<SummaryCollector>,
}

impl Publications {
    /// Creates the collectors.
    pub fn new(first_period: FirstPeriod, measures_size: bool) -> Self {
        Self {
            period: Periods::new(Metric::PublishPeriod, first_period),
            duration: SummaryCollector::default(),
            count: 0,
            size: measures_size.then(SummaryCollector::default),
        }
    }
}

/// A publication that has succeeded. If the message is also passed on within the process, the publication may be
/// recorded in two parts: first its time, later its duration and size.
#[derive(Debug)]
pub struct Publication {
    /// The end of the publication, in nanoseconds on the monotonic clock. If the message is passed on within the
    /// process, the start of the publication. `None` if the publication is already counted.
    at: Option<i64>,
    /// The duration; NaN if unknown.
    milliseconds: f64,
    /// The size of the message in bytes; 0 if unknown.
    size: u32,
}

impl Collector for Publications {
    type Sample = Publication;

    const KIND: SourceKind = SourceKind::Publisher;

    #[inline]
    fn accept(&mut self, publication: &Publication, _: Present, distributions: &mut Distributions) {
        if self.duration.accept(publication.milliseconds) {
            distributions.accept(Metric::PublishDuration, publication.milliseconds);
        }
        if let Some(size) = self.size.as_mut().filter(|_| publication.size != 0) {
            size.accept(publication.size.into());
            distributions.accept(Metric::MessageSize, publication.size.into());
        }
        if let Some(at) = publication.at {
            self.count += 1;
            self.period.accept(at, distributions);
        }
    }

    fn take(&mut self, ended: &EndedWindow) -> (u64, Vec<(Metric, Summary)>) {
        let period = self.period.take(ended.has_earlier);
        let mut metrics = vec![period, (Metric::PublishDuration, self.duration.take())];
        metrics.extend(self.size.as_mut().map(|size| (Metric::MessageSize, size.take())));
        (std::mem::take(&mut self.count), metrics)
    }

    fn measures(&self, metric: Metric) -> bool {
        match metric {
            Metric::MessageSize => self.size.is_some(),
            _ => Self::KIND.measures(metric),
        }
    }

    fn clear(&mut self, start: i64, _: bool) {
        self.period.clear(start);
        (self.duration, self.count) = (SummaryCollector::default(), 0);
        self.size = self.size.map(|_| SummaryCollector::default());
    }
}

impl Windowed<Publications> {
    /// Publishes with `publish`. Records the publication with the times of `clock`, unless the publication fails.
    /// `size` returns the size of the message.
    #[inline]
    pub fn measure<Published, E>(
        &self,
        mut clock: impl FnMut() -> i64,
        publish: impl FnOnce() -> Result<Published, E>,
        size: impl FnOnce(&Published) -> u32,
    ) -> Result<(), E> {
        if !self.is_enabled() {
            return publish().map(|_| ());
        }
        let started = clock();
        let published = publish()?;
        self.record_published(started, false, size(&published), clock);
        Ok(())
    }

    /// Records a publication that started at the time `started` of the monotonic clock, and has succeeded now.
    /// `is_counted` means that [`record_intra_process`](Self::record_intra_process) has already counted this
    /// publication.
    #[inline]
    pub fn record_published(&self, started: i64, is_counted: bool, size: u32, clock: impl FnOnce() -> i64) {
        // The clock is read under the lock, so that the times of two threads are recorded in order.
        self.record(|| {
            let end = clock();
            let milliseconds = milliseconds_between(started, end);
            Publication { at: (!is_counted).then_some(end), milliseconds, size }
        });
    }

    /// Records that a message is passed on within the process. Returns the present time, which `clock` returns.
    #[inline]
    pub fn record_intra_process(&self, clock: impl FnOnce() -> i64) -> i64 {
        let mut now = 0;
        self.record(|| {
            now = clock();
            Publication { at: Some(now), milliseconds: f64::NAN, size: 0 }
        });
        now
    }
}

opaque_debug!(Publications);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::{
        source::WindowedCollector,
        sources::periods::are_of_a_run,
        test_clock::{TestClock, MS},
    };

    /// Returns the periods and the durations of a window.
    fn take(publications: &mut Publications, has_earlier: bool) -> (Summary, Summary) {
        let (_, metrics) = publications.take(&EndedWindow::of_test(has_earlier));
        (metrics[0].1, metrics[1].1)
    }

    fn accept(publications: &mut Publications, ends: &[i64]) {
        for end in ends {
            let publication = Publication { at: Some(end * MS), milliseconds: 0.5, size: 0 };
            publications.accept(&publication, Present::of_test(), &mut Distributions::default());
        }
    }

    #[test]
    fn a_publication_from_before_a_pause_has_no_period_after_it() {
        let mut publications = Publications::new(FirstPeriod::CarriedOver, false);
        accept(&mut publications, &[0, 10]);
        publications.clear(100 * MS, false);
        accept(&mut publications, &[20, 110, 120]);
        let (periods, _) = take(&mut publications, false);
        assert_eq!((periods.sample_count, periods.average), (1, 10.0));
    }

    #[test]
    fn a_publication_within_the_process_and_by_the_middleware_is_one() {
        let publications = Windowed::new(Publications::new(FirstPeriod::NoSample, false));
        let clock = TestClock::enable(&publications);
        for is_outside in [false, true, true, false] {
            clock.pass(10 * MS);
            let started = publications.record_intra_process(|| clock.pass(0));
            if is_outside {
                publications.record_published(started, true, 0, || clock.pass(2 * MS));
            }
        }
        let window = publications.end_window(&clock).unwrap().statistics;
        let figures =
            [Metric::PublishPeriod, Metric::PublishDuration].map(|metric| window.get(metric).unwrap());
        assert_eq!(window.count, 4);
        assert_eq!(figures.map(|figure| figure.sample_count), [3, 2]);
        assert_eq!(figures.map(|figure| figure.average), [34.0 / 3.0, 2.0]);
    }

    proptest! {
        /// The publications are in two windows, with 1 ms to 20 ms between them. Some publications are recorded late.
        #[test]
        fn periods_are_between_publications_that_follow_each_other(
            gaps in prop::collection::vec(1_i64..20, 2..20),
            late in prop::collection::vec(0_usize..3, 20),
            edge in 0_usize..20,
            first_period in prop_oneof![Just(FirstPeriod::NoSample), Just(FirstPeriod::CarriedOver)],
        ) {
            let ends: Vec<i64> = gaps.iter().scan(0, |end, gap| { *end += gap; Some(*end) }).collect();
            let times: Vec<i64> = ends.iter().map(|end| end * MS).collect();
            let mut recorded: Vec<(usize, i64)> = ends.iter().copied().enumerate().collect();
            // The sort is stable, so a late publication follows `late` later publications.
            recorded.sort_by_key(|(index, _)| index + late[*index]);
            let recorded: Vec<i64> = recorded.into_iter().map(|(_, end)| end).collect();
            let (first, second) = recorded.split_at(edge.min(recorded.len()));
            let has_earlier = first.iter().any(|end| second.iter().any(|later| later < end));
            let mut publications = Publications::new(first_period, false);
            for (window, has_earlier) in [(first, has_earlier), (second, false)] {
                accept(&mut publications, window);
                let (periods, durations) = take(&mut publications, has_earlier);
                prop_assert_eq!(durations.sample_count, window.len() as u64);
                let count = periods.sample_count as usize;
                if late.iter().all(|late| *late == 0) {
                    let carried = first_period == FirstPeriod::CarriedOver && window == second && !first.is_empty();
                    prop_assert_eq!(count, (window.len() + usize::from(carried)).saturating_sub(1));
                }
                prop_assert!(are_of_a_run(&periods, &times), "{window:?} of {ends:?}: {periods:?}");
            }
        }
    }
}
