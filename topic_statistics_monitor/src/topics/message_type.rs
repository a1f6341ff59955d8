// SPDX-License-Identifier: Apache-2.0

//! Message types that are known only at run time.

use rclrs::*;
use topic_statistics_observe::format::name;

/// Returns a depth that is enough for short delays of the monitor. Large messages must not fill the memory.
pub fn default_depth(structure: &MessageStructure) -> u32 {
    let has_bytes = structure.fields.iter().any(|field| {
        let is_byte =
            matches!(field.base_type, BaseType::Octet | BaseType::Uint8 | BaseType::Int8 | BaseType::Char);
        is_byte && matches!(field.value_kind, ValueKind::Sequence | ValueKind::BoundedSequence { .. })
    });
    if has_bytes {
        100
    } else {
        1000
    }
}

/// Returns why messages of a type cannot be received, and how the user can solve the problem.
pub fn explain(topic: &str, message_type: &str, error: &DynamicMessageError) -> String {
    let (topic, message_type) = (name(topic), name(message_type));
    let package = message_type.split('/').next().unwrap_or_default();
    match error {
        DynamicMessageError::InvalidMessageTypeSyntax { .. } => {
            format!("{topic} has the type {message_type}, which is no message type of ROS 2")
        }
        DynamicMessageError::InvalidMessageType => format!(
            "{topic} has the type {message_type}, which the local version of the package {package} lacks: source the \
             version that the publisher uses"
        ),
        error => format!(
            "{topic} has the type {message_type}, and the package {package} cannot be loaded ({error}): install \
             ros-{distro}-{debian}, or source the workspace that has {package}",
            // The text of the error contains the package's name from the network, so the text is escaped.
            error = name(&error.to_string()),
            distro = std::env::var("ROS_DISTRO").unwrap_or_else(|_| "$ROS_DISTRO".to_owned()),
            debian = package.replace('_', "-"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_messages_have_a_shorter_queue() {
        let depth = |name: &str| {
            let metadata = DynamicMessageMetadata::new(name.try_into().unwrap()).unwrap();
            default_depth(metadata.structure())
        };
        assert_eq!(depth("sensor_msgs/msg/Image"), 100);
        assert_eq!(depth("sensor_msgs/msg/Imu"), 1000);
    }

    #[test]
    fn a_type_from_the_network_is_escaped_wherever_it_is_written() {
        let hostile = "x\u{1b}[2J\n/msg/Foo";
        let type_name = MessageTypeName::try_from(hostile).unwrap();
        let error = DynamicMessageMetadata::new(type_name).map(drop).unwrap_err();
        let text = explain("/t\u{9b}2J", hostile, &error);
        assert!(!text.contains(char::is_control) && text.contains("x\\u{1b}[2J"), "{text}");
    }
}
