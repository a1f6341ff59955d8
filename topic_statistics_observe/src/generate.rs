// SPDX-License-Identifier: Apache-2.0

//! `--generate`: completion scripts of shells, and manual pages.

use std::io::{self, Write};

use clap::{Command, ValueEnum};
use clap_complete::Shell;

/// A text that `--generate` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Generate {
    /// The manual page, in roff.
    Man,
    /// The completion script of bash.
    CompleteBash,
    /// The completion script of zsh.
    CompleteZsh,
    /// The completion script of fish.
    CompleteFish,
}

impl Generate {
    pub fn write(self, mut program: Command, to: &mut impl Write) -> io::Result<()> {
        let shell = match self {
            Self::Man => return clap_mangen::Man::new(program).render(to),
            Self::CompleteBash => Shell::Bash,
            Self::CompleteZsh => Shell::Zsh,
            Self::CompleteFish => Shell::Fish,
        };
        let (name, mut script) = (program.get_name().to_owned(), vec![]);
        clap_complete::generate(shell, &mut program, name, &mut script);
        to.write_all(&script)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_about_the_program_and_its_options() {
        let program = Command::new("topic_monitor").arg(clap::Arg::new("require").long("require"));
        for generate in Generate::value_variants() {
            let mut text = vec![];
            generate.write(program.clone(), &mut text).unwrap();
            let text = String::from_utf8(text).unwrap().replace("\\-", "-");
            assert!(text.contains("topic_monitor") && text.contains("require"), "{generate:?}: {text}");
        }
    }
}
