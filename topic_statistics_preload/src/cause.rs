// SPDX-License-Identifier: Apache-2.0

//! Records what each thread of the process does. The core derives the cause of a publication from it.

use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, Ordering},
};

pub use topic_statistics_core::record::cause::{Activity, Cause, Message};

/// Whether the causes of publications are needed.
static IS_ENABLED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Has no destructor and lies in the thread's static memory, so it allocates nothing.
    static ACTIVITY: Cell<Activity> = const { Cell::new(Activity::NONE) };
}

/// Starts to record the activity of threads.
pub fn enable() {
    IS_ENABLED.store(true, Ordering::Relaxed);
}

#[inline]
pub fn is_enabled() -> bool {
    IS_ENABLED.load(Ordering::Relaxed)
}

#[inline]
fn change(change: impl FnOnce(&mut Activity)) {
    if is_enabled() {
        let _thread_ends = ACTIVITY.try_with(|activity| {
            let mut changed = activity.get();
            change(&mut changed);
            activity.set(changed);
        });
    }
}

/// This thread has taken a message.
#[inline]
pub fn take(message: Message) {
    change(|activity| activity.take(message));
}

/// This thread has taken a message for the subscription with that number, whose callbacks are reported.
#[inline]
pub fn take_for_callback(message: Message, subscription: usize) {
    change(|activity| activity.take_for_callback(message, subscription));
}

/// This thread runs no callback any more.
#[inline]
pub fn end() {
    change(Activity::end);
}

/// This thread has triggered a guard condition.
#[inline]
pub fn trigger() {
    change(Activity::trigger);
}

/// A callback starts on this thread: that subscription's, or one without a subscription.
#[inline]
pub fn start_callback(subscription: Option<usize>) {
    change(|activity| activity.start_callback(subscription));
}

/// Returns the cause of a publication that this thread makes now.
#[inline]
pub fn publication_cause() -> Cause {
    match is_enabled() {
        true => ACTIVITY.try_with(|activity| activity.get().cause()).unwrap_or(Cause::Other),
        false => Cause::Other,
    }
}
