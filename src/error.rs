use rclrs::RclrsError;

/// Why statistics could not be set up. Nothing is created half-way.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatisticsError {
    /// The publisher of the statistics could not be created.
    #[error("The publisher of statistics on {topic:?} could not be created for the node {node:?}: {source}")]
    CreatePublisher {
        /// The topic that was to be published on.
        topic: String,
        /// The fully qualified name of the node.
        node: String,
        /// What rclrs says.
        source: RclrsError,
    },
    /// The timer that ends the windows could not be created.
    #[error(
        "The timer that ends the statistics' windows could not be created for the node {node:?}: {source}"
    )]
    CreateTimer {
        /// The fully qualified name of the node.
        node: String,
        /// What rclrs says.
        source: RclrsError,
    },
    /// The subscription could not be created.
    #[error(
        "The subscription of {topic:?} could not be created for the node {node:?} \
         (a topic name has letters, digits, '_' and '/', and no part that starts with a digit): {source}"
    )]
    CreateSubscription {
        /// The topic name as it was given.
        topic: String,
        /// The fully qualified name of the node.
        node: String,
        /// What rclrs says.
        source: RclrsError,
    },
}
