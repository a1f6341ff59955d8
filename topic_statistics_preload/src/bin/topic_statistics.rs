// SPDX-License-Identifier: Apache-2.0

//! Runs a command with topic statistics in each of its ROS 2 nodes: `topic_statistics run -- COMMAND...`. With
//! `--expect FILE.yaml`, the nodes judge their subscriptions.

use std::{
    ffi::{OsStr, OsString},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use topic_statistics_core::{expectation_file::ExpectationFile, pattern::Namespace};

const LIBRARY: &str = "libtopic_statistics_preload.so";
const USAGE: &str = "Usage: topic_statistics run [--expect FILE.yaml] [--expect-namespace NAMESPACE]
           -- COMMAND [ARGUMENT]...

Runs a command with topic statistics in each ROS 2 node that it starts. The nodes publish them on /statistics.

Options:
  --expect FILE.yaml            judge the subscriptions of each node by the expectations in this file, and publish
                                their health on /diagnostics; the file is that of topic_monitor and bag_statistics
  --expect-namespace NAMESPACE  the namespace of names in that file that have no slash at their start (default /)

Environment variables:
  TOPIC_STATISTICS_PERIOD         length of a window in seconds, 0.001 to 86400 (default 1)
  TOPIC_STATISTICS_METRICS        what is measured of subscriptions: names of metrics, separated by commas, or `all`
                                  (default message_age,message_period); input_to_output_ms: from a message to the
                                  publication in its callback
  TOPIC_STATISTICS_TOPICS         the topics and services that are measured: names and patterns, separated by commas,
                                  such as /imu,/camera/*,!/camera/raw (default all)
  TOPIC_STATISTICS_PUBLISH_TOPIC  the topic on which windows are published (default /statistics)
  TOPIC_STATISTICS_DISTRIBUTIONS  `true`: distributions with percentiles, on /statistics/distribution (default false)
  TOPIC_STATISTICS_EXPECT, TOPIC_STATISTICS_EXPECT_NAMESPACE
                                  as the options of these names

Exit status: that of the command; 2 if the usage or the file is wrong, 125 if the library is not found, 126 or 127 if
the command cannot be started.";

const EXPECT: &str = "TOPIC_STATISTICS_EXPECT";
const EXPECT_NAMESPACE: &str = "TOPIC_STATISTICS_EXPECT_NAMESPACE";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match arguments.split_first() {
        Some((help, [])) if help == "--help" || help == "-h" => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        // The script that builds the packages uses this option to get the manual page and the completions.
        Some((option, [what])) if option == "--generate" => match generated(what) {
            Some(text) => {
                print!("{text}");
                ExitCode::SUCCESS
            }
            None => usage(&format!("--generate {what:?} is unknown")),
        },
        Some((verb, arguments)) if verb == "run" => match Run::parse(arguments) {
            Ok(run) => run.check().map_or_else(|error| wrong(&error), Run::start),
            Err(error) => usage(&error),
        },
        Some((verb, _)) => usage(&format!("{verb:?} is unknown: run is expected")),
        None => usage("no argument is given: run is expected"),
    }
}

/// Returns the manual page, or the completions of a shell. `None` if `what` is not known.
fn generated(what: &OsStr) -> Option<String> {
    Some(match what.to_str()? {
        "man" => manual_page(),
        "complete-bash" => include_str!("../../completions/topic_statistics.bash").to_owned(),
        "complete-zsh" => include_str!("../../completions/topic_statistics.zsh").to_owned(),
        "complete-fish" => include_str!("../../completions/topic_statistics.fish").to_owned(),
        _ => return None,
    })
}

/// Returns the usage as a manual page, in roff.
fn manual_page() -> String {
    let usage = USAGE.replace('\\', "\\e").replace('-', "\\-");
    let version = env!("CARGO_PKG_VERSION");
    format!(
        ".TH TOPIC_STATISTICS 1 \"\" \"topic_statistics {version}\"\n.SH NAME\n\
         topic_statistics \\- topic statistics of any ROS 2 node, without changing it\n\
         .SH SYNOPSIS\n.B topic_statistics run \\-\\-\n.I COMMAND\n.RI [ ARGUMENT ]...\n\
         .SH DESCRIPTION\n.nf\n{usage}\n.fi\n.SH SEE ALSO\n.BR topic_monitor (1),\n.BR bag_statistics (1)\n"
    )
}

fn usage(error: &str) -> ExitCode {
    eprintln!("topic_statistics: {error}\n\n{USAGE}");
    ExitCode::from(2)
}

fn wrong(error: &str) -> ExitCode {
    eprintln!("topic_statistics: {error}");
    ExitCode::from(2)
}

struct Run<'a> {
    /// The option or the variable that sets the file of expectations, and its value.
    expect: Option<(&'a str, OsString)>,
    expect_namespace: Option<(&'a str, OsString)>,
    program: &'a OsStr,
    arguments: &'a [OsString],
}

impl<'a> Run<'a> {
    /// Reads the arguments. If an option is not given, the value of the option's environment variable is used.
    fn parse(mut arguments: &'a [OsString]) -> Result<Self, String> {
        let no_command = || "run needs a command: run -- COMMAND".to_owned();
        let variable = |name| std::env::var_os(name).map(|value| (name, value));
        let (mut expect, mut expect_namespace) = (variable(EXPECT), variable(EXPECT_NAMESPACE));
        loop {
            let (first, rest) = arguments.split_first().ok_or_else(no_command)?;
            let (name, option) = match first.to_str() {
                Some(name @ "--expect") => (name, &mut expect),
                Some(name @ "--expect-namespace") => (name, &mut expect_namespace),
                Some("--") => {
                    let (program, arguments) = rest.split_first().ok_or_else(no_command)?;
                    return Ok(Self { expect, expect_namespace, program, arguments });
                }
                Some(option) if option.starts_with('-') => {
                    return Err(format!("run has no option {option:?}"))
                }
                _ => return Ok(Self { expect, expect_namespace, program: first, arguments: rest }),
            };
            let (value, rest) = rest.split_first().ok_or_else(|| format!("{first:?} needs a value"))?;
            (*option, arguments) = (Some((name, value.clone())), rest);
        }
    }

    /// Reads the file of expectations in the way in which the processes will read it. Makes the file's path absolute,
    /// because the processes may have other working directories. Errors if the file or its path is wrong.
    fn check(mut self) -> Result<Self, String> {
        let namespace = match &self.expect_namespace {
            None => Namespace::default(),
            Some((name, text)) => {
                let text = text.to_string_lossy();
                text.parse().map_err(|why| format!("{name} {text:?}: {why}"))?
            }
        };
        if let Some((name, path)) = &mut self.expect {
            ExpectationFile::read(Path::new(path), &namespace).map_err(|why| format!("{name} {why}"))?;
            let absolute = std::path::absolute(&path).map_err(|why| format!("{name} {path:?}: {why}"))?;
            *path = absolute.into();
        }
        Ok(self)
    }

    /// Replaces this process by the program. If the program cannot be started, returns the exit status that a shell
    /// would return.
    fn start(self) -> ExitCode {
        let library = match find() {
            Ok(library) => library,
            Err(error) => {
                eprintln!("topic_statistics: {error}");
                return ExitCode::from(125);
            }
        };
        let mut preloaded = std::env::var_os("LD_PRELOAD").unwrap_or_default();
        if !preloaded.is_empty() {
            preloaded.push(":");
        }
        preloaded.push(library);
        let expect = self.expect.map(|(_, path)| (EXPECT, path));
        let namespace = self.expect_namespace.map(|(_, namespace)| (EXPECT_NAMESPACE, namespace));
        let mut command = Command::new(self.program);
        command.args(self.arguments).env("LD_PRELOAD", preloaded).envs(expect).envs(namespace);
        let error = command.exec();
        eprintln!("topic_statistics: {} cannot be started: {error}", Path::new(self.program).display());
        ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 })
    }
}

/// Returns the path of the library. The error names the paths that were searched.
fn find() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| format!("its own path is not known: {error}"))?;
    let directory = program.parent().unwrap_or(Path::new("/"));
    let places = [directory.join(LIBRARY), directory.join("../lib").join(LIBRARY)];
    let found = places.iter().find(|place| place.is_file());
    let listed = || places.each_ref().map(|place| place.display().to_string()).join(", ");
    let path = found.ok_or_else(|| format!("{LIBRARY} is not found: neither is there {}", listed()))?;
    // The loader splits LD_PRELOAD at spaces and colons, so the path must have neither.
    let is_split = |byte: &u8| matches!(byte, b' ' | b':');
    match path.as_os_str().as_encoded_bytes().iter().any(is_split) {
        true => Err(format!("{} cannot be preloaded: its path has a space or a colon", path.display())),
        false => Ok(path.clone()),
    }
}
