// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask test`: builds the tests, runs them by nextest, and what else there is beside them, and reports all
//! failures at the end.

use std::{
    collections::{BTreeSet, VecDeque},
    fs,
    io::{Read as _, Seek as _},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::{
    checks::{self, Outcome},
    commands::{models, print, when_idle},
    environment::Environment,
    setup::tools,
};

/// The other workspaces with tests: those that are statistical, and the tests of this automation. They run with
/// `--all`, at the lowest priority: they compute more than they wait, beside tests that wait.
const OTHERS: [&str; 3] = [SIMULATOR, "testing/soak", "xtask"];
const SIMULATOR: &str = "testing/simulator";
/// The other packages whose manifest says `doctest = false`, which `--doc` would override.
const WITHOUT_EXAMPLES: [&str; 2] = ["benchmarks", "test_support"];
/// The crates whose code is counted with every message. Only they are optimised: the others are those of the tests.
const COUNTED: [&str; 5] =
    ["benchmarks", "crossbeam-queue", "rclrs_topic_statistics", "spin", "topic_statistics_core"];
/// How, as in a release build.
const OPTIMISED: [&str; 4] =
    ["opt-level=3", "debug-assertions=false", "overflow-checks=false", "codegen-units=16"];
/// The job that runs longest, and so begins first.
const TESTS: &str = "tests";
/// How long a job may take: some times what the longest takes on two busy processors. A test that waits for ever is
/// then a failure with a name.
const LIMIT: Duration = Duration::from_secs(50 * 60);
/// How many tests may need a second try. Only those that start ROS get one: see `.config/nextest.toml`.
const SECOND_TRIES: usize = 3;

/// What of the tests is built and run.
pub struct Selection {
    /// Whether tests that are statistical, test the automation or build for themselves run, too.
    pub all: bool,
    /// Whether the tests are only built.
    pub no_run: bool,
    /// Whether it is an error if Cargo.lock has to change.
    pub locked: bool,
    /// The packages whose tests are not run.
    pub exclude: Vec<String>,
    /// Whether the examples in the documentation are not run.
    pub no_examples: bool,
}

impl Selection {
    /// Returns the arguments of cargo that exclude these packages, and those that were chosen.
    fn exclude<'a>(&'a self, also: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
        let packages: BTreeSet<_> = self.exclude.iter().map(String::as_str).chain(also).collect();
        packages.into_iter().flat_map(|package| ["--exclude", package]).collect()
    }
}

/// A command that runs tests.
struct Job {
    name: String,
    command: Command,
    /// Whether it prints while it runs. Any other's output is printed when it has ended.
    is_shown: bool,
}

/// A job that has ended.
struct Ended {
    name: String,
    outcome: Outcome,
    time: Duration,
    /// The names of the tests that failed.
    failures: BTreeSet<String>,
    /// The last lines that it has printed, if it has failed.
    last_lines: String,
}

/// Builds and runs the tests, and prints a table with the time of each job.
pub fn run(environment: &Environment, project: &Path, selection: &Selection) -> Result<ExitCode> {
    let begun = Instant::now();
    let nextest = nextest(environment, project)?;
    if !build(environment, project, selection)? {
        return Ok(ExitCode::FAILURE);
    }
    let built = begun.elapsed();
    if selection.no_run {
        return Ok(ExitCode::SUCCESS);
    }
    let profile = if selection.all { "all" } else { "default" };
    let report_file = project.join("target/nextest").join(profile).join("junit.xml");
    let _none_yet = fs::remove_file(&report_file);
    let mut tests = environment.command(nextest);
    tests.current_dir(project).args(["nextest", "run", "--workspace", "--tests", "--profile", profile]);
    tests.args(selection.locked.then_some("--locked")).args(selection.exclude([]));
    let mut jobs = VecDeque::from([Job { name: TESTS.to_owned(), command: tests, is_shown: true }]);
    jobs.extend(commands(environment, project, selection));
    let mut ended = two_at_a_time(jobs, LIMIT, print)?;
    let report = fs::read_to_string(&report_file).context("nextest has written no report")?;
    let report = Report::parse(&report)?;
    let tests = ended.iter_mut().find(|job| job.name == TESTS).context("no tests")?;
    tests.failures = report.failed;
    let mut rows = vec![("build".to_owned(), Outcome::Passed, built)];
    rows.extend(ended.iter().map(|job| (job.name.clone(), job.outcome.clone(), job.time)));
    let not_run = if selection.all {
        ""
    } else {
        "Not run: statistical and long tests, and those of the automation; --all runs them\n"
    };
    let lines = |what: &str, tests: &[String]| -> String {
        tests.iter().map(|test| format!("{what}{test}\n")).collect()
    };
    let tried_again = lines("second try: ", &report.tried_again);
    fs::write(report_file.with_file_name("second_tries"), &tried_again)?;
    print(&format!(
        "\n{}{}{not_run}{tried_again}{}",
        lines("", &report.skipped),
        checks::table(&rows),
        failures_of(&ended)
    ))?;
    if report.tried_again.len() > SECOND_TRIES {
        print(&format!("FAILED: more than {SECOND_TRIES} tests needed a second try\n"))?;
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::from(u8::from(ended.iter().any(|job| job.outcome == Outcome::Failed))))
}

/// Returns the program cargo-nextest: that of the machine, or else the one of PyPI.
fn nextest(environment: &Environment, project: &Path) -> Result<PathBuf> {
    let program = PathBuf::from("cargo-nextest");
    let version = environment.command(&program).args(["nextest", "--version"]).output();
    if version.is_ok_and(|version| version.status.success()) {
        return Ok(program);
    }
    Ok(tools::from_pypi(project)?.join(program))
}

/// Builds the tests. Returns whether that worked.
fn build(environment: &Environment, project: &Path, selection: &Selection) -> Result<bool> {
    let mut workspaces = vec![(project.to_owned(), selection.exclude([]))];
    if selection.all {
        workspaces.extend(OTHERS.map(|directory| (project.join(directory), vec![])));
    }
    for (workspace, exclude) in workspaces {
        let mut cargo = environment.command("cargo");
        cargo.current_dir(&workspace).args(["test", "--no-run", "--workspace", "--tests"]);
        cargo.args(selection.locked.then_some("--locked")).args(exclude);
        if !cargo.status().context("cargo cannot be started")?.success() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the commands of cargo beside the tests: examples in the documentation and, if all tests run, the tests of
/// the other workspaces, the instructions of a message in optimised code, the models, and a million simulated windows.
fn commands(environment: &Environment, project: &Path, selection: &Selection) -> Vec<Job> {
    let job = |name: &str, directory: &Path, arguments: &[&str]| {
        let mut command = when_idle(environment);
        command.arg("cargo").args(arguments).args(selection.locked.then_some("--locked"));
        command.current_dir(directory);
        Job { name: name.to_owned(), command, is_shown: false }
    };
    let mut jobs = vec![];
    if selection.all {
        let valgrind = environment.command("valgrind").arg("--version").output();
        if valgrind.is_ok_and(|valgrind| valgrind.status.success()) {
            let mut arguments = vec!["test", "--package", "benchmarks", "--test", "it", "instructions"];
            let options_of =
                |package| OPTIMISED.map(move |option| format!("profile.dev.package.{package}.{option}"));
            let options: Vec<_> = COUNTED.into_iter().flat_map(options_of).collect();
            arguments.extend(options.iter().flat_map(|option| ["--config", option]));
            let mut instructions = job("instructions of a message", project, &arguments);
            instructions.command.env("IS_OPTIMISED", ""); // the count is asserted
            jobs.push(instructions);
        }
        let models = models(environment, project, selection.locked);
        jobs.push(Job { name: "models".to_owned(), command: models, is_shown: false });
        // The program that its own tests have built: a release build would take longer than the windows.
        let simulator = ["run", "--quiet"];
        jobs.push(job("a million simulated windows", &project.join(SIMULATOR), &simulator));
    }
    if !selection.no_examples {
        let mut examples = vec!["test", "--workspace", "--doc"];
        examples.extend(selection.exclude(WITHOUT_EXAMPLES));
        jobs.push(job("examples in the documentation", project, &examples));
    }
    if selection.all {
        jobs.extend(OTHERS.map(|directory| {
            let mut command = environment.command("nice");
            command.args(["-n", "19", "cargo", "test", "--quiet", "--tests"]);
            command.args(selection.locked.then_some("--locked")).current_dir(project.join(directory));
            Job { name: directory.to_owned(), command, is_shown: false }
        }));
    }
    jobs
}

/// What nextest reports of the tests.
#[derive(Debug, Default, PartialEq)]
struct Report {
    failed: BTreeSet<String>,
    /// Passed at the second or third try.
    tried_again: Vec<String>,
    /// The lines of what was skipped, in tests that passed: nextest hides their output.
    skipped: Vec<String>,
}

impl Report {
    /// Parses a report in JUnit's format.
    fn parse(junit: &str) -> Result<Report> {
        let document = roxmltree::Document::parse(junit).context("nextest's report")?;
        let mut report = Report::default();
        for test in document.descendants().filter(|node| node.has_tag_name("testcase")) {
            let name = [test.attribute("classname"), test.attribute("name")]
                .map(Option::unwrap_or_default)
                .join(" ");
            let has = |tag: &str| test.children().any(|child| child.has_tag_name(tag));
            if has("failure") || has("error") {
                report.failed.insert(name);
            } else if has("flakyFailure") || has("flakyError") {
                report.tried_again.push(name);
            }
            let printed = test.children().filter(|child| child.has_tag_name("system-err"));
            let lines = printed.filter_map(|child| child.text()).flat_map(str::lines);
            report.skipped.extend(lines.filter(|line| line.starts_with("skipped: ")).map(str::to_owned));
        }
        Ok(report)
    }
}

/// Runs jobs two at a time, one from the front and one from the back. Calls `print` with the output of each when it has
/// ended, or was killed after the limit.
fn two_at_a_time(jobs: VecDeque<Job>, limit: Duration, print: fn(&str) -> Result<()>) -> Result<Vec<Ended>> {
    let (jobs, ended) = (Mutex::new(jobs), Mutex::new(vec![]));
    let work = |take: fn(&mut VecDeque<Job>) -> Option<Job>| loop {
        let job = take(&mut jobs.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(job) = job else { return };
        let result = run_one(job, limit, print);
        ended.lock().unwrap_or_else(PoisonError::into_inner).push(result);
    };
    thread::scope(|scope| {
        scope.spawn(|| work(VecDeque::pop_front));
        work(VecDeque::pop_back);
    });
    ended.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect()
}

fn run_one(
    Job { name, mut command, is_shown }: Job,
    limit: Duration,
    print: fn(&str) -> Result<()>,
) -> Result<Ended> {
    print(&format!("-- {name}\n"))?;
    let mut log = tempfile::tempfile()?;
    let begun = Instant::now();
    command.stdin(Stdio::null());
    if !is_shown {
        command.stdout(log.try_clone()?).stderr(log.try_clone()?);
    }
    let mut child = command.spawn().with_context(|| format!("{name} cannot be started"))?;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if begun.elapsed() > limit => {
                child.kill()?;
                print(&format!("== {name} has not ended within {limit:?}, and is killed\n"))?;
                break child.wait()?;
            }
            None => thread::sleep(Duration::from_millis(50)),
        }
    };
    let time = begun.elapsed();
    let mut output = vec![];
    log.rewind()?;
    log.read_to_end(&mut output)?;
    let output = String::from_utf8_lossy(&output);
    print(&format!("\n== {name}: {status}, {:.0} s\n{output}", time.as_secs_f32()))?;
    let outcome = if status.success() { Outcome::Passed } else { Outcome::Failed };
    let last_lines = if outcome == Outcome::Failed { last_lines(&output) } else { String::new() };
    Ok(Ended { name, outcome, time, failures: failed_tests(&output), last_lines })
}

/// Returns the last lines of an output, and the beginnings of those that are long.
fn last_lines(output: &str) -> String {
    const LINES: usize = 40;
    const CHARACTERS: usize = 300;
    let lines: Vec<_> = output.lines().collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    last.iter().flat_map(|line| line.chars().take(CHARACTERS).chain(['\n'])).collect()
}

/// Returns the names of the tests that failed, from the lists in the harness's output. A test in a process of its own
/// has a list, too.
fn failed_tests(output: &str) -> BTreeSet<String> {
    let lists = output.split("\nfailures:\n").skip(1);
    let names = lists.flat_map(|list| list.lines().map_while(|line| line.strip_prefix("    ")));
    names.map(str::to_owned).collect()
}

/// Returns the last lines of each program that failed, because a log may be cut before these. Then returns one line for
/// each test that failed, or for its program if that names none.
fn failures_of(ended: &[Ended]) -> String {
    let mut lines = String::new();
    let failed = || ended.iter().filter(|job| job.outcome == Outcome::Failed);
    for job in failed().filter(|job| !job.last_lines.is_empty()) {
        lines += &format!("\n-- the last lines of {}\n{}\n", job.name, job.last_lines);
    }
    for job in failed() {
        if job.failures.is_empty() {
            lines += &format!("FAILED: {}\n", job.name);
        }
        lines.extend(job.failures.iter().map(|test| format!("FAILED: {}: {test}\n", job.name)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(name: &str, script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Job { name: name.to_owned(), command, is_shown: false }
    }

    #[test]
    fn all_jobs_run_and_all_failures_are_reported() {
        let list =
            r"\nfailures:\n\n---- m::b stdout ----\n\nfailures:\n    m::b\n    a\n\ntest result: FAILED.\n";
        let failing = &format!("printf '{list}{list}'; exit 101");
        let jobs = [shell("one", failing), shell("two", "kill -KILL $$"), shell("three", "echo fine")];
        let mut ended = two_at_a_time(jobs.into(), LIMIT, |_| Ok(())).unwrap();
        ended.sort_by(|one, other| one.name.cmp(&other.name));
        let failures = failures_of(&ended);
        let (output, names) = failures.split_at(failures.find("FAILED: ").unwrap());
        assert_eq!(names, "FAILED: one: a\nFAILED: one: m::b\nFAILED: two\n");
        assert!(output.starts_with("\n-- the last lines of one\n\nfailures:\n"), "{output}");
    }

    #[test]
    fn the_last_lines_are_few_and_short() {
        let output = "é".repeat(301) + "\n";
        assert_eq!(last_lines(&output), "é".repeat(300) + "\n");
        let output: String = (0..50).map(|line| format!("{line}\n")).collect();
        assert_eq!(
            (last_lines(&output).lines().count(), last_lines(&output).lines().next()),
            (40, Some("10"))
        );
    }

    #[test]
    fn a_job_that_does_not_end_fails_and_the_others_run() {
        let jobs = [shell("hangs", "exec sleep 1000"), shell("other", "true")];
        let ended = two_at_a_time(jobs.into(), Duration::from_secs(2), |_| Ok(())).unwrap();
        assert_eq!((ended.len(), failures_of(&ended)), (2, "FAILED: hangs\n".to_owned()));
    }

    #[test]
    fn two_jobs_run_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        // Each waits for the other.
        let [one, other] = ["one", "other"].map(|file| directory.path().join(file));
        let meets = |name: &str, mine: &Path, theirs: &Path| {
            let wait =
                format!("touch {}; until [ -e {} ]; do sleep 0.01; done", mine.display(), theirs.display());
            shell(name, &wait)
        };
        let jobs = [meets("one", &one, &other), meets("other", &other, &one)];
        let ended = two_at_a_time(jobs.into(), LIMIT, |_| Ok(())).unwrap();
        assert!(ended.len() == 2 && ended.iter().all(|job| job.outcome == Outcome::Passed));
    }

    #[test]
    fn failures_second_tries_and_skips_are_read_of_a_report() {
        let junit = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="4" failures="1" errors="0">
  <testsuite name="p::it" tests="4" disabled="0" errors="0" failures="1">
    <testcase name="m::fails" classname="p::it" time="1.000">
      <failure type="test failure with exit code 101"/>
      <rerunFailure type="test failure with exit code 101"/>
      <system-err>skipped: nothing here</system-err>
    </testcase>
    <testcase name="m::flaky" classname="p::it" time="1.000">
      <flakyFailure type="test failure with exit code 101"><system-err>at first</system-err></flakyFailure>
    </testcase>
    <testcase name="m::skips" classname="p::it" time="1.000">
      <system-err>a line
skipped: two hosts (m::skips): not root
</system-err>
    </testcase>
    <testcase name="m::passes" classname="p::it" time="1.000"/>
  </testsuite>
</testsuites>"#;
        let expected = Report {
            failed: ["p::it m::fails".to_owned()].into(),
            tried_again: vec!["p::it m::flaky".to_owned()],
            skipped: vec![
                "skipped: nothing here".to_owned(),
                "skipped: two hosts (m::skips): not root".to_owned(),
            ],
        };
        assert_eq!(Report::parse(junit).unwrap(), expected);
        assert!(Report::parse("<testsuites").is_err());
    }
}
