// SPDX-License-Identifier: Apache-2.0

//! The header stamp of a message, of whose type a bag has a definition, or only the name.
//!
//! Only the bytes before the stamp and the stamp itself are read. What comes before it is fixed or is walked over:
//! [`layout`] has the steps, from the definitions of [`msg`] and [`idl`]; [`cdr`] makes them.

mod cdr;
mod idl;
mod known;
mod layout;
mod msg;

pub(crate) use layout::{HeaderStamp, Layout};

use crate::topic::Stamps;

impl HeaderStamp {
    /// Finds the header in the definition of a type, in an encoding that rosbag2 and MCAP name.
    ///
    /// Without a definition that can be read, the types that everybody has are known by their names.
    pub(crate) fn find(message_type: &str, encoding: &str, definition: &str) -> Self {
        let name = layout::without_msg(message_type);
        let definitions = match encoding {
            "ros2msg" => msg::parse(&name, definition),
            "ros2idl" => idl::parse(definition),
            _ => None,
        };
        match layout::find(&definitions.unwrap_or_default(), &name) {
            Self::Unknown if known::FIRST_HEADER.binary_search(&&*name).is_ok() => {
                Self::At(Layout::default())
            }
            found => found,
        }
    }

    /// Returns where the stamp is. None if there is none, or if it is not known.
    pub(crate) fn layout(self) -> Option<Layout> {
        match self {
            Self::At(layout) => Some(layout),
            Self::NoHeader | Self::Unknown => None,
        }
    }

    /// Returns what is known of the stamps.
    pub(crate) fn stamps(&self) -> Stamps {
        match self {
            Self::At(_) => Stamps::Read,
            Self::NoHeader => Stamps::NoHeader,
            Self::Unknown => Stamps::Unknown,
        }
    }
}

#[cfg(test)]
mod tests;
