// SPDX-License-Identifier: Apache-2.0

//! Primitives for the synchronization of threads under loom, a model checker. In loom models, this file replaces
//! `sync.rs`. `cargo xtask models` runs the models.
//!
//! The models do not check the primitives of spin, crossbeam and tokio. Each replacement in this file gives the same
//! guarantees as the original primitive, and no further guarantees.

use std::{
    cell::Cell,
    collections::VecDeque,
    ops::{Deref, DerefMut},
    time::{Duration, Instant},
};

use atomic::{AtomicBool, AtomicUsize, Ordering};
use thread::{Thread, ThreadId};

pub(crate) use loom::{
    sync::{atomic, Condvar, Mutex, MutexGuard},
    thread,
};

thread_local! {
    /// The time that has passed in a model. A thread-local variable suffices, because all threads of a model run on one
    /// real thread.
    static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Returns the time in the model. The time changes only when the model calls [`pass`], because a model must not depend
/// on how long it runs.
pub(crate) fn now() -> Instant {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *START.get_or_init(Instant::now) + PASSED.get()
}

pub(crate) fn passed() -> Duration {
    PASSED.get()
}

pub(crate) fn pass(time: Duration) {
    PASSED.set(PASSED.get() + time);
}

/// Lets `time` pass in the model; no other thread runs meanwhile.
pub(crate) fn sleep(time: Duration) {
    pass(time);
}

/// Runs `code` without catching a panic: a panic means that the model has failed and ends.
pub(crate) fn catch_unwind<R>(code: impl FnOnce() -> R) -> std::thread::Result<R> {
    Ok(code())
}

/// A mutex that is locked by an exchange and unlocked by a store, like spin's mutex. A thread that waits for this mutex
/// parks instead of spinning, because loom would explore each turn of a spin loop.
pub(crate) struct SpinMutex<T> {
    is_locked: AtomicBool,
    waiting: std::sync::Mutex<Vec<Thread>>,
    /// The threads that have held the lock, in the order in which they held it.
    holders: std::sync::Mutex<Vec<ThreadId>>,
    /// The data. This std mutex is never contended, because `is_locked` keeps other threads out.
    data: std::sync::Mutex<T>,
}

pub(crate) struct SpinMutexGuard<'a, T> {
    mutex: &'a SpinMutex<T>,
    /// The guard of the data; `None` when the mutex is unlocked.
    data: Option<std::sync::MutexGuard<'a, T>>,
}

impl<T> SpinMutex<T> {
    pub(crate) fn new(data: T) -> Self {
        Self {
            is_locked: AtomicBool::new(false),
            waiting: std::sync::Mutex::default(),
            holders: std::sync::Mutex::default(),
            data: std::sync::Mutex::new(data),
        }
    }

    pub(crate) fn try_lock(&self) -> Option<SpinMutexGuard<'_, T>> {
        self.is_locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let data = self.data.try_lock().expect("a lock has one holder");
        self.holders.lock().expect("no panic").push(thread::current().id());
        Some(SpinMutexGuard { mutex: self, data: Some(data) })
    }

    /// Returns how many times this thread has taken the lock so far. The list of holders is not known to loom, so this
    /// function adds no interleavings.
    pub(crate) fn times_taken(&self) -> usize {
        let this = thread::current().id();
        self.holders.lock().expect("no panic").iter().filter(|holder| **holder == this).count()
    }

    pub(crate) fn lock(&self) -> SpinMutexGuard<'_, T> {
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            // loom runs no other thread between the exchange above and this line, so no unlock is missed in between.
            self.waiting.lock().expect("no panic").push(thread::current());
            thread::park();
        }
    }
}

impl<T> Deref for SpinMutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.data.as_ref().expect("it is locked")
    }
}

impl<T> DerefMut for SpinMutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.data.as_mut().expect("it is locked")
    }
}

impl<T> Drop for SpinMutexGuard<'_, T> {
    fn drop(&mut self) {
        self.data = None;
        self.mutex.is_locked.store(false, Ordering::Release);
        self.mutex.waiting.lock().expect("no panic").drain(..).for_each(|thread| thread.unpark());
    }
}

/// A bounded queue like crossbeam's. A push happens before the pop that returns the pushed value. A pop may miss the
/// value of a push that does not happen before the pop. At any time, at most one thread may pop.
///
/// In crossbeam, a push waits for a pop that has taken a value but has not freed the value's place yet. Here, such a
/// push panics, because the recording of a message must never wait.
pub(crate) struct ArrayQueue<T> {
    room: usize,
    pushed: AtomicUsize,
    popped: AtomicUsize,
    freed: AtomicUsize,
    values: std::sync::Mutex<Values<T>>,
}

struct Values<T> {
    queued: VecDeque<T>,
    /// The number of pushed values. Some threads may not see all of these pushes yet.
    pushed: usize,
}

impl<T> ArrayQueue<T> {
    pub(crate) fn new(room: usize) -> Self {
        let values = std::sync::Mutex::new(Values { queued: VecDeque::new(), pushed: 0 });
        let [pushed, popped, freed] = [0; 3].map(AtomicUsize::new);
        Self { room, pushed, popped, freed, values }
    }

    pub(crate) fn push(&self, value: T) -> Result<(), T> {
        loop {
            let pushed = self.values().pushed;
            // loom switches threads only at operations that it observes. So no other thread runs between the exchange
            // below and the insertion of the value.
            let is_full =
                |freed: &AtomicUsize| pushed - freed.load(Ordering::Acquire).min(pushed) >= self.room;
            if is_full(&self.freed) {
                assert!(is_full(&self.popped), "a push waits for a pop");
                return Err(value);
            }
            if self.pushed.compare_exchange(pushed, pushed + 1, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                let mut values = self.values();
                values.queued.push_back(value);
                values.pushed += 1;
                return Ok(());
            }
        }
    }

    pub(crate) fn pop(&self) -> Option<T> {
        let seen = self.pushed.load(Ordering::Acquire);
        let mut values = self.values();
        let popped = values.pushed - values.queued.len();
        let value = if seen > popped { values.queued.pop_front() } else { None };
        drop(values);
        if value.is_some() {
            self.popped.store(popped + 1, Ordering::Release);
            self.freed.store(popped + 1, Ordering::Release);
        }
        value
    }

    fn values(&self) -> std::sync::MutexGuard<'_, Values<T>> {
        self.values.try_lock().expect("loom runs no other thread meanwhile")
    }
}

/// A cell that is set only once, like std's.
pub(crate) struct OnceLock<T> {
    is_set: AtomicBool,
    value: std::sync::OnceLock<T>,
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        Self { is_set: AtomicBool::new(false), value: std::sync::OnceLock::new() }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.is_set.load(Ordering::Acquire).then(|| self.value.get()).flatten()
    }

    pub(crate) fn get_or_init(&self, create: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let value = self.value.get_or_init(create);
        self.is_set.store(true, Ordering::Release);
        value
    }
}

/// Channels of tokio. loom may run other threads before each operation of the sender.
pub(crate) mod watch {
    pub(crate) use tokio::sync::watch::Receiver;

    use super::{AtomicUsize, Ordering};

    pub(crate) struct Sender<T> {
        operations: AtomicUsize,
        sender: tokio::sync::watch::Sender<T>,
    }

    pub(crate) fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
        let (sender, receiver) = tokio::sync::watch::channel(value);
        (Sender { operations: AtomicUsize::new(0), sender }, receiver)
    }

    impl<T> Sender<T> {
        pub(crate) fn send_replace(&self, value: T) -> T {
            self.operations.fetch_add(1, Ordering::AcqRel);
            self.sender.send_replace(value)
        }

        pub(crate) fn borrow(&self) -> tokio::sync::watch::Ref<'_, T> {
            self.sender.borrow()
        }

        pub(crate) fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
            self.operations.fetch_add(1, Ordering::AcqRel);
            self.sender.send_if_modified(modify)
        }

        pub(crate) fn subscribe(&self) -> Receiver<T> {
            self.operations.fetch_add(1, Ordering::AcqRel);
            self.sender.subscribe()
        }
    }
}
