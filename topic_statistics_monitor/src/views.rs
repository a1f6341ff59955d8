// SPDX-License-Identifier: Apache-2.0

//! What the rows look like: the live view on a terminal, lines, and JSON.

pub mod detail;
mod histogram;
mod json;
mod report;
mod screen;
mod sparkline;
mod terminal;

pub use report::Report;
pub use screen::Screen;
pub use terminal::{Input, LiveTerminal};
