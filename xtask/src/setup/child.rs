// SPDX-License-Identifier: Apache-2.0

//! Commands whose output goes to a log file.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{anyhow, Context, Result};

/// Texts in the output of a command that show the cause of a failure, and the remedy for the user.
const KNOWN_CAUSES: [(&str, &str); 3] = [
    (
        "No space left on device|Disk quota exceeded",
        "The disk is full; free some space, or choose another place with --ros-dir (and TMPDIR), and run it again",
    ),
    (
        "DO NOT MATCH THE HASHES",
        "A downloaded package is not the one that this project pins, and was refused; look into it before you trust \
         that package index",
    ),
    (
        "NewConnectionError|Temporary failure in name resolution|Connection refused|ConnectTimeout|\
         Network is unreachable|ProxyError|SSLError",
        "The package index PyPI cannot be reached; check the network (or, behind a mirror or proxy, pip's settings \
         PIP_INDEX_URL and HTTPS_PROXY) and run it again: it goes on where it stopped",
    ),
];

/// Runs a command to its end.
///
/// Errors if the command cannot be started or fails. The error contains the end of the command's output. If the output
/// shows a known cause, the error also contains the remedy.
pub fn run(command: &mut Command, log: &Path) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut log_file = File::options().create(true).append(true).open(log)?;
    writeln!(log_file, "$ {command:?}")?;
    let begin = log_file.metadata()?.len();
    command.stdin(Stdio::null()).stdout(log_file.try_clone()?).stderr(log_file);
    let status = command.status();
    let status =
        status.with_context(|| format!("{program} cannot be started; is it installed and on PATH?"))?;
    if status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&fs::read(log)?[begin as usize..]).into_owned();
    let lines: Vec<_> = output.lines().collect();
    let tail = lines[lines.len().saturating_sub(20)..].join("\n  ");
    let failure = anyhow!("{program} failed ({status}); its output is in {}:\n  {tail}", log.display());
    let says = |(needles, _): &&(&str, &str)| needles.split('|').any(|needle| output.contains(needle));
    let cause = KNOWN_CAUSES.iter().find(says);
    Err(match cause {
        Some((_, remedy)) => failure.context(*remedy),
        None => failure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_the_remedy_and_the_end_of_the_output() {
        for (script, expected) in [
            ("echo '[Errno 28] No space left on device' >&2; exit 1", "The disk is full; free some"),
            ("echo 'THESE PACKAGES DO NOT MATCH THE HASHES FROM'; exit 1", "was refused"),
            ("for i in $(seq 50); do echo line $i; done; echo last words >&2; exit 3", "last words"),
        ] {
            let log = tempfile::NamedTempFile::new().unwrap();
            let error = run(Command::new("sh").args(["-c", script]), log.path()).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains(expected) && !error.contains("line 12\n"), "{error}");
        }
    }
}
