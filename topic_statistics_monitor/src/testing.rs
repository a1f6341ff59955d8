// SPDX-License-Identifier: Apache-2.0

//! What the fuzz targets and the tests of the terminal call.

pub use crate::{
    output::take_stdout,
    statistics::Sources,
    topics::explain,
    views::{detail, Input, LiveTerminal, Screen},
    waiting::{Calls, Event, Goals},
};
