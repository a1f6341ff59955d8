// SPDX-License-Identifier: Apache-2.0

//! Messages with their sender, number and stamp: the truth travels in the payload.

use ros_env::{
    builtin_interfaces::msg::Time, geometry_msgs::msg::PointStamped, sensor_msgs::msg::Image,
    std_msgs::msg::String as Text,
};
use rosidl_runtime_rs::Message;

/// The sender of a message, its number, and its stamp (ns; 0 without a header).
pub type Truth = (u32, u32, i64);

/// The same width for all numbers, so that all messages of a topic have one size.
fn text((incarnation, number, _): Truth) -> String {
    format!("{incarnation:05}/{number:09}")
}

fn parse(text: &str, stamp: i64) -> Truth {
    let (incarnation, number) = text.split_once('/').unwrap_or_default();
    (incarnation.parse().unwrap_or(0), number.parse().unwrap_or(0), stamp)
}

/// A message that carries its truth.
pub trait Payload: Message + Default {
    /// Fills the image's body of that number of bytes.
    fn body(&mut self, _bytes: usize) {}
    fn set(&mut self, truth: Truth);
    fn truth(&self) -> Truth;
}

const BILLION: i64 = 1_000_000_000;

macro_rules! with_header {
    ($($kind:ty { $($body:tt)* })*) => {$(
        impl Payload for $kind {
            $($body)*

            fn set(&mut self, truth: Truth) {
                self.header.frame_id = text(truth);
                let (sec, nanosec) = (truth.2.div_euclid(BILLION), truth.2.rem_euclid(BILLION));
                self.header.stamp = Time { sec: sec as i32, nanosec: nanosec as u32 };
            }

            fn truth(&self) -> Truth {
                let Time { sec, nanosec } = self.header.stamp;
                parse(&self.header.frame_id, i64::from(sec) * BILLION + i64::from(nanosec))
            }
        }
    )*};
}

with_header! {
    Image { fn body(&mut self, bytes: usize) { self.data = vec![7; bytes]; } }
    PointStamped {}
}

impl Payload for Text {
    fn set(&mut self, truth: Truth) {
        self.data = text(truth);
    }

    fn truth(&self) -> Truth {
        parse(&self.data, 0)
    }
}
