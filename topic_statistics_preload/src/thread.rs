// SPDX-License-Identifier: Apache-2.0

//! What a thread remembers from one call of the host to the next: rclcpp takes a message and calls its callback on the
//! same thread, and passes a message on within the process on the publishing thread.

use std::{cell::Cell, ptr};

use topic_statistics_core::record::{
    recorder::{IntraProcessMessage, ReceivedMessage, RunningCallback},
    timer_calls::RunningTimerCallback,
};

use crate::abi::Endpoint;

/// What a thread remembers. It has no destructor and lies in the thread's static memory, so its use allocates nothing.
pub struct Thread {
    pub created: Cell<Created>,
    /// The ring buffer that this thread created last, and its capacity.
    pub ring: Cell<(usize, usize)>,
    /// The last message that this thread took, until its callback starts.
    pub taken: Cell<Option<TakenMessage>>,
    /// The last message that this thread took out of a ring buffer, and its subscription, until its callback starts.
    pub dequeued: Cell<Option<(usize, IntraProcessMessage)>>,
    pub running: Cell<Running>,
    pub intra_process: Cell<IntraProcessPublication>,
    /// The number of the thread among the threads that run callbacks, counted from 1; 0 if it has no number yet.
    pub number: Cell<usize>,
}

/// The subscription that a thread created last.
#[derive(Clone, Copy)]
pub struct Created {
    pub subscription: *const Endpoint,
    /// rcl's node of the subscription.
    pub node: *const std::ffi::c_void,
    /// The number of its callbacks.
    pub callbacks: usize,
}

/// A message that was taken by a subscription whose callbacks are reported.
#[derive(Clone, Copy)]
pub struct TakenMessage {
    pub subscription: usize,
    pub message: ReceivedMessage,
    /// The time at which the message arrived on this host, in nanoseconds since the epoch; 0 if unknown.
    pub received: i64,
}

/// The publication within the process that a thread made last.
#[derive(Clone, Copy)]
pub struct IntraProcessPublication {
    /// The publisher, until the middleware publishes the same message for subscriptions of other processes.
    pub publisher: usize,
    /// The start, in nanoseconds on the monotonic clock; 0 if unknown.
    pub at: i64,
}

/// The callback that a thread runs.
#[derive(Clone, Copy)]
pub struct Running {
    /// The address of the callback; 0 if none runs.
    pub callback: usize,
    pub measured: Measured,
    /// Whether the executor's statistics have its start.
    pub is_executed: bool,
}

/// What is measured at the end of a callback.
#[derive(Clone, Copy)]
pub enum Measured {
    Nothing,
    /// A callback of the subscription with this address.
    Message {
        subscription: usize,
        running: RunningCallback,
    },
    /// Likewise. The callback may outlive the subscription.
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

    /// Returns a number that no other running thread has.
    pub fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }
}

/// Runs code with what this thread remembers. Returns `None` while the thread ends.
#[inline]
pub fn with<T>(run: impl FnOnce(&Thread) -> T) -> Option<T> {
    thread_local! {
        static THREAD: Thread = const { Thread::new() };
    }
    THREAD.try_with(run).ok()
}

/// The start of a callback, in nanoseconds on the monotonic clock.
#[derive(Clone, Copy)]
pub struct Started {
    pub at: i64,
    /// The time at which the callback became ready; `None` if unknown.
    pub ready: Option<i64>,
}
