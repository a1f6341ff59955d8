// SPDX-License-Identifier: Apache-2.0
//! Writes the two types of a message, and the conversions between them.

use super::{rust_name, Access, Layer, Scope};
use crate::{
    doc,
    model::{Constant, Element, Field, Message, Type},
};

impl Scope<'_> {
    fn struct_of(&self, message: &Message, layer: Layer) -> String {
        let Self { package, namespace } = self;
        let Message { name, fields, constants, comment } = message;
        let repr = if layer == Layer::Rmw { "#[repr(C)]\n" } else { "" };
        let fields: String = fields.iter().map(|field| self.field(field, layer)).collect();
        let constants: String = constants.iter().map(constant).collect();
        let constants = if constants.is_empty() {
            constants
        } else {
            format!("\n#[allow(non_upper_case_globals)]\nimpl {name} {{\n{constants}}}\n")
        };
        let comment = match doc::comment(comment, "") {
            comment if comment.is_empty() => comment,
            comment => format!("///\n{comment}"),
        };
        format!(
            r#"
/// `{package}/{namespace}/{name}`
{comment}#[allow(non_camel_case_types, non_snake_case)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
{repr}#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub struct {name} {{
{fields}}}
{constants}"#
        )
    }

    pub(super) fn field(&self, field: &Field, layer: Layer) -> String {
        // serde supports arrays only up to 32 elements.
        let serde = match field.ty {
            Type::Array(_, 33..) => {
                "    #[cfg_attr(feature = \"serde\", serde(with = \"serde_big_array::BigArray\"))]\n"
            }
            _ => "",
        };
        let comment = doc::comment(&field.comment, "    ");
        format!("{comment}{serde}    pub {}: {},\n", rust_name(&field.name), self.ty(&field.ty, layer))
    }

    pub(super) fn rmw_message(&self, message: &Message) -> String {
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
        // All zeros is also a valid message, so the value is valid whatever the function does.
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

    pub(super) fn idiomatic_message(&self, message: &Message) -> String {
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

    /// Returns an expression that converts an idiomatic value to an rmw value.
    fn to_rmw(&self, value: &str, ty: &Type, access: Access) -> String {
        let element = ty.element();
        let is_same_in_both =
            matches!(element, Element::Primitive(_) | Element::BoundedString(_) | Element::BoundedWString(_));
        let copy = if access == Access::Owned { value.to_owned() } else { format!("{value}.clone()") };
        let convert = self.element_to_rmw("element", element, access);
        match (ty, access) {
            (Type::One(Element::Primitive(_)) | Type::Array(Element::Primitive(_), _), _) => value.to_owned(),
            // A slice of primitives is copied as a whole.
            (Type::Sequence(Element::Primitive(_)), _) => format!("{value}.as_slice().into()"),
            (Type::BoundedSequence(..), _) => copy,
            (Type::One(_) | Type::Array(..), _) if is_same_in_both => copy,
            (Type::One(_), Access::Owned) => self.element_to_rmw(value, element, access),
            (Type::One(_), Access::Borrowed) => self.element_to_rmw(&format!("&{value}"), element, access),
            (Type::Array(..), Access::Owned) => format!("{value}.map(|element| {convert})"),
            (Type::Array(..), Access::Borrowed) => format!("{value}.each_ref().map(|element| {convert})"),
            (Type::Sequence(_), Access::Owned) => {
                format!("{value}.into_iter().map(|element| {convert}).collect()")
            }
            (Type::Sequence(_), Access::Borrowed) => {
                format!("{value}.iter().map(|element| {convert}).collect()")
            }
        }
    }

    fn element_to_rmw(&self, value: &str, element: &Element, access: Access) -> String {
        match (element, access) {
            (Element::Message { .. }, _) => {
                let cow = if access == Access::Owned { "Owned" } else { "Borrowed" };
                let ty = self.element(element, Layer::Idiomatic);
                format!(
                    "<{ty} as rosidl_runtime_rs::Message>::\
                     into_rmw_message(std::borrow::Cow::{cow}({value})).into_owned()"
                )
            }
            (Element::String | Element::WString, _) => {
                format!("{}.as_str().into()", value.trim_start_matches('&'))
            }
            (_, Access::Owned) => value.to_owned(),
            (_, Access::Borrowed) => format!("{value}.clone()"),
        }
    }

    /// Returns an expression that converts an rmw value to an idiomatic value.
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
}

fn constant(constant: &Constant) -> String {
    let comment = doc::comment(&constant.comment, "    ");
    let name = rust_name(&constant.name);
    format!("{comment}    pub const {name}: {} = {};\n", constant.ty, constant.value)
}
