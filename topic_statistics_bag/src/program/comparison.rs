// SPDX-License-Identifier: Apache-2.0

//! `--compare`: reads the baseline, and prints which quantities have changed.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Write},
    ops::ControlFlow,
    path::Path,
};

use serde::{Deserialize, Serialize};
use topic_statistics_bag::{
    compare::{compare, Comparison, Profile, Verdict},
    Bag, Progress, TopicWindow, Visitor,
};
use topic_statistics_observe::{
    format::{self, figure},
    json,
    junit::{TestResult, Tests},
    pattern::Selection,
};

use super::{
    arguments::Arguments,
    error::{print_error, Failure},
    progress::Bar,
    rows::unmeasured,
};

/// The last object of the `--json` output: the profile of a bag for later comparisons.
#[derive(Serialize, Deserialize)]
struct ProfileLine<P> {
    profile: P,
}

/// The start of the line with the object [`ProfileLine`].
const START: &str = "{\"profile\":";

pub fn write_profile(to: &mut impl Write, profile: &Profile) -> io::Result<()> {
    json::write_object(to, &ProfileLine { profile })
}

/// Returns the profile of a baseline (another bag, or the `--json` output of an earlier run), and whether all messages of
/// the baseline were read.
pub fn baseline(
    path: &Path,
    arguments: &Arguments,
    selection: &Selection,
    bar: &Bar,
) -> Result<(Profile, bool), Failure> {
    let error = |text: String| format!("--compare {}: {text}", path.display());
    let io = |why: io::Error| error(why.to_string());
    if !path.is_dir() {
        let mut lines = BufReader::new(File::open(path).map_err(io)?);
        if lines.fill_buf().map_err(io)?.first() == Some(&b'{') {
            for line in lines.lines() {
                let line = line.map_err(io)?;
                if line.starts_with(START) {
                    let ProfileLine { profile } = serde_json::from_str(&line)
                        .map_err(|why| error(format!("its last line is damaged: {why}")))?;
                    return Ok((profile, true));
                }
            }
            let what = "it has no profile: it has to be all lines of --json, or the last one";
            return Err(error(what.to_owned()).into());
        }
    }
    let mut reading = Reading { profile: Profile::new(arguments.window), bar };
    let read = Bag::open([path])?.read(&arguments.options(selection, true), &mut reading)?;
    bar.finish();
    let unmeasured = read.topics.iter().flat_map(|topic| unmeasured(topic, arguments.clock));
    for line in unmeasured.chain(read.notes.iter().map(ToString::to_string)) {
        print_error(&format!("baseline: {line}"));
    }
    Ok((reading.profile, read.is_complete()))
}

struct Reading<'a> {
    profile: Profile,
    bar: &'a Bar,
}

impl Visitor for Reading<'_> {
    fn window(&mut self, window: &TopicWindow<'_>) -> ControlFlow<()> {
        self.profile.add(window);
        ControlFlow::Continue(())
    }

    fn progress(&mut self, progress: Progress) -> ControlFlow<()> {
        self.bar.set(progress);
        ControlFlow::Continue(())
    }
}

pub struct Changes(Vec<Comparison>);

impl Changes {
    /// Compares the selected topics. Returns an error if the windows of the two profiles have different lengths.
    pub fn new(baseline: &Profile, now: &Profile, selection: &Selection) -> Result<Self, Failure> {
        let mut changes = compare(baseline, now)?;
        // The profile of an earlier run can contain topics that are not selected now.
        changes.retain(|change| selection.is_wanted(&change.topic));
        Ok(Self(changes))
    }

    /// Returns whether at least one quantity became worse, or is no longer measured.
    pub fn is_worse(&self) -> bool {
        self.0.iter().any(|change| change.verdict == Verdict::Worse || is_missing(change))
    }

    /// Adds a test for each quantity. The test fails if the quantity became worse, or is no longer measured.
    pub fn add_to(&self, tests: &mut Tests) {
        for change in &self.0 {
            let (before, now) = (figure(change.baseline), figure(change.now));
            let result = match change.verdict {
                Verdict::Worse => {
                    TestResult::Failed(format!("{before} became {now}, p = {}", p_value(change.p_value)))
                }
                _ if is_missing(change) => {
                    TestResult::Failed(format!("{before} in the baseline, and missing now"))
                }
                Verdict::TooFew => TestResult::Skipped("too few windows".to_owned()),
                _ => TestResult::Passed,
            };
            tests.add(&change.topic, &change.quantity, result);
        }
    }

    /// Writes a line for each quantity that has changed, and the number of quantities that have not changed.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let (changed, other): (Vec<_>, Vec<_>) = self.0.iter().partition(|change| word(change).is_some());
        let count = |verdict| other.iter().filter(|change| change.verdict == verdict).count();
        let name_of = |change: &Comparison| format::name(&change.topic);
        let widths = changed.iter().map(|change| name_of(change).chars().count());
        let width = widths.max().unwrap_or_default().clamp(20, 48);
        if !changed.is_empty() {
            writeln!(to, "{:width$} {:26} baseline    now  p-value  blocks", "topic", "quantity")?;
        }
        for change in &changed {
            writeln!(
                to,
                "{:width$} {:26} {:>8} {:>6} {:>8} {:>3}/{:<3} {}",
                format::end_of(&name_of(change), width),
                format::start_of(&format::name(&change.quantity), 26),
                figure(change.baseline),
                figure(change.now),
                p_value(change.p_value),
                change.blocks.0,
                change.blocks.1,
                word(change).unwrap_or_default(),
            )?;
        }
        writeln!(
            to,
            "{} changed; {} did not, or it could be chance; {} have too few windows",
            changed.len(),
            count(Verdict::CouldBeChance),
            count(Verdict::TooFew),
        )?;
        if self.0.iter().all(|change| change.verdict == Verdict::TooFew && !is_missing(change)) {
            let why = "nothing can be said: each bag has to have 8 whole windows at least, and more if they depend \
                       on each other";
            print_error(why);
        }
        Ok(())
    }
}

/// Returns whether a quantity of the baseline is no longer measured, for example because its topic is missing.
fn is_missing(change: &Comparison) -> bool {
    change.baseline.is_finite() && change.now.is_nan()
}

/// Returns a word for the change. `None` if nothing has changed, or if the change could be chance.
fn word(change: &Comparison) -> Option<&'static str> {
    match change.verdict {
        _ if is_missing(change) => Some("missing"),
        Verdict::Better => Some("better"),
        Verdict::Worse => Some("worse"),
        Verdict::Different => Some("different"),
        _ => None,
    }
}

fn p_value(value: f64) -> String {
    match value {
        _ if value.is_nan() => "-".to_owned(),
        ..1e-4 => "<0.0001".to_owned(),
        _ => format!("{value:.4}"),
    }
}
