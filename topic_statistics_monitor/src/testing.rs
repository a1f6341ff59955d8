// SPDX-License-Identifier: Apache-2.0

//! The items that the fuzz targets and the tests of the terminal use.

pub use crate::{
    process::take_stdout,
    statistics::Sources,
    topics::explain,
    views::{detail, Input, LiveTerminal, Screen},
    waiting::{Calls, Event, Goals},
};
