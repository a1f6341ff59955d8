// SPDX-License-Identifier: Apache-2.0
//! Reads the type description of an interface, `<interface>.json`.

use serde::Deserialize;

use crate::{
    model::{Element, Type},
    names::is_type_name,
};

/// The content of `<interface>.json`, written by rosidl_generator_type_description.
#[derive(Deserialize)]
pub struct TypeDescriptionFile {
    pub type_description_msg: TypeDescriptions,
    #[serde(default)]
    pub type_hashes: Vec<TypeHash>,
}

/// The hash `RIHS01_...` of the interface, or of a type that the interface contains.
#[derive(Deserialize)]
pub struct TypeHash {
    pub type_name: String,
    pub hash_string: String,
}

#[derive(Deserialize)]
pub struct TypeDescriptions {
    pub type_description: TypeDescription,
    pub referenced_type_descriptions: Vec<TypeDescription>,
}

#[derive(Deserialize)]
pub struct TypeDescription {
    pub type_name: String,
    pub fields: Vec<FieldDescription>,
}

#[derive(Deserialize)]
pub struct FieldDescription {
    pub name: String,
    #[serde(rename = "type")]
    pub ty: FieldType,
}

#[derive(Deserialize)]
pub struct FieldType {
    pub type_id: u64,
    pub capacity: u64,
    pub string_capacity: u64,
    pub nested_type_name: String,
}

impl FieldType {
    /// Returns the type. The numbers are from type_description_interfaces/msg/FieldType.msg: single elements start at
    /// 1, arrays at 49, bounded sequences at 97, unbounded sequences at 145.
    pub fn to_type(&self) -> Result<Type, String> {
        if !(1..193).contains(&self.type_id) {
            return Err(format!("type_id {} is unknown", self.type_id));
        }
        let element = self.to_element(self.type_id % 48)?;
        Ok(match self.type_id / 48 {
            0 => Type::One(element),
            1 => Type::Array(element, self.capacity),
            2 => Type::BoundedSequence(element, self.capacity),
            _ => Type::Sequence(element),
        })
    }

    fn to_element(&self, type_id: u64) -> Result<Element, String> {
        Ok(match type_id {
            1 => {
                let parts: Vec<_> = self.nested_type_name.split('/').collect();
                let [package, namespace, name] = parts[..] else {
                    return Err(format!("{:?} is not a type name", self.nested_type_name));
                };
                if !parts.iter().all(|part| is_type_name(part)) {
                    return Err(format!("{:?} is not a type name", self.nested_type_name));
                }
                Element::Message { package: package.into(), namespace: namespace.into(), name: name.into() }
            }
            2 => Element::Primitive("i8"),
            3 => Element::Primitive("u8"),
            4 => Element::Primitive("i16"),
            5 => Element::Primitive("u16"),
            6 => Element::Primitive("i32"),
            7 => Element::Primitive("u32"),
            8 => Element::Primitive("i64"),
            9 => Element::Primitive("u64"),
            10 => Element::Primitive("f32"),
            11 => Element::Primitive("f64"),
            13 => Element::Primitive("u8"),  // char
            14 => Element::Primitive("u16"), // wchar
            15 => Element::Primitive("bool"),
            16 => Element::Primitive("u8"), // byte
            17 => Element::String,
            18 => Element::WString,
            21 => Element::BoundedString(self.string_capacity),
            22 => Element::BoundedWString(self.string_capacity),
            12 => return Err("long double has no Rust type".to_owned()),
            other => return Err(format!("type_id {other} (of an element) is unknown")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_id_selects_the_type_of_a_field() {
        let point =
            Element::Message { package: "shapes".into(), namespace: "msg".into(), name: "Point".into() };
        for (type_id, expected) in [
            (15, Type::One(Element::Primitive("bool"))),
            (48 + 11, Type::Array(Element::Primitive("f64"), 36)),
            (96 + 21, Type::BoundedSequence(Element::BoundedString(5), 36)),
            (144 + 22, Type::Sequence(Element::BoundedWString(5))),
            (144 + 1, Type::Sequence(point)),
        ] {
            let nested_type_name = "shapes/msg/Point".to_owned();
            let ty = FieldType { type_id, capacity: 36, string_capacity: 5, nested_type_name };
            assert_eq!(ty.to_type(), Ok(expected));
        }
    }
}
