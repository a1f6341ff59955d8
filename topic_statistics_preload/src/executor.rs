// SPDX-License-Identifier: Apache-2.0

//! Measures the executors of the process: how busy the threads that run callbacks are, and which callbacks take long.
//! rclcpp does not report which executor runs a callback, so the threads of all executors are one source.

use std::{
    cell::Cell,
    collections::HashMap,
    ffi::{c_void, CStr},
    sync::{Arc, LazyLock, Mutex, Once, OnceLock},
};

use topic_statistics_core::{
    mutex::lock,
    record::{
        executions::{CallbackId, Executions, ExecutorNames, ThreadRecorder},
        source::SourceHandle,
        windowed::Windowed,
    },
    CallbackKind, ExecutorCallback,
};

use crate::{
    abi::Node,
    log::line,
    process::{add_untitled, has_ended, protect, wants_executor},
    table::{Pointers, BOUND},
    thread::{self, Started, Thread},
};

static EXECUTOR: OnceLock<Option<Executor>> = OnceLock::new();
/// For each callback, by the callback's address: the index of the callback's ID, plus 1. The table stores these numbers
/// as pointers, which are never dereferenced.
static NUMBERS: Pointers<c_void> = Pointers::new();
static NAMES: LazyLock<Mutex<HashMap<usize, Named>>> = LazyLock::new(Mutex::default);

/// The name of a callback, from rclcpp's tracepoints.
struct Named {
    kind: CallbackKind,
    /// The topic of a subscription, or the period of a timer.
    name: String,
    symbol: String,
}

struct Executor {
    _source: SourceHandle,
    executions: Arc<Windowed<Executions>>,
    names: ExecutorNames,
    /// The ID that all callbacks without a name share.
    others: CallbackId,
    /// The recorders, by the threads' numbers. A new thread gets the number and the recorder of an ended thread.
    threads: [OnceLock<ThreadRecorder>; Executor::THREADS],
}

impl Executor {
    /// The largest number of threads that are measured at once.
    const THREADS: usize = 64;

    /// Returns the recorder of this thread; `None` if [`THREADS`](Self::THREADS) other threads are already measured.
    #[inline]
    fn thread(&self, thread: &Thread) -> Option<&ThreadRecorder> {
        match thread.number.get() {
            0 => self.add_thread(thread),
            number => self.threads.get(number - 1)?.get(),
        }
    }

    #[cold]
    fn add_thread(&self, thread: &Thread) -> Option<&ThreadRecorder> {
        static IS_FULL: Once = Once::new();
        // SAFETY: The function has no preconditions.
        let name = format!("thread {}", unsafe { libc::gettid() });
        let recorder = ThreadRecorder::within(Self::THREADS, Arc::clone(&self.executions), &self.names, name);
        let number = recorder.as_ref().map_or(Self::THREADS, ThreadRecorder::number);
        thread.number.set(number + 1);
        let Some(recorder) = recorder else {
            IS_FULL.call_once(|| {
                let bound = Self::THREADS;
                line(format_args!(
                    "a thread is not in the figures of the executor, which has more than {bound}"
                ));
            });
            return None;
        };
        let _thread_ends = END.try_with(|end| end.number.set(Some(number)));
        Some(self.threads.get(number)?.get_or_init(|| recorder))
    }
}

/// Measures the executors from now on, as a source of this node, if the options select them.
/// Safety: The node must be rmw's, or null.
pub unsafe fn begin(node: *const Node) {
    if EXECUTOR.get().is_some() {
        return;
    }
    let names = lock(&NAMES); // locked until all present names are added, so that no name is missed
    let begun = EXECUTOR.get_or_init(|| {
        let names = ExecutorNames::default();
        let executions = Arc::new(Windowed::new(Executions::new(names.clone()).ready_of_system_time()));
        let wanted = Arc::clone(&executions);
        // SAFETY: By contract.
        let source =
            unsafe { add_untitled(node, "executor", |options, _| options.has_executor.then_some(wanted)) }?;
        let others = names.id(ExecutorCallback::new(CallbackKind::Task, "(without a name)"));
        let threads = [const { OnceLock::new() }; Executor::THREADS];
        Some(Executor { _source: source, executions, names, others, threads })
    });
    if let Some(executor) = begun {
        names.iter().for_each(|(callback, named)| executor.number(*callback, named));
    }
}

/// Ends the figures of a thread when the thread ends.
struct ThreadEnd {
    /// The number of the thread in the executor; `None` if the thread has run no callback.
    number: Cell<Option<usize>>,
}

thread_local! {
    static END: ThreadEnd = const { ThreadEnd { number: Cell::new(None) } };
}

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        let Some(number) = self.number.get().filter(|_| !has_ended()) else { return };
        // A destructor that runs later on this thread may still run a callback. With a number above the limit, it is
        // not measured.
        thread::with(|thread| thread.number.set(Executor::THREADS + 1));
        let _panic = protect(|| executor().inspect(|executor| executor.names.end_thread(number)));
    }
}

fn executor() -> Option<&'static Executor> {
    EXECUTOR.get()?.as_ref()
}

#[inline]
pub fn is_enabled() -> bool {
    executor().is_some()
}

pub fn name_callback(callback: usize, kind: CallbackKind, name: &str) {
    rename(callback, |named| (named.kind, named.name) = (kind, name.to_owned()));
}

/// Adds the symbol of a callback to the callback's name. A callback that has no name at this time is a callback of a
/// service.
pub fn add_symbol(callback: usize, symbol: &CStr) {
    /// The largest number of characters of a symbol that are kept, because templates can make a symbol very long.
    const LONGEST: usize = 200;
    rename(callback, |named| named.symbol = symbol.to_string_lossy().chars().take(LONGEST).collect());
}

fn rename(callback: usize, change: impl FnOnce(&mut Named)) {
    if !wants_executor() {
        return;
    }
    let mut names = lock(&NAMES);
    if names.len() < BOUND || names.contains_key(&callback) {
        let unnamed = Named { kind: CallbackKind::Service, name: String::new(), symbol: String::new() };
        let named = names.entry(callback).or_insert(unnamed);
        change(named);
        if let Some(executor) = executor() {
            executor.number(callback, named);
        }
    }
}

/// Removes the name of a callback whose subscription or timer ends.
pub fn forget_callback(callback: usize) {
    if is_enabled() {
        NUMBERS.remove(callback);
        lock(&NAMES).remove(&callback);
    }
}

impl Executor {
    fn number(&self, callback: usize, named: &Named) {
        let name = [&*named.name, &*named.symbol].join(" ");
        let id = self.names.id(ExecutorCallback::new(named.kind, name.trim()));
        NUMBERS.remove(callback);
        NUMBERS.insert(callback, std::ptr::without_provenance_mut(id.index() + 1));
    }
}

/// Records that a callback starts on this thread. Returns whether the executors are measured.
#[inline]
pub fn start(thread: &Thread, callback: usize, started: impl FnOnce() -> Started) -> bool {
    let Some(executor) = executor() else { return false };
    let Some(recorder) = executor.thread(thread) else { return false };
    let id = NUMBERS.get(callback).and_then(|number| CallbackId::with_index(number.as_ptr().addr() - 1));
    let started = started();
    recorder.start(id.unwrap_or(executor.others), started.ready, || started.at);
    true
}

#[inline]
pub fn end(thread: &Thread, now: i64) {
    if let Some(recorder) = executor().and_then(|executor| executor.thread(thread)) {
        recorder.end(|| now);
    }
}
