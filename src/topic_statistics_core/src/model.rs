// SPDX-License-Identifier: Apache-2.0

//! Common code of the loom models. A model is a test that loom runs in many interleavings of its threads.

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    time::Instant,
};

use crate::{record::clock::Clock, sync::atomic::AtomicI64};

/// Runs a model in every interleaving of its threads that has at most `preemptions` preemptions. Prints the number of
/// interleavings.
///
/// The environment variable `LOOM_MAX_PREEMPTIONS` of loom can set a higher bound.
pub(crate) fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut loom = loom::model::Builder::new();
    loom.max_branches = 10_000;
    let bound = loom.preemption_bound.map_or(preemptions, |bound| bound.max(preemptions));
    loom.preemption_bound = Some(bound);
    let run = Run { interleavings: Arc::default(), bound, started: Instant::now() };
    let interleavings = Arc::clone(&run.interleavings);
    loom.check(move || {
        interleavings.fetch_add(1, Ordering::Relaxed);
        model();
    });
}

/// Prints a report at the end of a model, even if the model fails.
struct Run {
    interleavings: Arc<AtomicU64>,
    bound: usize,
    started: Instant,
}

impl Drop for Run {
    fn drop(&mut self) {
        let result = if std::thread::panicking() { "failed in the last of " } else { "" };
        println!(
            "{}: {result}{} interleavings with at most {} preemptions, {:.1} s",
            std::thread::current().name().unwrap_or_default(),
            self.interleavings.load(Ordering::Relaxed),
            self.bound,
            self.started.elapsed().as_secs_f64()
        );
    }
}

/// Records whether the case that a model tests happened in at least one interleaving. A model that never reaches this
/// case proves nothing.
#[derive(Clone, Default)]
pub(crate) struct Reached(Arc<std::sync::atomic::AtomicBool>);

impl Reached {
    pub(crate) fn set_if(&self, happened: bool) {
        self.0.fetch_or(happened, Ordering::Relaxed);
    }

    pub(crate) fn assert(&self) {
        assert!(self.0.load(Ordering::Relaxed), "no interleaving comes to the case that the model is about");
    }
}

/// A clock that advances by one nanosecond at each reading, so that the readings of all threads have an order. The
/// system clock is ahead of the monotonic clock by a constant.
///
/// A reading by [`later`](Self::later) synchronizes with all later readings that end a window. A reading by
/// [`callback`](Self::callback) synchronizes with no other thread.
pub(crate) struct Ticks(AtomicI64);

impl Ticks {
    pub(crate) const EPOCH: i64 = 1_790_000_000_000_000_000;

    pub(crate) fn new() -> Self {
        Self(AtomicI64::new(1))
    }

    pub(crate) fn callback(&self) -> i64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn later(&self) -> i64 {
        self.0.fetch_add(1, Ordering::Release)
    }
}

impl Clock for Ticks {
    fn monotonic(&self) -> i64 {
        self.0.fetch_add(1, Ordering::Acquire)
    }

    fn system(&self) -> i64 {
        Self::EPOCH
    }

    fn suspended(&self) -> i64 {
        0
    }
}
