// SPDX-License-Identifier: Apache-2.0

//! The charts of the HTML page, as SVG without scripts.
//!
//! A chart contains no text from the network: the HTML around the chart has the names and units. A value is drawn if
//! its absolute value is at most [`LARGEST`].

use plotters::{
    prelude::*,
    style::{FontFamily, RGBColor},
};

use crate::{
    format::{figure, without_zeros},
    histogram::Bar,
    recording::{Merged, Slot},
};

/// The size of a chart in SVG units. The page shows a chart at about half of this size.
const SIZE: (u32, u32) = (880, 360);
const FONT: (FontFamily, i32) = (FontFamily::SansSerif, 30);
/// The space for the labels below and on the left of a chart.
const BELOW: u32 = 44;
const LEFT: u32 = 124;
/// The largest absolute value that is drawn. Larger values come only from the statistics of other nodes.
const LARGEST: f64 = 1e15;

pub struct Colour {
    pub light: RGBColor,
    pub dark: &'static str,
}

pub const LINES: [Colour; 3] = [
    Colour { light: RGBColor(0x1f, 0x6f, 0xb5), dark: "#6cb2f0" },
    Colour { light: RGBColor(0xc2, 0x55, 0x0a), dark: "#f0a25e" },
    Colour { light: RGBColor(0x7b, 0x3f, 0xa0), dark: "#c792ea" },
];
const LOSSES: Colour = Colour { light: RGBColor(0xc6, 0x28, 0x28), dark: "#ff8a80" };
const AXIS: Colour = Colour { light: RGBColor(0x55, 0x55, 0x55), dark: "#b0b0b0" };
const GRID: Colour = Colour { light: RGBColor(0xde, 0xde, 0xde), dark: "#3c3c3c" };

/// Returns the CSS rules that change the charts' colours on the dark page.
pub fn dark_style() -> String {
    let colours = LINES.iter().chain([&LOSSES, &AXIS, &GRID]);
    let rules = colours.map(|Colour { light, dark }| {
        let light = hex(light);
        format!("[stroke=\"{light}\"]{{stroke:{dark}}}[fill=\"{light}\"]{{fill:{dark}}}")
    });
    rules.collect()
}

/// Returns a colour as a hexadecimal number, in the form that the SVG of the charts has.
pub fn hex(RGBColor(red, green, blue): &RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// The values of one slot (a range of time) of the timeline. Times are in seconds since the start of the run.
#[derive(Clone, Copy, Debug)]
struct Point {
    began: f64,
    ended: f64,
    min: f64,
    mean: f64,
    max: f64,
}

/// A line of mean values, with the range from minimum to maximum around the line. Gaps divide the line into parts.
#[derive(Debug)]
pub struct Line(Vec<Vec<Point>>);

impl Line {
    /// Returns a line: for each slot, `figures` selects the value that the line shows. A slot without such a value is a
    /// gap.
    pub fn new(parts: &[Vec<&Slot>], figures: impl Fn(&Slot) -> Merged) -> Self {
        let points = parts.iter().flat_map(|part| {
            let points: Vec<Option<Point>> =
                part.iter().map(|slot| Point::new(slot, &figures(slot))).collect();
            points
                .split(Option::is_none)
                .map(|part| part.iter().flatten().copied().collect())
                .collect::<Vec<_>>()
        });
        Self(points.filter(|part: &Vec<Point>| !part.is_empty()).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.0.iter().flatten()
    }
}

impl Point {
    /// Returns the point of a slot. `None` if the slot has no value that can be drawn.
    fn new(slot: &Slot, figures: &Merged) -> Option<Self> {
        let is_drawn = |value: &f64| value.abs() <= LARGEST;
        let mean = Some(figures.mean()).filter(is_drawn)?;
        Some(Self {
            began: slot.began.as_secs_f64(),
            ended: slot.ended.as_secs_f64(),
            min: Some(figures.min()).filter(is_drawn).unwrap_or(mean).min(mean),
            mean,
            max: Some(figures.max()).filter(is_drawn).unwrap_or(mean).max(mean),
        })
    }

    fn middle(&self) -> f64 {
        (self.began + self.ended) / 2.0
    }
}

/// Returns a chart of lines over a run of `until` seconds. `None` if the lines have no point.
pub fn lines(lines: &[Line], from_zero: bool, until: f64) -> Option<String> {
    let points = || lines.iter().flat_map(Line::points);
    let low = points().map(|point| point.min).reduce(f64::min)?;
    let high = points().map(|point| point.max).reduce(f64::max)?;
    let axis = Axis::new(low, high, from_zero);
    let time = Time::new(until);
    draw(0.0..time.value(until), &axis, &|x| time.label(x), &|y| axis.label(y), |chart| {
        for (line, Colour { light, .. }) in lines.iter().zip(&LINES) {
            for part in &line.0 {
                let at = |point: &Point, value: f64| (time.value(point.middle()), value);
                let upper = part.iter().map(|point| at(point, point.max));
                let lower = part.iter().rev().map(|point| at(point, point.min));
                if part.iter().any(|point| point.min < point.max) {
                    chart.draw_series([Polygon::new(
                        upper.chain(lower).collect::<Vec<_>>(),
                        light.mix(0.2),
                    )])?;
                }
                // The line spans from the start of the first window to the end of the last window, so that even one
                // window gives a line.
                let first = part.first().map(|point| (time.value(point.began), point.mean));
                let last = part.last().map(|point| (time.value(point.ended), point.mean));
                let middle = part.iter().map(|point| at(point, point.mean));
                let path = first.into_iter().chain(middle).chain(last);
                chart.draw_series([PathElement::new(path.collect::<Vec<_>>(), light.stroke_width(3))])?;
            }
        }
        Ok(())
    })
}

/// Returns a chart of the losses over a run of `until` seconds. `None` if no message was lost.
pub fn losses(parts: &[Vec<&Slot>], until: f64) -> Option<String> {
    let highest = parts.iter().flatten().filter_map(|slot| slot.lost).max().filter(|lost| *lost > 0)?;
    let axis = Axis::new(0.0, (highest as f64).min(LARGEST), true);
    let time = Time::new(until);
    draw(0.0..time.value(until), &axis, &|x| time.label(x), &|y| axis.whole_label(y), |chart| {
        for part in parts {
            // An unknown number of losses is a gap, not 0.
            for known in part.split(|slot| slot.lost.is_none()) {
                let bar = |slot: &&Slot| {
                    let lost = (slot.lost.unwrap_or_default() as f64).min(LARGEST);
                    (time.value(slot.began.as_secs_f64()), time.value(slot.ended.as_secs_f64()), lost)
                };
                draw_bars(chart, known.iter().map(bar), &LOSSES)?;
            }
        }
        Ok(())
    })
}

/// Returns a histogram with a logarithmic horizontal axis. `None` if `bars` is empty.
pub fn histogram(bars: &[Bar]) -> Option<String> {
    let highest = bars.iter().map(|bar| bar.count).max()? as f64;
    let axis = Axis::new(0.0, highest, true);
    let end = |x: f64| match bars.get(x as usize) {
        _ if x.fract() != 0.0 => String::new(),
        Some(bar) => figure(bar.from),
        None => bars.last().map_or_else(String::new, |bar| figure(bar.to)),
    };
    draw(0.0..bars.len() as f64, &axis, &end, &|y| axis.whole_label(y), |chart| {
        let bar = |(number, bar): (usize, &Bar)| (number as f64, number as f64 + 1.0, bar.count as f64);
        draw_bars(chart, bars.iter().enumerate().map(bar), &LINES[0])
    })
}

/// Draws bars (start, end, height) as one shape: this takes a fifth of the SVG text that separate shapes would take.
fn draw_bars(
    chart: &mut Chart,
    bars: impl Iterator<Item = (f64, f64, f64)>,
    colour: &Colour,
) -> Result<(), DrawingError> {
    let mut outline: Vec<(f64, f64)> = vec![];
    for (from, to, height) in bars {
        match outline.last_mut() {
            None => outline.extend([(from, 0.0), (from, height), (to, height)]),
            Some(last) if last.1 == height => last.0 = to,
            Some(_) => outline.extend([(from, height), (to, height)]),
        }
    }
    outline.extend(outline.last().map(|(to, _)| (*to, 0.0)));
    chart.draw_series([Polygon::new(outline, colour.light.filled())])?;
    Ok(())
}

type Chart<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;
type DrawingError = DrawingAreaErrorKind<std::io::Error>;

/// Draws the axes and the content of a chart. `None` if drawing fails.
fn draw(
    x: std::ops::Range<f64>,
    y: &Axis,
    x_label: &dyn Fn(f64) -> String,
    y_label: &dyn Fn(f64) -> String,
    content: impl FnOnce(&mut Chart) -> Result<(), DrawingError>,
) -> Option<String> {
    let mut svg = String::new();
    let drawn = || -> Result<(), DrawingError> {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin_top(14)
            .margin_right(30)
            .x_label_area_size(BELOW)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(x, y.from..y.to)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID.light)
            .axis_style(AXIS.light)
            .label_style(FONT.into_text_style(&area).color(&AXIS.light))
            .x_labels(6)
            .y_labels(5)
            .x_label_formatter(&|x| x_label(*x))
            .y_label_formatter(&|y| y_label(*y))
            .draw()?;
        content(&mut chart)?;
        area.present()
    };
    drawn().ok()?;
    Some(svg)
}

#[derive(Debug)]
struct Axis {
    from: f64,
    to: f64,
}

impl Axis {
    /// The smallest length of an axis, relative to the largest absolute value on the axis.
    const RANGE: f64 = 1e-6;

    /// Returns an axis from `low` to `high`. One end of the axis is 0 if `from_zero` is set, or if the distance from 0
    /// to the values is less than the range of the values.
    fn new(low: f64, high: f64, from_zero: bool) -> Self {
        if low == 0.0 && high == 0.0 {
            return Self { from: 0.0, to: 1.0 }; // an axis of length 0 would have the same label everywhere
        }
        let largest = low.abs().max(high.abs()).max(1e-9);
        let (mut low, mut high) = (low, high);
        if low > 0.0 && (from_zero || low < high / 2.0) {
            low = 0.0;
        }
        if high < 0.0 && high > low / 2.0 {
            high = 0.0;
        }
        let missing = (Self::RANGE * largest - (high - low)).max(0.0);
        let room = missing / 2.0 + (high - low) * 0.06;
        let from = if low == 0.0 { 0.0 } else { low - room };
        let to = if high == 0.0 && low < 0.0 { 0.0 } else { high + room };
        Self { from, to }
    }

    /// Returns the label of a whole number. Empty if the value is not a whole number.
    fn whole_label(&self, value: f64) -> String {
        if (value - value.round()).abs() < 1e-6 {
            self.label(value)
        } else {
            String::new()
        }
    }

    /// Returns the label of a value, with enough digits to differ from the next label.
    fn label(&self, value: f64) -> String {
        let (unit, suffix) = match value.abs() {
            ..99_999.5 => (1.0, ""),
            ..1e7 => (1e3, "k"),
            ..1e10 => (1e6, "M"),
            ..1e13 => (1e9, "G"),
            _ => (1e12, "T"),
        };
        let step = (self.to - self.from) / unit / 10.0;
        let digits = (-step.log10().floor()).clamp(0.0, 7.0) as usize;
        let label = format!("{:.digits$}", value / unit);
        let label = without_zeros(&label);
        format!("{}{suffix}", if label == "-0" { "0" } else { label })
    }
}

struct Time {
    seconds: f64,
    unit: &'static str,
}

impl Time {
    fn new(until: f64) -> Self {
        let (seconds, unit) = match until {
            ..=180.0 => (1.0, "s"),
            ..=10_800.0 => (60.0, "min"),
            ..=259_200.0 => (3600.0, "h"),
            _ => (86_400.0, "d"),
        };
        Self { seconds, unit }
    }

    fn value(&self, seconds: f64) -> f64 {
        seconds / self.seconds
    }

    fn label(&self, x: f64) -> String {
        format!("{} {}", (x * 1e3).round() / 1e3, self.unit)
    }
}
