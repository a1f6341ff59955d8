// SPDX-License-Identifier: Apache-2.0

//! An executor that measures the callbacks that it runs.

mod primitive;
mod runner;
mod statistics;
mod task;

use std::{
    mem,
    panic::{catch_unwind, AssertUnwindSafe},
    sync::{
        atomic::Ordering,
        mpsc::{channel, Receiver, Sender},
        Arc,
    },
    time::Instant,
};

use rclrs::{
    log_error, ExecutorChannel, ExecutorRuntime, ExecutorWorkerOptions, PayloadTask, RclrsError,
    SpinConditions, Waitable, WeakActivityListener, WorkerChannel,
};
use tokio::sync::oneshot;
use topic_statistics_core::mutex::lock;

use runner::{Conditions, Input, Inputs, Runner};
use task::{answer, BoxFuture, Message, Shared, Task, LOGGER};

pub(crate) use statistics::{claim, ExecutorStatistics};

/// An executor that measures the callbacks of all its nodes and workers, even of nodes without other statistics.
///
/// ```
/// use rclrs::*;
/// use rclrs_topic_statistics::{StatsExecutor, NodeStatistics};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Instead of create_basic_executor():
/// let mut executor = Context::default_from_env()?.create_executor(StatsExecutor::new());
/// let node = executor.create_node("robot")?;
/// let statistics = NodeStatistics::new(&node)?; // publishes them, as /robot:executor
/// # let spin = SpinOptions::default().timeout(std::time::Duration::from_millis(10));
/// # let _errors = executor.spin(spin);
/// # assert_eq!(statistics.executor().unwrap().source_name(), "/robot:executor");
/// # Ok(())
/// # }
/// ```
///
/// The first [`NodeStatistics`](crate::NodeStatistics) of a node on the executor publishes the statistics of the
/// executor, as a source with the metrics [`Busy`](crate::Metric::Busy), [`ReadyToRun`](crate::Metric::ReadyToRun) and
/// [`LongestCallback`](crate::Metric::LongestCallback). [`NodeStatistics::executor`](crate::NodeStatistics::executor)
/// returns these statistics to the node itself. Each window of these statistics has an
/// [`ExecutorWindow`](crate::ExecutorWindow) with the threads, the longest callback, and which callbacks waited for
/// which other callbacks. Without a `NodeStatistics`, the executor measures nothing.
///
/// The executor runs the same work as rclrs's basic executor, on the same threads. The node's scope contains everything
/// that does not belong to a worker. One thread takes the messages of the node's scope and calls its timers. The thread
/// that spins calls the callbacks of subscriptions and services, and polls tasks. Each worker has its own thread.
/// [`single_threaded`](Self::single_threaded) creates an executor that runs the node's scope on one thread.
pub struct StatsExecutor {
    shared: Arc<Shared>,
    messages: Receiver<Message>,
    /// The channel of changes of the workers: a new worker, or a thread of a worker that has ended. For each
    /// [`Message::Worker`] in `messages`, this channel contains one change.
    changes: Receiver<Change>,
    change: Sender<Change>,
    /// The wait sets of the node's scope and of the workers while the executor does not spin; empty while it spins.
    runners: Vec<Runner>,
    is_spinning: bool,
}

enum Change {
    /// The wait set of a new worker.
    New(Runner),
    /// The thread of a worker has ended, with or without an error; `None` if a callback has panicked.
    Ended(Option<(Runner, Result<(), RclrsError>)>),
}

impl std::fmt::Debug for StatsExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_single_threaded = self.shared.is_single_threaded;
        f.debug_struct("StatsExecutor")
            .field("is_single_threaded", &is_single_threaded)
            .finish_non_exhaustive()
    }
}

impl Default for StatsExecutor {
    fn default() -> Self {
        Self::new()
    }
}

impl StatsExecutor {
    /// Creates an executor for [`Context::create_executor`](rclrs::Context::create_executor), with the threads of
    /// rclrs's basic executor.
    pub fn new() -> Self {
        Self::with_threads(false)
    }

    /// Creates an executor that runs the node's scope on one thread, which is the thread that spins. This thread takes
    /// messages, calls callbacks and polls tasks, like rclcpp's `SingleThreadedExecutor`. Each worker still has its own
    /// thread.
    ///
    /// If one thread takes and handles a message, no message is passed to another thread, which saves time. The
    /// disadvantage is that a running callback blocks the node's scope. So the callback delays timers. Messages that
    /// arrive during the callback wait in the middleware's history, which can overflow. A callback must not wait until
    /// a timer or another callback of the node's scope has run: such a callback would wait forever.
    pub fn single_threaded() -> Self {
        Self::with_threads(true)
    }

    fn with_threads(is_single_threaded: bool) -> Self {
        let (sender, messages) = channel();
        let (change, changes) = channel();
        let shared = Arc::new(Shared::new(sender, is_single_threaded));
        Self { shared, messages, changes, change, runners: vec![], is_spinning: false }
    }
}

/// The state of the threads that run wait sets, while the executor spins.
#[derive(Default)]
struct Threads {
    running: usize,
    ended: Vec<Runner>,
    errors: Vec<RclrsError>,
    /// The wait set of the node's scope, if the thread that spins also waits on this wait set.
    of_node: Option<Runner>,
    /// Whether all threads of wait sets have ended. If so, no further thread is started.
    is_ending: bool,
}

impl Threads {
    fn end(&mut self, ended: Option<(Runner, Result<(), RclrsError>)>) {
        self.running -= 1;
        match ended {
            Some((runner, result)) => {
                self.ended.push(runner);
                self.errors.extend(result.err());
            }
            None => log_error!(LOGGER, "A callback panicked, and its worker has ended"),
        }
    }
}

impl StatsExecutor {
    /// The largest number of tasks and changes of workers that are handled between two waits. Without this limit, a
    /// task that always wakes itself would block subscriptions and timers.
    const AT_ONCE: usize = 64;

    /// Returns the conditions under which the executor stops. If the caller has passed a promise that stops the
    /// executor, a new task awaits this promise.
    fn conditions(&self, mut conditions: SpinConditions) -> Arc<Conditions> {
        if let Some(promise) = conditions.options.until_promise_resolved.take() {
            let (shared, halt) = (Arc::clone(&self.shared), Arc::clone(&conditions.halt_spinning));
            Task::start(
                &self.shared,
                Box::pin(async move {
                    // The executor also stops if the sender of the promise was dropped.
                    let _resolved = promise.await;
                    // The flag is set before the wait sets are woken, so that each woken wait set sees the flag. A wait
                    // set that starts later reads the flag before it waits.
                    halt.store(true, Ordering::Release);
                    shared.wake_all();
                }),
            );
        }
        Arc::new(Conditions {
            only_next_available_work: conditions.options.only_next_available_work,
            stop_time: conditions.options.timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            context: conditions.context,
            halt_spinning: conditions.halt_spinning,
        })
    }

    fn handle(&self, message: Message, conditions: &Arc<Conditions>, threads: &mut Threads) {
        match message {
            Message::Task(task) => task.poll(),
            Message::Worker => match self.changes.try_recv() {
                Ok(Change::New(runner)) => self.start(runner, conditions, threads),
                Ok(Change::Ended(ended)) => threads.end(ended),
                Err(_) => {}
            },
        }
    }

    /// Starts the thread of a wait set. If the calling thread has to run the wait set, stores the wait set instead.
    fn start(&self, mut runner: Runner, conditions: &Arc<Conditions>, threads: &mut Threads) {
        if threads.is_ending || conditions.halt_spinning.load(Ordering::Acquire) {
            threads.ended.push(runner);
            return;
        }
        if self.shared.is_single_threaded && runner.is_of_node() {
            threads.of_node = Some(runner);
            return;
        }
        threads.running += 1;
        let (shared, change) = (Arc::clone(&self.shared), self.change.clone());
        let conditions = Arc::clone(conditions);
        std::thread::spawn(move || {
            let run = AssertUnwindSafe(|| {
                let result = runner.run(&conditions, || false);
                (runner, result)
            });
            send(&shared, &change, Change::Ended(catch_unwind(run).ok()));
        });
    }

    /// Handles at most [`AT_ONCE`](Self::AT_ONCE) messages in the queue. Returns whether there may be more messages.
    fn handle_all(&self, conditions: &Arc<Conditions>, threads: &mut Threads) -> bool {
        self.shared.reset_woken();
        for _ in 0..Self::AT_ONCE {
            match self.messages.try_recv() {
                Ok(message) => self.handle(message, conditions, threads),
                Err(_) => return false,
            }
        }
        true
    }
}

impl ExecutorRuntime for StatsExecutor {
    fn channel(&self) -> Arc<dyn ExecutorChannel> {
        Arc::new(Channel { shared: Arc::clone(&self.shared), change: self.change.clone() })
    }

    /// Panics if a callback panicked during an earlier call of `spin`. rclrs's basic executor also panics then.
    fn spin(&mut self, conditions: SpinConditions) -> Vec<RclrsError> {
        let has_panicked = mem::replace(&mut self.is_spinning, true);
        assert!(!has_panicked, "the executor cannot spin again after a callback has panicked");
        let conditions = self.conditions(conditions);
        let shared = Arc::clone(&self.shared);
        let _spinning = shared.spin();
        let mut threads = Threads::default();
        for runner in mem::take(&mut self.runners) {
            self.start(runner, &conditions, &mut threads);
        }
        // The first message to a new executor adds the wait set of the node's scope.
        self.handle_all(&conditions, &mut threads);
        if let Some(mut of_node) = threads.of_node.take() {
            let result = of_node.run(&conditions, || self.handle_all(&conditions, &mut threads));
            threads.errors.extend(result.err());
            threads.ended.push(of_node);
        }
        while threads.running > 0 {
            let Ok(message) = self.messages.recv() else { break };
            self.handle(message, &conditions, &mut threads);
        }
        // The tasks that are already queued are still polled, although the executor is ending.
        threads.is_ending = true;
        while let Ok(message) = self.messages.try_recv() {
            self.handle(message, &conditions, &mut threads);
        }
        self.runners = threads.ended;
        self.is_spinning = false;
        threads.errors
    }

    fn spin_async(
        mut self: Box<Self>,
        conditions: SpinConditions,
    ) -> BoxFuture<(Box<dyn ExecutorRuntime>, Vec<RclrsError>)> {
        let (sender, spun) = oneshot::channel();
        std::thread::spawn(move || {
            let errors = self.spin(conditions);
            // Sending fails if the caller has dropped the future.
            let _sent = sender.send((self as Box<dyn ExecutorRuntime>, errors));
        });
        Box::pin(async move { spun.await.expect("a callback has panicked on the thread of the executor") })
    }
}

struct Channel {
    shared: Arc<Shared>,
    change: Sender<Change>,
}

/// Sends a change of the workers to the thread that spins.
fn send(shared: &Shared, sender: &Sender<Change>, change: Change) {
    // Sending fails only after the executor was dropped.
    if sender.send(change).is_ok() {
        shared.send(Message::Worker);
    }
}

impl ExecutorChannel for Channel {
    fn create_worker(&self, options: ExecutorWorkerOptions) -> Arc<dyn WorkerChannel> {
        let Self { shared, change } = self;
        let number = shared.add(Arc::downgrade(&options.guard_condition));
        let is_of_node = number == 0;
        let thread = match number {
            0 if shared.is_single_threaded => shared.thread.clone(),
            0 => shared.measured.recorder("node"),
            _ => shared.measured.recorder(&format!("worker {number}")),
        };
        let (runner, inputs) = Runner::new(shared, options, thread, is_of_node);
        send(shared, change, Change::New(runner));
        Arc::new(Worker { shared: Arc::clone(shared), inputs })
    }

    fn wake_all_wait_sets(&self) {
        self.shared.wake_all();
    }
}

struct Worker {
    shared: Arc<Shared>,
    inputs: Inputs,
}

impl WorkerChannel for Worker {
    fn add_async_task(&self, future: BoxFuture<()>) {
        if !answer(&self.shared.measured) {
            Task::start(&self.shared, future);
        }
    }

    fn add_to_wait_set(&self, waitable: Waitable) {
        // Sending fails after the wait set was dropped, which happens often while an executor is ending.
        let _sent = self.inputs.inputs.send(Input::Waitable(waitable));
    }

    fn send_payload_task(&self, task: PayloadTask) {
        let _sent = self.inputs.inputs.send(Input::Task(task, self.shared.measured.now()));
    }

    fn add_activity_listener(&self, listener: WeakActivityListener) {
        lock(&self.inputs.activity_listeners).push(listener);
    }
}
