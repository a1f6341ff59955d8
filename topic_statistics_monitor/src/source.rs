// SPDX-License-Identifier: Apache-2.0

//! Where the rows come from: topics, or the statistics of nodes.

use std::time::{Duration, Instant};

use rclrs::Node;

use crate::{
    arguments::Arguments,
    from_statistics::FromStatistics,
    graph::expect_no_history,
    row::Row,
    watch::{self, Watch},
    Failure,
};

/// Where the rows come from.
pub enum Source {
    Topics(Box<Watch>),
    Statistics(Box<FromStatistics>),
}

impl Source {
    pub fn new(node: &Node, arguments: &Arguments) -> Result<Self, Failure> {
        expect_no_history()?;
        let max = arguments.max_topics.map(|max| max as usize);
        if let Some(topic) = &arguments.from_statistics {
            let name = topic.name().filter(|_| !topic.is_of_sources());
            let Some(name) = name else {
                return Err(format!("--from-statistics takes a topic's name, not {}", topic.text()).into());
            };
            let max = max.unwrap_or(FromStatistics::MAX_SOURCES);
            let statistics = FromStatistics::new(node, name, arguments.patterns(), max);
            return Ok(Self::Statistics(Box::new(statistics)));
        }
        let options = watch::Options {
            patterns: arguments.patterns(),
            all: arguments.all,
            period: arguments.period,
            depth: arguments.depth,
            publish: arguments.publish,
            max_topics: max.unwrap_or(Watch::MAX_TOPICS),
        };
        Ok(Self::Topics(Box::new(Watch::new(node, options)?)))
    }

    /// Reads what is new, and returns the names of the rows of which a whole window ended.
    pub fn poll(&mut self) -> Result<Vec<String>, Failure> {
        Ok(match self {
            Self::Topics(watch) => watch.poll(),
            Self::Statistics(statistics) => statistics.poll()?,
        })
    }

    pub fn rows(&self) -> Vec<&Row> {
        match self {
            Self::Topics(watch) => watch.rows().collect(),
            Self::Statistics(statistics) => statistics.rows().collect(),
        }
    }

    /// Returns what is not shown for want of room, in a few words.
    pub fn notice(&self) -> Option<String> {
        let (left_out, dropped) = match self {
            Self::Topics(watch) => (watch.left_out(), 0),
            Self::Statistics(statistics) => (statistics.left_out(), statistics.dropped()),
        };
        let left_out = (left_out > 0).then(|| format!("{left_out} left out (--max-topics)"));
        let dropped = (dropped > 0).then(|| format!("{dropped} messages not taken"));
        let notices: Vec<String> = left_out.into_iter().chain(dropped).collect();
        (!notices.is_empty()).then(|| notices.join(", "))
    }
}

/// Which notice was reported, and when.
#[derive(Default)]
pub struct Notices {
    last: Option<(String, Instant)>,
}

impl Notices {
    /// As their numbers change.
    const EVERY: Duration = Duration::from_secs(60);

    /// Returns the notice if it is to be reported: at once, and then as often as that at most.
    pub fn next(&mut self, notice: Option<String>, now: Instant) -> Option<String> {
        let notice = notice?;
        if self.last.as_ref().is_some_and(|(text, at)| *text == notice || now < *at + Self::EVERY) {
            return None;
        }
        self.last = Some((notice.clone(), now));
        Some(notice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::at;

    #[test]
    fn a_notice_is_reported_when_it_changes_but_not_all_the_time() {
        let mut notices = Notices::default();
        let mut next = |text: &str, seconds| notices.next(Some(text.to_owned()), at(seconds)).is_some();
        assert!(next("1 left out", 0) && !next("1 left out", 1) && !next("2 left out", 2));
        assert!(!next("1 left out", 100) && next("3 left out", 100) && !next("4 left out", 101));
        assert!(notices.next(None, at(1000)).is_none());
    }
}
