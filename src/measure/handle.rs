// SPDX-License-Identifier: Apache-2.0

//! What the handles of sources have in common.

/// Implements the methods of a handle that has a field `source`, or has it behind the fields that are named.
macro_rules! source_methods {
    ($name:ident $(<$($parameter:ident: $bound:path),+>)? $(, $field:tt)*) => {
        impl$(<$($parameter: $bound),+>)? $name$(<$($parameter),+>)? {
            /// Returns the `measurement_source_name` of its messages on `/statistics`.
            pub fn source_name(&self) -> &str {
                &self$(.$field)*.source.name
            }

            /// Returns the last finished window; None before the first one.
            pub fn latest(&self) -> Option<std::sync::Arc<topic_statistics_core::WindowStatistics>> {
                self$(.$field)*.source.latest()
            }

            /// Returns a receiver of its health; see
            /// [`MeasuredSubscriptionState::health`](crate::MeasuredSubscriptionState::health).
            pub fn health(&self) -> tokio::sync::watch::Receiver<topic_statistics_core::health::Health> {
                self$(.$field)*.source.health()
            }

            /// Returns a receiver of finished windows; see
            /// [`MeasuredSubscriptionState::watch`](crate::MeasuredSubscriptionState::watch).
            pub fn watch(
                &self,
            ) -> tokio::sync::watch::Receiver<Option<std::sync::Arc<topic_statistics_core::WindowStatistics>>>
            {
                self$(.$field)*.source.watch()
            }

            /// Enables or disables the statistics, or leaves that to the node; see
            /// [`MeasuredSubscriptionState::set_state`](crate::MeasuredSubscriptionState::set_state).
            pub fn set_state(&self, state: topic_statistics_core::TopicStatisticsState) {
                self$(.$field)*.source.set_state(state);
            }

            /// Returns whether the statistics are enabled.
            pub fn is_enabled(&self) -> bool {
                self$(.$field)*.source.collector.is_enabled()
            }
        }
    };
}

/// Likewise, and `Debug` for it.
macro_rules! source_handle {
    ($name:ident $(<$($parameter:ident: $bound:path),+>)? $(, $field:tt)*) => {
        crate::measure::handle::source_methods!($name $(<$($parameter: $bound),+>)? $(, $field)*);

        impl$(<$($parameter: $bound),+>)? std::fmt::Debug for $name$(<$($parameter),+>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("source_name", &self.source_name())
                    .field("is_enabled", &self.is_enabled())
                    .finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use {source_handle, source_methods};

use rclrs::log_error;
use topic_statistics_core::{
    record::windowed::{Collector, Windowed},
    Escaped,
};

/// Ends the statistics of a source whose callback is dropped. If it was replaced through rclrs's own handle, that is
/// reported: windows with a count of 0 would show silence.
pub(crate) fn end_with_callback<C: Collector>(collector: &Windowed<C>, name: &str) {
    if collector.end_with_callback() {
        let text = format!(
            "The callback of the {} {} was replaced through rclrs: it is not measured any more, and its \
             statistics have ended",
            C::KIND,
            Escaped(name)
        );
        tracing::error!("{text}");
        log_error!("topic_statistics", "{text}");
    }
}
