// SPDX-License-Identifier: Apache-2.0

//! Tests of the preloaded library without ROS nodes. A middleware that does nothing is used; it also makes the calls of
//! client libraries.

mod callbacks;
mod costs;
mod headers;
mod health;
mod hosts;
mod launcher;
mod loading;
mod messages;
mod orderings;
#[path = "../support/mod.rs"]
mod support;

use std::{path::Path, process::Command};

use support::{output, preloaded};
use test_support::{command, preload};

/// Functions for the scripts of the tests. `load` loads the middleware. `case` creates endpoints, with which `does`
/// runs steps: letters that null_rclcpp.c describes.
const START: &str = "
import _ctypes, ctypes, os, sys, time
def load(mode):
    global rmw
    rmw = ctypes.CDLL(sys.argv[1], os.RTLD_LAZY | mode)
long = ctypes.c_long
def pointer(function, *arguments):
    function.restype = ctypes.c_void_p
    return ctypes.c_void_p(function(*arguments))
def type_of(package, kind, name):
    library = ctypes.CDLL(f'lib{package}__rosidl_typesupport_c.so')
    what = 'message' if kind == 'msg' else 'service'
    return pointer(library[f'rosidl_typesupport_c__get_{what}_type_support_handle__{package}__{kind}__{name}'])
imu = type_of('sensor_msgs', 'msg', 'Imu')
def subscribe(topic, callbacks=1, filtered=False, of=imu, durability=2):
    return pointer(rmw.create_subscription, of, topic.encode(), callbacks, filtered, durability)
def advertise(topic, of=imu):
    return pointer(rmw.create_publisher, of, topic.encode())
def case(name):
    name = f'/own_{name}'
    return [subscribe(name + '_in', 2), subscribe(name + '_other'), subscribe(name + '/_action/feedback', 0),
            advertise(name + '_in'), advertise(name + '_out')]
def does(steps, case):
    rmw.does(steps.encode(), *case)
def wait_for_windows():
    # Those that are under way now, and those that start after them: all windows before a later one.
    rmw.last_window_start.restype = long
    start, later, deadline = time.time_ns(), 0, time.monotonic() + 60
    while later < 2:
        if rmw.last_window_start() > start:
            start, later = rmw.last_window_start(), later + 1
        assert time.monotonic() < deadline, 'no windows'
        time.sleep(0.01)
";

/// Returns a command that runs a script with the middleware. `None` without a C compiler.
fn python(script: &str) -> Option<Command> {
    // wait_for_windows waits for the windows of this service and this client.
    let script = [START, "load(os.RTLD_GLOBAL)\nrmw.create_services()\n", script].concat();
    let rmw = preload::library("null_rclcpp")?;
    Some(command("python3", &["-c", &script, rmw.to_str().unwrap()], 0))
}

fn add_libraries(command: &mut Command, folder: &Path) {
    let others = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&others));
    command.env("LD_LIBRARY_PATH", std::env::join_paths(folders).unwrap());
}

/// Creates a folder of links to all libraries except those of a package, and makes a command search this folder instead
/// of theirs. Returns the folder.
fn hide_package(command: &mut Command, package: &str) -> tempfile::TempDir {
    let links = tempfile::tempdir().unwrap();
    let [paths, prefixes] =
        ["LD_LIBRARY_PATH", "AMENT_PREFIX_PATH"].map(|name| std::env::var_os(name).unwrap_or_default());
    let folders = std::env::split_paths(&prefixes).map(|prefix| prefix.join("lib"));
    for folder in std::env::split_paths(&paths).chain(folders) {
        for library in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = library.file_name();
            if !name.to_string_lossy().starts_with(&format!("lib{package}__")) {
                let _is_there_already = std::os::unix::fs::symlink(library.path(), links.path().join(name));
            }
        }
    }
    command.env("LD_LIBRARY_PATH", links.path()).env("AMENT_PREFIX_PATH", "");
    links
}

/// Runs a script with the library and windows of 50 ms. Returns all windows, and the process's standard error.
fn run(script: &str, options: &[(&str, &str)]) -> Option<(Windows, String)> {
    let mut command = python(&[script, "\nwait_for_windows()\n"].concat())?;
    preloaded(&mut command, &[&[("PERIOD", "0.05")], options].concat());
    let (status, printed, errors) = output(command.env("PRINT_STATISTICS", "1"));
    assert_eq!(status, Some(0), "{errors}");
    Some((Windows(printed), errors))
}

/// Runs a script, and panics if it prints anything on standard error. Returns all windows.
fn run_silently(script: &str, options: &[(&str, &str)]) -> Option<Windows> {
    let (windows, errors) = run(script, options)?;
    assert_eq!(errors, "");
    Some(windows)
}

/// The windows that a process has published, as null_rmw.c prints them.
struct Windows(String);

impl Windows {
    /// Returns the averages and sample counts of a metric in all windows of a source.
    fn samples(&self, source: &str, metric: &str) -> Vec<(f64, f64)> {
        let begin = format!("/measured:{source} {metric} ");
        let figures = self.0.lines().filter_map(|line| line.strip_prefix(&begin)?.split_once(' '));
        figures.map(|(average, count)| (average.parse().unwrap(), count.parse().unwrap())).collect()
    }

    /// Returns the number of samples of a metric in all windows of a source, and the mean of the samples.
    fn total(&self, source: &str, metric: &str) -> (f64, f64) {
        let samples = self.samples(source, metric).into_iter().filter(|(_, count)| *count > 0.0);
        let (count, sum) = samples
            .fold((0.0, 0.0), |(counts, sum), (average, count)| (counts + count, sum + average * count));
        (count, sum / count)
    }

    /// Returns the sum, over all windows of a source, of a metric that has one number for each window.
    fn sum(&self, source: &str, metric: &str) -> f64 {
        self.samples(source, metric).iter().map(|(value, _)| value).filter(|value| !value.is_nan()).sum()
    }

    fn sources(&self) -> std::collections::BTreeSet<&str> {
        self.0.lines().filter_map(|line| line.split(' ').next()?.strip_prefix("/measured:")).collect()
    }
}
