// SPDX-License-Identifier: Apache-2.0

//! The kinds of sources.

use std::fmt;

/// The kind of a source: it decides which metrics a source can measure, and so which conditions apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SourceKind {
    /// A subscription.
    Subscription,
    /// A publisher.
    Publisher,
    /// A stopwatch around any code.
    Stopwatch,
    /// A counter of anything.
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
    /// A hop of a chain: from a topic that a process receives to a topic that it publishes in the callback.
    Hop,
}

impl SourceKind {
    /// Every kind.
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

    /// Returns its bit in a set of kinds.
    pub(crate) const fn bit(self) -> u16 {
        1 << self as u16
    }

    /// Returns whether silence is normal: a service or an action server waits for its clients, a client for its node,
    /// an executor for anything, and a hop for messages that cause a publication.
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
