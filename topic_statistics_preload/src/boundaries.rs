// SPDX-License-Identifier: Apache-2.0

//! Functions that show by being called that the calling thread's callback has returned: see `cause.rs` of the core.
//! Each of these functions records that the callback has returned, and calls the function with the same name in the
//! process's own libraries.
//!
//! rclcpp, rclpy and rclrs call these functions of rcl and rmw.

use std::ffi::c_void;

use crate::{
    abi::*,
    cause,
    hooks::note_taken,
    log::line,
    process::protect,
    real::{any, call, export, real},
    thread, timers,
};

export! {
    fn rmw_wait(
        subscriptions: *mut c_void,
        guard_conditions: *mut c_void,
        services: *mut c_void,
        clients: *mut c_void,
        events: *mut c_void,
        wait_set: *mut c_void,
        timeout: *const RmwTime,
    ) -> Ret {
        cause::end();
        call!(rmw_wait(subscriptions, guard_conditions, services, clients, events, wait_set, timeout))
    }

    fn rmw_trigger_guard_condition(guard_condition: *const c_void) -> Ret {
        cause::note(cause::Activity::trigger);
        call!(rmw_trigger_guard_condition(guard_condition))
    }

    fn rmw_take_event(event: *const c_void, info: *mut c_void, taken: *mut bool) -> Ret {
        cause::end();
        call!(rmw_take_event(event, info, taken))
    }

    fn rmw_take_dynamic_message(
        subscription: *const Endpoint, message: *mut c_void, taken: *mut bool, allocation: *mut c_void
    ) -> Ret {
        let result = call!(rmw_take_dynamic_message(subscription, message, taken, allocation));
        // SAFETY: rmw has accepted the arguments.
        unsafe { note_taken(result, taken) };
        result
    }

    fn rmw_take_dynamic_message_with_info(
        subscription: *const Endpoint,
        message: *mut c_void,
        taken: *mut bool,
        info: *mut MessageInfo,
        allocation: *mut c_void,
    ) -> Ret {
        let result =
            call!(rmw_take_dynamic_message_with_info(subscription, message, taken, info, allocation));
        // SAFETY: rmw has accepted the arguments.
        unsafe { note_taken(result, taken) };
        result
    }

    fn rcl_timer_call(timer: *mut c_void) -> Ret {
        cause::end();
        call!(rcl_timer_call(timer))
    }

    fn rcl_timer_call_with_info(timer: *mut c_void, info: *mut TimerCallInfo) -> Ret {
        cause::end();
        let result = call!(rcl_timer_call_with_info(timer, info));
        if result == OK {
            let _panic = protect(|| {
                // SAFETY: rcl has accepted the arguments, and has filled the info.
                if let Some(info) = unsafe { info.as_ref() } {
                    thread::with(|thread| timers::call(timer, info, thread.address()));
                }
            });
        }
        result
    }

    fn rcl_timer_fini(timer: *mut c_void) -> Ret {
        let _panic = protect(|| timers::end(timer));
        call!(rcl_timer_fini(timer))
    }
}
