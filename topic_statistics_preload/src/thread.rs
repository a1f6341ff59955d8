// SPDX-License-Identifier: Apache-2.0

//! The data that the library keeps for each thread, from one call of the host to the next. Data of one call can be used
//! in a later call, because rclcpp takes a message and calls the message's callback on the same thread. Also, the
//! thread that publishes a message puts the message into the ring buffers of the process's subscriptions.

use std::{cell::Cell, ptr};

use topic_statistics_core::record::{
    recorder::{IntraProcessMessage, ReceivedMessage, RunningCallback},
    timer_calls::RunningTimerCallback,
};

use crate::abi::Endpoint;

/// The data of one thread. The struct has no destructor and lies in the thread's static memory, so its use allocates
/// nothing.
pub struct Thread {
    pub created: Cell<Created>,
    /// The address of the ring buffer that this thread created last, and the buffer's capacity.
    pub ring: Cell<(usize, usize)>,
    /// The last message that this thread took; `None` once the message's callback has started.
    pub taken: Cell<Option<TakenMessage>>,
    /// The address of a subscription, and the last message that this thread took out of the subscription's ring buffer.
    /// `None` once the message's callback has started.
    pub dequeued: Cell<Option<(usize, IntraProcessMessage)>>,
    pub running: Cell<Running>,
    pub intra_process: Cell<IntraProcessPublication>,
    /// The number of the thread among the threads that run callbacks, counted from 1; 0 if the thread has no number
    /// yet.
    pub number: Cell<usize>,
}

#[derive(Clone, Copy)]
pub struct Created {
    pub subscription: *const Endpoint,
    /// The node of rcl that owns the subscription.
    pub node: *const std::ffi::c_void,
    /// The number of callbacks that rclcpp has added to the subscription.
    pub callbacks: usize,
}

/// A taken message of a subscription whose callbacks rclcpp reports.
#[derive(Clone, Copy)]
pub struct TakenMessage {
    pub subscription: usize,
    pub message: ReceivedMessage,
    /// The time at which the message arrived on this host, in nanoseconds since the epoch; 0 if unknown.
    pub received: i64,
}

/// The last publication within the process that a thread started.
#[derive(Clone, Copy)]
pub struct IntraProcessPublication {
    /// The address of the measured publisher; 0 if the publisher is not measured, or after it has also published the
    /// same message by the middleware.
    pub publisher: usize,
    /// The start of the publication, in nanoseconds on the monotonic clock; 0 if unknown.
    pub at: i64,
}

#[derive(Clone, Copy)]
pub struct Running {
    /// The address of the callback; 0 if no callback runs.
    pub callback: usize,
    pub measured: Measured,
    /// Whether the start of the callback was recorded in the executor's statistics.
    pub is_executed: bool,
}

/// What is measured at the end of a callback.
#[derive(Clone, Copy)]
pub enum Measured {
    Nothing,
    /// A callback of the subscription with this address. The callback was called for a received message.
    Message {
        subscription: usize,
        running: RunningCallback,
    },
    /// A callback of the subscription with this address. The callback was called for an intra-process message. The
    /// subscription may be destroyed while the callback runs.
    IntraProcess {
        subscription: usize,
        running: RunningCallback,
    },
    /// A callback of the timer with this address.
    Timer {
        timer: usize,
        running: RunningTimerCallback,
    },
}

impl Running {
    pub const NOTHING: Self = Self { callback: 0, measured: Measured::Nothing, is_executed: false };
}

impl Thread {
    const fn new() -> Self {
        Self {
            created: Cell::new(Created { subscription: ptr::null(), node: ptr::null(), callbacks: 0 }),
            ring: Cell::new((0, 0)),
            taken: Cell::new(None),
            dequeued: Cell::new(None),
            running: Cell::new(Running::NOTHING),
            intra_process: Cell::new(IntraProcessPublication { publisher: 0, at: 0 }),
            number: Cell::new(0),
        }
    }

    /// Returns the address of this struct: a number that no other running thread has.
    pub fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }
}

/// Runs code with the data of this thread. Returns `None` while the thread ends.
#[inline]
pub fn with<T>(run: impl FnOnce(&Thread) -> T) -> Option<T> {
    thread_local! {
        static THREAD: Thread = const { Thread::new() };
    }
    THREAD.try_with(run).ok()
}

/// The start of a callback. Both times are in nanoseconds on the monotonic clock.
#[derive(Clone, Copy)]
pub struct Started {
    pub at: i64,
    /// The time at which the callback became ready; `None` if unknown.
    pub ready: Option<i64>,
}
