// SPDX-License-Identifier: Apache-2.0

//! The service `~/write_recording` of the type `std_srvs/srv/Trigger`.
//!
//! The type support is loaded when the program runs. If std_srvs is not installed, the program can still be built, and
//! runs without the service.

use std::{
    borrow::Cow,
    ffi::c_void,
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

use rclrs::{Node, WorkerService};
use rosidl_runtime_rs::{Message, RmwMessage, Service as ServiceType};

use crate::type_support::type_support;

const SERVICE: &str = "~/write_recording";

pub type Service = WorkerService<Trigger, ()>;

pub struct Trigger;

/// The C struct of an empty request, which has one byte, because C has no empty structs.
#[repr(C)]
#[derive(Clone, Debug, Default)]
pub struct Request {
    structure_needs_at_least_one_member: u8,
}

#[repr(C)]
#[derive(Clone, Debug, Default)]
pub struct Response {
    success: bool,
    message: rosidl_runtime_rs::String,
}

static TYPE_SUPPORT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

impl ServiceType for Trigger {
    type Request = Request;
    type Response = Response;

    fn get_type_support() -> *const c_void {
        TYPE_SUPPORT.load(Ordering::Acquire)
    }
}

macro_rules! message {
    ($message:ty, $name:literal) => {
        impl Message for $message {
            type RmwMsg = Self;

            fn into_rmw_message(message: Cow<'_, Self>) -> Cow<'_, Self> {
                message
            }

            fn from_rmw_message(message: Self) -> Self {
                message
            }
        }

        impl RmwMessage for $message {
            const TYPE_NAME: &'static str = $name;

            /// Returns null, because the type support of the service contains the type supports of its messages.
            fn get_type_support() -> *const c_void {
                ptr::null()
            }
        }
    };
}

message!(Request, "std_srvs/srv/Trigger_Request");
message!(Response, "std_srvs/srv/Trigger_Response");

/// Creates the service on a separate worker. `trigger` returns the message of the response. Errors with a reason if
/// std_srvs is not installed, or if the service cannot be created.
pub fn serve(node: &Node, trigger: impl Fn() -> String + Send + 'static) -> Result<Service, String> {
    let function = "get_service_type_support_handle";
    let type_support = type_support("std_srvs", "rosidl_typesupport_c", function, "srv__Trigger")
        .map_err(|reason| format!("the recording has no service {SERVICE}: {reason}"))?;
    TYPE_SUPPORT.store(type_support.cast_mut(), Ordering::Release);
    let service = node.create_worker(()).create_service(SERVICE, move |_: Request| Response {
        success: true,
        message: trigger().as_str().into(),
    });
    service.map_err(|error| format!("the recording has no service {SERVICE}: {error}"))
}
