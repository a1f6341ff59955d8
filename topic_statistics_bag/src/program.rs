// SPDX-License-Identifier: Apache-2.0

//! The program `bag_statistics`: it reads a bag once. Then it shows the statistics, compares them with conditions or
//! with a baseline, or describes the files.

mod arguments;
mod comparison;
mod error;
mod info;
mod outcome;
mod progress;
mod qos;
mod rows;
mod session;

use std::{io, process::ExitCode};

use clap::{CommandFactory, Parser};
use topic_statistics_bag::{Bag, BagError};
use topic_statistics_observe::{expect, page::PageFile};

use arguments::Arguments;
use comparison::{baseline, Changes};
use error::{has_no_reader, print_error, Failure, FAILED, UNFULFILLED, WRONG_USAGE};
use outcome::Outcome;
use progress::Bar;
use session::Session;

/// Runs the program with the command-line arguments of the process.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(generate) = arguments.generate {
        let written = generate.write(Arguments::command(), &mut io::stdout());
        return if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) };
    }
    arguments.check().unwrap_or_else(|error| error.exit());
    match run(&arguments) {
        Ok(code) => ExitCode::from(code),
        // The reader of standard output has ended, for example `head` in `bag_statistics a.mcap | head`: this is no
        // failure.
        Err(error) if has_no_reader(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&error.to_string());
            let is_usage = matches!(error.downcast_ref(), Some(BagError::EmptyRange { .. }));
            ExitCode::from(if is_usage { WRONG_USAGE } else { FAILED })
        }
    }
}

fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let read = |path| expect::read(path, &arguments.expect_namespace);
    let expected = arguments.expect.as_deref().map(read).transpose()?;
    let selection = arguments.selection(expected.as_ref());
    Arguments::check_topics(&selection.patterns)?;
    let page = arguments.report.as_deref().map(PageFile::new).transpose()?;
    let junit = arguments.junit.as_deref().map(PageFile::new).transpose()?;
    let bag = Bag::open(&arguments.files)?;
    if arguments.info {
        return info::write(&bag, arguments.unpack_all);
    }
    let bar = Bar::new(arguments.json || arguments.plain);
    let read_baseline = |path| baseline(path, arguments, &selection, &bar);
    let (baseline, is_baseline_complete) =
        arguments.compare.as_deref().map(read_baseline).transpose()?.unzip();
    let mut session = Session::new(arguments, &selection, expected, bar);
    let read = bag.read(&arguments.options(&selection, false), &mut session)?;
    session.finish(&read)?;
    let mut outcome = Outcome { arguments, selection, bag: &bag, read, session };
    outcome.report_problems();
    let compare = |baseline| Changes::new(baseline, &outcome.session.profile, &outcome.selection);
    let changes = baseline.as_ref().map(compare).transpose()?;
    let mut code = outcome.show(changes.as_ref())?;
    if let Some(page) = page {
        page.write(&outcome.page())?;
    }
    if let Some(file) = junit {
        outcome.tests(changes.as_ref()).write(&file)?;
    }
    if !outcome.is_fulfilled() {
        code = code.max(UNFULFILLED);
    }
    let is_complete = outcome.read.is_complete() && is_baseline_complete.unwrap_or(true);
    Ok(if is_complete { code } else { FAILED })
}
