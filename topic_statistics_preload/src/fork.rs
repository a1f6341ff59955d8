// SPDX-License-Identifier: Apache-2.0

//! Prevents `fork` from copying an initialisation that a thread has not finished. Otherwise the child would wait
//! forever for this thread, which exists only in the parent.

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

static IN_CHILD: OnceLock<fn()> = OnceLock::new();

/// While this mutex is locked, calls of `fork` wait.
static FORKS: Mutex<()> = Mutex::new(());

thread_local! {
    // These variables have no destructors, so their use allocates nothing.
    static IS_BLOCKING: Cell<bool> = const { Cell::new(false) };
    static FORKING: Cell<Option<ManuallyDrop<MutexGuard<'static, ()>>>> = const { Cell::new(None) };
}

/// Runs code that takes the dynamic linker's locks or initialises something once. While the code runs, other threads
/// wait before they fork, and signals to this thread wait, because a signal handler may fork.
pub fn with_blocked_forks<T>(run: impl FnOnce() -> T) -> T {
    static IS_HANDLED: AtomicBool = AtomicBool::new(false);
    if IS_BLOCKING.get() {
        return run();
    }
    if !IS_HANDLED.swap(true, Ordering::Relaxed) {
        // SAFETY: The functions live as long as this library, which is never unloaded. If the call fails, forks do not
        // wait, and a child does not stop its statistics: the child may wait forever for a locked mutex.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    }
    with_blocked_signals(|| {
        let _blocked = lock(&FORKS);
        IS_BLOCKING.set(true);
        let result = catch_unwind(AssertUnwindSafe(run));
        IS_BLOCKING.set(false);
        result
    })
    .unwrap_or_else(|panic| resume_unwind(panic))
}

pub fn call_in_children(function: fn()) {
    IN_CHILD.get_or_init(|| function);
}

unsafe extern "C" fn before() {
    if !IS_BLOCKING.get() {
        FORKING.set(Some(ManuallyDrop::new(lock(&FORKS))));
    }
}

unsafe extern "C" fn in_parent() {
    FORKING.take().map(ManuallyDrop::into_inner);
}

unsafe extern "C" fn in_child() {
    FORKING.take().map(ManuallyDrop::into_inner);
    if let Some(function) = IN_CHILD.get() {
        function();
    }
}

/// Runs a function while this thread receives no signals. Threads that the function starts never receive signals,
/// because they inherit this thread's signal mask. So only the host's own threads handle signals.
fn with_blocked_signals<T>(run: impl FnOnce() -> T) -> T {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: The first call fills `all`. The second call reads `all` and fills `before`.
    let is_blocked = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0
    };
    let result = run();
    if is_blocked {
        // SAFETY: The call above has filled the set.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    }
    result
}
