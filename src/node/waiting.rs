// SPDX-License-Identifier: Apache-2.0

//! Creates services, clients, timers and actions with statistics.

use std::{future::Future, sync::Arc};

use rclrs::{
    ActionClientOptions, ActionServerOptions, AnyServiceCallback, AnyTimerCallback, ClientOptions, ClockType,
    IntoAsyncServiceCallback, IntoNodeServiceCallback, IntoNodeTimerOneshotCallback,
    IntoNodeTimerRepeatingCallback, IntoWorkerServiceCallback, IntoWorkerTimerOneshotCallback,
    IntoWorkerTimerRepeatingCallback, Node, RclrsError, ServiceOptions, ServiceState, TerminatedGoal,
    TimerOptions, TimerState, WorkScope, Worker,
};
use rosidl_runtime_rs::{Action, Service};
use topic_statistics_core::{
    collector::FirstPeriod,
    health::Expectations,
    metric_set::MetricSet,
    record::{
        calls::CallRecorder,
        goals::GoalRecorder,
        options::SourceOptions,
        requests::RequestRecorder,
        source::{Source, SourceHandle, WindowedCollector},
        timer_calls::{TimerCalls, TimerClock},
        windowed::Windowed,
    },
    SourceKind,
};

use super::NodeStatistics;
use crate::{
    error::{creation_error, StatisticsError},
    measure::{
        action_client::{StatsActionClient, StatsActionClientState},
        action_server::{self, StatsActionServer, StatsActionServerState, StatsRequestedGoal},
        client::{StatsClient, StatsClientState},
        goal::fully_qualified,
        service::{self, StatsService, StatsServiceState, StatsWorkerService},
        timer::{self, MeasuredTimer, StatsTimer, StatsTimerState, StatsWorkerTimer},
    },
    options::{StatisticsOptions, StatsOptions},
};

impl NodeStatistics {
    /// Creates a service with statistics, like [`NodeState::create_service`](rclrs::NodeState::create_service), with
    /// each form of callback that rclrs's method takes.
    ///
    /// # Errors
    ///
    /// Errors if an option is out of range, or if rclrs cannot create the service or the publisher of its statistics,
    /// for example because a name is invalid.
    ///
    /// ```
    /// # use rclrs::*;
    /// # use rclrs_topic_statistics::NodeStatistics;
    /// # use ros_env::rcl_interfaces::srv::{GetParameters, GetParameters_Request, GetParameters_Response};
    /// # let executor = Context::default_from_env()?.create_basic_executor();
    /// # let statistics = NodeStatistics::new(&executor.create_node("planner")?)?;
    /// let plan = statistics.create_service::<GetParameters, _>("plan", |request: GetParameters_Request| {
    ///     GetParameters_Response::default() // as before
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_service<'a, T: Service, Args>(
        &self,
        options: impl StatsOptions<ServiceOptions<'a>>,
        callback: impl IntoNodeServiceCallback<T, Args>,
    ) -> Result<StatsService<T>, StatisticsError> {
        let callback = callback.into_node_service_callback();
        self.create_service_of::<T, Node>(options.split(), false, callback, |options, callback| {
            self.running.node.create_service(options, callback)
        })
    }

    /// Creates a service with an async callback and statistics, like
    /// [`NodeState::create_async_service`](rclrs::NodeState::create_async_service). The callback starts when its future
    /// is first polled. Returns the same errors as [`create_service`](Self::create_service).
    pub fn create_async_service<'a, T: Service, Args>(
        &self,
        options: impl StatsOptions<ServiceOptions<'a>>,
        callback: impl IntoAsyncServiceCallback<T, Args>,
    ) -> Result<StatsService<T>, StatisticsError> {
        let callback = callback.into_async_service_callback();
        self.create_service_of::<T, Node>(options.split(), true, callback, |options, callback| {
            self.running.node.create_service(options, callback)
        })
    }

    /// Creates a service on a worker with statistics, like
    /// [`WorkerState::create_service`](rclrs::WorkerState::create_service). Returns the same errors as
    /// [`create_service`](Self::create_service).
    pub fn create_worker_service<'a, T: Service, Payload: 'static + Send + Sync, Args>(
        &self,
        worker: &Worker<Payload>,
        options: impl StatsOptions<ServiceOptions<'a>>,
        callback: impl IntoWorkerServiceCallback<T, Payload, Args>,
    ) -> Result<StatsWorkerService<T, Payload>, StatisticsError> {
        let callback = callback.into_worker_service_callback();
        self.create_service_of::<T, Worker<Payload>>(options.split(), false, callback, |options, callback| {
            worker.create_service(options, callback)
        })
    }

    /// Creates a client with statistics, like [`NodeState::create_client`](rclrs::NodeState::create_client). Returns
    /// the same errors as [`create_service`](Self::create_service).
    pub fn create_client<'a, T: Service>(
        &self,
        options: impl StatsOptions<ClientOptions<'a>>,
    ) -> Result<StatsClient<T>, StatisticsError> {
        let (options, statistics) = options.split();
        let kind = SourceKind::Client;
        let (metrics, new) =
            self.check_waiting(kind, options.service_name, statistics, kind_metrics(kind))?;
        let calls = CallRecorder::new(metrics);
        let create = || {
            let client = self.running.node.create_client::<T>(options)?;
            Ok((client.service_name(), client))
        };
        let (client, source) = self.create_waiting(new, Arc::clone(&calls.calls) as _, create)?;
        Ok(Arc::new(StatsClientState::new(source, calls, client, Arc::clone(&self.running.node))))
    }

    /// Creates an action server with statistics, like
    /// [`NodeState::create_action_server`](rclrs::NodeState::create_action_server). The callback gets a
    /// [`StatsRequestedGoal`], which has the same methods as rclrs's goal.
    ///
    /// # Errors
    ///
    /// Errors if an option is out of range, or if rclrs cannot create the action server or the publisher of its
    /// statistics.
    ///
    /// ```
    /// # use rclrs::*;
    /// # use rclrs_topic_statistics::NodeStatistics;
    /// # use ros_env::test_msgs::action::{Fibonacci, Fibonacci_Result};
    /// # let executor = Context::default_from_env()?.create_basic_executor();
    /// # let statistics = NodeStatistics::new(&executor.create_node("navigator")?)?;
    /// let server = statistics.create_action_server::<Fibonacci, _>("fibonacci", |goal| async move {
    ///     goal.accept().execute().succeeded_with(Fibonacci_Result::default()) // as before
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_action_server<'a, A: Action, Task>(
        &self,
        options: impl StatsOptions<ActionServerOptions<'a>>,
        callback: impl FnMut(StatsRequestedGoal<A>) -> Task + Send + Sync + 'static,
    ) -> Result<StatsActionServer<A>, StatisticsError>
    where
        Task: Future<Output = TerminatedGoal> + Send + 'static,
    {
        let (options, statistics) = options.split();
        let kind = SourceKind::ActionServer;
        let name = fully_qualified(&self.running.node, options.action_name);
        let (metrics, new) = self.check_waiting(kind, options.action_name, statistics, kind_metrics(kind))?;
        let recorder = GoalRecorder::new(metrics);
        let callback = action_server::measure(callback, recorder.clone());
        let create = || Ok((name.clone(), self.running.node.create_action_server(options, callback)?));
        let (server, source) = self.create_waiting(new, Arc::clone(&recorder.goals) as _, create)?;
        Ok(Arc::new(StatsActionServerState::new(source, recorder, server, name.into())))
    }

    /// Creates an action client with statistics, like
    /// [`NodeState::create_action_client`](rclrs::NodeState::create_action_client). Returns the same errors as
    /// [`create_action_server`](Self::create_action_server).
    pub fn create_action_client<'a, A: Action>(
        &self,
        options: impl StatsOptions<ActionClientOptions<'a>>,
    ) -> Result<StatsActionClient<A>, StatisticsError> {
        let (options, statistics) = options.split();
        let kind = SourceKind::ActionClient;
        let name = fully_qualified(&self.running.node, options.action_name);
        let (metrics, new) = self.check_waiting(kind, options.action_name, statistics, kind_metrics(kind))?;
        let recorder = GoalRecorder::new(metrics);
        let create = || Ok((name.clone(), self.running.node.create_action_client::<A>(options)?));
        let (client, source) = self.create_waiting(new, Arc::clone(&recorder.goals) as _, create)?;
        Ok(Arc::new(StatsActionClientState::new(source, recorder, client, name.into())))
    }

    /// Creates a repeating timer with statistics, like
    /// [`NodeState::create_timer_repeating`](rclrs::NodeState::create_timer_repeating). The source of the timer is
    /// named after the period, `/bridge:timer/10ms`, unless the options have a
    /// [`SourceName::Custom`](crate::SourceName::Custom).
    ///
    /// # Errors
    ///
    /// Errors if an option is out of range, or if rclrs cannot create the timer or the publisher of its statistics.
    ///
    /// ```
    /// # use rclrs::*;
    /// # use rclrs_topic_statistics::NodeStatistics;
    /// # use std::time::Duration;
    /// # let executor = Context::default_from_env()?.create_basic_executor();
    /// # let statistics = NodeStatistics::new(&executor.create_node("controller")?)?;
    /// let control = statistics.create_timer_repeating(Duration::from_millis(10), || { /* as before */ })?;
    /// assert_eq!(control.statistics().source_name(), "/controller:timer/10ms");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_timer_repeating<'a, Args>(
        &self,
        options: impl StatsOptions<TimerOptions<'a>>,
        callback: impl IntoNodeTimerRepeatingCallback<Args>,
    ) -> Result<StatsTimer, StatisticsError> {
        let callback = callback.into_node_timer_repeating_callback();
        self.create_timer_of::<Node>(options.split(), callback, |options, callback| {
            self.running.node.create_timer_repeating(options, callback)
        })
    }

    /// Creates a timer that triggers once, with statistics, like
    /// [`NodeState::create_timer_oneshot`](rclrs::NodeState::create_timer_oneshot). Returns the same errors as
    /// [`create_timer_repeating`](Self::create_timer_repeating).
    pub fn create_timer_oneshot<'a, Args>(
        &self,
        options: impl StatsOptions<TimerOptions<'a>>,
        callback: impl IntoNodeTimerOneshotCallback<Args>,
    ) -> Result<StatsTimer, StatisticsError> {
        let callback = callback.into_node_timer_oneshot_callback();
        self.create_timer_of::<Node>(options.split(), callback, |options, callback| {
            self.running.node.create_timer_repeating(options, callback)
        })
    }

    /// Creates a repeating timer on a worker with statistics, like
    /// [`WorkerState::create_timer_repeating`](rclrs::WorkerState::create_timer_repeating). Returns the same errors as
    /// [`create_timer_repeating`](Self::create_timer_repeating).
    pub fn create_worker_timer_repeating<'a, Payload: 'static + Send + Sync, Args>(
        &self,
        worker: &Worker<Payload>,
        options: impl StatsOptions<TimerOptions<'a>>,
        callback: impl IntoWorkerTimerRepeatingCallback<Worker<Payload>, Args>,
    ) -> Result<StatsWorkerTimer<Payload>, StatisticsError> {
        let callback = callback.into_worker_timer_repeating_callback();
        self.create_timer_of::<Worker<Payload>>(options.split(), callback, |options, callback| {
            worker.create_timer_repeating(options, callback)
        })
    }

    /// Creates a timer on a worker that triggers once, with statistics, like
    /// [`WorkerState::create_timer_oneshot`](rclrs::WorkerState::create_timer_oneshot). Returns the same errors as
    /// [`create_timer_repeating`](Self::create_timer_repeating).
    pub fn create_worker_timer_oneshot<'a, Payload: 'static + Send + Sync, Args>(
        &self,
        worker: &Worker<Payload>,
        options: impl StatsOptions<TimerOptions<'a>>,
        callback: impl IntoWorkerTimerOneshotCallback<Worker<Payload>, Args>,
    ) -> Result<StatsWorkerTimer<Payload>, StatisticsError> {
        let callback = callback.into_worker_timer_oneshot_callback();
        self.create_timer_of::<Worker<Payload>>(options.split(), callback, |options, callback| {
            worker.create_timer_repeating(options, callback)
        })
    }

    fn create_service_of<'a, T: Service, Scope: WorkScope>(
        &self,
        (options, statistics): (ServiceOptions<'a>, StatisticsOptions),
        is_async: bool,
        callback: AnyServiceCallback<T, Scope::Payload>,
        create: impl FnOnce(
            ServiceOptions<'a>,
            service::Measured<AnyServiceCallback<T, Scope::Payload>>,
        ) -> Result<Arc<ServiceState<T, Scope>>, RclrsError>,
    ) -> Result<Arc<StatsServiceState<T, Scope>>, StatisticsError> {
        let all = RequestRecorder::metrics(is_async);
        let (metrics, new) = self.check_waiting(SourceKind::Service, options.name, statistics, all)?;
        let recorder = RequestRecorder::new(metrics, new.first_period(), is_async);
        let requests = Arc::clone(&recorder.requests) as _;
        let probe = service::Probe::new(recorder);
        let create = || {
            let service = create(options, probe.measure(callback, is_async))?;
            Ok((service.service_name(), service))
        };
        let (service, source) = self.create_waiting(new, requests, create)?;
        Ok(Arc::new(StatsServiceState::new(source, probe, service)))
    }

    fn create_timer_of<'a, Scope: WorkScope>(
        &self,
        (options, statistics): (TimerOptions<'a>, StatisticsOptions),
        callback: AnyTimerCallback<Scope>,
        create: impl FnOnce(
            TimerOptions<'a>,
            timer::Measured<Scope>,
        ) -> Result<Arc<TimerState<Scope>>, RclrsError>,
    ) -> Result<Arc<StatsTimerState<Scope>>, StatisticsError> {
        let clock = match options.clock {
            rclrs::TimerClock::SteadyTime => ClockType::SteadyTime,
            rclrs::TimerClock::SystemTime => ClockType::SystemTime,
            rclrs::TimerClock::NodeTime => ClockType::RosTime,
            rclrs::TimerClock::Clock(clock) => clock.clock_type(),
        };
        let simulated = self.simulated.clone().filter(|_| matches!(clock, ClockType::RosTime));
        let clock = match clock {
            ClockType::SteadyTime => TimerClock::Steady,
            _ if simulated.is_some() => TimerClock::Simulated,
            _ => TimerClock::System,
        };
        let period = options.period;
        // The µ of "µs" is not ASCII, so it becomes "u".
        let name = format!("timer/{}", format!("{period:?}").replace('µ', "u"));
        let kind = SourceKind::Timer;
        let (metrics, new) = self.check_waiting(kind, &name, statistics, kind_metrics(kind))?;
        let calls = TimerCalls::new(metrics, new.first_period(), clock, period.as_nanos() as i64);
        let calls = Arc::new(Windowed::new(calls));
        let collector = Arc::clone(&calls) as _;
        let measured = Arc::new(MeasuredTimer { calls, period, simulated, name: name.as_str().into() });
        let (callback, is_installed) = measured.measure(callback, true);
        let (timer, source) =
            self.create_waiting(new, collector, || Ok((name, create(options, callback)?)))?;
        Ok(Arc::new(StatsTimerState::new(source, measured, is_installed, timer)))
    }

    pub(super) fn not_created(&self, kind: SourceKind, name: &str, source: RclrsError) -> StatisticsError {
        creation_error(&self.running.node, kind, name.to_owned(), source)
    }

    /// Checks the options of a new source. `given` is the name that user code has passed. Returns the metrics to
    /// measure. If the source's own options set metrics, these are the metrics of the options and of the source's
    /// expectations; otherwise they are `all`.
    fn check_waiting(
        &self,
        kind: SourceKind,
        given: &str,
        statistics: StatisticsOptions,
        all: MetricSet,
    ) -> Result<(MetricSet, NewWaiting), StatisticsError> {
        statistics.check(kind)?;
        let metrics = match &statistics.metrics {
            Some(own) => {
                let expected = self.expected(given, statistics.expectations.as_ref(), kind);
                own.iter().copied().chain(expected.iter().flat_map(Expectations::metrics)).collect()
            }
            None => all,
        };
        let own = statistics.of_source();
        let statistics = statistics.or(&self.options);
        Ok((metrics, NewWaiting { kind, given: given.to_owned(), own, statistics }))
    }

    /// Creates a service, client, timer or action, and its source. `create` returns the name of this service, client,
    /// timer or action, and the entity itself.
    fn create_waiting<Entity>(
        &self,
        NewWaiting { kind, given, own, statistics }: NewWaiting,
        collector: Arc<dyn WindowedCollector>,
        create: impl FnOnce() -> Result<(String, Entity), RclrsError>,
    ) -> Result<(Entity, SourceHandle), StatisticsError> {
        let publisher = self.publisher(&statistics)?;
        self.prepare_diagnostics(&statistics)?;
        // The collector is added first, because a request may arrive before rclrs returns the new service.
        let new = self.add_collector(Arc::clone(&collector), own, publisher);
        let (name, entity) = create().map_err(|source| self.not_created(kind, &given, source))?;
        let source = Source::new(self.source_name(statistics.source_name, &name), collector, None);
        let source = Arc::new(match kind {
            SourceKind::Timer => source,
            _ => source.of_topic(name, &given),
        });
        self.warn_of_other_names(&source, statistics.expectations.as_ref());
        if let Some(expectations) = statistics.expectations {
            self.running.scheduler.expect(&source, expectations);
        }
        Ok((entity, self.keep(new.complete(source))))
    }
}

fn kind_metrics(kind: SourceKind) -> MetricSet {
    kind.metrics().iter().collect()
}

struct NewWaiting {
    kind: SourceKind,
    given: String,
    own: SourceOptions,
    /// The source's options. Options that the source does not set have the node's values.
    statistics: StatisticsOptions,
}

impl NewWaiting {
    fn first_period(&self) -> FirstPeriod {
        self.statistics.first_period.unwrap_or_default()
    }
}
