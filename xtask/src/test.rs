// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask test`: builds the tests, runs their programs two at a time, and reports all failures at the end.

use std::{
    collections::{BTreeSet, VecDeque},
    io::{Read as _, Seek as _},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::{
    checks::{self, Outcome},
    commands::{models, print, when_idle},
    environment::Environment,
    workspace::Workspace,
};

/// The other workspaces with tests: those that are statistical, and the tests of this automation. They run with
/// `--all`.
const OTHERS: [&str; 3] = [SIMULATOR, "testing/soak", "xtask"];
const SIMULATOR: &str = "testing/simulator";
/// The other packages whose manifest says `doctest = false`, which `--doc` would override.
const WITHOUT_EXAMPLES: [&str; 2] = ["benchmarks", "test_support"];
/// The tests of this automation, which set up ROS 2 and build with colcon. They run with `--all`.
const OF_AUTOMATION: &str = "xtask it";
/// The tests that run with `--all` only: those that build crates anew, with another feature or for their documentation,
/// and those of alerts over simulated hours to weeks.
const LONG: [(&str, &[&str]); 2] = [
    ("generated_crates it", &["documentation::", "with_serde::"]),
    ("topic_statistics_exporter it", &["alerts::"]),
];
/// The crates whose code is counted with every message. Only they are optimised: the others are those of the tests.
const COUNTED: [&str; 5] =
    ["benchmarks", "crossbeam-queue", "rclrs_topic_statistics", "spin", "topic_statistics_core"];
/// How, as in a release build.
const OPTIMISED: [&str; 4] =
    ["opt-level=3", "debug-assertions=false", "overflow-checks=false", "codegen-units=16"];
/// The program that runs longest, and so begins first.
const LONGEST: &str = "rclrs_topic_statistics it";
/// What computes more than it waits runs at the lowest priority, beside tests that wait.
const COMPUTING: [&str; 2] = ["simulator it", OF_AUTOMATION];
/// How long a job may take: some times what the longest takes on two busy processors. A test that waits for ever is
/// then a failure with a name.
const LIMIT: Duration = Duration::from_secs(50 * 60);

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

/// A program of tests, or a command of cargo.
struct Job {
    name: String,
    command: Command,
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

/// Builds and runs the tests, and prints a table with the time of each program.
pub fn run(environment: &Environment, project: &Path, selection: &Selection) -> Result<ExitCode> {
    let begun = Instant::now();
    let Some(programs) = build(environment, project, selection)? else { return Ok(ExitCode::FAILURE) };
    let built = begun.elapsed();
    if selection.no_run {
        return Ok(ExitCode::SUCCESS);
    }
    let mut jobs = VecDeque::new();
    let mut computing = vec![];
    for (name, command) in programs {
        match COMPUTING.contains(&name.as_str()) {
            false if name == LONGEST => jobs.push_front(Job { name, command }),
            false => jobs.push_back(Job { name, command }),
            true => computing.push(Job { name, command }),
        }
    }
    jobs.extend(commands(environment, project, selection));
    if selection.all {
        jobs.extend(computing);
    }
    let ended = two_at_a_time(jobs, LIMIT, print)?;
    let mut rows = vec![("build".to_owned(), Outcome::Passed, built)];
    rows.extend(ended.iter().map(|job| (job.name.clone(), job.outcome.clone(), job.time)));
    let not_run = if selection.all {
        ""
    } else {
        "Not run: statistical and long tests, and those of the automation; --all runs them\n"
    };
    print(&format!("\n{}{not_run}{}", checks::table(&rows), failures_of(&ended)))?;
    Ok(ExitCode::from(u8::from(ended.iter().any(|job| job.outcome == Outcome::Failed))))
}

/// Returns the commands of cargo that build for themselves: examples in the documentation and, if all tests run, the
/// instructions of a message in optimised code, the models, and a million simulated windows.
fn commands(environment: &Environment, project: &Path, selection: &Selection) -> Vec<Job> {
    let job = |name: &str, directory: &Path, arguments: &[&str]| {
        let mut command = when_idle(environment);
        command.arg("cargo").args(arguments).args(selection.locked.then_some("--locked"));
        command.current_dir(directory);
        Job { name: name.to_owned(), command }
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
        jobs.push(Job { name: "models".to_owned(), command: models(environment, project, selection.locked) });
        // The program that its own tests have built: a release build would take longer than the windows.
        let simulator = ["run", "--quiet"];
        jobs.push(job("a million simulated windows", &project.join(SIMULATOR), &simulator));
    }
    if !selection.no_examples {
        let mut examples = vec!["test", "--workspace", "--doc"];
        examples.extend(selection.exclude(WITHOUT_EXAMPLES));
        jobs.push(job("examples in the documentation", project, &examples));
    }
    jobs
}

/// Builds the tests. Returns the name and the command of each program, or `None` if the build fails.
fn build(
    environment: &Environment,
    project: &Path,
    selection: &Selection,
) -> Result<Option<Vec<(String, Command)>>> {
    let exclude = selection.exclude([]);
    let mut workspaces = vec![(project.to_owned(), exclude)];
    if selection.all {
        workspaces.extend(OTHERS.map(|directory| (project.join(directory), vec![])));
    }
    let mut programs = vec![];
    for (workspace, exclude) in workspaces {
        let mut cargo = environment.command("cargo");
        cargo.current_dir(&workspace).args(["test", "--no-run", "--message-format=json-render-diagnostics"]);
        cargo.args(["--workspace", "--tests"]).args(selection.locked.then_some("--locked")).args(exclude);
        let output = cargo.stderr(Stdio::inherit()).output().context("cargo cannot be started")?;
        if !output.status.success() {
            return Ok(None);
        }
        let printed = String::from_utf8_lossy(&output.stdout);
        programs.extend(programs_of(environment, &Workspace::read(&workspace)?, selection, &printed)?);
    }
    programs.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(Some(programs))
}

/// Returns the name and the command of each program of a workspace that cargo has built, by what it has printed.
fn programs_of(
    environment: &Environment,
    workspace: &Workspace,
    selection: &Selection,
    printed: &str,
) -> Result<Vec<(String, Command)>> {
    let mut programs = vec![];
    for built in printed.lines().filter_map(Built::parse) {
        let package = workspace.packages.iter().find(|package| package.directory() == built.directory());
        let package = package.with_context(|| format!("{} is of no package", built.executable.display()))?;
        let name = format!("{} {}", package.name, built.target.label());
        let mut command = match COMPUTING.contains(&name.as_str()) {
            true => environment.command("nice"),
            false => environment.command(&built.executable),
        };
        if COMPUTING.contains(&name.as_str()) {
            command.args(["-n", "19"]).arg(&built.executable);
        }
        if let Some((_, modules)) = LONG.iter().find(|(long, _)| !selection.all && name == *long) {
            command.args(modules.iter().flat_map(|module| ["--skip", module]));
        }
        // As cargo does.
        command.current_dir(package.directory()).env("CARGO_MANIFEST_DIR", package.directory());
        programs.push((name, command));
    }
    Ok(programs)
}

/// A line that cargo prints of a program of tests.
#[derive(Deserialize)]
struct Built {
    manifest_path: PathBuf,
    target: Target,
    profile: Profile,
    executable: PathBuf,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

impl Built {
    fn parse(line: &str) -> Option<Built> {
        serde_json::from_str(line).ok().filter(|built: &Built| built.profile.test)
    }

    fn directory(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(&self.manifest_path)
    }
}

impl Target {
    /// Returns what distinguishes it from the other programs of its package.
    fn label(&self) -> String {
        match self.kind.first().map(String::as_str) {
            Some("test") => self.name.clone(),
            Some("bin") => format!("bin {}", self.name),
            _ => "lib".to_owned(),
        }
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

fn run_one(Job { name, mut command }: Job, limit: Duration, print: fn(&str) -> Result<()>) -> Result<Ended> {
    print(&format!("-- {name}\n"))?;
    let mut log = tempfile::tempfile()?;
    let begun = Instant::now();
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
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
        Job { name: name.to_owned(), command }
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
    fn a_program_of_tests_is_recognised_in_what_cargo_prints() {
        let line = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/p/Cargo.toml","target":{{"kind":["test"],"name":"it"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let built = Built::parse(&line(true, r#""/t/it-1""#)).unwrap();
        assert_eq!((built.directory(), built.target.label()), (Path::new("/p"), "it".to_owned()));
        for other in [&line(false, r#""/t/program""#), &line(true, "null"), r#"{"reason":"build-finished"}"#]
        {
            assert!(Built::parse(other).is_none(), "{other}");
        }
    }
}
