// SPDX-License-Identifier: Apache-2.0

//! What a child of `fork` must not find half done: it would wait for ever, for a thread that it does not have.

use std::{
    cell::Cell,
    mem::{ManuallyDrop, MaybeUninit},
    panic::{catch_unwind, resume_unwind, AssertUnwindSafe},
    sync::{
        atomic::{AtomicBool, Ordering},
        Mutex, MutexGuard, OnceLock,
    },
};

use topic_statistics_core::mutex::lock;

/// What a child is told by.
static TELL_CHILD: OnceLock<fn()> = OnceLock::new();

/// Held while forks wait.
static HELD_OFF: Mutex<()> = Mutex::new(());

thread_local! {
    // Without destructors: they allocate nothing.
    static HOLDS_OFF: Cell<bool> = const { Cell::new(false) };
    static FORKING: Cell<Option<ManuallyDrop<MutexGuard<'static, ()>>>> = const { Cell::new(None) };
}

/// Runs what takes locks of the dynamic linker, or begins something once: forks of other threads wait meanwhile, and so
/// do the signals of this one, because their handlers may fork.
pub fn hold_off<T>(run: impl FnOnce() -> T) -> T {
    static IS_HANDLED: AtomicBool = AtomicBool::new(false);
    if HOLDS_OFF.get() {
        return run();
    }
    if !IS_HANDLED.swap(true, Ordering::Relaxed) {
        // SAFETY: The functions live as long as this library, which is never unloaded. If it is refused, forks do not
        // wait, and a child takes itself for its parent, as far as its locks let it.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    }
    with_blocked_signals(|| {
        let _held_off = lock(&HELD_OFF);
        HOLDS_OFF.set(true);
        let result = catch_unwind(AssertUnwindSafe(run));
        HOLDS_OFF.set(false);
        result
    })
    .unwrap_or_else(|panic| resume_unwind(panic))
}

/// Calls a function in each child that is forked from now on.
pub fn tell_children(tell: fn()) {
    TELL_CHILD.get_or_init(|| tell);
}

unsafe extern "C" fn before() {
    if !HOLDS_OFF.get() {
        FORKING.set(Some(ManuallyDrop::new(lock(&HELD_OFF))));
    }
}

unsafe extern "C" fn in_parent() {
    FORKING.take().map(ManuallyDrop::into_inner);
}

unsafe extern "C" fn in_child() {
    FORKING.take().map(ManuallyDrop::into_inner);
    if let Some(tell) = TELL_CHILD.get() {
        tell();
    }
}

/// Runs something while this thread gets no signals; threads that it starts never get one: they are for the host's own.
fn with_blocked_signals<T>(run: impl FnOnce() -> T) -> T {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: The first call fills the set, and the second one reads it and fills the other one.
    let is_blocked = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0
    };
    let result = run();
    if is_blocked {
        // SAFETY: The call before has filled the set.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    }
    result
}
