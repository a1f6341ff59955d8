// SPDX-License-Identifier: Apache-2.0

//! The kinds of sources.

use std::fmt;

/// The kind of a source. The kind decides which metrics a source can measure, and so which conditions apply to the
/// source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SourceKind {
    /// A subscription.
    Subscription,
    /// A publisher.
    Publisher,
    /// A stopwatch around any code.
    Stopwatch,
    /// A counter of any events.
    Counter,
    /// An executor.
    Executor,
    /// A service.
    Service,
    /// A client of a service.
    Client,
    /// A timer.
    Timer,
    /// An action server.
    ActionServer,
    /// A client of an action.
    ActionClient,
    /// A hop of a chain of nodes: the path from a topic that a process receives to a topic that the process publishes
    /// in the callback.
    Hop,
}

impl SourceKind {
    /// All kinds of sources.
    pub const ALL: [Self; 11] = [
        Self::Subscription,
        Self::Publisher,
        Self::Stopwatch,
        Self::Counter,
        Self::Executor,
        Self::Service,
        Self::Client,
        Self::Timer,
        Self::ActionServer,
        Self::ActionClient,
        Self::Hop,
    ];

    pub(crate) const fn bit(self) -> u16 {
        1 << self as u16
    }

    /// Returns whether sources of this kind are normally silent at times. For example, a service or an action server
    /// waits for its clients, a client waits for its node's calls, and a hop waits for messages that cause a
    /// publication.
    pub const fn may_be_silent(self) -> bool {
        matches!(
            self,
            Self::Service
                | Self::Client
                | Self::ActionServer
                | Self::ActionClient
                | Self::Executor
                | Self::Hop
        )
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Subscription => "subscription",
            Self::Publisher => "publisher",
            Self::Stopwatch => "stopwatch",
            Self::Counter => "counter",
            Self::Executor => "executor",
            Self::Service => "service",
            Self::Client => "client",
            Self::Timer => "timer",
            Self::ActionServer => "action server",
            Self::ActionClient => "action client",
            Self::Hop => "hop",
        })
    }
}
