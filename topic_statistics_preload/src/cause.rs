// SPDX-License-Identifier: Apache-2.0

//! Records what each thread of the process does. From this record, the core derives which message caused a publication.

use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, Ordering},
};

pub use topic_statistics_core::record::cause::{Activity, Cause, Message};

/// Whether the causes of publications are measured.
static IS_ENABLED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The activity of this thread. The variable has no destructor and lies in the thread's static memory, so its use
    /// allocates nothing.
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

/// Records that this thread has taken a message.
#[inline]
pub fn take(message: Message) {
    change(|activity| activity.take(message));
}

/// Records that this thread has taken a message for the subscription with this number, whose callbacks rclcpp reports.
#[inline]
pub fn take_for_callback(message: Message, subscription: usize) {
    change(|activity| activity.take_for_callback(message, subscription));
}

/// Records that the callback on this thread has returned.
#[inline]
pub fn end() {
    change(Activity::end);
}

/// Records that this thread has triggered a guard condition.
#[inline]
pub fn trigger() {
    change(Activity::trigger);
}

/// Records that a callback starts on this thread: the callback of `subscription`, or a callback without a subscription.
#[inline]
pub fn start_callback(subscription: Option<usize>) {
    change(|activity| activity.start_callback(subscription));
}

/// Records that the callback of a message that was passed on within the process starts on this thread. `message`
/// returns the message; `None` if it is unknown.
#[inline]
pub fn start_callback_of(message: impl FnOnce() -> Option<Message>) {
    change(|activity| activity.start_callback_of(message()));
}

/// Returns the cause of a message that this thread publishes now.
#[inline]
pub fn publication_cause() -> Cause {
    match is_enabled() {
        true => ACTIVITY.try_with(|activity| activity.get().cause()).unwrap_or(Cause::Other),
        false => Cause::Other,
    }
}
