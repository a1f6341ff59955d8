// SPDX-License-Identifier: Apache-2.0

//! An active goal, which all handles of the goal share. The handles belong to an action server or an action client.

use std::sync::Arc;

use rclrs::{GoalStatusCode, Node};
use topic_statistics_core::record::{
    clock::monotonic,
    goals::{ActiveGoal, Outcome},
};

/// The measurements of a goal, which its handles share; `None` if the goal is not measured. When the last clone is
/// dropped, the goal stops counting as active.
///
/// In each handle, this field comes after the field of rclrs's goal. Rust drops fields in order, so rclrs ends the goal
/// before the goal stops counting as active.
#[derive(Clone)]
pub(super) struct SharedGoal<const IS_SERVER: bool>(Option<Arc<Held<IS_SERVER>>>);

struct Held<const IS_SERVER: bool>(ActiveGoal<IS_SERVER>);

impl<const IS_SERVER: bool> Drop for Held<IS_SERVER> {
    fn drop(&mut self) {
        self.0.leave(monotonic);
    }
}

impl<const IS_SERVER: bool> SharedGoal<IS_SERVER> {
    pub(super) fn new(goal: Option<ActiveGoal<IS_SERVER>>) -> Self {
        Self(goal.map(|goal| Arc::new(Held(goal))))
    }

    pub(super) fn is_measured(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn record(&self, event: impl FnOnce(&ActiveGoal<IS_SERVER>)) {
        if let Some(held) = &self.0 {
            event(&held.0);
        }
    }

    pub(super) fn end(&self, outcome: Outcome) {
        self.record(|goal| goal.end(outcome, monotonic));
    }
}

/// Returns the outcome of a goal from the status in its result. A goal that the server does not know counts as dropped,
/// because the client no longer waits for its result.
pub(super) fn outcome(status: GoalStatusCode) -> Outcome {
    match status {
        GoalStatusCode::Succeeded => Outcome::Succeeded,
        GoalStatusCode::Cancelled => Outcome::Canceled,
        GoalStatusCode::Aborted => Outcome::Aborted,
        _ => Outcome::Dropped,
    }
}

/// Returns the fully qualified name of a topic or an action, without remappings, which rclrs 0.8 does not report.
pub(crate) fn fully_qualified(node: &Node, given: &str) -> String {
    match given.strip_prefix('~') {
        _ if given.starts_with('/') => given.to_owned(),
        Some(private) => format!("{}{private}", node.fully_qualified_name()),
        None => format!("{}/{given}", node.namespace().trim_end_matches('/')),
    }
}

/// Implements `Debug` for handles that contain rclrs types without `Debug`.
macro_rules! opaque_debug {
    ($($name:ident),+) => { $(
        impl<A: rosidl_runtime_rs::Action> std::fmt::Debug for $name<A> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )+ };
}

pub(super) use opaque_debug;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_action_is_resolved_as_that_of_a_topic() {
        for (namespace, expected) in
            [("", ["/plan", "/plan", "/planner/plan"]), ("/r1", ["/r1/plan", "/plan", "/r1/planner/plan"])]
        {
            let namespace = format!("__ns:=/{}", namespace.trim_start_matches('/'));
            let (_executor, node) = test_support::node("planner", &["--ros-args", "-r", &namespace]);
            assert_eq!(["plan", "/plan", "~/plan"].map(|given| fully_qualified(&node, given)), expected);
        }
    }
}
