// SPDX-License-Identifier: Apache-2.0
//! Writes the types that represent a service or an action. These types have no fields. Like the types of
//! rosidl_generator_rs, these types derive no traits, so that code for these crates also builds with crates of
//! rosidl_generator_rs.

use super::{Layer, Scope};

impl Scope<'_> {
    pub(super) fn service(&self, name: &str, layer: Layer) -> String {
        let Self { package, namespace } = self;
        let c_name = self.c_name(name);
        let function = format!("rosidl_typesupport_c__get_service_type_support_handle__{c_name}()");
        let (declaration, type_support) = match layer {
            Layer::Idiomatic => {
                (String::new(), format!("<rmw::{name} as rosidl_runtime_rs::Service>::get_type_support()"))
            }
            Layer::Rmw => (
                format!(
                    r#"
#[link(name = "{package}__rosidl_typesupport_c")]
extern "C" {{
    fn {function} -> *const std::ffi::c_void;
}}
"#
                ),
                format!("// SAFETY: The function has no preconditions.\n        unsafe {{ {function} }}"),
            ),
        };
        format!(
            r#"{declaration}
/// `{package}/{namespace}/{name}`
#[allow(non_camel_case_types)]
pub struct {name};

impl rosidl_runtime_rs::Service for {name} {{
    type Request = {name}_Request;
    type Response = {name}_Response;

    fn get_type_support() -> *const std::ffi::c_void {{
        {type_support}
    }}
}}
"#
        )
    }

    pub(super) fn action(&self, name: &str) -> String {
        let Self { package, namespace } = self;
        let c_name = self.c_name(name);
        let module = |other: &str| if *package == other { "super".to_owned() } else { other.to_owned() };
        let uuid = format!("{}::msg::rmw::UUID", module("unique_identifier_msgs"));
        let time = format!("{}::msg::rmw::Time", module("builtin_interfaces"));
        let cancel = format!("{}::srv::rmw::CancelGoal", module("action_msgs"));
        format!(
            r#"
#[link(name = "{package}__rosidl_typesupport_c")]
extern "C" {{
    fn rosidl_typesupport_c__get_action_type_support_handle__{c_name}() -> *const std::ffi::c_void;
}}

/// `{package}/{namespace}/{name}`
#[allow(non_camel_case_types)]
pub struct {name};

impl rosidl_runtime_rs::Action for {name} {{
    type Goal = {name}_Goal;
    type Result = {name}_Result;
    type Feedback = {name}_Feedback;
    type FeedbackMessage = {name}_FeedbackMessage;
    type SendGoalService = {name}_SendGoal;
    type CancelGoalService = {cancel};
    type GetResultService = {name}_GetResult;

    fn get_type_support() -> *const std::ffi::c_void {{
        // SAFETY: The function has no preconditions.
        unsafe {{ rosidl_typesupport_c__get_action_type_support_handle__{c_name}() }}
    }}

    fn create_goal_request(goal_id: &[u8; 16], goal: rmw::{name}_Goal) -> rmw::{name}_SendGoal_Request {{
        rmw::{name}_SendGoal_Request {{ goal_id: {uuid} {{ uuid: *goal_id }}, goal }}
    }}

    fn split_goal_request(request: rmw::{name}_SendGoal_Request) -> ([u8; 16], rmw::{name}_Goal) {{
        (request.goal_id.uuid, request.goal)
    }}

    fn create_goal_response(accepted: bool, stamp: (i32, u32)) -> rmw::{name}_SendGoal_Response {{
        rmw::{name}_SendGoal_Response {{ accepted, stamp: {time} {{ sec: stamp.0, nanosec: stamp.1 }} }}
    }}

    fn get_goal_response_accepted(response: &rmw::{name}_SendGoal_Response) -> bool {{
        response.accepted
    }}

    fn get_goal_response_stamp(response: &rmw::{name}_SendGoal_Response) -> (i32, u32) {{
        (response.stamp.sec, response.stamp.nanosec)
    }}

    fn create_feedback_message(goal_id: &[u8; 16], feedback: rmw::{name}_Feedback) -> rmw::{name}_FeedbackMessage {{
        rmw::{name}_FeedbackMessage {{ goal_id: {uuid} {{ uuid: *goal_id }}, feedback }}
    }}

    fn split_feedback_message(feedback: rmw::{name}_FeedbackMessage) -> ([u8; 16], rmw::{name}_Feedback) {{
        (feedback.goal_id.uuid, feedback.feedback)
    }}

    fn create_result_request(goal_id: &[u8; 16]) -> rmw::{name}_GetResult_Request {{
        rmw::{name}_GetResult_Request {{ goal_id: {uuid} {{ uuid: *goal_id }} }}
    }}

    fn get_result_request_uuid(request: &rmw::{name}_GetResult_Request) -> &[u8; 16] {{
        &request.goal_id.uuid
    }}

    fn create_result_response(status: i8, result: rmw::{name}_Result) -> rmw::{name}_GetResult_Response {{
        rmw::{name}_GetResult_Response {{ status, result }}
    }}

    fn split_result_response(response: rmw::{name}_GetResult_Response) -> (i8, rmw::{name}_Result) {{
        (response.status, response.result)
    }}
}}
"#
        )
    }
}
