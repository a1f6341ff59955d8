// SPDX-License-Identifier: Apache-2.0

//! The collector of an executor: which callbacks its threads run, and which callbacks wait for a thread.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use crate::{
    collector::{milliseconds_between, single_sample, SummaryCollector},
    distributions::Distributions,
    executor::{
        CallbackKind, CallbackWait, ExecutorCallback, ExecutorThread, ExecutorWindow, LongestCallback,
    },
    metric::Metric,
    mutex::lock,
    record::{
        clocks::clock::{monotonic, EndedWindow},
        sources::windowed::{Collector, Present, Windowed},
    },
    source_kind::SourceKind,
    summary::Summary,
    sync::Mutex,
};

/// The number that identifies a callback when its runs are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallbackId(u32);

impl CallbackId {
    /// Returns the number.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the identification with this [number](Self::index); `None` if the number is too large.
    pub fn with_index(index: usize) -> Option<Self> {
        u32::try_from(index).ok().filter(|_| index < ExecutorNames::MOST).map(Self)
    }
}

/// The names of an executor's callbacks and threads. All clones share the names.
#[derive(Clone, Debug, Default)]
pub struct ExecutorNames(Arc<Mutex<Names>>);

#[derive(Debug, Default)]
struct Names {
    callbacks: Vec<ExecutorCallback>,
    ids: HashMap<ExecutorCallback, CallbackId>,
    /// The names of the threads, by their numbers; `None` for a free number, which a new thread can get.
    threads: Vec<Option<Arc<str>>>,
    /// The numbers of the threads that have ended in this window.
    ended: Vec<usize>,
}

impl Names {
    fn add_thread(&mut self, name: Arc<str>) -> usize {
        let number = self.threads.iter().position(Option::is_none).unwrap_or(self.threads.len());
        match self.threads.get_mut(number) {
            Some(free) => *free = Some(name),
            None => self.threads.push(Some(name)),
        }
        number
    }

    /// Returns the numbers of the threads that have ended. New threads may get these numbers from now on.
    fn free_ended(&mut self) -> Vec<usize> {
        let ended = std::mem::take(&mut self.ended);
        ended.iter().for_each(|number| self.threads[*number] = None);
        ended
    }
}

impl ExecutorNames {
    /// The largest number of callbacks, so that new names do not fill the memory. All further callbacks share the name
    /// `OTHERS`.
    const MOST: usize = 4096;
    const OTHERS: &'static str = "(more than 4096 callbacks)";

    /// Returns the number of a callback. Equal callbacks have the same number.
    pub fn id(&self, callback: ExecutorCallback) -> CallbackId {
        let names = &mut *lock(&self.0);
        if let Some(id) = names.ids.get(&callback) {
            return *id;
        }
        let id = CallbackId(names.callbacks.len() as u32);
        if names.callbacks.len() == Self::MOST {
            return CallbackId(id.0 - 1);
        }
        // The last number is for all further callbacks together.
        let callback = match names.callbacks.len() == Self::MOST - 1 {
            true => ExecutorCallback::new(CallbackKind::Internal, Self::OTHERS),
            false => callback,
        };
        names.callbacks.push(callback.clone());
        names.ids.insert(callback, id);
        id
    }

    /// Records that a thread with this [number](ThreadRecorder::number) has ended. The window in which it ends still
    /// has the thread, but later windows do not.
    pub fn end_thread(&self, number: usize) {
        lock(&self.0).ended.push(number);
    }
}

/// Records what one thread of an executor runs.
#[derive(Clone, Debug)]
pub struct ThreadRecorder {
    executions: Arc<Windowed<Executions>>,
    thread: usize,
}

impl ThreadRecorder {
    /// Adds a thread to an executor.
    pub fn new(
        executions: Arc<Windowed<Executions>>,
        names: &ExecutorNames,
        name: impl Into<Arc<str>>,
    ) -> Self {
        Self { executions, thread: lock(&names.0).add_thread(name.into()) }
    }

    /// As [`new`](Self::new), with a thread number below `bound`; `None` if `bound` threads are measured already.
    pub fn within(
        bound: usize,
        executions: Arc<Windowed<Executions>>,
        names: &ExecutorNames,
        name: impl Into<Arc<str>>,
    ) -> Option<Self> {
        let names = &mut *lock(&names.0);
        let count = names.threads.iter().flatten().count();
        (count < bound).then(|| Self { executions, thread: names.add_thread(name.into()) })
    }

    /// Returns the number of the thread in its executor. After the thread has [ended](ExecutorNames::end_thread), a new
    /// thread may get the number.
    pub fn number(&self) -> usize {
        self.thread
    }

    /// Returns whether the statistics are enabled.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.executions.is_enabled()
    }

    /// Runs a callback. `ready` is the time at which the callback became ready, in nanoseconds on the monotonic clock;
    /// `None` if the time is unknown. The callback must not run another callback with the same recorder.
    #[inline]
    pub fn run<R>(&self, callback: CallbackId, ready: Option<i64>, code: impl FnOnce() -> R) -> R {
        if !self.is_enabled() {
            return code();
        }
        /// A guard whose drop records the end of a run, even if the callback panicked.
        struct Running<'a>(&'a ThreadRecorder);

        impl Drop for Running<'_> {
            #[inline]
            fn drop(&mut self) {
                self.0.end(monotonic);
            }
        }

        self.start(callback, ready, monotonic);
        let _running = Running(self);
        code()
    }

    /// Records that a callback starts now, at the time that `clock` returns. `ready` has the same meaning as in
    /// [`run`](Self::run). If the previous callback of the thread has not ended, its run is forgotten, because that
    /// callback has thrown an exception.
    #[inline]
    pub fn start(&self, callback: CallbackId, ready: Option<i64>, clock: impl FnOnce() -> i64) {
        let thread = self.thread;
        self.executions.record(|| Execution { thread, at: clock(), event: Event::Start { callback, ready } });
    }

    /// Records that the callback ends now, at the time that `clock` returns.
    #[inline]
    pub fn end(&self, clock: impl FnOnce() -> i64) {
        let thread = self.thread;
        self.executions.record(|| Execution { thread, at: clock(), event: Event::End });
    }
}

/// The start or the end of a callback's run.
#[derive(Clone, Copy, Debug)]
pub struct Execution {
    thread: usize,
    /// The time of the start or the end, in nanoseconds on the monotonic clock.
    at: i64,
    event: Event,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Start { callback: CallbackId, ready: Option<i64> },
    End,
}

/// The collector of an executor.
#[derive(Debug, Default)]
pub struct Executions {
    names: ExecutorNames,
    threads: Vec<Thread>,
    /// The start of the window. All times in this struct are in nanoseconds on the monotonic clock.
    start: i64,
    /// The number of runs in the window: the runs that started in the window, and the runs that were already running at
    /// its start.
    count: u64,
    ready_to_run: SummaryCollector,
    /// The longest run: its callback, its thread and its duration.
    longest: Option<(CallbackId, usize, i64)>,
    waits: Vec<Wait>,
    /// Whether the times at which callbacks became ready are times of the system clock, converted to the monotonic
    /// clock.
    is_ready_of_system_time: bool,
    finished: Option<Arc<ExecutorWindow>>,
}

#[derive(Debug, Default)]
struct Thread {
    /// The callback that is running now, and its start.
    running: Option<(CallbackId, i64)>,
    /// How long the thread ran callbacks in this window, in nanoseconds.
    busy: i64,
    /// The last runs of the thread, except runs shorter than `SHORTEST`. A callback that starts next may have waited
    /// for these runs.
    last: VecDeque<Run>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    callback: CallbackId,
    start: i64,
    end: i64,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    waiting: CallbackId,
    running: CallbackId,
    duration: i64,
}

impl Thread {
    /// The shortest run for which a wait is reported, in nanoseconds.
    const SHORTEST: i64 = 100_000;
    const LAST: usize = 64;

    fn end(&mut self, at: i64, window_start: i64) -> Option<Run> {
        let (callback, start) = self.running.take()?;
        // A sample from the queue of the lock can be from before the start of the window. Then no time is added.
        self.busy += (at - start.max(window_start)).max(0);
        let run = Run { callback, start, end: at };
        if at - start >= Self::SHORTEST {
            if self.last.len() == Self::LAST {
                self.last.pop_front();
            }
            self.last.push_back(run);
        }
        Some(run)
    }
}

impl Executions {
    /// The largest number of waits (pairs of callbacks) that a window reports.
    const WAITS: usize = 5;

    /// Creates the collector of an executor with these callback and thread names.
    pub fn new(names: ExecutorNames) -> Self {
        Self { names, waits: Vec::with_capacity(Self::WAITS), ..Self::default() }
    }

    /// Declares that the times at which callbacks become ready are system times that were converted into monotonic
    /// times. So these times are unknown in a window in which the system clock was stepped.
    pub fn ready_of_system_time(self) -> Self {
        Self { is_ready_of_system_time: true, ..self }
    }

    #[inline]
    fn thread(&mut self, thread: usize) -> &mut Thread {
        if thread >= self.threads.len() {
            self.add_threads(thread + 1);
        }
        &mut self.threads[thread]
    }

    #[cold]
    fn add_threads(&mut self, count: usize) {
        let new = || Thread { last: VecDeque::with_capacity(Thread::LAST), ..Thread::default() };
        self.threads.resize_with(count, new);
    }

    fn observe_duration(&mut self, callback: CallbackId, thread: usize, duration: i64) {
        if self.longest.is_none_or(|(.., longest)| longest < duration) {
            self.longest = Some((callback, thread, duration));
        }
    }

    /// Adds the waits of the callback `waiting`, which became ready at the time `ready`. After this time, the thread
    /// still ran other callbacks; each of them is one wait. Only the pairs of callbacks with the longest waits are
    /// kept. A pair that was discarded can be added again if it has a longer wait later.
    #[cold]
    fn add_waits(&mut self, waiting: CallbackId, thread: usize, ready: i64) {
        let Self { threads, waits, .. } = self;
        for run in threads[thread].last.iter().rev().take_while(|run| run.end > ready) {
            let wait = Wait { waiting, running: run.callback, duration: run.end - run.start.max(ready) };
            let is_pair = |kept: &&mut Wait| kept.waiting == waiting && kept.running == run.callback;
            if wait.duration < Thread::SHORTEST {
                continue;
            } else if let Some(known) = waits.iter_mut().find(is_pair) {
                known.duration = known.duration.max(wait.duration);
            } else if waits.len() < Self::WAITS {
                waits.push(wait);
            } else if let Some(shortest) = waits.iter_mut().min_by_key(|wait| wait.duration) {
                if shortest.duration < wait.duration {
                    *shortest = wait;
                }
            }
        }
    }
}

impl Collector for Executions {
    type Sample = Execution;

    const KIND: SourceKind = SourceKind::Executor;

    #[inline]
    fn accept(&mut self, execution: &Execution, _: Present, distributions: &mut Distributions) {
        let Execution { thread, at, event } = *execution;
        let window_start = self.start;
        match event {
            Event::Start { callback, ready } => {
                self.count += 1;
                let state = self.thread(thread);
                state.running = Some((callback, at));
                let Some(ready) = ready else { return };
                let had_to_wait = state.last.back().is_some_and(|run| run.end > ready);
                let waited = milliseconds_between(ready.min(at), at);
                self.ready_to_run.accept(waited);
                distributions.accept(Metric::ReadyToRun, waited);
                if had_to_wait {
                    self.add_waits(callback, thread, ready);
                }
            }
            Event::End => {
                // `end` returns `None` if the callback started before the statistics were enabled.
                if let Some(run) = self.thread(thread).end(at, window_start) {
                    self.observe_duration(run.callback, thread, run.end - run.start);
                }
            }
        }
    }

    fn take(&mut self, ended: &EndedWindow) -> (u64, Vec<(Metric, Summary)>) {
        let length = ended.length();
        let stop = self.start.saturating_add(i64::try_from(length.as_nanos()).unwrap_or(i64::MAX));
        let shared = self.names.clone();
        let names = &mut *lock(&shared.0);
        if names.threads.len() > self.threads.len() {
            self.add_threads(names.threads.len());
        }
        let mut busy = SummaryCollector::default();
        let mut threads = Vec::with_capacity(self.threads.len());
        for (index, name) in names.threads.iter().enumerate() {
            let Some(name) = name else { continue };
            let thread = &mut self.threads[index];
            let mut of_window = std::mem::take(&mut thread.busy);
            if let Some((callback, start)) = thread.running {
                of_window += (stop - start.max(self.start)).max(0);
                self.observe_duration(callback, index, stop - start);
            }
            // The share is NaN if the window has no length.
            let share = (of_window as f64 / length.as_nanos() as f64 * 100.0).min(100.0);
            busy.accept(share);
            threads.push(ExecutorThread { name: Arc::clone(name), busy: share });
        }
        let callback = |id: CallbackId| names.callbacks[id.index()].clone();
        let milliseconds = |duration: i64| milliseconds_between(0, duration);
        let longest = self.longest.take().map(|(id, thread, duration)| LongestCallback {
            callback: callback(id),
            thread: names.threads[thread].clone().unwrap_or_default(),
            milliseconds: milliseconds(duration),
        });
        if ended.step.is_some() && self.is_ready_of_system_time {
            (self.ready_to_run, self.waits) = (SummaryCollector::default(), Vec::with_capacity(Self::WAITS));
        }
        self.waits.sort_by_key(|wait| std::cmp::Reverse(wait.duration));
        let wait = |wait: Wait| CallbackWait {
            waiting: callback(wait.waiting),
            running: callback(wait.running),
            milliseconds: milliseconds(wait.duration),
        };
        let waits = self.waits.drain(..).map(wait).collect();
        let metrics = vec![
            (Metric::Busy, busy.summary()),
            (Metric::ReadyToRun, self.ready_to_run.take()),
            (Metric::LongestCallback, single_sample(longest.as_ref().map(|callback| callback.milliseconds))),
        ];
        self.finished = Some(Arc::new(ExecutorWindow { threads, longest, waits }));
        self.start = stop;
        for number in names.free_ended() {
            self.threads[number].running = None;
            self.threads[number].last.clear();
        }
        // A callback that is still running also counts in the next window, so that a stuck executor does not look
        // silent.
        let running = self.threads.iter().filter(|thread| thread.running.is_some()).count() as u64;
        (std::mem::replace(&mut self.count, running), metrics)
    }

    fn executor(&mut self) -> Option<Arc<ExecutorWindow>> {
        self.finished.take()
    }

    fn clear(&mut self, start: i64, _: bool) {
        let is_ready_of_system_time = self.is_ready_of_system_time;
        lock(&self.names.0).free_ended();
        *self = Self { start, is_ready_of_system_time, ..Self::new(self.names.clone()) };
    }
}

#[cfg(test)]
mod tests;
