// SPDX-License-Identifier: Apache-2.0

//! A C program loads, uses and closes the middleware, forks, executes itself and ends, in every ordering of these
//! steps. Its exit status and its output are the same as without the library.

use std::{path::Path, process::Output, thread};

use test_support::{command, preload};

use crate::{add_libraries, preloaded};

/// The letters that end a script: see orderings.c.
const ENDS: [char; 7] = ['r', 't', '_', 'A', 'Q', 'K', 'I'];
/// The number of runs at the same time. Most runs only wait, for windows or at the exit, so many runs at once are no
/// problem.
const AT_ONCE: usize = 16;

/// Returns whether the program can do the action `letter` of orderings.c after the actions `others`, and whether this
/// longer script tests something new.
fn is_possible(others: &str, letter: char, is_linked: bool) -> bool {
    // The actions since the program last executed itself.
    let done = others.rsplit('x').next().unwrap();
    let last = |letters: &[char]| done.rfind(letters);
    let was_closed = done.contains('c');
    let is_open = is_linked || last(&['l', 'n', 'g', 'm']) > last(&['c']);
    let has_endpoints = last(&['e']) > last(&['c', 'd']);
    let has_thread = done.contains('T');
    match letter {
        'l' => !is_open,
        'n' | 'g' | 'm' => !is_open && !was_closed,
        'c' => is_open && !is_linked && !has_thread && !was_closed,
        'e' => is_open && !has_endpoints,
        'd' | 'T' => has_endpoints && !has_thread,
        'u' | 'w' => has_endpoints && !others.ends_with(letter),
        'a' => !done.contains('a'),
        _ => !others.contains(letter),
    }
}

/// Appends all orderings of at most `letters` letters that begin with `begin`.
fn orderings(begin: &str, letters: usize, is_linked: bool, to: &mut Vec<String>) {
    to.push(begin.to_owned());
    if begin.len() < letters {
        for letter in "lngmcedufwTax".chars().filter(|letter| is_possible(begin, *letter, is_linked)) {
            orderings(&format!("{begin}{letter}"), letters, is_linked, to);
        }
    }
}

/// Returns all orderings of at most `letters` letters. An ordering of up to `all` letters is combined with each end, a
/// longer ordering with one end.
fn all(is_linked: bool, all: usize, letters: usize) -> Vec<String> {
    let mut scripts = vec![];
    orderings("", letters, is_linked, &mut scripts);
    let with_ends = scripts.iter().enumerate().flat_map(|(number, script)| {
        let ends = if script.len() <= all { &ENDS[..] } else { &ENDS[number % ENDS.len()..][..1] };
        ends.iter().map(move |end| format!("{script}{end}"))
    });
    with_ends.collect()
}

fn run(program: &Path, libraries: &Path, script: &str, with_statistics: bool) -> Output {
    let mut command = command(program, &[script], 0);
    add_libraries(&mut command, libraries);
    command.env("MIDDLEWARE", "librmw_implementation.so").env("MICROSECONDS_AT_EXIT", "3000");
    if with_statistics {
        preloaded(&mut command, &[("PERIOD", "0.001")]);
    }
    let mut output = command.output().unwrap();
    // On a busy machine, the core may print this line. All other lines on standard error are compared.
    let errors = String::from_utf8_lossy(&output.stderr);
    let errors: Vec<&str> =
        errors.lines().filter(|line| !line.contains("was preempted for too long")).collect();
    output.stderr = errors.join("\n").into();
    output
}

/// Runs the scripts with and without the library. One program opens the middleware, another program is linked to it.
/// Asserts that the output is the same.
fn compare(scripts: impl Fn(bool) -> Vec<String>) {
    let Some(middleware) = preload::library("null_rmw") else { return };
    let directory = tempfile::tempdir().unwrap();
    for name in ["librmw_implementation.so", "libnull_rmw.so"] {
        std::os::unix::fs::symlink(&middleware, directory.path().join(name)).unwrap();
    }
    let link = ["-L", directory.path().to_str().unwrap(), "-Wl,--no-as-needed", "-lnull_rmw"];
    let programs = [&[][..], &link].map(|arguments| preload::program("orderings", arguments).unwrap());
    let mut runs = vec![];
    for (program, is_linked) in programs.iter().zip([false, true]) {
        runs.extend(scripts(is_linked).into_iter().map(|script| (program as &Path, script)));
    }
    let is_different = |ordering: &&(&Path, String)| {
        let [plain, with] = [false, true].map(|with| run(ordering.0, directory.path(), &ordering.1, with));
        plain != with
    };
    let different: Vec<_> = thread::scope(|scope| {
        let part = |first| runs.iter().skip(first).step_by(AT_ONCE).filter(is_different).collect::<Vec<_>>();
        let threads: Vec<_> = (0..AT_ONCE).map(|first| scope.spawn(move || part(first))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    println!("{} orderings", runs.len());
    assert!(
        different.is_empty(),
        "{}, for example: {:#?}",
        different.len(),
        &different[..different.len().min(10)]
    );
}

#[test]
fn a_program_ends_as_without_it_in_each_ordering_of_three_steps() {
    compare(|is_linked| all(is_linked, 2, 4));
}

#[test]
#[ignore = "takes minutes"]
fn a_program_ends_as_without_it_in_each_ordering_of_five_steps() {
    compare(|is_linked| all(is_linked, 4, 5));
}

#[test]
fn children_forked_while_the_statistics_begin() {
    compare(|is_linked| vec![if is_linked { "Fejr" } else { "lFejr" }.to_owned(); 4]);
}
