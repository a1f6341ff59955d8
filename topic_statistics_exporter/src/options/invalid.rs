// SPDX-License-Identifier: Apache-2.0

//! The error for a ROS parameter with an invalid value.

use rclrs::DeclarationError;

/// The error for a ROS parameter with an invalid value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("The parameter {name} is {value}: it has to be {right}")]
pub struct InvalidParameter {
    /// The name of the parameter.
    pub name: &'static str,
    /// The invalid value, or the reason why the parameter cannot be declared.
    pub value: String,
    /// A text that describes the valid values.
    pub right: String,
}

impl InvalidParameter {
    /// Returns the error for a parameter that cannot be declared. `right` describes the valid values.
    pub fn new(name: &'static str, error: &DeclarationError, right: &str) -> Self {
        Self { name, value: format!("invalid ({error})"), right: right.to_owned() }
    }
}
