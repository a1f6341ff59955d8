// SPDX-License-Identifier: Apache-2.0

//! A parameter with a value that it cannot have.

use rclrs::DeclarationError;

/// A parameter with a value that it cannot have.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("The parameter {name} is {value}: it has to be {right}")]
pub struct InvalidParameter {
    /// The parameter.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// The valid values.
    pub right: String,
}

impl InvalidParameter {
    /// Returns the error of a parameter that cannot be declared.
    pub fn new(name: &'static str, error: &DeclarationError, right: &str) -> Self {
        Self { name, value: format!("invalid ({error})"), right: right.to_owned() }
    }
}
