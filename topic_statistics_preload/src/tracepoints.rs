// SPDX-License-Identifier: Apache-2.0

//! The tracepoints by which rclcpp reports its callbacks and its intra-process communication. The tracepoints are
//! functions of tracetools, which rclcpp calls even if tracing is off. See `tracetools/tracetools.h`.

use std::{
    cell::Cell,
    ffi::{c_char, c_void},
    mem::MaybeUninit,
    sync::atomic::Ordering,
};

use crate::{
    abi::*,
    callbacks::{key, CALLBACKS, ENDING, INTRA_PROCESS_PUBLISHERS},
    cause,
    log::line,
    process::{call, measured_publisher, measured_subscription, protect},
    real,
};

thread_local! {
    /// The last subscription that this thread created, and the number of the subscription's callbacks.
    static CREATED: Cell<(*const Endpoint, usize)> = const { Cell::new((std::ptr::null(), 0)) };
}

/// # Safety
///
/// See tracetools.h.
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
/// See tracetools.h.
#[no_mangle]
pub unsafe extern "C-unwind" fn ros_trace_rclcpp_subscription_callback_added(
    subscription: *const c_void,
    callback: *const c_void,
) {
    let _panic = protect(|| add_callback(callback.addr()));
    call!(ros_trace_rclcpp_subscription_callback_added(subscription, callback) else);
}

/// Adds a callback to the last subscription that this thread created: rclcpp adds callbacks right after the creation,
/// on the same thread.
fn add_callback(callback: usize) {
    let Ok((subscription, number)) = CREATED.try_with(Cell::get) else { return };
    let Some(measured) = measured_subscription(subscription) else { return };
    let _thread_ends = CREATED.try_with(|created| created.set((subscription, number + 1)));
    let Some(free) = measured.callbacks.0.get(number) else { return };
    CALLBACKS.remove(callback); // an entry of a subscription that was never destroyed
    if CALLBACKS.insert(callback, subscription.cast_mut()) {
        free.store(callback, Ordering::Relaxed);
    }
}

/// # Safety
///
/// See tracetools.h.
#[no_mangle]
pub unsafe extern "C-unwind" fn ros_trace_rclcpp_intra_publish(
    publisher: *const c_void,
    message: *const c_void,
) {
    // SAFETY: rclcpp calls it with a publisher of rcl.
    let _panic = protect(|| unsafe { note_intra_process(publisher) });
    call!(ros_trace_rclcpp_intra_publish(publisher, message) else);
}

/// Records that a publisher has intra-process communication, before the publisher passes the first copy to the
/// middleware.
///
/// # Safety
///
/// `publisher` must be a publisher of rcl.
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
    // SAFETY: The publisher is from rmw, and there is room for its GID.
    if unsafe { get_gid(rmw_publisher, gid.as_mut_ptr()) } == OK {
        // SAFETY: All bytes are initialised.
        let key = key(&unsafe { gid.assume_init() }.data, measured.context);
        if measured.intra_process.0.swap(key, Ordering::Relaxed) == 0 {
            INTRA_PROCESS_PUBLISHERS.insert(key, rmw_publisher.cast_mut());
        }
    }
}

/// # Safety
///
/// See tracetools.h.
#[no_mangle]
pub unsafe extern "C-unwind" fn ros_trace_callback_start(callback: *const c_void, is_intra_process: bool) {
    let _panic = protect(|| start(callback.addr(), is_intra_process));
    call!(ros_trace_callback_start(callback, is_intra_process) else);
}

#[inline]
fn start(callback: usize, is_intra_process: bool) {
    if is_intra_process {
        cause::start_callback(None);
        // If a subscription is ending at this moment, this message is not counted.
        let Ok(_not_ending) = ENDING.try_read() else { return };
        let subscription = CALLBACKS.get(callback).and_then(|found| measured_subscription(found.as_ptr()));
        subscription.inspect(|subscription| subscription.recorder.accept_unmeasured());
    } else if cause::is_enabled() {
        cause::start_callback(CALLBACKS.get(callback).map(|subscription| subscription.addr().get()));
    }
}

/// # Safety
///
/// See tracetools.h.
#[no_mangle]
pub unsafe extern "C-unwind" fn ros_trace_callback_end(callback: *const c_void) {
    cause::end();
    call!(ros_trace_callback_end(callback) else);
}
