// SPDX-License-Identifier: Apache-2.0

//! A client with statistics.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Wake, Waker},
};

use rclrs::{
    log_fatal, AnyClientOutputSender, Client, ClientAsyncCallback, ClientCallback, ClientOutput, MessageCow,
    Node, Promise, RclrsError, ServiceInfo,
};
use rosidl_runtime_rs::Service;
use topic_statistics_core::{
    mutex::lock,
    record::{
        calls::{CallRecorder, WaitingCall},
        clock::monotonic,
        source::SourceHandle,
    },
};

use super::handle::{stats_handle, SourceStatistics};
use crate::transport::{middleware_in_use_or_unknown, timestamps, Middleware};

/// A client whose calls are measured.
///
/// Create a client using [`NodeStatistics::create_client`](crate::NodeStatistics::create_client). Like
/// [`rclrs::Client`], a `StatsClient` is a handle: dropping the last clone ends the client and its statistics.
pub type StatsClient<T> = Arc<StatsClientState<T>>;

/// The inner state of a [`StatsClient`].
pub struct StatsClientState<T: Service> {
    /// This field is dropped first, so the statistics end before the client ends.
    statistics: SourceStatistics,
    calls: CallRecorder,
    middleware: &'static Middleware,
    client: Client<T>,
    node: Node,
}

stats_handle!(StatsClientState<T: Service>);

impl<T: Service> StatsClientState<T> {
    pub(crate) fn new(source: SourceHandle, calls: CallRecorder, client: Client<T>, node: Node) -> Self {
        Self {
            statistics: SourceStatistics(source),
            calls,
            middleware: middleware_in_use_or_unknown(),
            client,
            node,
        }
    }

    /// Sends a request, as [`rclrs::ClientState::call`] does. The round trip ends when the promise is resolved, even if
    /// the promise is awaited later. If the promise is dropped before it is resolved, the call counts as a call without
    /// a response.
    ///
    /// A request that cannot be sent is not measured. Returns the same errors as the method of rclrs.
    pub fn call<'a, Req, Out>(&self, request: Req) -> Result<Promise<Out>, RclrsError>
    where
        Req: MessageCow<'a, T::Request>,
        Out: ClientOutput<T::Response>,
    {
        if !self.statistics.is_enabled() {
            return self.client.call(request);
        }
        let (response, waiting) = self.calls.call(monotonic(), || self.client.call(request))?;
        let (sender, promise) = Out::create_channel();
        let relay =
            Relay(Mutex::new(Some(Relayed { response, sender, waiting, middleware: self.middleware })));
        Arc::new(relay).poll();
        Ok(promise)
    }

    /// Sends a request and calls a callback with the response, as [`rclrs::ClientState::call_then`] does. The round
    /// trip ends when the callback starts. Returns the same errors as [`call`](Self::call).
    pub fn call_then<'a, Req, Args>(
        &self,
        request: Req,
        callback: impl ClientCallback<T, Args>,
    ) -> Result<Promise<()>, RclrsError>
    where
        Req: MessageCow<'a, T::Request>,
    {
        self.call_then_async(request, move |response: T::Response, info: ServiceInfo| async move {
            callback.run_client_callback(response, info);
        })
    }

    /// Sends a request and calls an async callback with the response, as [`rclrs::ClientState::call_then_async`] does.
    /// The round trip ends when the callback starts. Returns the same errors as [`call`](Self::call).
    pub fn call_then_async<'a, Req, Args>(
        &self,
        request: Req,
        callback: impl ClientAsyncCallback<T, Args>,
    ) -> Result<Promise<()>, RclrsError>
    where
        Req: MessageCow<'a, T::Request>,
    {
        let (response, waiting): (Promise<(T::Response, ServiceInfo)>, _) =
            self.calls.call(monotonic(), || self.client.call(request))?;
        let middleware = self.middleware;
        Ok(self.node.commands().run(async move {
            match response.await {
                Ok((response, info)) => {
                    respond(waiting, middleware, &info);
                    callback.run_client_async_callback(response, info).await;
                }
                Err(_) => log_fatal!(
                    "rclrs.client.call_then_async",
                    "Request promise has been dropped by the executor",
                ),
            }
        }))
    }

    /// Returns whether a service is available, as [`rclrs::ClientState::service_is_ready`] does, with the same errors.
    pub fn service_is_ready(&self) -> Result<bool, RclrsError> {
        self.client.service_is_ready()
    }

    /// Returns a promise that is fulfilled when a service is ready, as
    /// [`rclrs::ClientState::notify_on_service_ready`] does.
    pub fn notify_on_service_ready(&self) -> Promise<()> {
        self.client.notify_on_service_ready()
    }

    /// Returns the resolved and remapped name of the service.
    pub fn service_name(&self) -> String {
        self.client.service_name()
    }

    /// Configures the introspection of the client, as
    /// [`ClientState::configure_introspection`](rclrs::ClientState::configure_introspection) does. Returns the same
    /// errors as the method of rclrs.
    #[cfg(not(ros_distro = "humble"))]
    pub fn configure_introspection(&self, state: rclrs::ServiceIntrospectionState) -> Result<(), RclrsError> {
        self.client.configure_introspection(state)
    }

    /// Returns the rclrs client. Calls through this client are not measured.
    pub fn client(&self) -> &Client<T> {
        &self.client
    }
}

fn respond(waiting: Option<WaitingCall>, middleware: &Middleware, info: &ServiceInfo) {
    if let Some(waiting) = waiting {
        waiting.respond(monotonic, || timestamps(middleware, info));
    }
}

/// Takes the response at the moment when rclrs resolves its promise, and then resolves the promise that the caller of
/// [`call`](StatsClientState::call) holds. The relay is the waker of both promises, so no executor has to poll the
/// relay, and the caller may await its promise at any time.
struct Relay<Response>(Mutex<Option<Relayed<Response>>>);

struct Relayed<Response> {
    response: Promise<(Response, ServiceInfo)>,
    sender: AnyClientOutputSender<Response>,
    waiting: Option<WaitingCall>,
    middleware: &'static Middleware,
}

impl<Response: Send + 'static> Wake for Relay<Response> {
    fn wake(self: Arc<Self>) {
        self.poll();
    }
}

impl<Response: Send + 'static> Relay<Response> {
    fn poll(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        let mut context = Context::from_waker(&waker);
        let mut place = lock(&self.0);
        let Some(relayed) = place.as_mut() else { return };
        let response = Pin::new(&mut relayed.response).poll(&mut context);
        if response.is_pending() && poll_canceled(&mut relayed.sender, &mut context).is_pending() {
            return;
        }
        let relayed = place.take();
        drop(place); // released before code of the caller wakes below
        if let (Some(relayed), Poll::Ready(Ok((response, info)))) = (relayed, response) {
            respond(relayed.waiting, relayed.middleware, &info);
            send(relayed.sender, response, info);
        }
    }
}

/// Returns whether the caller has dropped its promise.
fn poll_canceled<Response>(
    sender: &mut AnyClientOutputSender<Response>,
    context: &mut Context<'_>,
) -> Poll<()> {
    match sender {
        AnyClientOutputSender::ResponseOnly(sender) => sender.poll_canceled(context),
        AnyClientOutputSender::WithId(sender) => sender.poll_canceled(context),
        AnyClientOutputSender::WithServiceInfo(sender) => sender.poll_canceled(context),
    }
}

fn send<Response>(sender: AnyClientOutputSender<Response>, response: Response, info: ServiceInfo) {
    match sender {
        AnyClientOutputSender::ResponseOnly(sender) => drop(sender.send(response)),
        AnyClientOutputSender::WithId(sender) => drop(sender.send((response, info.request_id))),
        AnyClientOutputSender::WithServiceInfo(sender) => drop(sender.send((response, info))),
    }
}
