// SPDX-License-Identifier: Apache-2.0

//! Runs a command with topic statistics in each of its ROS 2 nodes: `topic_statistics run -- COMMAND...`.

use std::{
    ffi::{OsStr, OsString},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

const LIBRARY: &str = "libtopic_statistics_preload.so";
const USAGE: &str = "Usage: topic_statistics run -- COMMAND [ARGUMENT]...

Runs a command with topic statistics in each ROS 2 node that it starts. The nodes publish them on /statistics.

Environment variables:
  TOPIC_STATISTICS_PERIOD         length of a window in seconds, 0.001 to 86400 (default 1)
  TOPIC_STATISTICS_METRICS        what is measured of subscriptions: names of metrics, separated by commas, or `all`
                                  (default message_age,message_period); input_to_output_ms: from a message to the
                                  publication in its callback
  TOPIC_STATISTICS_TOPICS         the topics and services that are measured: names and patterns, separated by commas,
                                  such as /imu,/camera/*,!/camera/raw (default all)
  TOPIC_STATISTICS_PUBLISH_TOPIC  the topic on which windows are published (default /statistics)
  TOPIC_STATISTICS_DISTRIBUTIONS  `true`: distributions with percentiles, on /statistics/distribution (default false)";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match arguments.split_first() {
        Some((help, [])) if help == "--help" || help == "-h" => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        // As the project's other programs have it, for packages.
        Some((option, [what])) if option == "--generate" && what == "man" => {
            print!("{}", manual_page());
            ExitCode::SUCCESS
        }
        Some((verb, command)) if verb == "run" => {
            let command = command.strip_prefix(&["--".into()]).unwrap_or(command);
            match command.split_first() {
                Some((program, arguments)) => run(program, arguments),
                None => usage(),
            }
        }
        _ => usage(),
    }
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

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

/// Replaces this process by the program. If the program cannot be started, returns the exit status that a shell would
/// return.
fn run(program: &OsStr, arguments: &[OsString]) -> ExitCode {
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
    let error = Command::new(program).args(arguments).env("LD_PRELOAD", preloaded).exec();
    eprintln!("topic_statistics: {} cannot be started: {error}", Path::new(program).display());
    ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 })
}

/// Returns the path of the library. The error names the searched places.
fn find() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| format!("its own path is not known: {error}"))?;
    let directory = program.parent().unwrap_or(Path::new("/"));
    let places = [directory.join(LIBRARY), directory.join("../lib").join(LIBRARY)];
    let found = places.iter().find(|place| place.is_file());
    let listed = || places.each_ref().map(|place| place.display().to_string()).join(", ");
    let path = found.ok_or_else(|| format!("{LIBRARY} is not found: neither is there {}", listed()))?;
    // The loader splits LD_PRELOAD at spaces and colons.
    let is_split = |byte: &u8| matches!(byte, b' ' | b':');
    match path.as_os_str().as_encoded_bytes().iter().any(is_split) {
        true => Err(format!("{} cannot be preloaded: its path has a space or a colon", path.display())),
        false => Ok(path.clone()),
    }
}
