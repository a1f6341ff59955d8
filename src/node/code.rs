// SPDX-License-Identifier: Apache-2.0

//! Creates stopwatches and counters, which are identified by their names.

use std::{fmt::Display, sync::Arc};

use topic_statistics_core::{
    record::options::SourceOptions,
    record::{
        code::{Count, Durations},
        source::{Source, SourceHandle, WindowedCollector},
        windowed::Windowed,
    },
};

use super::NodeStatistics;
use crate::measure::{counter::Counter, stopwatch::Stopwatch};

impl NodeStatistics {
    /// Returns the stopwatch with this name, or creates a stopwatch if there is none with this name. The source name of
    /// a stopwatch `get_lidar_data` is `/bridge:get_lidar_data` for the node `/bridge`. `name` can be any text.
    pub fn create_stopwatch(&self, name: impl Into<String>) -> Stopwatch {
        Stopwatch(self.stopwatches.get_or_create(name.into(), |name| {
            let durations = Arc::new(Windowed::new(Durations::default()));
            let source = self.code_source(name, Arc::clone(&durations) as _);
            Stopwatch::new(self.keep(source), durations).0
        }))
    }

    /// Creates a stopwatch for each of `parts`, such as one stopwatch per lidar: `get_lidar_data/front`,
    /// `get_lidar_data/rear`. The names are formatted only once, in this call, and not at each use of a stopwatch.
    ///
    /// ```
    /// # use rclrs::*;
    /// # use rclrs_topic_statistics::NodeStatistics;
    /// # let executor = Context::default_from_env()?.create_basic_executor();
    /// # let statistics = NodeStatistics::new(&executor.create_node("bridge")?)?;
    /// let get_lidar_data = statistics.create_stopwatches("get_lidar_data", ["front", "rear"]);
    /// let get_image = statistics.create_stopwatches("get_image", 0..4);
    ///
    /// let _running = get_lidar_data[1].start();
    /// assert_eq!(get_image[3].statistics().source_name(), "/bridge:get_image/3");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_stopwatches(
        &self,
        name: &str,
        parts: impl IntoIterator<Item = impl Display>,
    ) -> Vec<Stopwatch> {
        parts.into_iter().map(|part| self.create_stopwatch(format!("{name}/{part}"))).collect()
    }

    /// Returns the counter with this name, or creates a counter if there is none with this name. The source name of a
    /// counter `frames` is `/bridge:frames` for the node `/bridge`. `name` can be any text.
    pub fn create_counter(&self, name: impl Into<String>) -> Counter {
        Counter(self.counters.get_or_create(name.into(), |name| {
            let count = Count::default();
            let source = self.code_source(name, Arc::new(Windowed::new(count.clone())));
            Counter::new(self.keep(source), count).0
        }))
    }

    /// Creates a counter for each of `parts`; see [`create_stopwatches`](Self::create_stopwatches).
    pub fn create_counters(&self, name: &str, parts: impl IntoIterator<Item = impl Display>) -> Vec<Counter> {
        parts.into_iter().map(|part| self.create_counter(format!("{name}/{part}"))).collect()
    }

    /// Adds the source of a stopwatch, a counter or the executor. The returned handle does not keep the statistics
    /// alive until `keep` is called with it.
    pub(super) fn code_source(&self, name: &str, collector: Arc<dyn WindowedCollector>) -> SourceHandle {
        let source = Source::new(self.source_name(None, name), collector, None);
        self.add_source(source, SourceOptions::default(), self.publisher.clone(), None)
    }
}
