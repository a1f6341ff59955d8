// SPDX-License-Identifier: Apache-2.0

//! A service with statistics, and its callback.

use std::{future::poll_fn, sync::Arc};

use rclrs::{
    AnyServiceCallback, IntoAsyncServiceCallback, IntoNodeServiceCallback, IntoWorkerServiceCallback, Node,
    NodeServiceCallback, ServiceInfo, ServiceState, WorkScope, Worker, WorkerServiceCallback,
};
use rosidl_runtime_rs::Service;
use topic_statistics_core::record::{
    clock::monotonic,
    requests::{ActiveRequest, RequestRecorder},
    source::SourceHandle,
};

use super::handle::{stats_handle, SourceStatistics};
use crate::transport::{middleware_in_use_or_unknown, timestamps, Middleware};

/// A service whose requests are measured.
///
/// Create a service using [`NodeStatistics::create_service`](crate::NodeStatistics::create_service). Like
/// [`rclrs::Service`], a `StatsService` is a handle: dropping the last clone ends the service and its statistics.
pub type StatsService<T> = Arc<StatsServiceState<T, Node>>;

/// A [`StatsService`] that runs on a worker.
pub type StatsWorkerService<T, Payload> = Arc<StatsServiceState<T, Worker<Payload>>>;

/// The inner state of a [`StatsService`].
pub struct StatsServiceState<T: Service, Scope: WorkScope> {
    /// This field is dropped first, so the statistics end before the service ends.
    statistics: SourceStatistics,
    probe: Probe,
    service: Arc<ServiceState<T, Scope>>,
}

stats_handle!(StatsServiceState<T: Service, Scope: WorkScope>);

impl<T: Service, Scope: WorkScope + 'static> StatsServiceState<T, Scope> {
    pub(crate) fn new(source: SourceHandle, probe: Probe, service: Arc<ServiceState<T, Scope>>) -> Self {
        Self { statistics: SourceStatistics(source), probe, service }
    }

    /// Returns the resolved and remapped name of the service.
    pub fn service_name(&self) -> String {
        self.service.service_name()
    }

    /// Configures the introspection of the service, as
    /// [`ServiceState::configure_introspection`](rclrs::ServiceState::configure_introspection) does. Returns the same
    /// errors as the method of rclrs.
    #[cfg(not(ros_distro = "humble"))]
    pub fn configure_introspection(
        &self,
        state: rclrs::ServiceIntrospectionState,
    ) -> Result<(), rclrs::RclrsError> {
        self.service.configure_introspection(state)
    }
}

impl<T: Service> StatsServiceState<T, Node> {
    /// Replaces the callback, as [`ServiceState::set_callback`] does. The new callback is also measured.
    pub fn set_callback<Args>(&self, callback: impl IntoNodeServiceCallback<T, Args>) {
        self.service.set_callback(self.probe.measure(callback.into_node_service_callback(), false));
    }

    /// Replaces the callback by an async callback, as [`ServiceState::set_async_callback`] does. The new callback is
    /// also measured.
    ///
    /// If the first callback of the service was not async, the service measures
    /// [`ResponseDuration`](crate::Metric::ResponseDuration) only if the metrics of its options contain this metric.
    pub fn set_async_callback<Args>(&self, callback: impl IntoAsyncServiceCallback<T, Args>) {
        self.service.set_callback(self.probe.measure(callback.into_async_service_callback(), true));
    }
}

impl<T: Service, Payload: 'static + Send + Sync> StatsServiceState<T, Worker<Payload>> {
    /// Replaces the callback, as [`ServiceState::set_worker_callback`] does. The new callback is also measured.
    pub fn set_worker_callback<Args>(&self, callback: impl IntoWorkerServiceCallback<T, Payload, Args>) {
        self.service.set_worker_callback(self.probe.measure(callback.into_worker_service_callback(), false));
    }
}

/// A measured callback in the form that rclrs takes. In rclrs, async callbacks and other callbacks have the same form.
#[allow(missing_debug_implementations)] // no other crate can name this type
pub(crate) struct Measured<Callback>(pub(crate) Callback);

impl<T: Service> IntoNodeServiceCallback<T, Self> for Measured<AnyServiceCallback<T, ()>> {
    fn into_node_service_callback(self) -> AnyServiceCallback<T, ()> {
        self.0
    }
}

impl<T: Service, Payload: 'static + Send> IntoWorkerServiceCallback<T, Payload, Self>
    for Measured<AnyServiceCallback<T, Payload>>
{
    fn into_worker_service_callback(self) -> AnyServiceCallback<T, Payload> {
        self.0
    }
}

#[derive(Clone)]
pub(crate) struct Probe {
    recorder: RequestRecorder,
    middleware: &'static Middleware,
}

impl Probe {
    pub(crate) fn new(recorder: RequestRecorder) -> Self {
        Self { recorder, middleware: middleware_in_use_or_unknown() }
    }

    fn take(&self, info: &ServiceInfo) -> Option<ActiveRequest> {
        self.recorder.take(|| timestamps(self.middleware, info))
    }

    /// Wraps a callback, in any form that rclrs takes, so that its requests are measured. `is_async` says whether the
    /// callback returns a future.
    ///
    /// rclrs already stores each form of callback as a boxed function, so a measured callback costs one more function
    /// call. In a node's service, the wrapper returns a boxed future, so each request also costs one more allocation.
    pub(crate) fn measure<T: Service, Payload: 'static + Send>(
        &self,
        callback: AnyServiceCallback<T, Payload>,
        is_async: bool,
    ) -> Measured<AnyServiceCallback<T, Payload>> {
        let probe = Self { recorder: self.recorder.with_callback(is_async), ..self.clone() };
        Measured(match callback {
            AnyServiceCallback::Node(callback) => AnyServiceCallback::Node(measure_node(callback, probe)),
            AnyServiceCallback::Worker(callback) => {
                AnyServiceCallback::Worker(measure_worker(callback, probe))
            }
        })
    }
}

/// rclrs calls the returned function when it takes the request. The callback itself starts when its future is first
/// polled, even if the callback is not async.
fn measure_node<T: Service>(mut callback: NodeServiceCallback<T>, probe: Probe) -> NodeServiceCallback<T> {
    NodeServiceCallback::WithInfo(Box::new(move |request, info| {
        let active = probe.take(&info);
        let mut response = match &mut callback {
            NodeServiceCallback::OnlyRequest(callback) => callback(request),
            NodeServiceCallback::WithId(callback) => callback(request, info.request_id),
            NodeServiceCallback::WithInfo(callback) => callback(request, info),
        };
        let Some(mut active) = active else { return response };
        Box::pin(async move {
            active.start(monotonic);
            let response = poll_fn(|context| active.run(|| response.as_mut().poll(context))).await;
            active.respond(monotonic);
            response
        })
    }))
}

fn measure_worker<T: Service, Payload: 'static + Send>(
    mut callback: WorkerServiceCallback<T, Payload>,
    probe: Probe,
) -> WorkerServiceCallback<T, Payload> {
    WorkerServiceCallback::WithInfo(Box::new(move |payload, request, info| {
        let mut active = probe.take(&info);
        if let Some(active) = &mut active {
            active.start(monotonic);
        }
        let respond = || match &mut callback {
            WorkerServiceCallback::OnlyRequest(callback) => callback(payload, request),
            WorkerServiceCallback::WithId(callback) => callback(payload, request, info.request_id),
            WorkerServiceCallback::WithInfo(callback) => callback(payload, request, info),
        };
        match active {
            Some(mut active) => {
                let response = active.run(respond);
                active.respond(monotonic);
                response
            }
            None => respond(),
        }
    }))
}
