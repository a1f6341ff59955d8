// SPDX-License-Identifier: Apache-2.0

//! Messages with their sender, number and stamp: the truth travels in the payload.

use ros_env::{
    builtin_interfaces::msg::Time,
    diagnostic_msgs::msg::DiagnosticArray,
    geometry_msgs::msg::{PoseWithCovarianceStamped, TransformStamped, Twist},
    sensor_msgs::msg::{Image, Imu, JointState, LaserScan, NavSatFix, Range},
    std_msgs::msg::String as Text,
};
use rosidl_runtime_rs::Message;

/// The sender of a message, its number, and its stamp (ns; 0 without a header).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Truth {
    pub incarnation: u32,
    pub number: u32,
    pub stamp: i64,
}

/// The same width for all numbers, so that all messages of a topic have one size.
fn text(truth: &Truth) -> String {
    format!("{:05}/{:09}", truth.incarnation, truth.number)
}

fn parse(text: &str) -> Truth {
    let number =
        |part: std::ops::Range<usize>| text.get(part).and_then(|part| part.parse().ok()).unwrap_or(0);
    Truth { incarnation: number(0..5), number: number(6..15), stamp: 0 }
}

/// A message that carries its truth.
pub trait Payload: Message + Default {
    /// Fills the common fields of a topic's messages. `bytes` is the size of an image.
    fn body(&mut self, _bytes: usize) {}
    fn set(&mut self, truth: &Truth);
    fn truth(&self) -> Truth;
}

const BILLION: i64 = 1_000_000_000;

macro_rules! with_header {
    ($($kind:ty $(, |$message:ident, $bytes:ident| $body:expr)?;)*) => {$(
        impl Payload for $kind {
            $(fn body(&mut self, $bytes: usize) {
                let $message = self;
                $body
            })?

            fn set(&mut self, truth: &Truth) {
                self.header.frame_id = text(truth);
                let (sec, nanosec) = (truth.stamp.div_euclid(BILLION), truth.stamp.rem_euclid(BILLION));
                self.header.stamp = Time { sec: sec as i32, nanosec: nanosec as u32 };
            }

            fn truth(&self) -> Truth {
                let Time { sec, nanosec } = self.header.stamp;
                let stamp = i64::from(sec) * BILLION + i64::from(nanosec);
                Truth { stamp, ..parse(&self.header.frame_id) }
            }
        }
    )*};
}

with_header! {
    Image, |message, bytes| message.data = vec![7; bytes];
    LaserScan, |message, _bytes| message.ranges = vec![1.0; 1080];
    Imu;
    JointState, |message, _bytes| {
        message.name = (0..12).map(|joint| format!("joint_{joint:02}")).collect();
        for values in [&mut message.position, &mut message.velocity, &mut message.effort] {
            *values = vec![0.5; 12];
        }
    };
    TransformStamped;
    PoseWithCovarianceStamped;
    Range;
    NavSatFix;
    DiagnosticArray;
}

impl Payload for Twist {
    fn set(&mut self, truth: &Truth) {
        (self.linear.x, self.linear.y) = (f64::from(truth.number), f64::from(truth.incarnation));
    }

    fn truth(&self) -> Truth {
        Truth { incarnation: self.linear.y as u32, number: self.linear.x as u32, stamp: 0 }
    }
}

impl Payload for Text {
    fn set(&mut self, truth: &Truth) {
        self.data = text(truth);
    }

    fn truth(&self) -> Truth {
        parse(&self.data)
    }
}

/// Calls a generic function for the type of a topic.
macro_rules! for_kind {
    ($kind:expr, $function:ident $arguments:tt) => {{
        use $crate::robot::scenario::Kind;
        use ros_env::{diagnostic_msgs::msg as diagnostic, geometry_msgs::msg as geometry, sensor_msgs::msg as sensor};
        match $kind {
            Kind::Image | Kind::Map => $function::<sensor::Image> $arguments,
            Kind::Scan => $function::<sensor::LaserScan> $arguments,
            Kind::Imu => $function::<sensor::Imu> $arguments,
            Kind::Joints => $function::<sensor::JointState> $arguments,
            Kind::Transform => $function::<geometry::TransformStamped> $arguments,
            Kind::Odometry => $function::<geometry::PoseWithCovarianceStamped> $arguments,
            Kind::Command => $function::<geometry::Twist> $arguments,
            Kind::Description => $function::<ros_env::std_msgs::msg::String> $arguments,
            Kind::Range => $function::<sensor::Range> $arguments,
            Kind::Fix => $function::<sensor::NavSatFix> $arguments,
            Kind::Diagnostics => $function::<diagnostic::DiagnosticArray> $arguments,
        }
    }};
}
pub(crate) use for_kind;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_truth_comes_back_from_a_message() {
        let truth = Truth { incarnation: 7, number: 1_800_000, stamp: 1_700_000_000_123_456_789 };
        let mut imu = Imu::default();
        imu.set(&truth);
        assert_eq!(imu.truth(), truth);
        let (mut command, mut text) = (Twist::default(), Text::default());
        command.set(&truth);
        text.set(&truth);
        assert_eq!([command.truth(), text.truth()], [Truth { stamp: 0, ..truth }; 2]);
    }
}
