// SPDX-License-Identifier: Apache-2.0

//! The last events of a world, for the report of a failure.

use std::{cell::RefCell, collections::VecDeque, rc::Rc};

/// The last events of a world, and the last injected faults.
pub type History = Rc<RefCell<(VecDeque<String>, VecDeque<String>)>>;

/// The largest number of events in a history, and also of faults.
const EVENTS: usize = 15;

/// Appends an event to a history.
pub fn note(history: &Option<History>, event: impl FnOnce() -> String) {
    if let Some(history) = history {
        push(&mut history.borrow_mut().0, event());
    }
}

/// Appends a fault to a history.
pub fn note_fault(history: &Option<History>, fault: impl FnOnce() -> String) {
    if let Some(history) = history {
        push(&mut history.borrow_mut().1, fault());
    }
}

fn push(events: &mut VecDeque<String>, event: String) {
    if events.len() == EVENTS {
        events.pop_front();
    }
    events.push_back(event);
}
