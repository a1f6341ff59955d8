// SPDX-License-Identifier: Apache-2.0

//! The functions of rmw (see `rmw/rmw.h`) that this library exports. The host, which is the process with the nodes,
//! calls these functions in place of the functions with the same names in its own libraries.
//!
//! Each function calls the process's own function with the same arguments. During this call, no code of the statistics
//! is on the stack. So unwinding, for example when a thread is cancelled, works as without this library.

use std::{
    ffi::{c_char, c_void},
    mem::MaybeUninit,
    ptr::null_mut,
};

use topic_statistics_core::record::clock::monotonic;

use crate::{
    abi::*,
    cause::{self, Message},
    executor,
    log::line,
    messages::{record_published, record_taken, size, start_publication, Taken, UNKNOWN_SIZE},
    process::{
        forget, forget_node, forget_publisher, forget_subscription, measure, measured, measured_subscription,
        note_filter, protect, Created, CLIENTS, SERVICES,
    },
    real::{any, call, export, real},
};

/// Safety: `taken` must be null or valid.
unsafe fn has_taken(result: Ret, taken: *const bool) -> bool {
    // SAFETY: By contract.
    result == OK && unsafe { taken.as_ref() } == Some(&true)
}

/// Records the result of a take that is not measured: either a message was taken, or no message was available.
/// Safety: `taken` must be null or valid.
pub unsafe fn note_taken(result: Ret, taken: *const bool) {
    // SAFETY: By contract.
    match unsafe { has_taken(result, taken) } {
        true => cause::note(|activity| activity.take(Message::UNMEASURED)),
        false => cause::end(),
    }
}

/// Records the result of a take. `message` returns the message if one was taken.
/// Safety: The pointers must be the arguments of a take that rmw has accepted.
#[inline]
unsafe fn note_take<'a>(
    result: Ret,
    taken: *const bool,
    subscription: *const Endpoint,
    info: *const MessageInfo,
    message: impl FnOnce() -> Option<Taken<'a>>,
) {
    // SAFETY: By contract.
    let _panic = protect(|| unsafe {
        match has_taken(result, taken).then(message).flatten() {
            Some(message) => record_taken(subscription, &message, info.as_ref()),
            None => cause::end(),
        }
    });
}

export! {
    fn rmw_create_subscription(
        node: *const Node,
        type_support: *const TypeSupport,
        topic: *const c_char,
        qos: *const Qos,
        options: *const c_void,
    ) -> *mut Endpoint {
        let endpoint =
            call!(rmw_create_subscription(node, type_support, topic, qos, options) else null_mut());
        // SAFETY: These are the arguments and the result of a call of rmw.
        unsafe { measure(Created::subscription, node, type_support, topic, qos, endpoint) };
        endpoint
    }

    fn rmw_destroy_subscription(node: *mut Node, subscription: *mut Endpoint) -> Ret {
        let _panic = protect(|| {
            let ended = forget_subscription(subscription);
            ended.iter().flat_map(|ended| ended.callbacks.addresses()).for_each(executor::forget_callback);
        });
        call!(rmw_destroy_subscription(node, subscription))
    }

    fn rmw_subscription_set_content_filter(subscription: *mut Subscription, options: *const c_void) -> Ret {
        let result = call!(rmw_subscription_set_content_filter(subscription, options));
        let _panic = protect(|| note_filter(subscription.cast()));
        result
    }

    fn rmw_create_publisher(
        node: *const Node,
        type_support: *const TypeSupport,
        topic: *const c_char,
        qos: *const Qos,
        options: *const PublisherOptions,
    ) -> *mut Endpoint {
        let endpoint = call!(rmw_create_publisher(node, type_support, topic, qos, options) else null_mut());
        // SAFETY: These are the arguments and the result of a call of rmw.
        unsafe { measure(Created::publisher, node, type_support, topic, qos, endpoint) };
        endpoint
    }

    fn rmw_destroy_publisher(node: *mut Node, publisher: *mut Endpoint) -> Ret {
        let _panic = protect(|| forget_publisher(publisher));
        call!(rmw_destroy_publisher(node, publisher))
    }

    fn rmw_create_service(
        node: *const Node, type_support: *const c_void, name: *const c_char, qos: *const Qos
    ) -> *mut Endpoint {
        let endpoint = call!(rmw_create_service(node, type_support, name, qos) else null_mut());
        // SAFETY: These are the arguments and the result of a call of rmw.
        unsafe { measure(Created::service, node, type_support.cast(), name, qos, endpoint) };
        endpoint
    }

    fn rmw_destroy_service(node: *mut Node, service: *mut Endpoint) -> Ret {
        let _panic = protect(|| drop(forget(&SERVICES, service.addr())));
        call!(rmw_destroy_service(node, service))
    }

    fn rmw_create_client(
        node: *const Node, type_support: *const c_void, name: *const c_char, qos: *const Qos
    ) -> *mut Endpoint {
        let endpoint = call!(rmw_create_client(node, type_support, name, qos) else null_mut());
        // SAFETY: These are the arguments and the result of a call of rmw.
        unsafe { measure(Created::client, node, type_support.cast(), name, qos, endpoint) };
        endpoint
    }

    fn rmw_destroy_client(node: *mut Node, client: *mut Endpoint) -> Ret {
        let _panic = protect(|| drop(forget(&CLIENTS, client.addr())));
        call!(rmw_destroy_client(node, client))
    }

    fn rmw_destroy_node(node: *mut Node) -> Ret {
        let _panic = protect(|| forget_node(node));
        call!(rmw_destroy_node(node))
    }
}

/// Takes a message by the function `$plain`, which returns no message info. But for a measured subscription, calls
/// `$with_info` instead, because the statistics need the message info.
macro_rules! take {
    (
        $plain:ident or
        $with_info:ident($subscription:ident, $message:ident, $taken:ident, $allocation:ident)
    ) => {{
        if protect(|| measured_subscription($subscription).is_some()) != Some(true) {
            let result = call!($plain($subscription, $message, $taken, $allocation));
            // SAFETY: rmw has accepted the arguments.
            unsafe { note_taken(result, $taken) };
            return result;
        }
        let mut buffer = MaybeUninit::<MessageInfoBuffer>::zeroed();
        let info = buffer.as_mut_ptr().cast::<MessageInfo>();
        // SAFETY: The caller has passed the arguments, and the buffer has room for the info.
        unsafe { $with_info($subscription, $message, $taken, info, $allocation) }
    }};
}

export! {
    fn rmw_take(
        subscription: *const Endpoint, message: *mut c_void, taken: *mut bool, allocation: *mut c_void
    ) -> Ret {
        take!(rmw_take or rmw_take_with_info(subscription, message, taken, allocation))
    }

    fn rmw_take_with_info(
        subscription: *const Endpoint,
        message: *mut c_void,
        taken: *mut bool,
        info: *mut MessageInfo,
        allocation: *mut c_void,
    ) -> Ret {
        let result = call!(rmw_take_with_info(subscription, message, taken, info, allocation));
        // SAFETY: rmw has accepted the arguments, and has filled the message and the info.
        unsafe { note_take(result, taken, subscription, info, || Some(Taken::Message(message))) };
        result
    }

    fn rmw_take_sequence(
        subscription: *const Endpoint,
        count: usize,
        messages: *mut MessageSequence,
        infos: *mut c_void,
        taken: *mut usize,
        allocation: *mut c_void,
    ) -> Ret {
        let result = call!(rmw_take_sequence(subscription, count, messages, infos, taken, allocation));
        // SAFETY: rmw has accepted the arguments, and has filled `*taken` messages. The infos of the messages are not
        // read, because the size of an info depends on the ROS distribution.
        let _panic = protect(|| unsafe {
            if result == OK && !taken.is_null() && !messages.is_null() {
                for index in 0..*taken {
                    record_taken(subscription, &Taken::Message(*(*messages).data.add(index)), None);
                }
            }
        });
        result
    }

    fn rmw_take_serialized_message(
        subscription: *const Endpoint,
        message: *mut SerializedMessage,
        taken: *mut bool,
        allocation: *mut c_void,
    ) -> Ret {
        take!(rmw_take_serialized_message
            or rmw_take_serialized_message_with_info(subscription, message, taken, allocation))
    }

    fn rmw_take_serialized_message_with_info(
        subscription: *const Endpoint,
        message: *mut SerializedMessage,
        taken: *mut bool,
        info: *mut MessageInfo,
        allocation: *mut c_void,
    ) -> Ret {
        let result =
            call!(rmw_take_serialized_message_with_info(subscription, message, taken, info, allocation));
        // SAFETY: rmw has accepted the arguments, and has filled the message and the info.
        unsafe {
            note_take(result, taken, subscription, info, || {
                let SerializedMessage { buffer, length } = message.as_ref()?;
                (!buffer.is_null()).then(|| Taken::Serialized(std::slice::from_raw_parts(*buffer, *length)))
            });
        }
        result
    }

    fn rmw_take_loaned_message(
        subscription: *const Endpoint, message: *mut *mut c_void, taken: *mut bool, allocation: *mut c_void
    ) -> Ret {
        take!(rmw_take_loaned_message
            or rmw_take_loaned_message_with_info(subscription, message, taken, allocation))
    }

    fn rmw_take_loaned_message_with_info(
        subscription: *const Endpoint,
        message: *mut *mut c_void,
        taken: *mut bool,
        info: *mut MessageInfo,
        allocation: *mut c_void,
    ) -> Ret {
        let result = call!(rmw_take_loaned_message_with_info(subscription, message, taken, info, allocation));
        // SAFETY: rmw has accepted the arguments, and has loaned the message and filled the info.
        unsafe {
            let loaned = || message.as_ref().filter(|message| !message.is_null());
            note_take(result, taken, subscription, info, || loaned().map(|message| Taken::Message(*message)));
        }
        result
    }
}

macro_rules! publish {
    ($name:ident, $publisher:ident, $message:ident, $allocation:ident, $size:expr) => {{
        let started = protect(|| start_publication($publisher)).flatten();
        let result = call!($name($publisher, $message, $allocation));
        if let (OK, Some(started)) = (result, started) {
            let _panic = protect(|| record_published(&started, $size));
        }
        result
    }};
}

export! {
    fn rmw_publish(publisher: *const Endpoint, message: *const c_void, allocation: *mut c_void) -> Ret {
        publish!(rmw_publish, publisher, message, allocation, UNKNOWN_SIZE)
    }

    fn rmw_publish_loaned_message(
        publisher: *const Endpoint, message: *mut c_void, allocation: *mut c_void
    ) -> Ret {
        publish!(rmw_publish_loaned_message, publisher, message, allocation, UNKNOWN_SIZE)
    }

    fn rmw_publish_serialized_message(
        publisher: *const Endpoint, message: *const SerializedMessage, allocation: *mut c_void
    ) -> Ret {
        // SAFETY: rmw has accepted the message.
        publish!(rmw_publish_serialized_message, publisher, message, allocation, unsafe {
            message.as_ref().map_or(UNKNOWN_SIZE, |message| size(message.length))
        })
    }

    fn rmw_take_request(
        service: *const Endpoint, info: *mut ServiceInfo, request: *mut c_void, taken: *mut bool
    ) -> Ret {
        cause::end();
        let result = call!(rmw_take_request(service, info, request, taken));
        // SAFETY: rmw has accepted the arguments, and has filled the info.
        let _panic = protect(|| unsafe {
            if let (true, Some(info)) = (has_taken(result, taken), info.as_ref()) {
                measured(&SERVICES, service.addr()).inspect(|service| service.take(info));
            }
        });
        result
    }

    fn rmw_send_response(service: *const Endpoint, request: *mut RequestId, response: *mut c_void) -> Ret {
        // The callback's duration ends here, before the response is sent.
        let measured =
            protect(|| measured(&SERVICES, service.addr()).map(|service| (service, monotonic()))).flatten();
        let result = call!(rmw_send_response(service, request, response));
        if let Some((service, time)) = measured {
            // SAFETY: The caller has passed this pointer.
            let _panic = protect(|| match unsafe { request.as_ref() } {
                Some(request) if result == OK => service.respond(request, time),
                _ => {}
            });
        }
        result
    }

    fn rmw_send_request(client: *const Endpoint, request: *const c_void, number: *mut i64) -> Ret {
        let measured =
            protect(|| measured(&CLIENTS, client.addr()).map(|client| (client, client.begin()))).flatten();
        let result = call!(rmw_send_request(client, request, number));
        if let Some((client, began)) = measured {
            // SAFETY: The caller has passed the pointer. rmw has filled the number if the request was sent.
            let number = unsafe { number.as_ref() }.filter(|_| result == OK);
            let _panic = protect(|| client.sent(began, number.copied()));
        }
        result
    }

    fn rmw_take_response(
        client: *const Endpoint, info: *mut ServiceInfo, response: *mut c_void, taken: *mut bool
    ) -> Ret {
        cause::end();
        let result = call!(rmw_take_response(client, info, response, taken));
        // SAFETY: rmw has accepted the arguments, and has filled the info.
        let _panic = protect(|| unsafe {
            if let (true, Some(info)) = (has_taken(result, taken), info.as_ref()) {
                measured(&CLIENTS, client.addr()).inspect(|client| client.take(info));
            }
        });
        result
    }
}
