// SPDX-License-Identifier: Apache-2.0

//! The middleware comes and goes in any order: it is loaded late by another library, as librmw_implementation does
//! that, with RTLD_LOCAL, closed and opened again, before and after a fork.

use std::process::Output;

use test_support::{command, domain, preload};

use crate::{
    null_rmw::{Windows, CLIENT, SERVICE, WAIT_FOR_WINDOWS},
    preloaded,
};

const START: &str = "
import _ctypes, ctypes, os, sys, time
def load():
    return ctypes.CDLL('librmw_implementation.so', os.RTLD_LAZY | os.RTLD_LOCAL)
def use():
    rmw.create_services() # the first call of the middleware, which loads it
    rmw.call(ctypes.c_long(100), 0)
    rmw.serve(ctypes.c_long(100), True)
    wait_for_windows()
";

/// Runs a script with a library that loads the middleware at the first call. None without a C compiler.
fn run(script: &str) -> Option<Output> {
    let (rmw, late) = (preload::library("null_rmw")?, preload::library("late_rmw")?);
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(late, directory.path().join("librmw_implementation.so")).unwrap();
    let mut command = command("python3", &["-c", &[START, WAIT_FOR_WINDOWS, script].concat()], domain());
    preloaded(&mut command, &[("PERIOD", "0.05")]);
    let libraries = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let libraries = std::iter::once(directory.path().to_owned()).chain(std::env::split_paths(&libraries));
    command.env("LD_LIBRARY_PATH", std::env::join_paths(libraries).unwrap());
    command.env("LATE_RMW", rmw).env("PRINT_STATISTICS", "1");
    Some(command.output().unwrap())
}

/// Asserts that the script succeeds and prints `expected_errors` on standard error, and that `count` calls, responses
/// and requests are measured.
fn assert_measured(script: &str, expected_errors: &str, count: f64) {
    let Some(Output { status, stdout, stderr }) = run(script) else { return };
    let [printed, errors] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(status.success() && errors == expected_errors, "{status}: {errors}");
    let windows = Windows(printed);
    let sums = [(CLIENT, "calls"), (CLIENT, "responses"), (SERVICE, "requests")]
        .map(|(source, metric)| windows.sum(source, metric));
    assert_eq!(sums, [count; 3]);
}

#[test]
fn a_middleware_that_is_loaded_late_and_locally_is_found() {
    assert_measured("rmw = load()\nuse()", "", 100.0);
}

#[test]
fn a_middleware_that_is_closed_and_opened_again_is_measured_again() {
    const CLOSE: &str = "
for _ in range(3):
    rmw = load()
    use()
    rmw.destroy_all()
    _ctypes.dlclose(rmw._handle)
";
    assert_measured(CLOSE, "", 300.0);
}

#[test]
fn a_function_that_is_called_before_any_middleware_is_there_is_found_later() {
    const EARLY: &str = "
assert ctypes.CDLL(None).rmw_send_request(None, None, None) == 3, 'unsupported'
rmw = load()
use()
";
    assert_measured(EARLY, "topic_statistics: rmw_send_request is called and no library has it\n", 100.0);
}

#[test]
fn a_child_that_is_forked_before_the_first_endpoint_has_statistics_of_its_own() {
    const FORK: &str = "
rmw = load()
child = os.fork()
if child == 0:
    use()
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
use()
";
    assert_measured(FORK, "", 200.0);
}
