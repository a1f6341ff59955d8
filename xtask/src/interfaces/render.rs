//! Interface packages as Rust source.
//!
//! Every message is written twice. The *rmw* type has the layout of the C struct that rosidl_generator_c makes, and its
//! C functions make, copy and drop what it owns. The *idiomatic* type has `String` and `Vec` and converts from and
//! to it. ros-env includes the files as `<package>::<namespace>` and `<package>::<namespace>::rmw`, with the packages
//! that they depend on in scope; `lib.rs` does the same for use as a crate on its own. What is Rust's own is named by
//! its whole path: a message may be called `Default` or `Vec`.

use super::model::{Constant, Element, Field, Message, Namespace, Package, Type};

/// The files of a package's crate, by their paths in it.
pub fn files(package: &Package) -> Vec<(String, String)> {
    let mut files = vec![
        ("Cargo.toml".to_owned(), cargo_toml(package)),
        ("build.rs".to_owned(), BUILD_RS.to_owned()),
        ("src/lib.rs".to_owned(), lib_rs(package)),
    ];
    for (name, namespace) in &package.namespaces {
        let scope = Scope { package: &package.name, namespace: name };
        files.push((format!("src/{name}.rs"), scope.idiomatic(namespace)));
        files.push((format!("src/{name}/rmw.rs"), scope.rmw(namespace)));
    }
    files
}

const BUILD_RS: &str = r#"fn main() {
    println!("cargo:rerun-if-env-changed=AMENT_PREFIX_PATH");
    for prefix in std::env::split_paths(&std::env::var_os("AMENT_PREFIX_PATH").unwrap_or_default()) {
        println!("cargo:rustc-link-search=native={}", prefix.join("lib").display());
    }
}
"#;

fn cargo_toml(package: &Package) -> String {
    let dependencies = package.dependencies();
    let versions: String = dependencies.iter().map(|name| format!("{name} = \"*\"\n")).collect();
    let features: String = dependencies.iter().map(|name| format!(", \"{name}/serde\"")).collect();
    let Package { name, version, .. } = package;
    format!(
        r#"[package]
name = "{name}"
version = "{version}"
edition = "2021"

[dependencies]
rosidl_runtime_rs = "0.7"
serde = {{ version = "1", optional = true, features = ["derive"] }}
serde-big-array = {{ version = "0.5.1", optional = true }}
{versions}
[features]
serde = ["dep:serde", "dep:serde-big-array", "rosidl_runtime_rs/serde"{features}]

[package.metadata.ros-env]
include = true
"#
    )
}

fn lib_rs(package: &Package) -> String {
    let mut text = "#![allow(missing_docs)]\n".to_owned();
    for namespace in package.namespaces.keys() {
        text += &format!(
            "\npub mod {namespace} {{\n    include!(\"{namespace}.rs\");\n    pub mod rmw {{\n        \
             include!(\"{namespace}/rmw.rs\");\n    }}\n}}\n"
        );
    }
    text
}

/// Rust's keywords, to which rosidl_generator_rs appends an underscore where a field or a constant has their name.
const KEYWORDS: [&str; 52] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "Self",
    "static", "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];

/// The name of a field or a constant in Rust.
fn rust_name(name: &str) -> String {
    if KEYWORDS.contains(&name) {
        format!("{name}_")
    } else {
        name.to_owned()
    }
}

/// Which of the two types of a message is meant.
#[derive(Clone, Copy, PartialEq)]
enum Layer {
    Idiomatic,
    Rmw,
}

/// How a value is at hand that is converted.
#[derive(Clone, Copy, PartialEq)]
enum Access {
    Owned,
    Borrowed,
}

/// The module whose file is written.
struct Scope<'a> {
    package: &'a str,
    namespace: &'a str,
}

impl Scope<'_> {
    fn rmw(&self, namespace: &Namespace) -> String {
        let mut text = String::new();
        for message in &namespace.messages {
            text += &self.rmw_message(message);
        }
        for service in &namespace.services {
            text += &self.service(service, Layer::Rmw);
        }
        text
    }

    fn idiomatic(&self, namespace: &Namespace) -> String {
        let mut text = String::new();
        for message in &namespace.messages {
            text += &self.idiomatic_message(message);
        }
        for service in &namespace.services {
            text += &self.service(service, Layer::Idiomatic);
        }
        for action in &namespace.actions {
            text += &self.action(action);
        }
        text
    }

    /// `<package>__<namespace>__<name>`, as in the names of the C functions.
    fn c_name(&self, name: &str) -> String {
        format!("{}__{}__{name}", self.package, self.namespace)
    }

    fn struct_of(&self, message: &Message, layer: Layer) -> String {
        let Self { package, namespace } = self;
        let Message { name, fields, constants } = message;
        let repr = if layer == Layer::Rmw { "#[repr(C)]\n" } else { "" };
        let fields: String = fields.iter().map(|field| self.field(field, layer)).collect();
        let constants: String = constants.iter().map(constant).collect();
        let constants = if constants.is_empty() {
            constants
        } else {
            format!("\n#[allow(non_upper_case_globals)]\nimpl {name} {{\n{constants}}}\n")
        };
        format!(
            r#"
/// {package}/{namespace}/{name}
#[allow(non_camel_case_types, non_snake_case)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
{repr}#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub struct {name} {{
{fields}}}
{constants}"#
        )
    }

    fn field(&self, field: &Field, layer: Layer) -> String {
        // serde itself has arrays of up to 32 elements.
        let serde = match field.ty {
            Type::Array(_, 33..) => {
                "    #[cfg_attr(feature = \"serde\", serde(with = \"serde_big_array::BigArray\"))]\n"
            }
            _ => "",
        };
        format!("{serde}    pub {}: {},\n", rust_name(&field.name), self.ty(&field.ty, layer))
    }

    fn ty(&self, ty: &Type, layer: Layer) -> String {
        let element = self.element(ty.element(), layer);
        match (ty, layer) {
            (Type::One(_), _) => element,
            (Type::Array(_, length), _) => format!("[{element}; {length}]"),
            // As in rosidl_generator_rs, a bounded sequence is one of rmw elements in both layers.
            (Type::BoundedSequence(element, bound), _) => {
                let element = self.element_from(element, Layer::Rmw, layer);
                format!("rosidl_runtime_rs::BoundedSequence<{element}, {bound}>")
            }
            (Type::Sequence(_), Layer::Idiomatic) => format!("std::vec::Vec<{element}>"),
            (Type::Sequence(_), Layer::Rmw) => format!("rosidl_runtime_rs::Sequence<{element}>"),
        }
    }

    fn element(&self, element: &Element, layer: Layer) -> String {
        self.element_from(element, layer, layer)
    }

    /// The type of an element in `layer`, as it is named in the file of the layer `file`.
    fn element_from(&self, element: &Element, layer: Layer, file: Layer) -> String {
        match (element, layer) {
            (Element::Primitive(name), _) => (*name).to_owned(),
            (Element::String | Element::WString, Layer::Idiomatic) => "std::string::String".to_owned(),
            (Element::String, Layer::Rmw) => "rosidl_runtime_rs::String".to_owned(),
            (Element::WString, Layer::Rmw) => "rosidl_runtime_rs::WString".to_owned(),
            (Element::BoundedString(bound), _) => format!("rosidl_runtime_rs::BoundedString<{bound}>"),
            (Element::BoundedWString(bound), _) => format!("rosidl_runtime_rs::BoundedWString<{bound}>"),
            (Element::Message { package, namespace, name }, _) => {
                let package = match file {
                    _ if package != self.package => package,
                    Layer::Idiomatic => "super",
                    Layer::Rmw => "super::super",
                };
                let rmw = if layer == Layer::Rmw { "rmw::" } else { "" };
                format!("{package}::{namespace}::{rmw}{name}")
            }
        }
    }

    fn rmw_message(&self, message: &Message) -> String {
        let Self { package, namespace } = self;
        let name = &message.name;
        let c_name = self.c_name(name);
        let structure = self.struct_of(message, Layer::Rmw);
        format!(
            r#"{structure}
#[link(name = "{package}__rosidl_typesupport_c")]
extern "C" {{
    fn rosidl_typesupport_c__get_message_type_support_handle__{c_name}() -> *const std::ffi::c_void;
}}

#[link(name = "{package}__rosidl_generator_c")]
extern "C" {{
    fn {c_name}__init(msg: *mut {name}) -> bool;
    fn {c_name}__Sequence__init(seq: *mut rosidl_runtime_rs::Sequence<{name}>, size: usize) -> bool;
    fn {c_name}__Sequence__fini(seq: *mut rosidl_runtime_rs::Sequence<{name}>);
    fn {c_name}__Sequence__copy(
        in_seq: *const rosidl_runtime_rs::Sequence<{name}>,
        out_seq: *mut rosidl_runtime_rs::Sequence<{name}>,
    ) -> bool;
}}

impl std::default::Default for {name} {{
    fn default() -> Self {{
        let mut message = std::mem::MaybeUninit::<Self>::zeroed();
        // SAFETY: The C function initialises the message that it gets in zeroed memory, with its default values.
        // All zeros is a valid message, too, so that there is one whatever the function does.
        unsafe {{
            if !{c_name}__init(message.as_mut_ptr()) {{
                panic!("{c_name}__init() failed: out of memory");
            }}
            message.assume_init()
        }}
    }}
}}

impl rosidl_runtime_rs::SequenceAlloc for {name} {{
    fn sequence_init(seq: &mut rosidl_runtime_rs::Sequence<Self>, size: usize) -> bool {{
        // SAFETY: The reference is a valid pointer to a sequence of the C layout.
        unsafe {{ {c_name}__Sequence__init(seq, size) }}
    }}

    fn sequence_fini(seq: &mut rosidl_runtime_rs::Sequence<Self>) {{
        // SAFETY: The reference is a valid pointer to a sequence of the C layout.
        unsafe {{ {c_name}__Sequence__fini(seq) }}
    }}

    fn sequence_copy(
        in_seq: &rosidl_runtime_rs::Sequence<Self>,
        out_seq: &mut rosidl_runtime_rs::Sequence<Self>,
    ) -> bool {{
        // SAFETY: The references are valid pointers to sequences of the C layout.
        unsafe {{ {c_name}__Sequence__copy(in_seq, out_seq) }}
    }}
}}

impl rosidl_runtime_rs::Message for {name} {{
    type RmwMsg = Self;

    fn into_rmw_message(message: std::borrow::Cow<'_, Self>) -> std::borrow::Cow<'_, Self> {{
        message
    }}

    fn from_rmw_message(message: Self) -> Self {{
        message
    }}
}}

impl rosidl_runtime_rs::RmwMessage for {name} {{
    const TYPE_NAME: &'static str = "{package}/{namespace}/{name}";

    fn get_type_support() -> *const std::ffi::c_void {{
        // SAFETY: The function has no preconditions.
        unsafe {{ rosidl_typesupport_c__get_message_type_support_handle__{c_name}() }}
    }}
}}
"#
        )
    }

    fn idiomatic_message(&self, message: &Message) -> String {
        let name = &message.name;
        let structure = self.struct_of(message, Layer::Idiomatic);
        let convert = |conversion: &dyn Fn(&str, &Type) -> String| -> String {
            let fields = message.fields.iter().map(|field| {
                let name = rust_name(&field.name);
                format!("            {name}: {},\n", conversion(&format!("message.{name}"), &field.ty))
            });
            fields.collect()
        };
        let owned = convert(&|value, ty| self.to_rmw(value, ty, Access::Owned));
        let borrowed = convert(&|value, ty| self.to_rmw(value, ty, Access::Borrowed));
        let from = convert(&|value, ty| self.to_idiomatic(value, ty));
        format!(
            r#"{structure}
impl std::default::Default for {name} {{
    fn default() -> Self {{
        <Self as rosidl_runtime_rs::Message>::from_rmw_message(<rmw::{name} as std::default::Default>::default())
    }}
}}

impl rosidl_runtime_rs::Message for {name} {{
    type RmwMsg = rmw::{name};

    fn into_rmw_message(message: std::borrow::Cow<'_, Self>) -> std::borrow::Cow<'_, Self::RmwMsg> {{
        std::borrow::Cow::Owned(match message {{
            std::borrow::Cow::Owned(message) => rmw::{name} {{
{owned}            }},
            std::borrow::Cow::Borrowed(message) => rmw::{name} {{
{borrowed}            }},
        }})
    }}

    fn from_rmw_message(message: Self::RmwMsg) -> Self {{
        Self {{
{from}        }}
    }}
}}
"#
        )
    }

    /// An expression for the rmw value of an idiomatic one.
    fn to_rmw(&self, value: &str, ty: &Type, access: Access) -> String {
        let element = ty.element();
        let same_in_both =
            matches!(element, Element::Primitive(_) | Element::BoundedString(_) | Element::BoundedWString(_));
        match (ty, access) {
            (Type::One(Element::Primitive(_)) | Type::Array(Element::Primitive(_), _), _) => value.to_owned(),
            (Type::BoundedSequence(..), Access::Owned) => value.to_owned(),
            (Type::BoundedSequence(..), Access::Borrowed) => format!("{value}.clone()"),
            // A slice is copied in one go.
            (Type::Sequence(Element::Primitive(_)), _) => format!("{value}.as_slice().into()"),
            (Type::One(_) | Type::Array(..), Access::Owned) if same_in_both => value.to_owned(),
            (Type::One(_) | Type::Array(..), Access::Borrowed) if same_in_both => format!("{value}.clone()"),
            (Type::One(_), Access::Owned) => self.element_to_rmw(value, element, access),
            (Type::One(_), Access::Borrowed) => self.element_to_rmw(&format!("&{value}"), element, access),
            (Type::Array(..), Access::Owned) => {
                format!("{value}.map(|element| {})", self.element_to_rmw("element", element, access))
            }
            (Type::Array(..), Access::Borrowed) => {
                format!(
                    "{value}.each_ref().map(|element| {})",
                    self.element_to_rmw("element", element, access)
                )
            }
            (Type::Sequence(_), Access::Owned) => {
                let converted = self.element_to_rmw("element", element, access);
                format!("{value}.into_iter().map(|element| {converted}).collect()")
            }
            (Type::Sequence(_), Access::Borrowed) => {
                let converted = self.element_to_rmw("element", element, access);
                format!("{value}.iter().map(|element| {converted}).collect()")
            }
        }
    }

    fn element_to_rmw(&self, value: &str, element: &Element, access: Access) -> String {
        match (element, access) {
            (Element::Message { .. }, _) => {
                let cow = if access == Access::Owned { "Owned" } else { "Borrowed" };
                let ty = self.element(element, Layer::Idiomatic);
                format!(
                    "<{ty} as rosidl_runtime_rs::Message>::into_rmw_message(std::borrow::Cow::{cow}({value})).into_owned()"
                )
            }
            (Element::String | Element::WString, _) => {
                format!("{}.as_str().into()", value.trim_start_matches('&'))
            }
            (_, Access::Owned) => value.to_owned(),
            (_, Access::Borrowed) => format!("{value}.clone()"),
        }
    }

    /// An expression for the idiomatic value of an rmw one.
    fn to_idiomatic(&self, value: &str, ty: &Type) -> String {
        let element = ty.element();
        let convert = match element {
            Element::Message { .. } => {
                format!(
                    "<{} as rosidl_runtime_rs::Message>::from_rmw_message",
                    self.element(element, Layer::Idiomatic)
                )
            }
            Element::String | Element::WString => "|element| element.to_string()".to_owned(),
            _ => String::new(),
        };
        match ty {
            Type::Sequence(Element::Primitive(_)) => format!("{value}.into()"),
            Type::Sequence(_) if convert.is_empty() => format!("{value}.into_iter().collect()"),
            Type::Sequence(_) => format!("{value}.into_iter().map({convert}).collect()"),
            Type::Array(..) if !convert.is_empty() => format!("{value}.map({convert})"),
            Type::One(Element::Message { .. }) => format!("{convert}({value})"),
            Type::One(Element::String | Element::WString) => format!("{value}.to_string()"),
            _ => value.to_owned(),
        }
    }

    fn service(&self, name: &str, layer: Layer) -> String {
        let Self { package, namespace } = self;
        let c_name = self.c_name(name);
        let name = name.to_owned();
        let type_support = match layer {
            Layer::Idiomatic => format!("<rmw::{name} as rosidl_runtime_rs::Service>::get_type_support()"),
            Layer::Rmw => format!(
                "// SAFETY: The function has no preconditions.\n        \
                 unsafe {{ rosidl_typesupport_c__get_service_type_support_handle__{c_name}() }}"
            ),
        };
        let declaration = match layer {
            Layer::Idiomatic => String::new(),
            Layer::Rmw => format!(
                r#"
#[link(name = "{package}__rosidl_typesupport_c")]
extern "C" {{
    fn rosidl_typesupport_c__get_service_type_support_handle__{c_name}() -> *const std::ffi::c_void;
}}
"#
            ),
        };
        format!(
            r#"{declaration}
/// {package}/{namespace}/{name}
#[allow(non_camel_case_types)]
#[derive(Clone, Debug, Default, PartialEq, PartialOrd)]
pub struct {name};

impl rosidl_runtime_rs::Service for {name} {{
    type Request = {name}_Request;
    type Response = {name}_Response;

    fn get_type_support() -> *const std::ffi::c_void {{
        {type_support}
    }}
}}
"#
        )
    }

    fn action(&self, name: &str) -> String {
        let Self { package, namespace } = self;
        let c_name = self.c_name(name);
        let of = |other: &str| if *package == other { "super".to_owned() } else { other.to_owned() };
        let uuid = format!("{}::msg::rmw::UUID", of("unique_identifier_msgs"));
        let time = format!("{}::msg::rmw::Time", of("builtin_interfaces"));
        let cancel = format!("{}::srv::rmw::CancelGoal", of("action_msgs"));
        format!(
            r#"
#[link(name = "{package}__rosidl_typesupport_c")]
extern "C" {{
    fn rosidl_typesupport_c__get_action_type_support_handle__{c_name}() -> *const std::ffi::c_void;
}}

/// {package}/{namespace}/{name}
#[derive(Clone, Debug, Default, PartialEq, PartialOrd)]
pub struct {name};

impl rosidl_runtime_rs::Action for {name} {{
    type Goal = {name}_Goal;
    type Result = {name}_Result;
    type Feedback = {name}_Feedback;
    type FeedbackMessage = {name}_FeedbackMessage;
    type SendGoalService = {name}_SendGoal;
    type CancelGoalService = {cancel};
    type GetResultService = {name}_GetResult;

    fn get_type_support() -> *const std::ffi::c_void {{
        // SAFETY: The function has no preconditions.
        unsafe {{ rosidl_typesupport_c__get_action_type_support_handle__{c_name}() }}
    }}

    fn create_goal_request(goal_id: &[u8; 16], goal: rmw::{name}_Goal) -> rmw::{name}_SendGoal_Request {{
        rmw::{name}_SendGoal_Request {{ goal_id: {uuid} {{ uuid: *goal_id }}, goal }}
    }}

    fn split_goal_request(request: rmw::{name}_SendGoal_Request) -> ([u8; 16], rmw::{name}_Goal) {{
        (request.goal_id.uuid, request.goal)
    }}

    fn create_goal_response(accepted: bool, stamp: (i32, u32)) -> rmw::{name}_SendGoal_Response {{
        rmw::{name}_SendGoal_Response {{ accepted, stamp: {time} {{ sec: stamp.0, nanosec: stamp.1 }} }}
    }}

    fn get_goal_response_accepted(response: &rmw::{name}_SendGoal_Response) -> bool {{
        response.accepted
    }}

    fn get_goal_response_stamp(response: &rmw::{name}_SendGoal_Response) -> (i32, u32) {{
        (response.stamp.sec, response.stamp.nanosec)
    }}

    fn create_feedback_message(goal_id: &[u8; 16], feedback: rmw::{name}_Feedback) -> rmw::{name}_FeedbackMessage {{
        rmw::{name}_FeedbackMessage {{ goal_id: {uuid} {{ uuid: *goal_id }}, feedback }}
    }}

    fn split_feedback_message(feedback: rmw::{name}_FeedbackMessage) -> ([u8; 16], rmw::{name}_Feedback) {{
        (feedback.goal_id.uuid, feedback.feedback)
    }}

    fn create_result_request(goal_id: &[u8; 16]) -> rmw::{name}_GetResult_Request {{
        rmw::{name}_GetResult_Request {{ goal_id: {uuid} {{ uuid: *goal_id }} }}
    }}

    fn get_result_request_uuid(request: &rmw::{name}_GetResult_Request) -> &[u8; 16] {{
        &request.goal_id.uuid
    }}

    fn create_result_response(status: i8, result: rmw::{name}_Result) -> rmw::{name}_GetResult_Response {{
        rmw::{name}_GetResult_Response {{ status, result }}
    }}

    fn split_result_response(response: rmw::{name}_GetResult_Response) -> (i8, rmw::{name}_Result) {{
        (response.status, response.result)
    }}
}}
"#
        )
    }
}

fn constant(constant: &Constant) -> String {
    format!("    pub const {}: {} = {};\n", rust_name(&constant.name), constant.ty, constant.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCOPE: Scope = Scope { package: "shapes", namespace: "msg" };

    fn message(package: &str) -> Element {
        Element::Message { package: package.into(), namespace: "msg".into(), name: "Point".into() }
    }

    fn types(ty: Type) -> [String; 2] {
        [SCOPE.ty(&ty, Layer::Idiomatic), SCOPE.ty(&ty, Layer::Rmw)]
    }

    #[test]
    fn messages_are_named_by_paths_that_hold_inside_ros_env() {
        assert_eq!(
            types(Type::One(message("shapes"))),
            ["super::msg::Point", "super::super::msg::rmw::Point"]
        );
        assert_eq!(types(Type::One(message("other"))), ["other::msg::Point", "other::msg::rmw::Point"]);
        assert_eq!(
            types(Type::BoundedSequence(message("shapes"), 4)),
            [
                "rosidl_runtime_rs::BoundedSequence<super::msg::rmw::Point, 4>",
                "rosidl_runtime_rs::BoundedSequence<super::super::msg::rmw::Point, 4>"
            ]
        );
    }

    #[test]
    fn strings_and_sequences_are_rusts_own_in_the_idiomatic_layer() {
        assert_eq!(
            types(Type::Sequence(Element::WString)),
            ["std::vec::Vec<std::string::String>", "rosidl_runtime_rs::Sequence<rosidl_runtime_rs::WString>"]
        );
        assert_eq!(
            types(Type::Array(Element::BoundedString(3), 2)),
            ["[rosidl_runtime_rs::BoundedString<3>; 2]", "[rosidl_runtime_rs::BoundedString<3>; 2]"]
        );
    }

    #[test]
    fn a_message_with_the_name_of_something_of_rusts_hides_nothing() {
        let field = Field { name: "items".into(), ty: Type::Sequence(Element::String) };
        let message = Message { name: "Default".into(), fields: vec![field], constants: vec![] };
        for text in [SCOPE.rmw_message(&message), SCOPE.idiomatic_message(&message)] {
            assert!(text.contains("impl std::default::Default for Default"), "{text}");
            assert!(!text.contains(" Vec<") && !text.contains("::Default::default())"), "{text}");
        }
    }

    #[test]
    fn a_field_that_is_a_keyword_gets_an_underscore() {
        let field = Field { name: "type".into(), ty: Type::One(Element::Primitive("u8")) };
        assert_eq!(SCOPE.field(&field, Layer::Rmw), "    pub type_: u8,\n");
        assert_eq!(rust_name("kind"), "kind");
    }

    #[test]
    fn serde_gets_help_with_arrays_of_more_than_32_elements() {
        let field = |length| Field { name: "k".into(), ty: Type::Array(Element::Primitive("f64"), length) };
        assert!(SCOPE.field(&field(33), Layer::Rmw).contains("serde_big_array::BigArray"));
        assert!(!SCOPE.field(&field(32), Layer::Rmw).contains("serde"));
    }
}
