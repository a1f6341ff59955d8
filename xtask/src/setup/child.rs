// SPDX-License-Identifier: Apache-2.0

//! Commands whose output goes to a log file, with the lines at hand for a progress line.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{anyhow, Context, Result};

/// What a command's output says, and the remedy.
const KNOWN_CAUSES: [(&[&str], &str); 3] = [
    (
        &["No space left on device", "Disk quota exceeded"],
        "The disk is full; free some space, or choose another place with --ros-dir (and TMPDIR), and run it again",
    ),
    (
        &["DO NOT MATCH THE HASHES"],
        "A downloaded package is not the one that this project pins, and was refused; look into it before you trust \
         that package index",
    ),
    (
        &[
            "NewConnectionError",
            "Temporary failure in name resolution",
            "Connection refused",
            "ConnectTimeout",
            "Network is unreachable",
            "ProxyError",
            "SSLError",
        ],
        "The package index PyPI cannot be reached; check the network (or, behind a mirror or proxy, pip's settings \
         PIP_INDEX_URL and HTTPS_PROXY) and run it again: it goes on where it stopped",
    ),
];

/// Runs a command to its end.
///
/// Errors if it cannot be started or fails, with the end of its output, and with a remedy if the output shows a known
/// cause.
pub fn run(command: &mut Command, log: &Path, mut on_line: impl FnMut(&str)) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut log_file = File::options().create(true).append(true).open(log)?;
    writeln!(log_file, "$ {command:?}")?;
    let (reader, writer) = std::io::pipe()?;
    let spawned = command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).spawn();
    let mut child =
        spawned.with_context(|| format!("{program} cannot be started; is it installed and on PATH?"))?;
    // The command holds the pipe's writing end too; it has to go, or reading would never end.
    command.stdout(Stdio::null()).stderr(Stdio::null());

    let mut lines = vec![];
    for line in BufReader::new(reader).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).trim_end().to_owned();
        writeln!(log_file, "{line}")?;
        on_line(&line);
        lines.push(line);
    }
    let status = child.wait()?;
    if status.success() {
        return Ok(());
    }
    let tail = lines[lines.len().saturating_sub(20)..].join("\n  ");
    let failure = anyhow!("{program} failed ({status}); its output is in {}:\n  {tail}", log.display());
    let says = |needle: &&str| lines.iter().any(|line| line.contains(needle));
    let cause = KNOWN_CAUSES.iter().find(|(needles, _)| needles.iter().any(says));
    Err(match cause {
        Some((_, remedy)) => failure.context(*remedy),
        None => failure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_remedy_and_the_end_of_the_output() {
        for (script, expected) in [
            (
                "echo \"OSError: [Errno 28] No space left on device\" >&2; exit 1",
                "The disk is full; free some",
            ),
            ("echo 'THESE PACKAGES DO NOT MATCH THE HASHES FROM'; exit 1", "was refused"),
            ("for i in $(seq 50); do echo line $i; done; echo last words >&2; exit 3", "last words"),
        ] {
            let log = tempfile::NamedTempFile::new().unwrap();
            let error = run(Command::new("sh").args(["-c", script]), log.path(), |_| ()).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains(expected) && !error.contains("line 12\n"), "{error}");
        }
    }
}
