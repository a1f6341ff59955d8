// SPDX-License-Identifier: Apache-2.0

use super::{layout::Step, *};
use proptest::prelude::*;

const HEADER_MSG: &str = "\
================================================================================
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
";

fn msg(definition: &str) -> HeaderStamp {
    HeaderStamp::find("pkg/msg/Type", "ros2msg", &format!("{definition}{HEADER_MSG}"))
}

fn idl(fields: &str) -> HeaderStamp {
    let definition = format!(
        "================================================================================
IDL: pkg/msg/Type
#include \"std_msgs/msg/Header.idl\"
module pkg {{ module msg {{
  module Type_Constants {{ const long X = 3; @verbatim (language=\"comment\", text=\"a }} ; \\\" (\" \"b\") const string S = \";\"; }};
  typedef double double__9[9];
  typedef pkg::msg::Part Part__2[2];
  @verbatim (language=\"comment\", text=
    \"struct of (things)\" \"\\n\")
  struct Type {{
    {fields}
  }};
}}; }};
================================================================================
IDL: pkg/msg/Part
module pkg {{ module msg {{ struct Part {{ octet a; double b; }}; }}; }};
================================================================================
IDL: std_msgs/msg/Header
module std_msgs {{ module msg {{ struct Header {{ builtin_interfaces::msg::Time stamp; string frame_id; }}; }}; }};
"
    );
    HeaderStamp::find("pkg/msg/Type", "ros2idl", &definition)
}

fn steps(stamp: HeaderStamp) -> Vec<Step> {
    match stamp {
        HeaderStamp::At(layout) => layout.0.to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn fields_before_a_header_are_stepped_over() {
    let before = "uint8 a\nstring<=5 b 'x'\nfloat64[] c\nint16[3] d\nPart e\nPart[<=4] f\nstring[2] g\n\
                  std_msgs/Header header\n";
    let part = "================\nMSG: pkg/Part\nbyte a\nfloat64 b\n";
    let stamp = HeaderStamp::find("pkg/msg/Type", "ros2msg", &format!("{before}{part}{HEADER_MSG}"));
    let primitives = |size, count| Step::Primitives { size, count };
    let expected = [
        primitives(1, 1),
        Step::String,
        Step::Sequence { size: 8 },
        primitives(2, 3),
        primitives(1, 1),
        primitives(8, 1),
        Step::Repeat { steps: 2, times: None },
        primitives(1, 1),
        primitives(8, 1),
        Step::Repeat { steps: 1, times: Some(2) },
        Step::String,
    ];
    assert_eq!(steps(stamp), expected);
    let same =
        idl("octet a; string<5> b; sequence<double> c; @unit(value=\"m\") short d[3]; pkg::msg::Part e; \
         sequence<pkg::msg::Part, 4> f; string g[2]; std_msgs::msg::Header header;");
    assert_eq!(steps(same), expected);
    let typedefs = steps(idl("double__9 a; Part__2 b; unsigned long long c; std_msgs::msg::Header header;"));
    let expected = [
        primitives(8, 9),
        Step::Repeat { steps: 2, times: Some(2) },
        primitives(1, 1),
        primitives(8, 1),
        primitives(8, 1),
    ];
    assert_eq!(typedefs, expected);
}

#[test]
fn a_field_header_of_another_type_or_shape_is_none() {
    assert_eq!(msg("float64 header\n"), HeaderStamp::NoHeader);
    assert_eq!(msg("std_msgs/Header[] header\n"), HeaderStamp::NoHeader);
    assert_eq!(idl("double x;"), HeaderStamp::NoHeader);
}

#[test]
fn what_cannot_be_stepped_over_is_not_known() {
    assert_eq!(msg("wstring a\nstd_msgs/Header header\n"), HeaderStamp::Unknown);
    assert_eq!(msg("Missing a\nstd_msgs/Header header\n"), HeaderStamp::Unknown);
    assert_eq!(msg("pkg/Type a\nstd_msgs/Header header\n"), HeaderStamp::Unknown, "it contains itself");
    assert_eq!(msg("int32[x] a\n"), HeaderStamp::Unknown);
    assert_eq!(idl("map<long, long> a; std_msgs::msg::Header header;"), HeaderStamp::Unknown);
    assert_eq!(idl("long double a; std_msgs::msg::Header header;"), HeaderStamp::Unknown);
    let many = "int32 a\n".repeat(1000);
    assert_eq!(msg(&format!("{many}std_msgs/Header header\n")), HeaderStamp::Unknown);
    for encoding in ["", "unknown", "jsonschema", "protobuf"] {
        assert_eq!(
            HeaderStamp::find("pkg/msg/Type", encoding, "std_msgs/Header header"),
            HeaderStamp::Unknown
        );
    }
}

#[test]
fn types_that_everybody_has_are_known_by_their_names() {
    assert_eq!(steps(HeaderStamp::find("sensor_msgs/msg/Imu", "", "")), []);
    assert_eq!(steps(HeaderStamp::find("sensor_msgs/msg/Imu", "unknown", "?")), []);
    assert_eq!(HeaderStamp::find("tf2_msgs/msg/TFMessage", "", ""), HeaderStamp::Unknown);
    assert_eq!(steps(HeaderStamp::find("std_msgs/msg/Header", "", "")), []);
    // A definition in the file takes precedence over the list of common types.
    assert_eq!(HeaderStamp::find("sensor_msgs/msg/Imu", "ros2msg", "float64 x"), HeaderStamp::NoHeader);
}

/// Reads the stamp of a message with its encapsulation header.
fn read(layout: &Layout, message: &[u8]) -> Option<i64> {
    let (encapsulation, mut fields) = message.split_first_chunk()?;
    layout.read(*encapsulation, &mut fields)
}

#[test]
fn a_stamp_behind_other_fields_is_read() {
    let part = "====\nMSG: pkg/Part\nbyte a\nfloat64 b\n";
    let definition = format!("uint8 a\nstring b\nfloat64[] c\nPart[] parts\nstd_msgs/Header header\n{part}");
    let HeaderStamp::At(layout) = msg(&definition) else { panic!() };
    for is_little_endian in [true, false] {
        let mut message = vec![0, u8::from(is_little_endian), 0, 0];
        let number = |value: u32| if is_little_endian { value.to_le_bytes() } else { value.to_be_bytes() };
        message.extend([9, 0xee, 0xee, 0xee]); // a, and padding to 4 bytes
        message.extend([&number(3)[..], b"ab\0", &[0xee]].concat());
        message.extend([&number(1)[..], &[1; 8]].concat());
        message.extend([&number(2)[..], &[1], &[0xee; 3], &[1; 8], &[2], &[0xee; 7], &[2; 8]].concat());
        message.extend([number(7), number(5)].concat());
        assert_eq!(read(&layout, &message), Some(7_000_000_005), "{message:?}");
        for length in 0..message.len() {
            assert_eq!(read(&layout, &message[..length]), None, "{length}");
        }
    }
}

proptest! {
    #[test]
    fn any_definition_is_read_or_refused(
        text in "(uint8|string|Header|pkg/X|\\[|\\]|<=|=|\n|MSG: |====|#|module|struct|typedef|sequence|long|\\{|\\}|;|<|>|@|\\(|\\)|::|\"|//|/\\*|[a-z0-9,/ ]){0,60}",
        idl: bool,
    ) {
        HeaderStamp::find("pkg/msg/X", if idl { "ros2idl" } else { "ros2msg" }, &text);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let part = "====\nMSG: pkg/Part\nfloat64[] x\nstring[] y\n";
        let stamp = msg(&format!("string[] a\nPart[] b\nstd_msgs/Header header\n{part}"));
        let HeaderStamp::At(layout) = stamp else { panic!() };
        read(&layout, &[&[0, 1, 0, 0], &bytes[..]].concat());
    }
}

#[test]
fn a_message_that_claims_much_ends_soon() {
    let HeaderStamp::At(layout) = msg("Empty[] a\nstd_msgs/Header header\n====\nMSG: pkg/Empty\n") else {
        panic!()
    };
    let claims = [&[0, 1, 0, 0][..], &u32::MAX.to_le_bytes()].concat();
    assert_eq!(read(&layout, &claims), None);
}

/// The test fails if the parser calls itself for each of a million sequences, because the thread of a test has only 2
/// MiB stack.
#[test]
fn nested_sequences_are_refused() {
    let definition = format!("module p {{ struct T {{ {}", "sequence<".repeat(1 << 20));
    assert_eq!(HeaderStamp::find("p/msg/T", "ros2idl", &definition), HeaderStamp::Unknown);
}
