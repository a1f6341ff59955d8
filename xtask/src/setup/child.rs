//! Commands whose output goes to a log file, with the lines at hand for a progress bar.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{anyhow, bail, Context, Result};

/// Lines of a failed command that an error shows; the rest is in the log.
const TAIL: usize = 20;

/// Runs a command to its end.
///
/// Errors if it cannot be started or fails, with the end of its output, and with a remedy if the output shows a known
/// cause.
pub fn run(command: &mut Command, log: &Path, mut on_line: impl FnMut(&str)) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut log_file = File::options().create(true).append(true).open(log)?;
    writeln!(log_file, "$ {command:?}")?;
    let (reader, writer) = std::io::pipe()?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()
        .with_context(|| format!("{program} cannot be started; is it installed and on PATH?"))?;
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
    let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n  ");
    let failure = anyhow!("{program} failed ({status}); its output is in {}:\n  {tail}", log.display());
    match known_cause(&lines) {
        Some(cause) => Err(failure.context(cause)),
        None => bail!(failure),
    }
}

/// The remedy if a command's output shows a known cause.
fn known_cause(lines: &[String]) -> Option<&'static str> {
    let says = |needle: &str| lines.iter().any(|line| line.contains(needle));
    if says("No space left on device") || says("Disk quota exceeded") {
        Some("The disk is full; free some space, or choose another place with --ros-dir (and TMPDIR), and run it again")
    } else if says("DO NOT MATCH THE HASHES") {
        Some(
            "A downloaded package is not the one that this project pins, and was refused; \
             look into it before you trust that package index",
        )
    } else if [
        "NewConnectionError",
        "Temporary failure in name resolution",
        "Connection refused",
        "ConnectTimeout",
        "Network is unreachable",
        "ProxyError",
        "SSLError",
    ]
    .iter()
    .any(|needle| says(needle))
    {
        Some(
            "The package index PyPI cannot be reached; check the network (or, behind a mirror or proxy, pip's settings \
             PIP_INDEX_URL and HTTPS_PROXY) and run it again: it goes on where it stopped",
        )
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> String {
        let log = tempfile::NamedTempFile::new().unwrap();
        let error = run(Command::new("sh").args(["-c", script]), log.path(), |_| ()).unwrap_err();
        format!("{error:#}")
    }

    #[test]
    fn a_full_disk_is_named_with_what_to_do() {
        let error = shell("echo \"OSError: [Errno 28] No space left on device\" >&2; exit 1");
        assert!(error.starts_with("The disk is full; free some space"), "{error}");
    }

    #[test]
    fn a_package_that_does_not_match_is_named_as_refused() {
        let error =
            shell("echo 'ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.'; exit 1");
        assert!(error.contains("was refused"), "{error}");
    }

    #[test]
    fn an_unknown_failure_shows_the_end_of_the_output_of_both_streams() {
        let error = shell("for i in $(seq 50); do echo line $i; done; echo last words >&2; exit 3");
        assert!(error.contains("last words") && error.contains("exit status: 3"), "{error}");
        assert!(!error.contains("line 12\n"), "{error}");
    }
}
