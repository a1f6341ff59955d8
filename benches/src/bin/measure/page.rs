// SPDX-License-Identifier: Apache-2.0

//! docs/performance.md: the text of `benches/performance.md`, with the figures of one run at its places `{name}`.

use std::{collections::BTreeMap, fs, time::Instant};

use anyhow::{Context, Result};

use crate::{
    contention::{self, Contention},
    end_to_end::{self, Compared},
    listener::Listened,
    machine::{Machine, Start},
    memory::{self, Heap},
    messages::{self, Messages},
    probe,
    scale::{self, Many},
    soak,
    table::Table,
};

const TEMPLATE: &str = include_str!("../../../performance.md");
const PAGE: &str = "docs/performance.md";

/// The figures of a run.
#[derive(Default)]
struct Run {
    machine: Machine,
    messages: Messages,
    heaps: Vec<Heap>,
    compared: Vec<Compared>,
    many: Vec<Many>,
    soaked: Vec<Listened>,
    contention: Contention,
    probe: Table,
}

/// Measures everything once, in about twenty minutes, and writes the page.
pub fn write() -> Result<()> {
    let started = Instant::now();
    let start = Start::now()?;
    let step = |number: usize, what: &str| {
        eprintln!("[{number}/7, {:.0} s] {what} ...", started.elapsed().as_secs_f64());
    };
    step(1, "Messages and windows, with the build: 4 min");
    let messages = messages::measure(&["--warm-up-time", "1", "--measurement-time", "2"])?;
    step(2, "The heap of a node: 10 s");
    let heaps = memory::measure()?;
    step(3, "End to end: 6 min");
    let compared = end_to_end::measure(4, 2.5)?;
    step(4, "Many subscriptions: 1 min");
    let many = scale::measure(6)?;
    step(5, "Soak: 1 min");
    let soaked = soak::measure(50.0)?;
    step(6, "Contention: 20 s");
    let contention = contention::measure(20.0)?;
    step(7, "Observers: 6 min");
    let probe = probe::measure(10.0)?;
    let machine = start.end()?;
    let run = Run { machine, messages, heaps, compared, many, soaked, contention, probe };
    fs::write(PAGE, fill(TEMPLATE, &run.figures())).with_context(|| format!("Cannot write {PAGE}"))?;
    eprintln!("{PAGE} is written after {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

impl Run {
    /// Returns the figures by the names that the template has for them.
    fn figures(&self) -> BTreeMap<&'static str, String> {
        let tables = [
            ("messages", self.messages.table()),
            ("heap", memory::table(&self.heaps)),
            ("end_to_end", end_to_end::table(&self.compared)),
            ("scale", scale::table(&self.many)),
            ("soak", soak::table(&self.soaked)),
            ("contention", self.contention.table()),
            ("probe", self.probe.clone()),
        ];
        let tables = tables.map(|(name, table)| (name, table.to_string().trim_end().to_owned()));
        self.machine.figures().into_iter().chain(self.messages.figures()).chain(tables).collect()
    }
}

/// Returns the text with the figures at their places.
fn fill(template: &str, figures: &BTreeMap<&'static str, String>) -> String {
    figures
        .iter()
        .fold(template.to_owned(), |text, (name, figure)| text.replace(&format!("{{{name}}}"), figure))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Returns the names of the places for figures in a text.
    fn places(text: &str) -> BTreeSet<&str> {
        let is_name = |name: &&str| name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_');
        text.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0)).filter(is_name).collect()
    }

    #[test]
    fn each_place_of_the_template_has_a_figure_and_each_figure_a_place() {
        let figures = Run::default().figures();
        assert_eq!(places(TEMPLATE), figures.keys().copied().collect());
        assert_eq!(places(&fill(TEMPLATE, &figures)), BTreeSet::new());
    }

    #[test]
    fn the_page_is_this_template() {
        let page =
            fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/performance.md")).unwrap();
        // Text between places, in the order of the template.
        let texts = TEMPLATE.split(['{', '}']).filter(|text| places(&format!("{{{text}}}")).is_empty());
        let mut rest = page.as_str();
        for text in texts {
            rest =
                rest.split_once(text).unwrap_or_else(|| panic!("write the page again: it lacks {text:?}")).1;
        }
    }
}
