// SPDX-License-Identifier: Apache-2.0

//! The live view on a terminal.

pub mod detail;
mod live;
mod screen;
mod sparkline;
mod terminal;

pub use live::Live;
pub use screen::Screen;
pub use terminal::{Input, LiveTerminal};
