// SPDX-License-Identifier: Apache-2.0

//! The live view: draws the screen, and handles pressed keys.

use std::{
    fs::File,
    time::{Duration, Instant},
};

use ratatui::crossterm::event::{Event, KeyEventKind};
use topic_statistics_observe::row::{Kind, Row};

use super::{Input, LiveTerminal, Polled, Screen, View, TICK};
use crate::error::Failure;

/// The time between two drawings of the view, if no key is pressed.
const FRAME: Duration = Duration::from_millis(250);

pub struct Live {
    terminal: LiveTerminal,
    input: Input,
    screen: Screen,
    rows: Vec<Row>,
    /// When the rows were drawn last. `None` to draw the rows at once.
    drawn: Option<Instant>,
}

impl Live {
    pub fn start(output: &File, kind: Kind) -> Result<Self, Failure> {
        let mut screen = Screen::default();
        screen.kind = kind;
        let (terminal, input) = (LiveTerminal::start(output)?, Input::start()?);
        Ok(Self { terminal, input, screen, rows: vec![], drawn: None })
    }
}

impl View for Live {
    fn show(&mut self, polled: &mut Polled<'_>) -> Result<Option<u8>, Failure> {
        if polled.is_over {
            return Ok(Some(0));
        }
        polled.new_rows().into_iter().for_each(|row| polled.record(row));
        if self.drawn.is_none_or(|drawn| drawn.elapsed() >= FRAME) {
            self.rows = polled.rows.iter().map(|row| (*row).clone()).collect();
            let notices: Vec<String> =
                polled.notice.take().into_iter().chain(polled.recorder.take()).collect();
            self.screen.notice = (!notices.is_empty()).then(|| notices.join("; "));
            let Self { terminal, screen, rows, .. } = self;
            terminal.terminal.draw(|frame| screen.draw(frame, rows, Instant::now()))?;
            self.drawn = Some(Instant::now());
        }
        match self.input.next(TICK)? {
            Some(Event::Key(key))
                if key.kind != KeyEventKind::Release && self.screen.key(key, &self.rows, Instant::now()) =>
            {
                return Ok(Some(0));
            }
            Some(_) => self.drawn = None, // Draws at once after a key or a resize.
            None => {}
        }
        Ok(None)
    }
}
