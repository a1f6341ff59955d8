// SPDX-License-Identifier: Apache-2.0

//! Finds and reads the header stamp of a message. The position of the stamp follows from the definition of the message
//! type in the bag, or, for common types, from the name of the type.
//!
//! Only the stamp and the bytes before it are read. The fields before the header are skipped step by step: [`layout`]
//! computes the steps from definitions that [`msg`] and [`idl`] parse, and [`cdr`] executes the steps.

mod cdr;
mod idl;
mod known;
mod layout;
mod msg;

pub(crate) use layout::{HeaderStamp, Layout};

impl HeaderStamp {
    /// Finds the header in the definition of a type. `encoding` is the definition's encoding: `ros2msg` or `ros2idl`.
    ///
    /// If there is no readable definition, the header of a common type is found by the name of the type.
    pub(crate) fn find(message_type: &str, encoding: &str, definition: &str) -> Self {
        let name = layout::without_msg(message_type);
        let definitions = match encoding {
            "ros2msg" => msg::parse(&name, definition),
            "ros2idl" => idl::parse(definition),
            _ => None,
        };
        match layout::find(&definitions.unwrap_or_default(), &name) {
            Self::Unknown if known::has_first_header(&name) => Self::At(Layout::default()),
            found => found,
        }
    }
}

#[cfg(test)]
mod tests;
