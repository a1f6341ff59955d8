// SPDX-License-Identifier: Apache-2.0

//! A C program that loads, uses and closes the middleware, forks, executes itself and ends, in every ordering: its exit
//! status and what it prints are the same as without the library.

use std::{
    path::Path,
    process::{Command, Output},
    sync::{
        atomic::{AtomicUsize, Ordering},
        Mutex,
    },
    thread,
};

use test_support::{command, preload};

use crate::preloaded;

/// The last letters: see orderings.c.
const ENDS: [char; 7] = ['r', 't', '_', 'A', 'Q', 'K', 'I'];
/// Most runs wait: for windows, and at the exit.
const AT_ONCE: usize = 16;

/// What a program has done so far: the letters of orderings.c that it may go on with depend on it.
#[derive(Clone, Copy, Default)]
struct State {
    is_linked: bool,
    is_open: bool,
    was_closed: bool,
    has_endpoints: bool,
    has_thread: bool,
    has_forked: bool,
    has_executed: bool,
    has_handler: bool,
}

impl State {
    /// Returns the state after a letter; None if the program may not do that, or if it shows nothing new.
    fn after(self, letter: char, last: Option<char>) -> Option<Self> {
        let Self { is_linked, is_open, was_closed, has_endpoints, has_thread, .. } = self;
        let is_new = last != Some(letter);
        let (may, after) = match letter {
            'l' | 'n' | 'g' | 'm' => {
                (!is_open && (letter == 'l' || !was_closed), Self { is_open: true, ..self })
            }
            'c' => (
                is_open && !is_linked && !has_thread && !was_closed,
                Self { is_open: false, was_closed: true, has_endpoints: false, ..self },
            ),
            'e' => (is_open && !has_endpoints, Self { has_endpoints: true, ..self }),
            'd' => (has_endpoints && !has_thread, Self { has_endpoints: false, ..self }),
            'u' | 'w' => (has_endpoints && is_new, self),
            'T' => (has_endpoints && !has_thread, Self { has_thread: true, ..self }),
            'a' => (!self.has_handler, Self { has_handler: true, ..self }),
            'f' => (!self.has_forked, Self { has_forked: true, has_thread, ..self }),
            _ => (
                !self.has_executed,
                Self {
                    is_linked,
                    is_open: is_linked,
                    has_executed: true,
                    has_forked: self.has_forked,
                    ..Self::default()
                },
            ),
        };
        may.then_some(after)
    }

    /// Appends all orderings of at most `letters` letters that begin with `begin`.
    fn orderings(self, begin: &str, letters: usize, to: &mut Vec<String>) {
        to.push(begin.to_owned());
        if begin.len() < letters {
            for letter in "lngmcedufwTax".chars() {
                if let Some(after) = self.after(letter, begin.chars().last()) {
                    after.orderings(&format!("{begin}{letter}"), letters, to);
                }
            }
        }
    }
}

fn output(program: &Path, libraries: &Path, script: &str, with_statistics: bool) -> Output {
    let mut command: Command = command(program, &[script], 0);
    let others = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = std::iter::once(libraries.to_owned()).chain(std::env::split_paths(&others));
    command.env("LD_LIBRARY_PATH", std::env::join_paths(folders).unwrap());
    command.env("MIDDLEWARE", "librmw_implementation.so").env("MICROSECONDS_AT_EXIT", "3000");
    if with_statistics {
        preloaded(&mut command, &[("PERIOD", "0.001")]);
    }
    let mut output = command.output().unwrap();
    // What a busy machine may have the core say; all else on standard error is compared.
    let errors = String::from_utf8_lossy(&output.stderr);
    let errors: Vec<&str> =
        errors.lines().filter(|line| !line.contains("was preempted for too long")).collect();
    output.stderr = errors.join("\n").into();
    output
}

/// Returns all orderings of at most `letters` letters: up to `all` letters with each end, longer ones with one end.
fn all(is_linked: bool, all: usize, letters: usize) -> Vec<String> {
    let mut scripts = vec![];
    State { is_linked, is_open: is_linked, ..State::default() }.orderings("", letters, &mut scripts);
    let with_ends = scripts.iter().enumerate().flat_map(|(number, script)| {
        let ends = if script.len() <= all { &ENDS[..] } else { &ENDS[number % ENDS.len()..][..1] };
        ends.iter().map(move |end| format!("{script}{end}"))
    });
    with_ends.collect()
}

/// Runs scripts of the program that opens the middleware, and of the one that is linked to it.
fn run(scripts: impl Fn(bool) -> Vec<String>) {
    let Some(middleware) = preload::library("null_rmw") else { return };
    let directory = tempfile::tempdir().unwrap();
    for name in ["librmw_implementation.so", "libnull_rmw.so"] {
        std::os::unix::fs::symlink(&middleware, directory.path().join(name)).unwrap();
    }
    let folder = directory.path().to_str().unwrap();
    let compile = |arguments: &[&str]| preload::program("orderings", arguments);
    let link = ["-L", folder, "-Wl,--no-as-needed", "-lnull_rmw"];
    let programs = [compile(&[]), compile(&link)].map(|program| program.unwrap());
    let mut runs = vec![];
    for (program, is_linked) in programs.iter().zip([false, true]) {
        runs.extend(scripts(is_linked).into_iter().map(|script| (program as &Path, script)));
    }
    let (next, different) = (AtomicUsize::new(0), Mutex::new(vec![]));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((program, script)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let [plain, with] =
                        [false, true].map(|with| output(program, directory.path(), script, with));
                    if plain != with {
                        different.lock().unwrap().push((script, plain, with));
                    }
                }
            });
        }
    });
    println!("{} orderings", runs.len());
    let different = different.into_inner().unwrap();
    let first = &different[..different.len().min(10)];
    assert!(different.is_empty(), "{} of {}, for example: {first:#?}", different.len(), runs.len());
}

#[test]
fn a_program_ends_as_without_it_in_every_ordering_of_three_steps() {
    run(|is_linked| all(is_linked, 2, 4));
}

#[test]
#[ignore = "takes minutes"]
fn a_program_ends_as_without_it_in_every_ordering_of_five_steps() {
    run(|is_linked| all(is_linked, 4, 5));
}

#[test]
fn children_that_are_forked_while_the_statistics_begin_live_as_without_it() {
    run(|is_linked| vec![if is_linked { "Fejr" } else { "lFejr" }.to_owned(); 4]);
}
