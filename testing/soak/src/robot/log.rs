// SPDX-License-Identifier: Apache-2.0

//! Reads the logs of the robot's processes; [`node`](super::node) describes their lines.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};

/// A publication.
pub struct Sent {
    pub before: i64,
    pub after: i64,
}

/// A message in a callback.
pub struct Received {
    pub incarnation: u64,
    pub number: u64,
    pub stamp: i64,
    pub sent: i64,
    pub received: i64,
    /// When the thread was seen last before.
    pub free: i64,
    pub start: i64,
    pub system: i64,
    pub after: i64,
    pub end: i64,
    /// When the next callback of the process started; the thread is the same.
    pub next: i64,
}

/// Average, minimum, maximum, standard deviation and sample count; NaN: unknown. Equal up to the rounding of a decimal
/// text.
#[derive(Clone, Copy, Debug)]
pub struct Figures(pub [f64; 5]);

impl PartialEq for Figures {
    fn eq(&self, other: &Self) -> bool {
        let same = |one: f64, other: f64| {
            (one - other).abs() <= 1e-12 * other.abs() || (one.is_nan() && other.is_nan())
        };
        self.0.iter().zip(&other.0).all(|(one, other)| same(*one, *other))
    }
}

impl Figures {
    pub fn count(&self) -> u64 {
        self.0[4] as u64
    }
}

/// A window, as the library has it in the process.
#[derive(Clone)]
pub struct Window {
    pub start: i64,
    pub stop: i64,
    pub length: i64,
    pub count: u64,
    pub is_count_known: bool,
    pub unrecorded: u64,
    pub step: i64,
    pub totals: Totals,
    pub metrics: Vec<(String, Figures)>,
}

impl Window {
    /// Messages counted but not measured; an unknown count may include one of the window before or after.
    pub fn unmeasured(&self) -> u64 {
        self.unrecorded.max(u64::from(!self.is_count_known))
    }

    pub fn get(&self, metric: &str) -> Option<&Figures> {
        self.metrics.iter().find(|(name, _)| name == metric).map(|(_, figures)| figures)
    }
}

/// Received, lost, late, duplicates, publishers; -1: unknown.
pub type Totals = [i64; 5];

pub struct Health {
    /// The end of the window; 0 before the first one.
    pub stop: i64,
    pub level: String,
    pub cause: String,
    pub value: f64,
}

/// A subscription or a publisher of a process.
#[derive(Default)]
pub struct Source {
    pub topic: String,
    pub name: String,
    pub is_publisher: bool,
    pub sent: Vec<Sent>,
    pub received: Vec<Received>,
    pub windows: Vec<Window>,
    pub health: Vec<Health>,
    pub totals: Option<Totals>,
}

pub struct Process {
    pub name: String,
    pub incarnation: u64,
    pub sources: BTreeMap<usize, Source>,
    /// The source and the index of the last callback.
    last: Option<(usize, usize)>,
}

/// The words of a line.
struct Words<'a>(std::str::Split<'a, char>);

impl<'a> Words<'a> {
    fn text(&mut self) -> Result<&'a str> {
        self.0.next().context("a word is missing")
    }

    fn int<T: std::str::FromStr<Err = std::num::ParseIntError>>(&mut self) -> Result<T> {
        Ok(self.text()?.parse()?)
    }

    fn ints<const N: usize>(&mut self) -> Result<[i64; N]> {
        let mut all = [0; N];
        for one in &mut all {
            *one = self.int()?;
        }
        Ok(all)
    }
}

fn figures(word: &str) -> Result<(String, Figures)> {
    let (name, values) = word.split_once(':').context("a metric")?;
    let mut figures = [0.0; 5];
    for (figure, value) in figures.iter_mut().zip(values.split(':')) {
        *figure = value.parse()?;
    }
    Ok((name.to_owned(), Figures(figures)))
}

impl Process {
    fn accept(&mut self, line: &str) -> Result<()> {
        let mut words = Words(line.split(' '));
        let kind = words.text()?;
        let id = words.int()?;
        let source = self.sources.entry(id).or_default();
        match kind {
            "P" | "L" => {
                source.topic = words.text()?.to_owned();
                // The second source of a name has a number, after a space.
                source.name = words.0.collect::<Vec<_>>().join(" ");
                source.is_publisher = kind == "P";
            }
            "S" => {
                let [number, _stamp, before, after] = words.ints()?;
                source.sent.push(Sent { before, after });
                anyhow::ensure!(number == source.sent.len() as i64, "a publication is missing");
            }
            "X" => {}
            "R" => {
                let (incarnation, number) = (words.int()?, words.int()?);
                let [stamp, sent, received, free, start, system, after, end] = words.ints()?;
                let (next, at) = (i64::MAX, (id, source.received.len()));
                #[rustfmt::skip]
                source.received.push(Received {
                    incarnation, number, stamp, sent, received, free, start, system, after, end, next,
                });
                if let Some((id, index)) = self.last.replace(at) {
                    self.sources.entry(id).or_default().received[index].next = start;
                }
            }
            "W" => {
                let [start, stop, length] = words.ints()?;
                let (count, is_count_known) = (words.int()?, words.int::<u8>()? == 1);
                let (unrecorded, step) = (words.int()?, words.int()?);
                let totals = words.ints()?;
                let metrics = words.0.map(figures).collect::<Result<_>>()?;
                #[rustfmt::skip]
                source.windows.push(Window {
                    start, stop, length, count, is_count_known, unrecorded, step, totals, metrics,
                });
            }
            "H" => {
                let (stop, level) = (words.int()?, words.text()?.to_owned());
                let (cause, value) = (words.text()?.to_owned(), words.text()?.parse()?);
                source.health.push(Health { stop, level, cause, value });
            }
            "T" => source.totals = Some(words.ints()?),
            _ => anyhow::bail!("an unknown line"),
        }
        Ok(())
    }
}

impl Process {
    /// Reads a log.
    pub fn parse(name: &str, incarnation: u64, log: &str) -> Result<Process> {
        let mut process =
            Process { name: name.to_owned(), incarnation, sources: BTreeMap::new(), last: None };
        for line in log.lines() {
            process.accept(line).with_context(|| format!("{name}: {line:?}"))?;
        }
        Ok(process)
    }
}

/// Reads the logs of a directory.
pub fn read(directory: &Path) -> Result<Vec<Process>> {
    let mut processes = vec![];
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name().into_string().unwrap_or_default();
        let Some((process, incarnation)) = name.strip_suffix(".log").and_then(|name| name.split_once('.'))
        else {
            continue;
        };
        let log = fs::read_to_string(directory.join(&name))?;
        processes.push(Process::parse(process, incarnation.parse()?, &log)?);
    }
    processes.sort_by_key(|process| process.incarnation);
    Ok(processes)
}
