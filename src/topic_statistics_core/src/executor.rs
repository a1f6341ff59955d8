// SPDX-License-Identifier: Apache-2.0

//! Values that describe which callbacks the threads of an executor ran in a window.

use std::{fmt, sync::Arc};

use crate::escape::Escaped;

/// The kind of a callback that an executor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallbackKind {
    /// A subscription: its callback, or the code that takes a message.
    Subscription,
    /// A timer.
    Timer,
    /// A service: its callback, or the code that takes a request.
    Service,
    /// A client: the code that takes a response.
    Client,
    /// An action server.
    ActionServer,
    /// An action client.
    ActionClient,
    /// A task: a future that was given to the executor, or code that was given to a worker.
    Task,
    /// Internal work of a client library, such as the handling of graph changes.
    Internal,
}

impl fmt::Display for CallbackKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Subscription => "subscription",
            Self::Timer => "timer",
            Self::Service => "service",
            Self::Client => "client",
            Self::ActionServer => "action server",
            Self::ActionClient => "action client",
            Self::Task => "task",
            Self::Internal => "internal",
        })
    }
}

/// A callback of an executor. `Display` writes the kind and the name, without control characters: `subscription /imu`,
/// `timer 10ms`, `task`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ExecutorCallback {
    /// The kind of the entity that the callback belongs to.
    pub kind: CallbackKind,
    /// The resolved name of the topic, the service or the action. For a timer, the timer's period, because timers have
    /// no names. The name is empty for other kinds.
    pub name: Arc<str>,
}

impl ExecutorCallback {
    /// Creates the identification of a callback from its kind and its name.
    pub fn new(kind: CallbackKind, name: impl Into<Arc<str>>) -> Self {
        Self { kind, name: name.into() }
    }
}

impl fmt::Display for ExecutorCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)?;
        match &*self.name {
            "" => Ok(()),
            name => write!(f, " {}", Escaped(name)),
        }
    }
}

/// What the threads of an executor ran in a window. `Display` writes one line for the threads, one for the longest
/// callback, and one for each wait.
///
/// ```text
/// busy: spin 61.2 %, node 3.1 %, worker 1 0.0 %
/// longest: subscription /scan on spin, 55.120 ms
/// timer 10ms waited 45.083 ms for subscription /scan
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ExecutorWindow {
    /// The threads, in the order of their creation.
    pub threads: Vec<ExecutorThread>,
    /// The callback with the longest duration; `None` if no callback ran. A duration starts at the start of the
    /// callback, even if the callback started in an earlier window. The duration of a callback that is still running
    /// ends at the window's end.
    pub longest: Option<LongestCallback>,
    /// The callbacks that waited longest for another callback: at most five pairs, the longest wait first.
    pub waits: Vec<CallbackWait>,
}

/// A thread of an executor in a window.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExecutorThread {
    /// The name of the thread: `spin`, `node`, `worker 1`.
    pub name: Arc<str>,
    /// The share of the window in which the thread ran callbacks, in percent, from 0 to 100.
    pub busy: f64,
}

/// The longest callback of a window. `Display` writes `subscription /scan on spin, 55.120 ms`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LongestCallback {
    /// The callback.
    pub callback: ExecutorCallback,
    /// The name of the thread that ran the callback.
    pub thread: Arc<str>,
    /// The duration of the callback in milliseconds.
    pub milliseconds: f64,
}

/// A callback that was ready, but had to wait because its thread was running another callback. `Display` writes
/// `timer 10ms waited 45.083 ms for subscription /scan`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CallbackWait {
    /// The callback that waited.
    pub waiting: ExecutorCallback,
    /// The callback that the thread ran during the wait. This callback can be an earlier run of the callback that
    /// waited.
    pub running: ExecutorCallback,
    /// The longest time in milliseconds that `waiting` was ready while `running` ran.
    pub milliseconds: f64,
}

impl fmt::Display for ExecutorWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("busy:")?;
        for (index, ExecutorThread { name, busy }) in self.threads.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma} {name} {busy:.1} %")?;
        }
        if let Some(longest) = &self.longest {
            write!(f, "\nlongest: {longest}")?;
        }
        for wait in &self.waits {
            write!(f, "\n{wait}")?;
        }
        Ok(())
    }
}

impl fmt::Display for LongestCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { callback, thread, milliseconds } = self;
        write!(f, "{callback} on {thread}, {milliseconds:.3} ms")
    }
}

impl fmt::Display for CallbackWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waiting, running, milliseconds } = self;
        write!(f, "{waiting} waited {milliseconds:.3} ms for {running}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_displayed_as_lines_which_no_name_can_forge() {
        let scan = ExecutorCallback::new(CallbackKind::Subscription, "/scan\nlongest: none");
        let timer = ExecutorCallback::new(CallbackKind::Timer, "10ms");
        let task = ExecutorCallback::new(CallbackKind::Task, "");
        let thread = |name: &str, busy| ExecutorThread { name: name.into(), busy };
        let window = ExecutorWindow {
            threads: vec![thread("spin", 61.24), thread("node", 0.0)],
            longest: Some(LongestCallback {
                callback: scan.clone(),
                thread: "spin".into(),
                milliseconds: 55.12,
            }),
            waits: vec![
                CallbackWait { waiting: timer, running: scan.clone(), milliseconds: 45.0834 },
                CallbackWait { waiting: scan, running: task, milliseconds: 1.0 },
            ],
        };
        assert_eq!(
            window.to_string(),
            "busy: spin 61.2 %, node 0.0 %\n\
             longest: subscription /scan\\u{a}longest: none on spin, 55.120 ms\n\
             timer 10ms waited 45.083 ms for subscription /scan\\u{a}longest: none\n\
             subscription /scan\\u{a}longest: none waited 1.000 ms for task"
        );
        assert_eq!(ExecutorWindow::default().to_string(), "busy:");
    }
}
