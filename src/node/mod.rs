// SPDX-License-Identifier: Apache-2.0

//! The statistics of a node: the entry point of the public API.
//!
//! [`endpoints`] creates subscriptions and publishers with statistics, [`waiting`] creates services, clients, timers
//! and actions, and [`code`] creates stopwatches and counters. [`parameters`] declares the ROS parameters.
//! [`publishers`] publishes the windows and their distributions, and [`reports`] writes the log and publishes the health.

mod code;
mod endpoints;
pub(crate) mod parameters;
mod publishers;
mod registry;
mod reports;
mod waiting;

use std::{
    sync::{Arc, Mutex, OnceLock, Weak},
    thread::JoinHandle,
    time::Duration,
};

use rclrs::{log_info, ClockType, Node};
#[cfg(feature = "expectation_file")]
use topic_statistics_core::{expectation_file::ExpectationFile, schedule::judges::why_unjudged};
use topic_statistics_core::{
    health::{Expectations, Names, NodeExpectations},
    mutex::lock,
    record::{
        options::{SourceDefaults, SourceOptions, StatisticsState},
        simulated_time::SimulatedTime,
        source::{Keeper, Source, SourceHandle, WindowScheduler, WindowedCollector},
        source_name::{SourceNames, UniqueName},
    },
    schedule::{
        losses::LossEvents,
        scheduler::{NewSource, Scheduler},
        state::Schedule,
    },
    totals::TopicTotals,
    Escaped, Metric, SourceKind,
};

#[cfg(feature = "interfaces")]
use crate::error::creation_error;
#[cfg(feature = "interfaces")]
use crate::report::service::{self, TopicStatisticsService};
use crate::{
    error::StatisticsError,
    executor::{claim, ExecutorStatistics},
    interfaces::diagnostic_msgs::msg::DiagnosticArray,
    measure::{counter::CounterState, handle::SourceStatistics, stopwatch::StopwatchState},
    options::{check_period, NodeStatisticsOptions, SourceName, StatisticsOptions},
    report::diagnostics::{self, NodeNames},
};
use parameters::Parameters;
use publishers::{LazyPublisher, TopicPublishers};
use registry::Registry;
use reports::{NodeClock, NodeReports};

/// The statistics of a node's subscriptions, publishers, services, clients, timers, stopwatches, counters and executor:
/// all of these sources share one publisher and one thread.
///
/// This thread ends and publishes the windows. So a callback that blocks the executor does not stop the statistics, and
/// the publication of statistics never delays a callback.
///
/// # ROS parameters
///
/// An operator sets the defaults of the sources with six parameters of the node:
///
/// | parameter | type | meaning | while the node runs |
/// |---|---|---|---|
/// | `topic_statistics.enabled` | bool | whether statistics are enabled | can be set |
/// | `topic_statistics.publish_period` | number | length of a window in seconds, 0.001 to 86400 | can be set; the windows under way end one new period later |
/// | `topic_statistics.distributions` | bool | whether there are distributions, on `<publish_topic>/distribution` | can be set; the next windows have them |
/// | `topic_statistics.warn_unless` | list of strings | [conditions](crate::health::Conditions) without which the [health](crate::health) of a subscription is WARN | can be set |
/// | `topic_statistics.error_unless` | list of strings | the same for ERROR | can be set |
/// | `topic_statistics.publish_topic` | string | topic on which windows are published | read only |
///
/// If a node has two `NodeStatistics`, the parameters belong to the first one. The second `NodeStatistics` uses only
/// its options.
///
/// # Panics in callbacks
///
/// A panic in a callback of the node unwinds out of [`spin`](rclrs::Executor::spin). After that, rclrs 0.8 cannot spin
/// the executor again. A panic in a callback of a worker ends that worker. In both cases, the statistics continue, and
/// show that no callback handles messages.
///
/// # Drop
///
/// The handles of the sources keep the statistics alive. When the `NodeStatistics` and the last handle are dropped, the
/// statistics end within a second: the remaining loss events are published, and the file of totals is written. The
/// unfinished windows of dropped handles are not published. Statistics messages that the middleware does not accept
/// within this second are lost, with a warning in the node's log. A handle that a callback captures lives as long as
/// the callback. The callback lives until its own source or the executor is dropped.
///
/// A callback must not capture the handle of its own subscription, service, timer or action server. rclrs's
/// subscription (or service, timer or action server) holds its callback, so a handle in the callback would form a
/// reference cycle. The subscription and all statistics of the node would then live until the process ends. (In rclrs
/// itself, such a cycle also keeps the subscription alive.) Capture a [`Weak`] of the handle instead.
#[must_use = "without a source there are no statistics"]
pub struct NodeStatistics {
    options: StatisticsOptions,
    #[cfg(feature = "expectation_file")]
    expectation_file: Option<ExpectationFile>,
    simulated: Option<Arc<SimulatedTime>>,
    /// The publishers with the node's topic and QoS; `None` if the node's windows are not published.
    publisher: Option<Arc<TopicPublishers>>,
    /// Publishers for the sources whose options set another topic or QoS than the node's. Each publisher lives as long
    /// as a source uses it.
    others: Mutex<Vec<Weak<TopicPublishers>>>,
    /// The publisher of health; `None` if the node's health is not published.
    diagnostics: Option<Arc<LazyPublisher<DiagnosticArray>>>,
    names: Arc<SourceNames>,
    stopwatches: Registry<StopwatchState>,
    counters: Registry<CounterState>,
    running: Arc<Running>,
    /// Each handle in user code contains a clone of this `Arc`, which keeps the statistics alive.
    keeper: Arc<Keeper>,
}

/// The state that lives as long as the [`NodeStatistics`] or any handle of a source. If this state contained a handle
/// that keeps the state alive, or if the thread of the scheduler owned the state, the state would never be dropped.
struct Running {
    node: Node,
    parameters: Option<Parameters>,
    /// The executor's statistics. Their handle, unlike handles in user code, does not keep this state alive.
    executor: OnceLock<ExecutorStatistics>,
    scheduler: Arc<Scheduler>,
    thread: Option<JoinHandle<()>>,
    #[cfg(feature = "interfaces")]
    _service: Option<TopicStatisticsService>,
}

impl std::fmt::Debug for NodeStatistics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeStatistics")
            .field("node", &self.running.node.fully_qualified_name())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.scheduler.close();
        if let Some(thread) = self.thread.take() {
            self.scheduler.wait_for_end(thread);
        }
    }
}

impl NodeStatistics {
    /// Creates the statistics of a node, with the defaults of rclcpp. Returns the same errors as
    /// [`with_options`](Self::with_options).
    pub fn new(node: &Node) -> Result<Self, StatisticsError> {
        Self::with_options(node, StatisticsOptions::new())
    }

    /// Creates the statistics of a node. [`StatisticsOptions`] are the defaults of the node's sources and of the ROS
    /// parameters. [`NodeStatisticsOptions`] contain these defaults and the options of further reports.
    ///
    /// # Errors
    ///
    /// Errors if an option or a parameter is out of range, if the file of totals cannot be written, or if rclrs cannot
    /// create the publisher, for example because the publish topic is invalid or the node's context is shut down.
    pub fn with_options(
        node: &Node,
        options: impl Into<NodeStatisticsOptions>,
    ) -> Result<Self, StatisticsError> {
        let options = options.into();
        options.check()?;
        let node_name = node.fully_qualified_name();
        #[cfg(feature = "totals_file")]
        let write_totals = totals_writer(&options, &node_name)?;
        #[cfg(not(feature = "totals_file"))]
        let write_totals = |_: &Scheduler| None;

        // Until the thread starts, this function owns everything that it creates. So if an error occurs, everything is
        // dropped.
        let parameters = Parameters::declare(node, &options.statistics)?;
        let (statistics, expectations) = with_parameters(node, &options.statistics, parameters.as_ref());

        // From here on, the options do not change, because the parameters have been read. The publishers are created
        // now, so that readers find the publishers before the first window ends.
        let publisher = statistics
            .publishes()
            .then(|| TopicPublishers::new(node, &statistics).map(Arc::new))
            .transpose()?;
        let claimed = claim(node);
        let diagnostics =
            options.diagnostics.then(|| Arc::new(LazyPublisher::new(diagnostics::TOPIC.to_owned())));
        let is_judged =
            claimed.is_some() || expectations.expectations.is_some() || options.has_expectation_file();
        if let (Some(publisher), true) = (&diagnostics, is_judged) {
            publisher.create(node, diagnostics::qos())?;
        }

        // The scheduler publishes nothing yet, because its thread has not started.
        let clock = node.get_clock();
        let simulated = matches!(clock.clock_type(), ClockType::RosTime)
            .then(|| Arc::new(SimulatedTime::new(NodeClock(clock))));
        let loss_events = LossEvents::new(node_name.clone(), options.max_event_rate);
        let mut schedule = Schedule::new(statistics.of_node(), options.log_table, loss_events);
        schedule.judge_by(expectations, diagnostics.is_some());
        let names = NodeNames { name: node.name(), hardware_id: options.hardware_id.clone() };
        let reports = NodeReports { node: Arc::downgrade(node), names, diagnostics: diagnostics.clone() };
        let scheduler =
            Arc::new(Scheduler::new(node_name.clone(), Box::new(reports), schedule, simulated.clone()));
        #[cfg(feature = "interfaces")]
        let service = options.service.then(|| {
            let scheduler = Arc::downgrade(&scheduler);
            let totals = move || scheduler.upgrade().map(|scheduler| scheduler.totals()).unwrap_or_default();
            service::create(node, totals)
        });
        #[cfg(feature = "interfaces")]
        let service = service
            .transpose()
            .map_err(|source| creation_error(node, SourceKind::Service, service::NAME.to_owned(), source))?;
        if let Some(parameters) = &parameters {
            parameters.apply_changes_to(&scheduler);
        }

        // Starting the thread is the last step that can fail. From here on, dropping `running` ends the thread, and the
        // thread then writes the file of totals.
        let thread = scheduler
            .start(write_totals)
            .map_err(|source| StatisticsError::SpawnThread { node: node_name, source })?;
        let weak = Arc::downgrade(&scheduler) as Weak<dyn WindowScheduler>;
        let running = Arc::new(Running {
            node: Arc::clone(node),
            parameters,
            executor: OnceLock::new(),
            scheduler,
            thread: Some(thread),
            #[cfg(feature = "interfaces")]
            _service: service,
        });
        let created = Self {
            options: statistics,
            #[cfg(feature = "expectation_file")]
            expectation_file: options.expectation_file,
            simulated,
            publisher,
            others: Mutex::default(),
            diagnostics,
            names: Arc::default(),
            stopwatches: Registry::default(),
            counters: Registry::default(),
            keeper: Keeper::new(weak, Arc::clone(&running) as _),
            running,
        };
        if let Some(claimed) = claimed {
            let source = created.code_source("executor", claimed.collector());
            let executor = ExecutorStatistics { statistics: SourceStatistics(source), _claimed: claimed };
            created.running.executor.get_or_init(|| executor);
        }
        Ok(created)
    }

    /// Returns the statistics of the node's executor. Returns `None` if the executor is not a
    /// [`StatsExecutor`](crate::StatsExecutor), or if another `NodeStatistics` publishes the executor's statistics:
    /// only the first `NodeStatistics` on an executor does. Disabled statistics cost one atomic load per callback.
    ///
    /// The [`executor`](crate::WindowStatistics::executor) of a window has the threads, the longest callback and the
    /// waits.
    ///
    /// ```
    /// # use rclrs::*;
    /// # use rclrs_topic_statistics::{NodeStatistics, StatsExecutor};
    /// # let executor = Context::default_from_env()?.create_executor(StatsExecutor::new());
    /// # let statistics = NodeStatistics::new(&executor.create_node("robot")?)?;
    /// if let Some(window) = statistics.executor().and_then(|executor| executor.latest()) {
    ///     for wait in window.executor.iter().flat_map(|executor| &executor.waits) {
    ///         println!("{} waited {} ms for {}", wait.waiting, wait.milliseconds, wait.running);
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn executor(&self) -> Option<&SourceStatistics> {
        Some(&self.running.executor.get()?.statistics)
    }

    /// Returns the numbers of messages received and lost by each subscription up to now. Of the subscriptions that have
    /// ended, the result includes those with the last 1000 source names.
    pub fn totals(&self) -> Vec<TopicTotals> {
        self.running.scheduler.totals()
    }

    /// Enables or disables the sources that do not set their own state, like the parameter `topic_statistics.enabled`.
    /// This method also sets the parameter. [`StatisticsState::NodeDefault`] means `Enable` here.
    pub fn set_state(&self, state: StatisticsState) {
        let enabled = state.is_enabled(SourceDefaults::default().enabled);
        self.change_defaults(|defaults| defaults.enabled = enabled);
    }

    /// Returns whether the sources that do not set their own state are enabled.
    pub fn is_enabled(&self) -> bool {
        self.running.scheduler.defaults().enabled
    }

    /// Sets the length of windows, like the parameter `topic_statistics.publish_period`, for the sources whose options
    /// do not set this length. This method also sets the parameter.
    ///
    /// # Errors
    ///
    /// Errors if the period is less than 1 ms or more than a day.
    pub fn set_publish_period(&self, period: Duration) -> Result<(), StatisticsError> {
        let period = check_period(period)?;
        self.change_defaults(|defaults| defaults.publish_period = period);
        Ok(())
    }

    /// Sets whether sources have distributions, like the parameter `topic_statistics.distributions`, for the sources
    /// whose options do not decide this. The change applies from the next windows on. This method also sets the
    /// parameter.
    pub fn set_distributions(&self, distributions: bool) {
        self.change_defaults(|defaults| defaults.distributions = distributions);
    }

    fn change_defaults(&self, change: impl FnOnce(&mut SourceDefaults)) {
        match &self.running.parameters {
            Some(parameters) => parameters.change_defaults(change),
            None => self.running.scheduler.change_defaults(change),
        }
    }

    /// Returns the unique name of a new source. `topic` is the topic, or the name of a source without a topic.
    fn source_name(&self, name: Option<SourceName>, topic: &str) -> UniqueName {
        let node = self.running.node.fully_qualified_name();
        let with_topic = || self.names.reserve(&node, &format!("{node}:{topic}"));
        match name.unwrap_or_default() {
            SourceName::NodeAndTopic => with_topic(),
            SourceName::Node => with_topic().shown_as_node(),
            SourceName::Custom(name) => self.names.reserve(&node, &name),
        }
    }

    /// Registers the collector of a source that is being created, with the source's own options. From now on, the
    /// collector records samples.
    fn add_collector(
        &self,
        collector: Arc<dyn WindowedCollector>,
        own: SourceOptions,
        publisher: Option<Arc<TopicPublishers>>,
    ) -> NewSource {
        if let Some(publisher) = &publisher {
            let metrics = Metric::ALL.iter().filter(|metric| collector.measures(**metric));
            publisher.add_source(&self.running.node, metrics.count());
        }
        self.running.scheduler.add(collector, own, publisher.map(|publisher| publisher as _))
    }

    /// Adds a source, with its own options and expectations. Returns the source's handle, which does not keep the
    /// statistics alive until `keep` is called with it.
    fn add_source(
        &self,
        source: Source,
        own: SourceOptions,
        publisher: Option<Arc<TopicPublishers>>,
        expectations: Option<Expectations>,
    ) -> SourceHandle {
        let source = Arc::new(source);
        let new = self.add_collector(Arc::clone(&source.collector), own, publisher);
        self.expect(&source, expectations);
        new.complete(source)
    }

    /// Sets the expectations of a new source: the source's own ones, or else those in the file of expectations.
    fn expect(&self, source: &Arc<Source>, own: Option<Expectations>) {
        let (names, kind) = (source.names(), source.kind());
        self.warn_of_other_names(source, own.as_ref());
        #[cfg(feature = "expectation_file")]
        if let (Some(file), None) = (&self.expectation_file, &own) {
            for condition in file.named_conditions(names, kind) {
                if let Some(why) = why_unjudged(&condition, source) {
                    self.warn(&format!(
                        "{} of {} is not judged: {why}",
                        condition.requirement(),
                        Escaped(&source.name)
                    ));
                }
            }
        }
        if let Some(expectations) = own.or_else(|| self.file_expectations(names, kind)) {
            self.running.scheduler.expect(source, expectations);
        }
    }

    /// Warns about each condition in a source's own options that has the name of another source.
    pub(super) fn warn_of_other_names(&self, source: &Source, own: Option<&Expectations>) {
        for (_, condition) in own.into_iter().flat_map(Expectations::conditions) {
            if condition.topic().is_some_and(|topic| !source.names().include(topic)) {
                let name = Escaped(&source.name);
                self.warn(&format!(
                    "{condition} is not judged: it is in the options of {name}, which has another name"
                ));
            }
        }
    }

    fn file_expectations(&self, _names: Names<'_>, _kind: SourceKind) -> Option<Expectations> {
        #[cfg(feature = "expectation_file")]
        return self.expectation_file.as_ref()?.source_expectations(_names, _kind);
        #[cfg(not(feature = "expectation_file"))]
        None
    }

    fn keep(&self, source: SourceHandle) -> SourceHandle {
        source.keeping(&self.keeper)
    }

    /// Returns the publishers of a source's windows; `None` if the windows are not published. Sources with the same
    /// topic and QoS share their publishers.
    fn publisher(
        &self,
        options: &StatisticsOptions,
    ) -> Result<Option<Arc<TopicPublishers>>, StatisticsError> {
        if !options.publishes() {
            return Ok(None);
        }
        let mut others = lock(&self.others);
        others.retain(|other| other.strong_count() > 0);
        let all = self.publisher.iter().cloned().chain(others.iter().filter_map(Weak::upgrade));
        let shared = all.into_iter().find(|publisher| publisher.are_for(options));
        if let Some(publisher) = shared {
            publisher.prepare(&self.running.node, options)?;
            return Ok(Some(publisher));
        }
        let publisher = Arc::new(TopicPublishers::new(&self.running.node, options)?);
        others.push(Arc::downgrade(&publisher));
        Ok(Some(publisher))
    }
}

/// Returns the options and the expectations of a node. Values of the node's ROS parameters replace the values of the
/// options.
fn with_parameters(
    node: &Node,
    options: &StatisticsOptions,
    parameters: Option<&Parameters>,
) -> (StatisticsOptions, NodeExpectations) {
    let expectations = NodeExpectations::new(options.expectations.clone());
    let Some(parameters) = parameters else { return (options.clone(), expectations) };
    let options = parameters.apply_to(options.clone());
    if options.state == StatisticsState::Disable {
        log_info!(node.logger(), "Topic statistics are disabled by the parameter {}", parameters::ENABLED);
    }
    (options, parameters.apply_to_expectations(&expectations))
}

/// Returns the function that writes the file of totals when the statistics end.
///
/// Errors if the file cannot be written, as far as this can be checked now.
#[cfg(feature = "totals_file")]
fn totals_writer(
    options: &NodeStatisticsOptions,
    node: &str,
) -> Result<impl FnOnce(&Scheduler) -> Option<std::fs::File> + Send + 'static, StatisticsError> {
    use crate::report::totals_file;

    let path = options.totals_file.as_deref().map(|path| {
        totals_file::check(path).map_err(|source| StatisticsError::TotalsFile {
            node: node.to_owned(),
            path: path.to_owned(),
            source,
        })
    });
    let path = path.transpose()?;
    Ok(move |scheduler: &Scheduler| {
        let path = path?;
        let written = totals_file::write(&path, scheduler.node_name(), &scheduler.totals());
        let report = |error| {
            let (node, path) = (scheduler.node_name(), path.display());
            scheduler
                .log_error(&format!("The totals of the node {node:?} cannot be written to {path}: {error}"));
        };
        written.map_err(report).ok()
    })
}
