// SPDX-License-Identifier: Apache-2.0

//! Records what each thread of the process does. From this record, the core derives which message caused a publication.

use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, Ordering},
};

pub use topic_statistics_core::record::cause::{Activity, Cause, Message};

static IS_ENABLED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The activity of this thread. The variable has no destructor and lies in the thread's static memory, so its use
    /// allocates nothing.
    static ACTIVITY: Cell<Activity> = const { Cell::new(Activity::NONE) };
}

pub fn enable() {
    IS_ENABLED.store(true, Ordering::Relaxed);
}

#[inline]
pub fn is_enabled() -> bool {
    IS_ENABLED.load(Ordering::Relaxed)
}

/// Records what this thread does. `change` calls a method of [`Activity`].
#[inline]
pub fn note(change: impl FnOnce(&mut Activity)) {
    if is_enabled() {
        let _thread_ends = ACTIVITY.try_with(|activity| {
            let mut changed = activity.get();
            change(&mut changed);
            activity.set(changed);
        });
    }
}

/// Records that the callback on this thread has returned.
#[inline]
pub fn end() {
    note(Activity::end);
}

#[inline]
pub fn publication_cause() -> Cause {
    match is_enabled() {
        true => ACTIVITY.try_with(|activity| activity.get().cause()).unwrap_or(Cause::Other),
        false => Cause::Other,
    }
}
