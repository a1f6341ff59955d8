// SPDX-License-Identifier: Apache-2.0

//! The tasks of the executor, and the state that all its threads share.

use std::{
    cell::{Cell, RefCell},
    future::Future,
    pin::Pin,
    sync::{
        atomic::{AtomicBool, AtomicI64, Ordering},
        mpsc::Sender,
        Arc, Mutex, OnceLock, Weak,
    },
    task::{Context, Wake, Waker},
};

use rclrs::{log_error, GuardCondition, Node};
use topic_statistics_core::{
    mutex::lock,
    record::{
        clock::monotonic,
        executions::{CallbackId, Executions, ExecutorNames, ThreadRecorder},
        windowed::Windowed,
    },
    CallbackKind, ExecutorCallback,
};

pub(super) const LOGGER: &str = "rclrs_topic_statistics.executor";

pub(super) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pub(super) enum Message {
    /// A task that is ready to be polled.
    Task(Arc<Task>),
    /// A worker has changed. The change itself is sent through another channel.
    Worker,
}

pub(crate) struct Measured {
    pub(super) executions: Arc<Windowed<Executions>>,
    pub(super) names: ExecutorNames,
    /// Whether a `NodeStatistics` has the right to publish the measurements.
    pub(super) is_claimed: AtomicBool,
}

impl Measured {
    fn new() -> Arc<Self> {
        let names = ExecutorNames::default();
        let executions = Arc::new(Windowed::new(Executions::new(names.clone())));
        Arc::new(Self { executions, names, is_claimed: AtomicBool::new(false) })
    }

    pub(super) fn recorder(&self, thread: &str) -> ThreadRecorder {
        ThreadRecorder::new(Arc::clone(&self.executions), &self.names, thread)
    }

    /// Returns the time on the monotonic clock; [`Task::UNKNOWN`] if the measurements are disabled.
    pub(super) fn now(&self) -> i64 {
        match self.executions.is_enabled() {
            true => monotonic(),
            false => Task::UNKNOWN,
        }
    }
}

/// The state that the threads of an executor share.
pub(super) struct Shared {
    pub(super) messages: Sender<Message>,
    /// Whether the thread that spins also waits for messages and timers of the node's scope.
    pub(super) is_single_threaded: bool,
    /// The guard conditions of all wait sets. The first guard condition belongs to the node's scope.
    guard_conditions: Mutex<Vec<Weak<GuardCondition>>>,
    node: OnceLock<Weak<GuardCondition>>,
    /// Whether the wait set of the node's scope was woken since the last read of the messages.
    is_woken: AtomicBool,
    /// The time when the executor first spun, in nanoseconds on the monotonic clock.
    first_spin: OnceLock<i64>,
    pub(super) measured: Arc<Measured>,
    pub(super) thread: ThreadRecorder,
    /// All tasks that do not belong to a callback are measured under this identifier.
    pub(super) task: CallbackId,
}

thread_local! {
    /// The address of the executor that spins on this thread.
    static SPINNING: Cell<*const Shared> = const { Cell::new(std::ptr::null()) };
    /// The callback of the message or request that this thread is taking in the node's scope.
    static TAKING: Cell<Option<CallbackId>> = const { Cell::new(None) };
    /// Whether this thread is in the function [`find_measured`], which asks a node for its executor.
    static IS_ASKING: Cell<bool> = const { Cell::new(false) };
    static ANSWER: RefCell<Option<Arc<Measured>>> = const { RefCell::new(None) };
}

/// Returns the measurements of a node's executor; `None` if the executor is not a `StatsExecutor`.
///
/// rclrs has no function that returns the executor of a node. But when a task is created, rclrs passes the task to the
/// node's executor on the same thread. So a `StatsExecutor` can set a thread-local variable that this function reads.
pub(super) fn find_measured(node: &Node) -> Option<Arc<Measured>> {
    IS_ASKING.set(true);
    // An executor of another kind runs no code for this query, because the query ends when its promise is dropped.
    drop(node.commands().query(async {}));
    IS_ASKING.set(false);
    ANSWER.take()
}

/// If this thread is in [`find_measured`], gives the measurements to that function and returns true.
pub(super) fn answer(measured: &Arc<Measured>) -> bool {
    let is_asking = IS_ASKING.get();
    if is_asking {
        ANSWER.set(Some(Arc::clone(measured)));
    }
    is_asking
}

/// Sets a thread-local value until the `Scope` is dropped.
pub(super) struct Scope<T: Copy + 'static>(&'static std::thread::LocalKey<Cell<T>>, T);

impl<T: Copy + 'static> Scope<T> {
    fn enter(key: &'static std::thread::LocalKey<Cell<T>>, value: T) -> Self {
        Self(key, key.replace(value))
    }
}

impl<T: Copy + 'static> Drop for Scope<T> {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

/// Until the returned scope is dropped, tasks that this thread creates count as runs of this callback.
pub(super) fn taking(callback: CallbackId) -> Scope<Option<CallbackId>> {
    Scope::enter(&TAKING, Some(callback))
}

impl Shared {
    pub(super) fn new(messages: Sender<Message>, is_single_threaded: bool) -> Self {
        let measured = Measured::new();
        let task = measured.names.id(ExecutorCallback::new(CallbackKind::Task, ""));
        Self {
            messages,
            is_single_threaded,
            guard_conditions: Mutex::default(),
            node: OnceLock::new(),
            is_woken: AtomicBool::new(false),
            first_spin: OnceLock::new(),
            thread: measured.recorder("spin"),
            measured,
            task,
        }
    }

    /// Adds the wait set of a scope. Returns the number of the scope: 0 for the node's scope, and from 1 for workers.
    pub(super) fn add(&self, guard_condition: Weak<GuardCondition>) -> usize {
        let _first = self.node.set(guard_condition.clone());
        let mut all = lock(&self.guard_conditions);
        all.push(guard_condition);
        all.len() - 1
    }

    pub(super) fn wake_all(&self) {
        let all: Vec<_> = lock(&self.guard_conditions).iter().filter_map(Weak::upgrade).collect();
        all.iter().for_each(|guard_condition| trigger(guard_condition));
    }

    /// Marks the calling thread as the thread that spins, until the returned scope is dropped.
    pub(super) fn spin(&self) -> Scope<*const Self> {
        self.first_spin.get_or_init(monotonic);
        Scope::enter(&SPINNING, std::ptr::from_ref(self))
    }

    fn is_spinning_here(&self) -> bool {
        std::ptr::eq(SPINNING.get(), self)
    }

    /// Returns the time from which a callback counts as waiting. This time is `since`, or the time of the first spin if
    /// that is later, because no callback can run before the first spin.
    pub(super) fn ready(&self, since: i64) -> i64 {
        since.max(self.first_spin.get().copied().unwrap_or(since))
    }

    /// Sends a message to the thread that spins, and wakes this thread if it may be waiting in the wait set of the
    /// node's scope.
    pub(super) fn send(&self, message: Message) {
        // Sending fails only after the executor was dropped.
        if self.messages.send(message).is_err() || !self.is_single_threaded || self.is_spinning_here() {
            return;
        }
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            if let Some(guard_condition) = self.node.get().and_then(Weak::upgrade) {
                trigger(&guard_condition);
            }
        }
    }

    /// Lets the next message wake the wait set of the node's scope again. Call this before reading the messages.
    pub(super) fn reset_woken(&self) {
        // Unlike a store, a swap also acquires: messages sent before the flag was set are visible after the swap.
        self.is_woken.swap(false, Ordering::AcqRel);
    }
}

fn trigger(guard_condition: &GuardCondition) {
    if let Err(error) = guard_condition.trigger() {
        log_error!(LOGGER, "A wait set cannot be woken: {error}");
    }
}

/// A future that the executor runs.
pub(super) struct Task {
    future: Mutex<Option<BoxFuture<()>>>,
    shared: Arc<Shared>,
    callback: CallbackId,
    /// The time when the task was queued, in nanoseconds on the monotonic clock; 0 if the task is not queued;
    /// [`UNKNOWN`](Self::UNKNOWN) if the time is unknown.
    queued: AtomicI64,
}

impl Task {
    /// The value of `queued` if the task is queued, but nobody knows since when.
    const UNKNOWN: i64 = -1;

    /// Queues a new task.
    pub(super) fn start(shared: &Arc<Shared>, future: BoxFuture<()>) {
        let taken = TAKING.get();
        // If this thread takes a message and then also calls the callback, the message has waited only in the
        // middleware. How long it waited there is unknown.
        let is_called_next = taken.is_some() && shared.is_single_threaded && shared.is_spinning_here();
        let queued = if is_called_next { Self::UNKNOWN } else { shared.measured.now() };
        let task = Self {
            future: Mutex::new(Some(future)),
            shared: Arc::clone(shared),
            callback: taken.unwrap_or(shared.task),
            queued: AtomicI64::new(queued),
        };
        shared.send(Message::Task(Arc::new(task)));
    }

    pub(super) fn poll(self: Arc<Self>) {
        // From this swap on, a wake-up queues the task again.
        let queued = self.queued.swap(0, Ordering::AcqRel);
        let Some(mut future) = lock(&self.future).take() else { return };
        let ready = (queued > 0).then(|| self.shared.ready(queued));
        let waker = Waker::from(Arc::clone(&self));
        let pending = self.shared.thread.run(self.callback, ready, move || {
            let is_pending = future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending();
            is_pending.then_some(future)
        });
        if pending.is_some() {
            *lock(&self.future) = pending;
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let now = self.shared.measured.now();
        if self.queued.compare_exchange(0, now, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.shared.send(Message::Task(Arc::clone(self)));
        }
    }
}
