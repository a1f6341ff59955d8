// SPDX-License-Identifier: Apache-2.0

//! The tracepoints by which rclcpp reports its callbacks and its intra-process communication. They are functions of
//! tracetools, which rclcpp calls whether anybody traces or not. See `tracetools/tracetools.h`.
//!
//! With intra-process communication, a publisher hands its messages to the subscriptions of its context. If anybody
//! else is subscribed, it publishes them by the middleware, too. The subscriptions of its context take these copies,
//! and discard them by the publisher's GID. No callback gets them: they are no messages.

use std::{
    cell::Cell,
    ffi::{c_char, c_void},
    mem::MaybeUninit,
    sync::{
        atomic::{AtomicUsize, Ordering},
        RwLock, RwLockWriteGuard,
    },
};

use topic_statistics_core::record::transport::Gid;

use crate::{
    abi::*,
    cause,
    log::line,
    process::{call, measured_publisher, measured_subscription, protect},
    real,
    table::Pointers,
};

/// The subscriptions that are measured, by the addresses of their callbacks. They may be destroyed meanwhile.
static CALLBACKS: Pointers<Endpoint> = Pointers::new();
/// The publishers that are measured and have intra-process communication, by [`key`].
static INTRA_PROCESS_PUBLISHERS: Pointers<Endpoint> = Pointers::new();
/// Written while a subscription ends. The callback of an intra-process message may outlive it: it reads.
static ENDING: RwLock<()> = RwLock::new(());

thread_local! {
    /// The subscription that this thread has created last, and the number of its callbacks.
    static CREATED: Cell<(*const Endpoint, usize)> = const { Cell::new((std::ptr::null(), 0)) };
}

/// The callbacks of a subscription: their addresses, 0 if there is none. One of rclcpp has one; with intra-process
/// communication it has two.
#[derive(Default)]
pub struct Callbacks([AtomicUsize; 2]);

impl Callbacks {
    /// Returns whether it is reported when they start.
    #[inline]
    pub fn are_reported(&self) -> bool {
        self.0[0].load(Ordering::Relaxed) != 0
    }

    /// Returns whether rclcpp discards a message that was taken: its publisher has handed it over in the process.
    #[inline]
    pub fn discard(&self, info: &MessageInfo, context: usize) -> bool {
        let is_intra_process = self.0[1].load(Ordering::Relaxed) != 0;
        is_intra_process && INTRA_PROCESS_PUBLISHERS.get(key(&info.gid, context)).is_some()
    }

    /// Forgets them. Their subscription ends.
    pub fn end(&self) {
        for callback in self.0.iter().map(|callback| callback.load(Ordering::Relaxed)) {
            if callback != 0 {
                CALLBACKS.remove(callback);
            }
        }
    }
}

/// While it is held, no callback of an intra-process message uses its subscription.
pub fn ending() -> RwLockWriteGuard<'static, ()> {
    ENDING.write().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The key of a publisher with intra-process communication in [`INTRA_PROCESS_PUBLISHERS`], 0 without.
#[derive(Default)]
pub struct IntraProcessKey(AtomicUsize);

impl IntraProcessKey {
    /// Forgets it. The publisher ends.
    pub fn end(&self) {
        let key = self.0.load(Ordering::Relaxed);
        if key != 0 {
            INTRA_PROCESS_PUBLISHERS.remove(key);
        }
    }
}

/// Returns the key of a publisher of a context: one for all its bits, of which the low ones are not used.
#[inline]
fn key(gid: &Gid, context: usize) -> usize {
    let number = u128::from_le_bytes(*gid);
    let mixed = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32)
        ^ ((number >> 64) as u64).wrapping_mul(0xC2B2_AE3D_27D4_EB4F)
        ^ context as u64;
    mixed as usize | 2 // no key that the table uses itself
}

/// # Safety
///
/// That of tracetools.h.
#[no_mangle]
pub unsafe extern "C-unwind" fn ros_trace_rcl_subscription_init(
    subscription: *const c_void,
    node: *const c_void,
    rmw_subscription: *const Endpoint,
    topic: *const c_char,
    depth: usize,
) {
    let _thread_ends = CREATED.try_with(|created| created.set((rmw_subscription, 0)));
    call!(ros_trace_rcl_subscription_init(subscription, node, rmw_subscription, topic, depth) else);
}

/// # Safety
///
/// That of tracetools.h.
#[no_mangle]
pub unsafe extern "C-unwind" fn ros_trace_rclcpp_subscription_callback_added(
    subscription: *const c_void,
    callback: *const c_void,
) {
    let _panic = protect(|| add_callback(callback.addr()));
    call!(ros_trace_rclcpp_subscription_callback_added(subscription, callback) else);
}

/// rclcpp adds the callbacks of a subscription just after it has created it, on the same thread.
fn add_callback(callback: usize) {
    let Ok((subscription, number)) = CREATED.try_with(Cell::get) else { return };
    let Some(measured) = measured_subscription(subscription) else { return };
    let _thread_ends = CREATED.try_with(|created| created.set((subscription, number + 1)));
    let Some(free) = measured.callbacks.0.get(number) else { return };
    CALLBACKS.remove(callback); // of a subscription that was never destroyed
    if CALLBACKS.insert(callback, subscription.cast_mut()) {
        free.store(callback, Ordering::Relaxed);
    }
}

/// # Safety
///
/// That of tracetools.h.
#[no_mangle]
pub unsafe extern "C-unwind" fn ros_trace_rclcpp_intra_publish(
    publisher: *const c_void,
    message: *const c_void,
) {
    // SAFETY: rclcpp calls it with a publisher of rcl.
    let _panic = protect(|| unsafe { note_intra_process(publisher) });
    call!(ros_trace_rclcpp_intra_publish(publisher, message) else);
}

/// Notes that a publisher has intra-process communication, before it publishes the first copy.
///
/// # Safety
///
/// It must be a publisher of rcl.
unsafe fn note_intra_process(publisher: *const c_void) {
    let Some(rmw_handle) = real::rcl_publisher_get_rmw_handle() else { return };
    // SAFETY: By contract.
    let rmw_publisher = unsafe { rmw_handle(publisher) };
    let Some(measured) = measured_publisher(rmw_publisher) else { return };
    if measured.intra_process.0.load(Ordering::Relaxed) != 0 {
        return;
    }
    let Some(get_gid) = real::rmw_get_gid_for_publisher() else { return };
    let mut gid = MaybeUninit::<GidBuffer>::zeroed();
    // SAFETY: The publisher is one of rmw, and there is room for its GID.
    if unsafe { get_gid(rmw_publisher, gid.as_mut_ptr()) } == OK {
        // SAFETY: All its bytes are initialised.
        let key = key(&unsafe { gid.assume_init() }.data, measured.context);
        if measured.intra_process.0.swap(key, Ordering::Relaxed) == 0 {
            INTRA_PROCESS_PUBLISHERS.insert(key, rmw_publisher.cast_mut());
        }
    }
}

/// # Safety
///
/// That of tracetools.h.
#[no_mangle]
pub unsafe extern "C-unwind" fn ros_trace_callback_start(callback: *const c_void, is_intra_process: bool) {
    let _panic = protect(|| start(callback.addr(), is_intra_process));
    call!(ros_trace_callback_start(callback, is_intra_process) else);
}

#[inline]
fn start(callback: usize, is_intra_process: bool) {
    if is_intra_process {
        cause::start_callback(None);
        // If a subscription ends now, the next message will do.
        let Ok(_not_ending) = ENDING.try_read() else { return };
        let subscription = CALLBACKS.get(callback).and_then(|found| measured_subscription(found.as_ptr()));
        subscription.inspect(|subscription| subscription.recorder.accept_unmeasured());
    } else if cause::is_wanted() {
        cause::start_callback(CALLBACKS.get(callback).map(|subscription| subscription.addr().get()));
    }
}

/// # Safety
///
/// That of tracetools.h.
#[no_mangle]
pub unsafe extern "C-unwind" fn ros_trace_callback_end(callback: *const c_void) {
    cause::end();
    call!(ros_trace_callback_end(callback) else);
}
