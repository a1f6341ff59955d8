// SPDX-License-Identifier: Apache-2.0

//! Timers and counters by their names.

use std::{
    fmt::Display,
    sync::{atomic::AtomicU64, Arc, Mutex, Weak},
};

use super::NodeStatistics;
use crate::{
    counter::{Count, StatsCounter},
    measured::{lock, Measured, Recording, Windowed},
    options::TopicStatisticsState,
    timer::{Durations, StatsTimer},
};

/// What goes by a name, for as long as somebody has it.
pub(super) struct Named<T>(Mutex<Vec<(String, Weak<T>)>>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Named<T> {
    /// Returns what has that name, which is created if there is none.
    fn get_or_create(&self, name: String, create: impl FnOnce(&str) -> Arc<T>) -> Arc<T> {
        let mut all = lock(&self.0);
        all.retain(|(_, one)| one.strong_count() > 0);
        if let Some(one) = all.iter().find(|(of, _)| *of == name).and_then(|(_, one)| one.upgrade()) {
            return one;
        }
        let new = create(&name);
        all.push((name, Arc::downgrade(&new)));
        new
    }
}

impl NodeStatistics {
    /// Returns the timer of that name, which is created if there is none: `/bridge:get_lidar_data` on `/statistics`, for
    /// the node `/bridge`. The name is any text.
    pub fn timer(&self, name: impl Into<String>) -> StatsTimer {
        StatsTimer(self.timers.get_or_create(name.into(), |name| {
            let durations = Arc::new(Windowed::new(Durations::default()));
            let measured = self.measured_code(name, Arc::clone(&durations) as _);
            StatsTimer::new(durations, measured).0
        }))
    }

    /// Returns a timer for each of `parts`, one per lidar or camera: `get_lidar_data/front`, `get_lidar_data/rear`. Their names
    /// are put together here, and not when they are used.
    ///
    /// ```
    /// # use rclrs::*;
    /// # use rclrs_topic_statistics::NodeStatistics;
    /// # let executor = Context::default_from_env()?.create_basic_executor();
    /// # let statistics = NodeStatistics::new(&executor.create_node("bridge")?)?;
    /// let get_lidar_data = statistics.timers("get_lidar_data", ["front", "rear"]);
    /// let get_image = statistics.timers("get_image", 0..4);
    ///
    /// let _running = get_lidar_data[1].start();
    /// assert_eq!(get_image[3].source_name(), "/bridge:get_image/3");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn timers(&self, name: &str, parts: impl IntoIterator<Item = impl Display>) -> Vec<StatsTimer> {
        parts.into_iter().map(|part| self.timer(format!("{name}/{part}"))).collect()
    }

    /// Returns the counter of that name, which is created if there is none: `/bridge:frames` on `/statistics`, for the node
    /// `/bridge`. The name is any text.
    pub fn counter(&self, name: impl Into<String>) -> StatsCounter {
        StatsCounter(self.counters.get_or_create(name.into(), |name| {
            let count = Arc::new(AtomicU64::new(0));
            let measured = self.measured_code(name, Arc::new(Windowed::new(Count(Arc::clone(&count)))));
            StatsCounter::new(count, measured).0
        }))
    }

    /// Returns a counter for each of `parts`; see [`timers`](Self::timers).
    pub fn counters(&self, name: &str, parts: impl IntoIterator<Item = impl Display>) -> Vec<StatsCounter> {
        parts.into_iter().map(|part| self.counter(format!("{name}/{part}"))).collect()
    }

    /// Has code measured under a name, as the node says.
    fn measured_code(&self, name: &str, recording: Arc<dyn Recording>) -> Arc<Measured> {
        let measured =
            Arc::new(Measured::new(format!("{}:{name}", self.node.fully_qualified_name()), recording, None));
        self.schedule.add(&measured, TopicStatisticsState::NodeDefault, None, self.publisher.clone());
        measured
    }
}
