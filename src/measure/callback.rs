// SPDX-License-Identifier: Apache-2.0

//! Wraps the callback of a subscription, in every form that rclrs takes, to measure its messages.

use std::{future::Future, pin::Pin, sync::Arc};

use rclrs::{
    AnySubscriptionCallback, IntoNodeSubscriptionCallback, IntoWorkerSubscriptionCallback, MessageInfo,
    NodeSubscriptionCallback, ReadOnlyLoanedMessage, WorkerSubscriptionCallback,
};
use rosidl_runtime_rs::Message;

use super::probe::Probe;

/// A form in which a callback takes a message of type `T`: the plain message, the boxed message, or the loaned message.
///
/// User code never needs to call this trait's methods, and cannot implement the trait.
pub trait MessageForm<T: Message>: sealed::Form<T> + Send + Sized + 'static {
    /// The message type of the rclrs subscription: the C layout of `T`, from which the stamp is read. After that, the
    /// message is converted to `T`, in the same way as by rclrs. For a loaned message, this type is `T` itself, because
    /// the C layout of a loaned message can be read directly.
    #[doc(hidden)]
    type Subscribed: Message;
    /// The type in which rclrs takes the message.
    #[doc(hidden)]
    type Taken: Taken<Self::Subscribed>;

    #[doc(hidden)]
    fn layout(taken: &Self::Taken) -> &T::RmwMsg;

    #[doc(hidden)]
    fn open(taken: Self::Taken) -> Self;
}

/// A bound of [`MessageForm`]. Other crates cannot name this trait, so they cannot implement `MessageForm`. (The other
/// traits of this file need no such bound, because their methods have types that other crates cannot name.)
mod sealed {
    use rclrs::ReadOnlyLoanedMessage;
    use rosidl_runtime_rs::Message;

    pub trait Form<T> {}
    impl<T: Message> Form<T> for T {}
    impl<T: Message> Form<T> for Box<T> {}
    impl<T: Message> Form<T> for ReadOnlyLoanedMessage<T> {}
}

type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A type in which rclrs takes messages of the type `M`.
pub trait Taken<M: Message>: Send + Sized + 'static {
    /// Returns the callback of a subscription on a node.
    fn node_callback(
        callback: impl FnMut(Self, MessageInfo) -> BoxFuture + Send + 'static,
    ) -> NodeSubscriptionCallback<M>;

    /// Returns the callback of a subscription on a worker.
    fn worker_callback<Payload: 'static>(
        callback: impl FnMut(&mut Payload, Self, MessageInfo) + Send + 'static,
    ) -> WorkerSubscriptionCallback<M, Payload>;
}

impl<M: Message> Taken<M> for M {
    fn node_callback(
        callback: impl FnMut(M, MessageInfo) -> BoxFuture + Send + 'static,
    ) -> NodeSubscriptionCallback<M> {
        NodeSubscriptionCallback::RegularWithMessageInfo(Box::new(callback))
    }

    fn worker_callback<Payload: 'static>(
        callback: impl FnMut(&mut Payload, M, MessageInfo) + Send + 'static,
    ) -> WorkerSubscriptionCallback<M, Payload> {
        WorkerSubscriptionCallback::RegularWithMessageInfo(Box::new(callback))
    }
}

impl<M: Message> Taken<M> for ReadOnlyLoanedMessage<M> {
    fn node_callback(
        callback: impl FnMut(Self, MessageInfo) -> BoxFuture + Send + 'static,
    ) -> NodeSubscriptionCallback<M> {
        NodeSubscriptionCallback::LoanedWithMessageInfo(Box::new(callback))
    }

    fn worker_callback<Payload: 'static>(
        callback: impl FnMut(&mut Payload, Self, MessageInfo) + Send + 'static,
    ) -> WorkerSubscriptionCallback<M, Payload> {
        WorkerSubscriptionCallback::LoanedWithMessageInfo(Box::new(callback))
    }
}

impl<T: Message> MessageForm<T> for T {
    type Subscribed = T::RmwMsg;
    type Taken = T::RmwMsg;

    fn layout(taken: &T::RmwMsg) -> &T::RmwMsg {
        taken
    }

    fn open(taken: T::RmwMsg) -> T {
        T::from_rmw_message(taken)
    }
}

impl<T: Message> MessageForm<T> for Box<T> {
    // One allocation: the message is boxed after the conversion. rclrs's own boxed callbacks take two allocations.
    type Subscribed = T::RmwMsg;
    type Taken = T::RmwMsg;

    fn layout(taken: &T::RmwMsg) -> &T::RmwMsg {
        taken
    }

    fn open(taken: T::RmwMsg) -> Box<T> {
        Box::new(T::from_rmw_message(taken))
    }
}

impl<T: Message> MessageForm<T> for ReadOnlyLoanedMessage<T> {
    type Subscribed = T;
    type Taken = Self;

    fn layout(taken: &Self) -> &T::RmwMsg {
        taken
    }

    fn open(taken: Self) -> Self {
        taken
    }
}

/// A wrapped callback in a form that rclrs takes.
#[allow(missing_debug_implementations)] // no other crate can name this type
pub struct Instrumented<Callback>(Callback);

impl<M: Message> IntoNodeSubscriptionCallback<M, Self> for Instrumented<NodeSubscriptionCallback<M>> {
    fn into_node_subscription_callback(self) -> AnySubscriptionCallback<M, ()> {
        self.0.into()
    }
}

impl<M, Payload> IntoWorkerSubscriptionCallback<M, Payload, Self>
    for Instrumented<WorkerSubscriptionCallback<M, Payload>>
where
    M: Message,
    Payload: 'static,
{
    fn into_worker_subscription_callback(self) -> AnySubscriptionCallback<M, Payload> {
        self.0.into()
    }
}

/// A callback of [`create_subscription`](crate::NodeStatistics::create_subscription): an [`Fn`] that takes the message
/// (plain, boxed or loaned), with or without [`MessageInfo`].
///
/// User code never needs to call this trait's methods, and cannot implement the trait.
pub trait InstrumentCallback<T: Message, Args>: Send + 'static {
    #[doc(hidden)]
    type Subscribed: Message;

    #[doc(hidden)]
    fn instrument(self, probe: Probe<T>) -> Instrumented<NodeSubscriptionCallback<Self::Subscribed>>;
}

/// Implements the trait for callbacks with these arguments.
macro_rules! callbacks {
    ($(($($Argument:ty),+): |$message:ident, $info:pat_param| $($passed:ident),+;)+) => {$(
        impl<T, Form, Func> InstrumentCallback<T, ($($Argument,)+)> for Func
        where
            T: Message,
            Form: MessageForm<T>,
            Func: Fn($($Argument),+) + Send + Sync + 'static,
        {
            type Subscribed = Form::Subscribed;

            fn instrument(self, probe: Probe<T>) -> Instrumented<NodeSubscriptionCallback<Form::Subscribed>> {
                instrument(probe, move |$message: Form, $info| self($($passed),+))
            }
        }

        impl<T, Form, Func, Out> InstrumentAsyncCallback<T, ($($Argument,)+)> for Func
        where
            T: Message,
            Form: MessageForm<T>,
            Func: FnMut($($Argument),+) -> Out + Send + 'static,
            Out: Future<Output = ()> + Send + 'static,
        {
            type Subscribed = Form::Subscribed;

            fn instrument_async(
                mut self,
                probe: Probe<T>,
            ) -> Instrumented<NodeSubscriptionCallback<Form::Subscribed>> {
                instrument_async(probe, move |$message: Form, $info| self($($passed),+))
            }
        }
    )+};
}

callbacks! {
    (Form): |message, _| message;
    (Form, MessageInfo): |message, info| message, info;
}

/// rclrs calls the inner function when it takes the message. The callback runs later, on the executor's thread.
fn instrument<T: Message, Form: MessageForm<T>>(
    probe: Probe<T>,
    callback: impl Fn(Form, MessageInfo) + Send + Sync + 'static,
) -> Instrumented<NodeSubscriptionCallback<Form::Subscribed>> {
    let shared = Arc::new((probe, callback));
    Instrumented(Form::Taken::node_callback(move |taken, info| {
        let received = shared.0.receive(|| Form::layout(&taken), &info);
        let message = Form::open(taken);
        let shared = Arc::clone(&shared);
        Box::pin(async move {
            let (probe, callback) = &*shared;
            let running = probe.start(received);
            callback(message, info);
            probe.end(running);
        })
    }))
}

/// A callback of [`create_async_subscription`](crate::NodeStatistics::create_async_subscription): an [`FnMut`] that
/// takes the message (plain, boxed or loaned), with or without [`MessageInfo`], and returns a future.
///
/// User code never needs to call this trait's methods, and cannot implement the trait.
pub trait InstrumentAsyncCallback<T: Message, Args>: Send + 'static {
    #[doc(hidden)]
    type Subscribed: Message;

    #[doc(hidden)]
    fn instrument_async(self, probe: Probe<T>) -> Instrumented<NodeSubscriptionCallback<Self::Subscribed>>;
}

/// rclrs creates the callback's future when it takes the message. The callback starts when this future is first polled.
fn instrument_async<T: Message, Form: MessageForm<T>, Out: Future<Output = ()> + Send + 'static>(
    probe: Probe<T>,
    mut callback: impl FnMut(Form, MessageInfo) -> Out + Send + 'static,
) -> Instrumented<NodeSubscriptionCallback<Form::Subscribed>> {
    let probe = Arc::new(probe);
    Instrumented(Form::Taken::node_callback(move |taken, info| {
        let received = probe.receive(|| Form::layout(&taken), &info);
        let future = callback(Form::open(taken), info);
        let probe = Arc::clone(&probe);
        Box::pin(async move {
            let running = probe.start(received);
            future.await;
            probe.end(running);
        })
    }))
}

/// A callback of [`create_worker_subscription`](crate::NodeStatistics::create_worker_subscription): an [`FnMut`] that
/// takes the message (plain, boxed or loaned), with or without [`MessageInfo`], and optionally `&mut Payload` as the
/// first argument.
///
/// User code never needs to call this trait's methods, and cannot implement the trait.
pub trait InstrumentWorkerCallback<T: Message, Payload: 'static, Args>: Send + 'static {
    #[doc(hidden)]
    type Subscribed: Message;

    #[doc(hidden)]
    fn instrument_worker(
        self,
        probe: Probe<T>,
    ) -> Instrumented<WorkerSubscriptionCallback<Self::Subscribed, Payload>>;
}

/// Marks callbacks that take the worker's payload as the first argument. User code never needs this type.
#[derive(Debug)]
pub struct WithPayload<Args>(std::marker::PhantomData<Args>);

/// Implements the trait for callbacks with these arguments. `$Marker` is the trait's `Args`.
macro_rules! worker_callbacks {
    ($(
        $Marker:ty:
            FnMut($($Argument:ty),+), |$payload:pat_param, $message:ident, $info:pat_param| $($passed:ident),+;
    )+) => {$(
        impl<T, Payload, Form, Func> InstrumentWorkerCallback<T, Payload, $Marker> for Func
        where
            T: Message,
            Payload: 'static,
            Form: MessageForm<T>,
            Func: FnMut($($Argument),+) + Send + 'static,
        {
            type Subscribed = Form::Subscribed;

            fn instrument_worker(
                mut self,
                probe: Probe<T>,
            ) -> Instrumented<WorkerSubscriptionCallback<Form::Subscribed, Payload>> {
                let callback = move |$payload: &mut Payload, $message: Form, $info| self($($passed),+);
                instrument_worker(probe, callback)
            }
        }
    )+};
}

worker_callbacks! {
    (Form,): FnMut(Form), |_, message, _| message;
    (Form, MessageInfo): FnMut(Form, MessageInfo), |_, message, info| message, info;
    WithPayload<(Form,)>: FnMut(&mut Payload, Form), |payload, message, _| payload, message;
    WithPayload<(Form, MessageInfo)>:
        FnMut(&mut Payload, Form, MessageInfo), |payload, message, info| payload, message, info;
}

/// The callback runs on the worker's thread, which also takes the message.
fn instrument_worker<T: Message, Payload: 'static, Form: MessageForm<T>>(
    probe: Probe<T>,
    mut callback: impl FnMut(&mut Payload, Form, MessageInfo) + Send + 'static,
) -> Instrumented<WorkerSubscriptionCallback<Form::Subscribed, Payload>> {
    Instrumented(Form::Taken::worker_callback(move |payload, taken, info| {
        let received = probe.receive(|| Form::layout(&taken), &info);
        let message = Form::open(taken);
        let running = probe.start(received);
        callback(payload, message, info);
        probe.end(running);
    }))
}
