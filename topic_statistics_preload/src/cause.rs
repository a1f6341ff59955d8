// SPDX-License-Identifier: Apache-2.0

//! What each thread of the process does: the core finds the cause of a publication by it.

use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, Ordering},
};

pub use topic_statistics_core::record::cause::{Activity, Cause, Message};

/// Whether somebody wants to know.
static IS_WANTED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Without a destructor, and in the memory that each thread has from its start: it allocates nothing.
    static ACTIVITY: Cell<Activity> = const { Cell::new(Activity::NONE) };
}

/// From now on the causes of publications are known.
pub fn want() {
    IS_WANTED.store(true, Ordering::Relaxed);
}

#[inline]
pub fn is_wanted() -> bool {
    IS_WANTED.load(Ordering::Relaxed)
}

#[inline]
fn change(change: impl FnOnce(&mut Activity)) {
    if is_wanted() {
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

/// This thread has taken a message, by the subscription of that number, whose callbacks are reported.
#[inline]
pub fn take_for_callback(message: Message, subscription: usize) {
    change(|activity| activity.take_for_callback(message, subscription));
}

/// The callback of this thread has returned, if there was one.
#[inline]
pub fn end() {
    change(Activity::end);
}

/// This thread has triggered a guard condition.
#[inline]
pub fn trigger() {
    change(Activity::trigger);
}

/// A callback starts on this thread: of that subscription, or of none.
#[inline]
pub fn start_callback(subscription: Option<usize>) {
    change(|activity| activity.start_callback(subscription));
}

/// Returns what causes a publication of this thread now.
#[inline]
pub fn of_publication() -> Cause {
    match is_wanted() {
        true => ACTIVITY.try_with(|activity| activity.get().cause()).unwrap_or(Cause::Other),
        false => Cause::Other,
    }
}
