// SPDX-License-Identifier: Apache-2.0

//! Follows every window of a subscription.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Wake, Waker},
};

use rclrs_topic_statistics::{watch, WindowStatistics};
use serde::{Deserialize, Serialize};

use crate::lock::lock;

/// The windows of a subscription, as `watch` has them.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Windows {
    pub windows: u64,
    /// Windows that did not start where the one before stopped.
    pub missing: u64,
    /// Windows whose count is not the difference of the totals.
    pub inconsistent: u64,
    /// Windows without ages: the clock was stepped, or messages were counted without being measured.
    pub without_ages: u64,
    /// Messages that were counted without being measured.
    pub unrecorded: u64,
    /// The messages received, by the windows' counts, and before the first one.
    pub sum: u64,
    /// The messages received, by the last window's totals.
    pub received: u64,
    /// The last window's stop, in nanoseconds since the epoch; 0 before the first.
    pub stop: i64,
}

impl Windows {
    fn accept(&mut self, window: &WindowStatistics) {
        let received = window.totals.map_or(0, |totals| totals.received);
        if self.windows == 0 {
            self.sum = received.saturating_sub(window.count);
            (self.received, self.stop) = (self.sum, window.window.start.as_nanoseconds());
        }
        self.missing += u64::from(self.stop != window.window.start.as_nanoseconds());
        self.inconsistent += u64::from(self.received + window.count != received);
        self.without_ages += u64::from(window.unrecorded > 0 || window.clock_step.is_some());
        self.unrecorded += window.unrecorded;
        self.windows += 1;
        self.sum += window.count;
        (self.received, self.stop) = (received, window.window.stop.as_nanoseconds());
    }
}

/// Follows the windows of a subscription until it is dropped.
pub fn follow(watch: watch::Receiver<Option<Arc<WindowStatistics>>>, to: &Arc<Mutex<Windows>>) {
    let to = Arc::clone(to);
    each(watch, move |window| {
        if let Some(window) = window {
            lock(&to).accept(window);
        }
    });
}

/// Calls a function with the value of a watch, and with each new one, on the thread that sends them. A receiver on
/// another thread, which may not run for longer than a window, would miss some.
pub fn each<T: Clone + Send + Sync + 'static>(
    mut watch: watch::Receiver<T>,
    mut accept: impl FnMut(&T) + Send + 'static,
) {
    let follow = async move {
        loop {
            let value = watch.borrow_and_update().clone();
            accept(&value);
            if watch.changed().await.is_err() {
                return;
            }
        }
    };
    Arc::new(Inline(Mutex::new(Some(Box::pin(follow))))).wake();
}

/// A future that is polled by its waker. None once it is complete.
struct Inline(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        let mut future = lock(&self.0);
        let polled = future.as_mut().map(|future| future.as_mut().poll(&mut Context::from_waker(&waker)));
        if polled == Some(Poll::Ready(())) {
            *future = None;
        }
    }
}
