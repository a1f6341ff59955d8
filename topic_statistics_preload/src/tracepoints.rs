// SPDX-License-Identifier: Apache-2.0

//! The tracepoints by which rclcpp reports its callbacks and its intra-process communication. The tracepoints are
//! functions of tracetools, which rclcpp calls even if tracing is off. See `tracetools/tracetools.h`. In some ROS
//! distributions, tracetools lacks some of these functions.

use std::{
    ffi::{c_char, c_void, CStr},
    mem::MaybeUninit,
    sync::atomic::Ordering,
};

use topic_statistics_core::CallbackKind;

use crate::{
    abi::*,
    callbacks::{key, not_ending, Buffer, BUFFERS, CALLBACKS, INTRA_PROCESS_PUBLISHERS},
    cause, executor,
    messages::{end_callback, publish_within_process, start_callback},
    process::{measured_publisher, measured_subscription, protect, wants_executor},
    real::{self, any, export, pass_on, real},
    thread::{self, Created, IntraProcessPublication},
    timers,
};

export! {
    fn ros_trace_rcl_subscription_init(
        subscription: *const c_void,
        node: *const c_void,
        rmw_subscription: *const Endpoint,
        topic: *const c_char,
        depth: usize,
    ) {
        thread::with(|thread| {
            thread.created.set(Created { subscription: rmw_subscription, node, callbacks: 0 });
            thread.ring.set((0, 0));
            // From now on, a transient local publisher may put old messages into the new subscription's ring buffer.
            // The times of these messages are unknown (0).
            thread.intra_process.set(IntraProcessPublication { publisher: 0, at: 0 });
        });
        pass_on!(ros_trace_rcl_subscription_init(subscription, node, rmw_subscription, topic, depth));
    }

    fn ros_trace_rclcpp_subscription_callback_added(subscription: *const c_void, callback: *const c_void) {
        let _panic = protect(|| add_callback(callback.addr()));
        pass_on!(ros_trace_rclcpp_subscription_callback_added(subscription, callback));
    }
}

/// Adds a callback to the last subscription that this thread created, because rclcpp adds callbacks right after it has
/// created the subscription, on the same thread.
fn add_callback(callback: usize) {
    let Some(created) = thread::with(|thread| {
        let created = thread.created.get();
        thread.created.set(Created { callbacks: created.callbacks + 1, ..created });
        created
    }) else {
        return;
    };
    let Some(measured) = measured_subscription(created.subscription) else { return };
    CALLBACKS.remove(callback); // an old entry, of a subscription that was never destroyed, may have this address
    if CALLBACKS.insert(callback, created.subscription.cast_mut()) {
        measured.callbacks.add(created.callbacks, callback);
    }
    if let Some(rmw_handle) = real::rcl_node_get_rmw_handle().filter(|_| wants_executor()) {
        // SAFETY: rcl has reported the node. The node lives as long as the subscription.
        unsafe { executor::begin(rmw_handle(created.node)) };
        // SAFETY: The subscription lives, and rmw's rule is that the name is a null-terminated string.
        let topic = unsafe { CStr::from_ptr((*created.subscription).topic_name) };
        executor::name_callback(callback, CallbackKind::Subscription, &topic.to_string_lossy());
    }
}

export! {
    fn ros_trace_enabled_rclcpp_callback_register() -> bool {
        is_traced() || protect(wants_executor) == Some(true)
    }
}

fn is_traced() -> bool {
    // SAFETY: The function has no preconditions.
    real::ros_trace_enabled_rclcpp_callback_register().is_some_and(|is_enabled| unsafe { is_enabled() })
}

export! {
    fn ros_trace_do_rclcpp_callback_register(callback: *const c_void, symbol: *const c_char) {
        if !symbol.is_null() {
            // SAFETY: rclcpp passes a null-terminated string.
            let _panic = protect(|| executor::add_symbol(callback.addr(), unsafe { CStr::from_ptr(symbol) }));
        }
        if is_traced() {
            pass_on!(ros_trace_do_rclcpp_callback_register(callback, symbol));
        }
    }

    fn ros_trace_rclcpp_timer_callback_added(timer: *const c_void, callback: *const c_void) {
        let _panic = protect(|| timers::add_callback(timer, callback.addr()));
        pass_on!(ros_trace_rclcpp_timer_callback_added(timer, callback));
    }

    fn ros_trace_rclcpp_timer_link_node(timer: *const c_void, node: *const c_void) {
        // SAFETY: rclcpp calls this function with a timer and a node of rcl.
        let _panic = protect(|| unsafe { timers::link_node(timer, node) });
        pass_on!(ros_trace_rclcpp_timer_link_node(timer, node));
    }

    fn ros_trace_rclcpp_construct_ring_buffer(buffer: *const c_void, capacity: u64) {
        thread::with(|thread| thread.ring.set((buffer.addr(), capacity as usize)));
        pass_on!(ros_trace_rclcpp_construct_ring_buffer(buffer, capacity));
    }

    fn ros_trace_rclcpp_ipb_to_subscription(buffer: *const c_void, subscription: *const c_void) {
        let _panic = protect(add_buffer);
        pass_on!(ros_trace_rclcpp_ipb_to_subscription(buffer, subscription));
    }
}

/// Adds the last ring buffer that this thread created to the last subscription that this thread created. rclcpp creates
/// both, one after the other, when the program creates a subscription.
fn add_buffer() {
    let created = thread::with(|thread| (thread.ring.replace((0, 0)), thread.created.get().subscription));
    let Some(((buffer, capacity), subscription)) = created.filter(|((buffer, _), _)| *buffer != 0) else {
        return;
    };
    let Some(measured) = measured_subscription(subscription) else { return };
    // The table may have an old entry with this address, of a subscription that was never destroyed. rclcpp has freed
    // the buffer of that subscription.
    BUFFERS.remove(buffer);
    if BUFFERS.insert(buffer, Box::new(Buffer::new(buffer, capacity, subscription.addr()))) {
        measured.callbacks.buffer.store(buffer, Ordering::Relaxed);
    }
}

export! {
    fn ros_trace_rclcpp_ring_buffer_enqueue(
        buffer: *const c_void, place: u64, size: u64, is_overwritten: bool
    ) {
        let _panic = protect(|| {
            with_buffer(buffer, |buffer| {
                let published = thread::with(|thread| thread.intra_process.get().at);
                buffer.enqueue(place, published.unwrap_or(0));
            });
        });
        pass_on!(ros_trace_rclcpp_ring_buffer_enqueue(buffer, place, size, is_overwritten));
    }

    fn ros_trace_rclcpp_ring_buffer_dequeue(buffer: *const c_void, place: u64, size: u64) {
        let _panic = protect(|| {
            with_buffer(buffer, |buffer| {
                let dequeued = (buffer.subscription, buffer.dequeue(place, size));
                thread::with(|thread| thread.dequeued.set(Some(dequeued)));
            });
        });
        pass_on!(ros_trace_rclcpp_ring_buffer_dequeue(buffer, place, size));
    }
}

/// Runs code with the buffer of a measured subscription. Nothing runs if a subscription is ending at this moment.
#[inline]
fn with_buffer(buffer: *const c_void, run: impl FnOnce(&Buffer)) {
    if let Some(_not_ending) = not_ending() {
        // SAFETY: The entry of an existing buffer is only removed by a thread that has locked ENDING for writing; here,
        // ENDING is locked for reading.
        unsafe { BUFFERS.get(buffer.addr()) }.map(run);
    }
}

export! {
    fn ros_trace_rclcpp_intra_publish(publisher: *const c_void, message: *const c_void) {
        // SAFETY: rclcpp calls this function with a publisher of rcl.
        let _panic = protect(|| unsafe { note_intra_process(publisher) });
        pass_on!(ros_trace_rclcpp_intra_publish(publisher, message));
    }
}

/// Records that a publisher passes a message on within the process. The first call also stores the publisher's GID. By
/// this GID, the library recognises the copies that the middleware delivers later and that rclcpp discards.
/// Safety: `publisher` must be a publisher of rcl.
unsafe fn note_intra_process(publisher: *const c_void) {
    let Some(rmw_handle) = real::rcl_publisher_get_rmw_handle() else { return };
    // SAFETY: By contract.
    let rmw_publisher = unsafe { rmw_handle(publisher) };
    publish_within_process(rmw_publisher);
    let Some(measured) = measured_publisher(rmw_publisher) else { return };
    if measured.intra_process.load(Ordering::Relaxed) != 0 {
        return;
    }
    let Some(get_gid) = real::rmw_get_gid_for_publisher() else { return };
    let mut gid = MaybeUninit::<GidBuffer>::zeroed();
    // SAFETY: The publisher is from rmw, and there is room for its GID.
    if unsafe { get_gid(rmw_publisher, gid.as_mut_ptr()) } == OK {
        // SAFETY: All bytes are initialised.
        let key = key(&unsafe { gid.assume_init() }.data, measured.context);
        if measured.intra_process.swap(key, Ordering::Relaxed) == 0 {
            INTRA_PROCESS_PUBLISHERS.insert(key, rmw_publisher.cast_mut());
        }
    }
}

export! {
    fn ros_trace_callback_start(callback: *const c_void, is_intra_process: bool) {
        let _panic = protect(|| start_callback(callback.addr(), is_intra_process));
        pass_on!(ros_trace_callback_start(callback, is_intra_process));
    }

    fn ros_trace_callback_end(callback: *const c_void) {
        let _panic = protect(|| end_callback(callback.addr()));
        cause::end();
        pass_on!(ros_trace_callback_end(callback));
    }
}
