// SPDX-License-Identifier: Apache-2.0

//! Tasks of the executor, and what all its threads share.

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

/// The logger of the executor.
pub(super) const LOGGER: &str = "rclrs_topic_statistics.executor";

/// rclrs's tasks.
pub(super) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What the thread that spins is sent.
pub(super) enum Message {
    /// A task that can go on.
    Task(Arc<Task>),
    /// There is one more change of the workers, which another channel has.
    Worker,
}

/// What an executor measures.
pub(crate) struct Measured {
    pub(super) executions: Arc<Windowed<Executions>>,
    pub(super) names: ExecutorNames,
    /// Whether a node publishes it.
    is_claimed: AtomicBool,
}

impl Measured {
    fn new() -> Arc<Self> {
        let names = ExecutorNames::default();
        let executions = Arc::new(Windowed::new(Executions::new(names.clone())));
        Arc::new(Self { executions, names, is_claimed: AtomicBool::new(false) })
    }

    /// Returns the part of a thread.
    pub(super) fn recorder(&self, thread: &str) -> ThreadRecorder {
        ThreadRecorder::new(Arc::clone(&self.executions), &self.names, thread)
    }

    /// Claims to publish it. Returns false if another one does.
    pub(super) fn claim(&self) -> bool {
        !self.is_claimed.swap(true, Ordering::AcqRel)
    }

    pub(super) fn release(&self) {
        self.is_claimed.store(false, Ordering::Release);
    }

    /// Returns the time on the monotonic clock; [`Task::UNKNOWN`] if nothing is measured.
    pub(super) fn now(&self) -> i64 {
        match self.executions.is_enabled() {
            true => monotonic(),
            false => Task::UNKNOWN,
        }
    }
}

/// What the threads of an executor share.
pub(super) struct Shared {
    pub(super) messages: Sender<Message>,
    /// Whether the thread that spins also waits in the node's scope.
    pub(super) is_single_threaded: bool,
    /// All of them, to wake all wait sets. The first is the node's scope.
    guard_conditions: Mutex<Vec<Weak<GuardCondition>>>,
    node: OnceLock<Weak<GuardCondition>>,
    /// Whether the wait set of the node's scope was woken since the messages were read last.
    is_woken: AtomicBool,
    /// When the executor has spun first, on the monotonic clock.
    first_spin: OnceLock<i64>,
    pub(super) measured: Arc<Measured>,
    /// Of the thread that spins.
    pub(super) thread: ThreadRecorder,
    /// Of tasks that no callback stands for.
    pub(super) task: CallbackId,
}

thread_local! {
    /// The executor that spins on this thread, by its address.
    static SPINNING: Cell<*const Shared> = const { Cell::new(std::ptr::null()) };
    /// The callback in the node's scope that this thread takes a message of.
    static TAKING: Cell<Option<CallbackId>> = const { Cell::new(None) };
    /// Whether this thread asks for the executor of a node.
    static IS_ASKING: Cell<bool> = const { Cell::new(false) };
    static ANSWER: RefCell<Option<Arc<Measured>>> = const { RefCell::new(None) };
}

/// Returns what the executor of a node measures; None if it is another kind of executor.
///
/// rclrs does not tell on which executor a node is. But it hands a task to the executor on the same thread.
pub(super) fn find_measured(node: &Node) -> Option<Arc<Measured>> {
    IS_ASKING.set(true);
    // On another executor this does nothing: a query ends if its promise is dropped.
    drop(node.commands().query(async {}));
    IS_ASKING.set(false);
    ANSWER.take()
}

/// Answers [`find_measured`]. Returns whether it was asked.
pub(super) fn answer(measured: &Arc<Measured>) -> bool {
    let is_asking = IS_ASKING.get();
    if is_asking {
        ANSWER.set(Some(Arc::clone(measured)));
    }
    is_asking
}

/// Sets a thread-local value until it is dropped.
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

/// Has the tasks that are created meanwhile belong to that callback.
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

    /// Adds the wait set of a worker. Returns its number: 0 of the node's scope.
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

    /// Marks the thread as the one that spins. Returns the scope, in which it is marked.
    pub(super) fn spin(&self) -> Scope<*const Self> {
        self.first_spin.get_or_init(monotonic);
        Scope::enter(&SPINNING, std::ptr::from_ref(self))
    }

    fn is_spinning_here(&self) -> bool {
        std::ptr::eq(SPINNING.get(), self)
    }

    /// Returns the time from which a callback can be said to wait: before the executor spun, nothing could run.
    pub(super) fn ready(&self, since: i64) -> i64 {
        since.max(self.first_spin.get().copied().unwrap_or(since))
    }

    /// Sends a message to the thread that spins, which may be in the wait set of the node's scope.
    pub(super) fn send(&self, message: Message) {
        // It can be received as long as the executor exists.
        if self.messages.send(message).is_err() || !self.is_single_threaded || self.is_spinning_here() {
            return;
        }
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            if let Some(guard_condition) = self.node.get().and_then(Weak::upgrade) {
                trigger(&guard_condition);
            }
        }
    }

    /// Has the next message wake the wait set again. Call it before reading the messages.
    pub(super) fn reset_woken(&self) {
        // A swap, because it sees the messages that were sent before it was set.
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
    /// When it was queued; 0 if it is not queued.
    queued: AtomicI64,
}

impl Task {
    /// It is queued, and it is not known when it became ready.
    const UNKNOWN: i64 = -1;

    /// Queues a new task.
    pub(super) fn start(shared: &Arc<Shared>, future: BoxFuture<()>) {
        let taken = TAKING.get();
        // What is taken and called by one thread has waited in the middleware, for an unknown time.
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

    /// Polls it once.
    pub(super) fn poll(self: Arc<Self>) {
        // Whoever wakes it from now on queues it again.
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
