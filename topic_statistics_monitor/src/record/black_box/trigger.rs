// SPDX-License-Identifier: Apache-2.0

//! The triggers of the black box.

use std::{collections::BTreeMap, fmt, time::Instant};

use topic_statistics_core::{
    health::{Cause as HealthCause, Change},
    Escaped,
};
use topic_statistics_observe::format::name;

#[derive(Clone, Debug)]
pub struct Trigger {
    pub at: Instant,
    /// The time of the trigger in nanoseconds since the Unix epoch.
    pub time: u64,
    pub cause: Cause,
}

#[derive(Clone, Debug)]
pub enum Cause {
    Level { topic: String, change: Box<Change> },
    Service,
    Signal,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Level { topic, change } => {
                write!(f, "{} is {}, {}", name(topic), change.health.level, change.health)
            }
            Self::Service => f.write_str("service call"),
            Self::Signal => f.write_str("SIGUSR1"),
        }
    }
}

impl Trigger {
    /// Returns the trigger as the metadata of an MCAP record. Times are in nanoseconds since the Unix epoch. The
    /// metadata also has the window that changed the level.
    pub fn to_metadata(&self) -> BTreeMap<String, String> {
        let mut fields = vec![("time", self.time.to_string())];
        match &self.cause {
            Cause::Service => fields.push(("trigger", "service".to_owned())),
            Cause::Signal => fields.push(("trigger", "signal".to_owned())),
            Cause::Level { topic, change } => {
                let health = &change.health;
                fields.extend([
                    ("trigger", "level".to_owned()),
                    ("topic", topic.clone()),
                    ("level", health.level.to_string()),
                    ("level_before", change.before.to_string()),
                    ("verdict", health.to_string()),
                ]);
                if let HealthCause::Condition { condition, .. } = &health.cause {
                    fields.push(("condition", Escaped(&condition.to_string()).to_string()));
                }
                if let Some(window) = health.window {
                    fields.push(("window_start", window.start.as_nanoseconds().to_string()));
                    fields.push(("window_stop", window.stop.as_nanoseconds().to_string()));
                }
                fields.extend(health.since.map(|since| ("since", since.as_nanoseconds().to_string())));
            }
        }
        fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}
