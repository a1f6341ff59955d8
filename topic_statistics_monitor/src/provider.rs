// SPDX-License-Identifier: Apache-2.0

//! The provider of the rows: watched topics, services or actions, or the statistics that nodes publish.

use std::time::{Duration, Instant};

use topic_statistics_observe::{
    format::number_of,
    row::{Row, Rows},
};

use crate::process::Failure;

pub trait RowProvider: Rows {
    /// Updates the rows. Returns the names of the rows that have got a new whole window.
    fn poll(&mut self) -> Result<Vec<String>, Failure>;

    /// Describes in a few words which rows or messages are left out because a limit is reached.
    fn notice(&self) -> Option<String>;
}

pub type Provider<'a> = Box<dyn RowProvider + 'a>;

impl Rows for Provider<'_> {
    fn rows(&self) -> Vec<&Row> {
        (**self).rows()
    }

    fn row_mut(&mut self, name: &str) -> Option<&mut Row> {
        (**self).row_mut(name)
    }
}

/// Returns the notice of a provider, from the number of rows that are left out, and the number of dropped messages.
pub fn notice(left_out: usize, dropped: u64, refused: Option<&(u64, String)>) -> Option<String> {
    let left_out = (left_out > 0).then(|| format!("{left_out} left out (--max-topics)"));
    let dropped = (dropped > 0).then(|| format!("{} dropped", number_of(dropped, "message")));
    let refused =
        refused.map(|(number, why)| format!("{} refused, the last one {why}", number_of(*number, "message")));
    let notices: Vec<String> = left_out.into_iter().chain(dropped).chain(refused).collect();
    (!notices.is_empty()).then(|| notices.join(", "))
}

/// The last notice that was reported, and the time of the report.
#[derive(Default)]
pub struct Notices {
    last: Option<(String, Instant)>,
}

impl Notices {
    /// The shortest time between two reports of a notice whose numbers change.
    const MIN_INTERVAL: Duration = Duration::from_secs(60);

    pub fn next(&mut self, notice: Option<String>, now: Instant) -> Option<String> {
        let notice = notice?;
        if self.last.as_ref().is_some_and(|(text, at)| *text == notice || now < *at + Self::MIN_INTERVAL) {
            return None;
        }
        self.last = Some((notice.clone(), now));
        Some(notice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topic_statistics_observe::testing::at;

    #[test]
    fn a_notice_is_reported_when_it_changes_but_not_all_the_time() {
        let mut notices = Notices::default();
        let mut next = |text: &str, seconds| notices.next(Some(text.to_owned()), at(seconds)).is_some();
        assert!(next("1 left out", 0) && !next("1 left out", 1) && !next("2 left out", 2));
        assert!(!next("1 left out", 100) && next("3 left out", 100) && !next("4 left out", 101));
        assert!(notices.next(None, at(1000)).is_none());
    }
}
