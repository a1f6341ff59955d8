// SPDX-License-Identifier: Apache-2.0

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::{
    collector::Distribution,
    metric::Metric,
    model::{check, Reached},
    record::{
        code::Durations,
        recorder::{Recorder, RecorderOptions},
        source::SourceHandle,
        windowed::Windowed,
    },
    schedule::{losses::LossEvents, outbox::PublishWindows},
    summary::Summary,
    sync::{atomic::AtomicBool, pass},
    window::Window,
};

const SECOND: Duration = Duration::from_secs(1);

/// A reader of `/statistics`. loom may run other threads after a message was published and before this reader receives
/// it.
struct Reader {
    /// The number of published messages. This is loom's mutex, so loom may run other threads before the mutex is
    /// locked.
    published: Mutex<usize>,
    received: Condvar,
    is_dropped: AtomicBool,
}

impl PublishWindows for Reader {
    fn publish_metric(&self, _: &str, _: Metric, _: Window, _: &Summary) -> Result<(), PublishError> {
        *lock(&self.published) += 1;
        self.received.notify_all();
        assert!(!self.is_dropped.load(Ordering::Relaxed), "published after the drop of its handle");
        Ok(())
    }

    fn publish_distribution(
        &self,
        _: &str,
        _: Metric,
        _: Window,
        _: &Distribution,
    ) -> Result<(), PublishError> {
        Ok(())
    }
}

/// Reports that are discarded, because the model has no node.
struct NoReports;

impl Reports for NoReports {
    fn log(&self, _: Severity, _: &str) {}

    fn publish_health(&self, _: &[&Diagnosed]) -> Result<(), PublishError> {
        Ok(())
    }
}

impl Reader {
    fn new() -> Arc<Self> {
        let (published, received, is_dropped) = (Mutex::new(0), Condvar::new(), AtomicBool::new(false));
        Arc::new(Self { published, received, is_dropped })
    }

    fn published(&self) -> usize {
        *lock(&self.published)
    }

    fn wait_for(&self, count: usize) {
        let mut published = lock(&self.published);
        while *published < count {
            published = self.received.wait(published).unwrap();
        }
    }
}

fn scheduler() -> Arc<Scheduler> {
    let node_name = "/node".to_owned();
    let schedule = Schedule::new(SourceDefaults::default(), false, LossEvents::new(node_name.clone(), 1.0));
    Arc::new(Scheduler::new(node_name, Box::new(NoReports), schedule, None))
}

/// Adds a stopwatch whose windows are published to a reader. Returns the source and its handle.
fn add_stopwatch(scheduler: &Arc<Scheduler>, reader: &Arc<Reader>) -> (Arc<Source>, SourceHandle) {
    let durations = Arc::new(Windowed::new(Durations::default()));
    let source = Arc::new(Source::new("stopwatch".to_owned(), durations, None));
    let publisher = Some(Arc::clone(reader) as _);
    let collector = Arc::clone(&source.collector);
    let new = scheduler.add(collector, SourceOptions::default(), publisher);
    (Arc::clone(&source), new.complete(source))
}

/// A window is due, and a change of the schedule wakes the thread, which publishes the window. Then the scheduler is
/// closed, and the thread ends. If a wake-up is missed, loom reports a deadlock.
#[test]
fn a_change_wakes_the_thread_and_closing_ends_it() {
    check(4, || {
        let (scheduler, reader) = (scheduler(), Reader::new());
        let (source, _handle) = add_stopwatch(&scheduler, &reader);
        let has_ended = Arc::new(AtomicU64::new(0));
        let at_end = Arc::clone(&has_ended);
        let thread = scheduler
            .start(move |_| {
                at_end.fetch_add(1, Ordering::Relaxed);
                None
            })
            .unwrap();
        pass(SECOND);
        // `enabled` keeps its value, so only the present time makes the window due.
        scheduler.change_defaults(|defaults| defaults.enabled = true);
        reader.wait_for(1);
        scheduler.close();
        scheduler.wait_for_end(thread);
        assert_eq!((has_ended.load(Ordering::Relaxed), reader.published()), (1, 1));
        assert!(source.latest().is_some() && !source.collector.is_enabled());
    });
}

/// A window is due while one thread closes the scheduler, another thread enables the statistics, and a third thread
/// waits for the end. The scheduler's thread has to end. A finished window has to be published once, after its watchers
/// got the window. A window that was not finished must be neither published nor given to watchers. Afterwards, no
/// source may be enabled.
#[test]
fn closing_publishes_each_finished_window_once() {
    let [finished, not_finished] = [(); 2].map(|()| Reached::default());
    let reached = [finished.clone(), not_finished.clone()];
    check(2, move || {
        let (scheduler, reader) = (scheduler(), Reader::new());
        let (source, _handle) = add_stopwatch(&scheduler, &reader);
        pass(SECOND);
        let thread = scheduler.start(|_| None).unwrap();
        let close: fn(&Scheduler) = Scheduler::close;
        let enable: fn(&Scheduler) =
            |scheduler| scheduler.change_defaults(|defaults| defaults.enabled = true);
        let others = [close, enable].map(|change| {
            let scheduler = Arc::clone(&scheduler);
            thread::spawn(move || change(&scheduler))
        });
        scheduler.wait_for_end(thread);
        let finished = source.latest().is_some();
        assert_eq!(reader.published(), usize::from(finished));
        others.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(!source.collector.is_enabled());
        reached[usize::from(!finished)].set_if(true);
    });
    [finished, not_finished].iter().for_each(Reached::assert);
}

/// A handle is dropped while the messages of its source are being published. After the drop has returned, no message of
/// this source may be published.
#[test]
fn no_message_is_published_after_its_handle_was_dropped() {
    let counts = [(); 3].map(|()| Reached::default());
    let reached = counts.clone();
    check(5, move || {
        let (scheduler, reader) = (scheduler(), Reader::new());
        let (source, handle) = add_stopwatch(&scheduler, &reader);
        let window = source.collector.end_window(&HostClock).unwrap().statistics;
        let statistics = Arc::new(window);
        let publishing = {
            let publisher = Arc::clone(&reader);
            thread::spawn(move || {
                let message = |_| Outgoing {
                    source: Arc::clone(&source),
                    publisher: Arc::clone(&publisher) as _,
                    statistics: Arc::clone(&statistics),
                    metric: 0,
                    is_distribution: false,
                };
                publish(None, [0, 1].map(message).into())
            })
        };
        drop(handle);
        reader.is_dropped.store(true, Ordering::Relaxed);
        publishing.join().unwrap();
        reached[reader.published()].set_if(true);
    });
    counts.iter().for_each(Reached::assert);
}

/// A handle is dropped while the node's statistics are enabled. Afterwards, the source of the handle must be disabled.
#[test]
fn a_dropped_source_is_not_enabled_again() {
    check(5, || {
        let scheduler = scheduler();
        let (source, handle) = add_stopwatch(&scheduler, &Reader::new());
        let collector = Arc::clone(&source.collector);
        scheduler.change_defaults(|defaults| defaults.enabled = false);
        let enabling = {
            let scheduler = Arc::clone(&scheduler);
            thread::spawn(move || scheduler.change_defaults(|defaults| defaults.enabled = true))
        };
        drop(handle);
        enabling.join().unwrap();
        assert!(!collector.is_enabled());
    });
}

/// Returns a subscription that was not added to a schedule.
fn subscription() -> (Arc<Recorder>, Arc<Source>) {
    let recorder = Arc::new(Recorder::new("/imu", RecorderOptions::new(), None, &HostClock));
    let publisher_check = Some(Box::new("/imu".to_owned()) as _);
    let source = Source::new("/node:/imu".to_owned(), Arc::clone(&recorder) as _, publisher_check);
    (recorder, Arc::new(source))
}

/// A thread drops a subscription while another thread reads the totals twice. Each time, the totals must contain the
/// subscription exactly once.
#[test]
fn the_totals_have_a_subscription_once_while_it_is_dropped() {
    check(5, || {
        let scheduler = scheduler();
        let (recorder, source) = subscription();
        let handle = scheduler.add(recorder, StatisticsState::Enable.into(), None).complete(source);
        let dropping = thread::spawn(move || drop(handle));
        let counts = [(); 2].map(|()| scheduler.totals().len());
        assert_eq!(counts, [1, 1]);
        dropping.join().unwrap();
        assert_eq!(scheduler.totals().len(), 1);
    });
}
