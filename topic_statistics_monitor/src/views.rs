// SPDX-License-Identifier: Apache-2.0

//! Displays the rows: the live view on a terminal, lines, JSON, and the page of a report.

pub mod detail;
mod histogram;
mod json;
mod page;
mod report;
mod screen;
mod sparkline;
mod terminal;

pub use page::{render as render_page, Origin, PageFile};
pub use report::Report;
pub use screen::Screen;
pub use terminal::{Input, LiveTerminal};
