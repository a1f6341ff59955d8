// SPDX-License-Identifier: Apache-2.0

//! What the fuzz targets and the tests of the terminal call.

pub use crate::{
    format::name as escaped,
    output::take_stdout,
    pattern::Pattern,
    recording::Recording,
    require::{failures, Condition, Conditions},
    row::{Figures, MetricFigures, Problem, Publisher, Row, Window},
    statistics::{SourceDistribution, SourceMetric, Sources},
    topics::explain,
    views::{detail, render_page, Input, LiveTerminal, Origin, Report, Screen},
};
