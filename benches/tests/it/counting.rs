// SPDX-License-Identifier: Apache-2.0

//! Counts the allocations of a single thread: the bytes that Rust code allocates, and the number of allocations of
//! Rust, C and C++ code. Other threads do not affect these counts.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    ffi::{c_int, c_void, CStr},
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
};

// The initial values are constants, because an access that initialises a value could itself allocate.
thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
    /// The thread's number of allocations when `rcl_wait` last returned; what the thread has last taken since then, as
    /// a [`Taken`]; and how often it has taken something since then.
    static ROUND: Cell<(u64, u64, u64)> = const { Cell::new((0, 0, 0)) };
    /// The thread's number of allocations when a callback last called [`call`].
    static CALLED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Returns the number of allocations of this thread so far.
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Returns the bytes that Rust code on this thread has allocated and not freed.
pub fn bytes() -> i64 {
    BYTES.get()
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Counting;

// SAFETY: All calls go to the system's allocator, which fulfils the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size() as i64);
        // SAFETY: The called function has the same contract, which the caller fulfils.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get() - layout.size() as i64);
        // SAFETY: The called function has the same contract, which the caller fulfils.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Replaces allocation functions of libc in the whole process. Each replacement counts the call, and then calls libc's
/// own function by its internal name.
macro_rules! count {
    ($($name:ident($($argument:ident: $type:ty),*) as $real:ident;)*) => {$(
        extern "C" {
            fn $real($($argument: $type),*) -> *mut c_void;
        }

        /// # Safety
        ///
        /// As for libc's function.
        #[no_mangle]
        unsafe extern "C" fn $name($($argument: $type),*) -> *mut c_void {
            ALLOCATIONS.set(ALLOCATIONS.get() + 1);
            // SAFETY: The called function has the same contract, which the caller fulfils.
            unsafe { $real($($argument),*) }
        }
    )*};
}

count! {
    malloc(size: usize) as __libc_malloc;
    calloc(number: usize, size: usize) as __libc_calloc;
    realloc(memory: *mut c_void, size: usize) as __libc_realloc;
    aligned_alloc(alignment: usize, size: usize) as __libc_memalign;
}

/// Replaces functions of rcl in this program. Each replacement calls rcl's own function, and runs some code before and
/// after that call.
macro_rules! wrap {
    ($($name:ident($($argument:ident: $type:ty),*), $before:expr, $after:expr;)*) => {$(
        /// # Safety
        ///
        /// As for rcl's function.
        #[no_mangle]
        unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            let name = CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()).unwrap();
            // SAFETY: The loader finds this program's function of this name first. The next function of this name is
            // that of rcl.
            let real = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
            // SAFETY: rclrs links rcl, whose function has this type.
            let real: unsafe extern "C" fn($($type),*) -> c_int = unsafe { std::mem::transmute(real) };
            $before();
            // SAFETY: The called function has the same contract, which the caller fulfils.
            let result = unsafe { real($($argument),*) };
            $after(result);
            result
        }
    )*};
}

type Any = *mut c_void;

wrap! {
    rcl_wait(set: Any, timeout: i64), end_round, |_| ROUND.set((allocations(), 0, 0));
    rcl_take(subscription: Any, message: Any, info: Any, allocation: Any), || (), take(Taken::Message);
    rcl_take_request_with_info(service: Any, header: Any, request: Any), || (), take(Taken::Request);
    rcl_take_response_with_info(client: Any, header: Any, response: Any), || (), take(Taken::Response);
    rcl_timer_call(timer: Any), || (), take(Taken::Timer);
}

/// What a thread has done in a round: taken a message, a request or a response, or called a timer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Taken {
    Message,
    Request,
    Response,
    Timer,
}

fn take(taken: Taken) -> impl Fn(c_int) {
    move |result| {
        if result == 0 {
            let (begun, _, number) = ROUND.get();
            ROUND.set((begun, taken as u64, number + 1));
        }
    }
}

/// Ends a round. A round lasts from a return of `rcl_wait` to the next call of `rcl_wait`. Only rounds with exactly one
/// take are recorded.
fn end_round() {
    if let (begun, taken, 1) = ROUND.get() {
        push(taken, allocations() - begun);
    }
}

/// The counted callbacks call this function. It records the allocations of this thread since the previous callback.
pub fn call() {
    if let Some(before) = CALLED.replace(Some(allocations())) {
        push(CALL, allocations() - before);
    }
    CALLS.fetch_add(1, SeqCst);
}

const CALL: u64 = 100;
static CALLS: AtomicU64 = AtomicU64::new(0);
/// The recorded counts: the kind of each, and the number of allocations. Recording allocates nothing.
static COUNTS: [[AtomicU64; 2]; 8192] = [const { [const { AtomicU64::new(0) }; 2] }; 8192];
static USED: AtomicUsize = AtomicUsize::new(0);

fn push(kind: u64, count: u64) {
    if let Some(place) = COUNTS.get(USED.fetch_add(1, SeqCst)) {
        place[0].store(kind, SeqCst);
        place[1].store(count, SeqCst);
    }
}

/// Returns the number of callbacks so far.
pub fn calls() -> u64 {
    CALLS.load(SeqCst)
}

/// Discards all counts.
pub fn restart() {
    USED.store(0, SeqCst);
}

/// Returns the allocations of the rounds with this kind of take, and the allocations from callback to callback. Both
/// are quartiles and not averages, because a queue of rclrs grows, and so allocates, only every 31st time.
pub fn counted(taken: Taken) -> [[u64; 3]; 2] {
    [taken as u64, CALL].map(|kind| {
        let counts =
            COUNTS[..USED.load(SeqCst)].iter().map(|count| count.each_ref().map(|value| value.load(SeqCst)));
        let mut counts: Vec<u64> = counts.filter(|count| count[0] == kind).map(|count| count[1]).collect();
        counts.sort_unstable();
        assert!(counts.len() > 100, "{} counts of {taken:?} or its callbacks", counts.len());
        [1, 2, 3].map(|quarter| counts[counts.len() * quarter / 4])
    })
}
