// SPDX-License-Identifier: Apache-2.0

//! The wait set of the node's scope or of a worker.

use std::{
    any::Any,
    collections::HashMap,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{channel, Receiver, Sender},
        Arc, Mutex,
    },
    time::{Duration, Instant},
};

use rclrs::{
    log_error, ActivityListenerCallback, Context, ExecutorWorkerOptions, GuardCondition, PayloadTask,
    RclReturnCode, RclrsError, WaitSet, Waitable, WeakActivityListener,
};
use topic_statistics_core::{
    mutex::lock,
    record::{clock::monotonic, executions::ThreadRecorder},
    CallbackKind,
};

use super::{
    primitive::{address, overdue, Primitive},
    task::{taking, Shared, LOGGER},
};

pub(super) enum Input {
    Waitable(Waitable),
    /// A function to run with the worker's payload, and the time (monotonic, ns) at which the function was sent.
    Task(PayloadTask, i64),
}

pub(super) struct Conditions {
    pub(super) only_next_available_work: bool,
    pub(super) stop_time: Option<Instant>,
    pub(super) context: Context,
    pub(super) halt_spinning: Arc<AtomicBool>,
}

/// A wait set and the primitives in it. The runner does the same as rclrs's `WaitSetRunner`, and measures the
/// callbacks.
pub(super) struct Runner {
    shared: Arc<Shared>,
    context: Context,
    /// `None` until the runner first runs. It is created only then, so that `spin` can return an error of the creation.
    wait_set: Option<WaitSet>,
    inputs: Receiver<Input>,
    activity_listeners: Arc<Mutex<Vec<WeakActivityListener>>>,
    /// The activity listeners whose callbacks are being called; empty at other times.
    listening: Vec<Arc<Mutex<Option<ActivityListenerCallback>>>>,
    payload: Box<dyn Any + Send>,
    is_of_node: bool,
    thread: ThreadRecorder,
    /// The known subscriptions, timers and other primitives of the wait set, by address. When a primitive is added, all
    /// entries are removed, because the new primitive can have the address of a dropped primitive.
    primitives: HashMap<usize, Primitive>,
    /// The guard condition wakes the wait set, and has to live as long as the wait set.
    _guard_condition: Arc<GuardCondition>,
}

/// The sending side of the inputs of a wait set, for other threads.
pub(super) struct Inputs {
    pub(super) inputs: Sender<Input>,
    pub(super) activity_listeners: Arc<Mutex<Vec<WeakActivityListener>>>,
}

impl Runner {
    pub(super) fn new(
        shared: &Arc<Shared>,
        options: ExecutorWorkerOptions,
        thread: ThreadRecorder,
        is_of_node: bool,
    ) -> (Self, Inputs) {
        let (sender, inputs) = channel();
        let activity_listeners = Arc::<Mutex<_>>::default();
        let runner = Self {
            shared: Arc::clone(shared),
            context: options.context,
            wait_set: None,
            inputs,
            activity_listeners: Arc::clone(&activity_listeners),
            listening: vec![],
            payload: options.payload,
            is_of_node,
            thread,
            primitives: HashMap::new(),
            _guard_condition: options.guard_condition,
        };
        (runner, Inputs { inputs: sender, activity_listeners })
    }

    /// Returns whether this runner runs the node's scope. In this scope, callbacks run as tasks.
    pub(super) fn is_of_node(&self) -> bool {
        self.is_of_node
    }

    /// Waits and runs callbacks until one of the conditions is met. `run_tasks` polls the queued tasks before each wait
    /// and after each primitive, and returns whether more tasks are queued.
    pub(super) fn run(
        &mut self,
        conditions: &Conditions,
        mut run_tasks: impl FnMut() -> bool,
    ) -> Result<(), RclrsError> {
        let mut is_first = true;
        loop {
            self.receive()?;
            let has_tasks = run_tasks();
            if conditions.only_next_available_work && !is_first {
                return Ok(());
            }
            is_first = false;
            if conditions.halt_spinning.load(Ordering::Acquire) || !conditions.context.ok() {
                return Ok(());
            }
            let left = conditions.stop_time.map(|stop| stop.saturating_duration_since(Instant::now()));
            let timeout = if has_tasks { Some(Duration::ZERO) } else { left };
            match self.wait(timeout, &mut run_tasks) {
                Ok(true) => self.listen(),
                Ok(false) => {}
                Err(RclrsError::RclError { code: RclReturnCode::Timeout, .. }) if has_tasks => {}
                Err(error) => return Err(error),
            }
            if conditions.stop_time.is_some_and(|stop| stop <= Instant::now()) {
                return Err(RclrsError::RclError { code: RclReturnCode::Timeout, msg: None });
            }
        }
    }

    /// Adds new primitives to the wait set, and runs the functions that other threads have sent to this worker.
    fn receive(&mut self) -> Result<(), RclrsError> {
        let mut new = vec![];
        while let Ok(input) = self.inputs.try_recv() {
            match input {
                Input::Waitable(waitable) => new.push(waitable),
                Input::Task(task, sent) => {
                    let ready = (sent > 0).then(|| self.shared.ready(sent));
                    self.thread.run(self.shared.task, ready, || task(&mut *self.payload));
                }
            }
        }
        let wait_set = match &mut self.wait_set {
            Some(wait_set) => wait_set,
            none => none.insert(WaitSet::new(&self.context)?),
        };
        if !new.is_empty() {
            self.primitives.clear();
            if let Err(error) = wait_set.add(new) {
                log_error!(LOGGER, "A primitive cannot be added to a wait set: {error}");
            }
        }
        Ok(())
    }

    /// Waits, and runs each primitive that rclrs reports as ready. Returns whether at least one primitive was ready.
    fn wait(
        &mut self,
        timeout: Option<Duration>,
        run_tasks: &mut impl FnMut() -> bool,
    ) -> Result<bool, RclrsError> {
        let Self { shared, wait_set, payload, is_of_node, thread, primitives, .. } = self;
        let Some(wait_set) = wait_set else { return Ok(false) };
        let mut is_active = false;
        wait_set.wait(timeout, |ready_kind, primitive| {
            is_active = true;
            let new = || Primitive::new(primitive, &shared.measured.names);
            let known = *primitives.entry(address(primitive)).or_insert_with(new);
            let mut ready = None;
            if known.kind == CallbackKind::Timer {
                // rclrs reports every timer as ready. But `execute` calls only the timers that are due, so the other
                // timers are left out here.
                let Some(overdue) = overdue(primitive) else { return Ok(()) };
                if known.is_steady && thread.is_enabled() {
                    ready = Some(shared.ready(monotonic().saturating_sub(overdue)));
                }
            }
            let result = {
                let _taking = (*is_of_node && known.creates_tasks()).then(|| taking(known.callback));
                // SAFETY: The primitives of a worker expect the payload that the worker was created with, and this
                // payload is that one. The payload of the node's scope is `()`.
                thread.run(known.callback, ready, || unsafe { primitive.execute(ready_kind, &mut **payload) })
            };
            run_tasks();
            result
        })?;
        Ok(is_active)
    }

    /// Calls the activity listeners of the worker. No lock is held during a call, so that a listener can add and change
    /// listeners.
    fn listen(&mut self) {
        let Self { shared, activity_listeners, listening, payload, thread, .. } = self;
        listening.extend(lock(activity_listeners).drain(..).filter_map(|listener| listener.upgrade()));
        for listener in &*listening {
            let callback = lock(listener).take();
            let Some(mut callback) = callback else { continue };
            if let ActivityListenerCallback::Listen(listen) = &mut callback {
                thread.run(shared.task, None, || listen(&mut **payload));
            }
            // If the callback has set a new callback of its own listener during the call, this line replaces the new
            // callback by the old one. rclrs does the same.
            lock(listener).replace(callback);
        }
        lock(activity_listeners).extend(listening.drain(..).map(|listener| Arc::downgrade(&listener)));
    }
}
