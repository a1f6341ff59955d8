//! Interface packages as they are installed in a prefix.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{bail, ensure, Context, Result};
use ros2msg::{msg::types::Constant as ParsedConstant, msg::validation::PrimitiveValue};
use serde::Deserialize;

/// An interface package.
#[derive(Debug)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// By namespace: `msg`, `srv`, `action`.
    pub namespaces: BTreeMap<String, Namespace>,
}

/// The interfaces of one kind, with everything that they imply.
#[derive(Debug, Default)]
pub struct Namespace {
    pub messages: Vec<Message>,
    /// The names of services.
    pub services: Vec<String>,
    /// The names of actions.
    pub actions: Vec<String>,
}

/// A message, or the request, response, goal, ... of a service or an action.
#[derive(Debug)]
pub struct Message {
    pub name: String,
    pub fields: Vec<Field>,
    pub constants: Vec<Constant>,
}

#[derive(Debug)]
pub struct Field {
    pub name: String,
    pub ty: Type,
}

/// A constant, with its Rust type and its value as a Rust literal.
#[derive(Debug, PartialEq)]
pub struct Constant {
    pub name: String,
    pub ty: &'static str,
    pub value: String,
}

/// The type of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    One(Element),
    Array(Element, u64),
    BoundedSequence(Element, u64),
    Sequence(Element),
}

/// What a field holds one or many of.
#[derive(Debug, Clone, PartialEq)]
pub enum Element {
    /// A primitive, by its name in Rust.
    Primitive(&'static str),
    String,
    WString,
    BoundedString(u64),
    BoundedWString(u64),
    Message {
        package: String,
        namespace: String,
        name: String,
    },
}

impl Package {
    /// Reads a package from its prefix, with notes on what could not be read.
    pub fn read(prefix: &Path, name: &str) -> Result<(Package, Vec<String>)> {
        let share = prefix.join("share").join(name);
        let index = prefix.join("share/ament_index/resource_index/rosidl_interfaces").join(name);
        let listed =
            fs::read_to_string(&index).with_context(|| format!("Cannot read {}", index.display()))?;
        // The index lists files, several for an interface; the interface is their path without the extension.
        let interfaces: BTreeSet<&str> = listed
            .lines()
            .filter_map(|line| line.trim().rsplit_once('.'))
            .filter(|(_, extension)| ["json", "idl", "msg", "srv", "action"].contains(extension))
            .map(|(interface, _)| interface)
            .collect();

        let mut package =
            Package { name: name.to_owned(), version: version(&share)?, namespaces: BTreeMap::new() };
        let mut notes = vec![];
        for interface in interfaces {
            package
                .read_interface(&share, interface, &mut notes)
                .with_context(|| format!("The interface {name}/{interface} cannot be read"))?;
        }
        Ok((package, notes))
    }

    /// The other packages whose types this one's crate names.
    pub fn dependencies(&self) -> BTreeSet<String> {
        let mut packages = BTreeSet::new();
        for namespace in self.namespaces.values() {
            for field in namespace.messages.iter().flat_map(|message| &message.fields) {
                if let Element::Message { package, .. } = field.ty.element() {
                    packages.insert(package.clone());
                }
            }
            if !namespace.actions.is_empty() {
                // What the trait `Action` speaks of, whether a field does or not.
                packages.extend(
                    ["action_msgs", "builtin_interfaces", "unique_identifier_msgs"].map(String::from),
                );
            }
        }
        packages.remove(&self.name);
        packages
    }

    fn read_interface(&mut self, share: &Path, interface: &str, notes: &mut Vec<String>) -> Result<()> {
        let (namespace, name) = interface.rsplit_once('/').context("It has no namespace")?;
        let path = share.join(interface);
        let file = path.with_extension("json");
        let json = fs::read_to_string(&file).with_context(|| {
            format!(
                "{} is missing: only packages built for ROS 2 Iron or later have type descriptions",
                file.display()
            )
        })?;
        let file: TypeDescriptionFile = serde_json::from_str(&json)?;
        let TypeDescriptions { type_description: own, referenced_type_descriptions: referenced } =
            file.type_description_msg;
        let descriptions: BTreeMap<_, _> = referenced
            .iter()
            .map(|description| (description.type_name.as_str(), &description.fields))
            .collect();
        let mut constants = read_constants(share, interface, &self.name, name, notes)?;
        let message = |suffix: &str, constants: &mut BTreeMap<&str, Vec<Constant>>| {
            let name = format!("{name}{suffix}");
            let type_name = format!("{}/{namespace}/{name}", self.name);
            let fields =
                if suffix.is_empty() { Some(&&own.fields) } else { descriptions.get(type_name.as_str()) };
            let fields = fields.with_context(|| format!("Its type description lacks {type_name}"))?;
            let fields = fields.iter().map(FieldDescription::to_field).collect::<Result<_>>()?;
            Ok::<_, anyhow::Error>(Message {
                name,
                fields,
                constants: constants.remove(suffix).unwrap_or_default(),
            })
        };

        let parts: &[&str] = match namespace {
            "msg" => &[""],
            "srv" => &["_Request", "_Response"],
            "action" => &[
                "_Goal",
                "_Result",
                "_Feedback",
                "_FeedbackMessage",
                "_SendGoal_Request",
                "_SendGoal_Response",
                "_GetResult_Request",
                "_GetResult_Response",
            ],
            other => bail!("The namespace {other:?} is none of msg, srv, action"),
        };
        let messages = parts.iter().map(|part| message(part, &mut constants)).collect::<Result<Vec<_>>>()?;
        let entry = self.namespaces.entry(namespace.to_owned()).or_default();
        entry.messages.extend(messages);
        match namespace {
            "srv" => entry.services.push(name.to_owned()),
            "action" => {
                entry.services.extend([format!("{name}_SendGoal"), format!("{name}_GetResult")]);
                entry.actions.push(name.to_owned());
            }
            _ => {}
        }
        Ok(())
    }
}

impl Type {
    pub fn element(&self) -> &Element {
        let (Type::One(element)
        | Type::Array(element, _)
        | Type::BoundedSequence(element, _)
        | Type::Sequence(element)) = self;
        element
    }
}

/// The version in a package's manifest.
fn version(share: &Path) -> Result<String> {
    let path = share.join("package.xml");
    let xml = fs::read_to_string(&path).with_context(|| format!("Cannot read {}", path.display()))?;
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(&xml, options)?;
    let version = document.root_element().children().find(|node| node.has_tag_name("version"));
    let version = version.and_then(|node| node.text()).context("package.xml has no version")?;
    Ok(version.trim().to_owned())
}

/// The constants of an interface, by the suffix of the message that has them (`_Request` and the like).
fn read_constants<'a>(
    share: &Path,
    interface: &str,
    package: &str,
    name: &str,
    notes: &mut Vec<String>,
) -> Result<BTreeMap<&'a str, Vec<Constant>>> {
    let path = share.join(interface);
    let read = |extension: &str| fs::read_to_string(path.with_extension(extension));
    let constants = if let Ok(text) = read("msg") {
        let message = ros2msg::parse_message_string(package, name, &text)?;
        vec![("", message.constants)]
    } else if let Ok(text) = read("srv") {
        let service = ros2msg::parse_service_string(package, name, &text)?;
        vec![("_Request", service.request.constants), ("_Response", service.response.constants)]
    } else if let Ok(text) = read("action") {
        let action = ros2msg::parse_action_string(package, name, &text)?;
        vec![
            ("_Goal", action.goal.constants),
            ("_Result", action.result.constants),
            ("_Feedback", action.feedback.constants),
        ]
    } else {
        if read("idl").is_ok_and(|text| text.split_whitespace().any(|word| word == "const")) {
            notes.push(format!("the constants of {interface}, which is defined in IDL only, are left out"));
        }
        vec![]
    };
    constants
        .into_iter()
        .map(|(suffix, constants)| Ok((suffix, constants.iter().map(constant).collect::<Result<_>>()?)))
        .collect()
}

fn constant(parsed: &ParsedConstant) -> Result<Constant> {
    let ty = match parsed.type_name.as_str() {
        "string" | "wstring" => "&'static str",
        primitive => primitive_by_name(primitive)?,
    };
    let value = match &parsed.value {
        PrimitiveValue::Bool(value) => value.to_string(),
        PrimitiveValue::Int8(value) => value.to_string(),
        PrimitiveValue::UInt8(value) => value.to_string(),
        PrimitiveValue::Int16(value) => value.to_string(),
        PrimitiveValue::UInt16(value) => value.to_string(),
        PrimitiveValue::Int32(value) => value.to_string(),
        PrimitiveValue::UInt32(value) => value.to_string(),
        PrimitiveValue::Int64(value) => value.to_string(),
        PrimitiveValue::UInt64(value) => value.to_string(),
        PrimitiveValue::Float32(value) => format!("{value:?}"),
        PrimitiveValue::Float64(value) => format!("{value:?}"),
        PrimitiveValue::String(value) => format!("{value:?}"),
    };
    Ok(Constant { name: parsed.name.clone(), ty, value })
}

fn primitive_by_name(name: &str) -> Result<&'static str> {
    Ok(match name {
        "bool" => "bool",
        "byte" | "char" | "uint8" => "u8",
        "int8" => "i8",
        "int16" => "i16",
        "uint16" => "u16",
        "int32" => "i32",
        "uint32" => "u32",
        "int64" => "i64",
        "uint64" => "u64",
        "float32" => "f32",
        "float64" => "f64",
        other => bail!("{other} is no type of a constant"),
    })
}

/// `<interface>.json`, as rosidl_generator_type_description writes it.
#[derive(Deserialize)]
struct TypeDescriptionFile {
    type_description_msg: TypeDescriptions,
}

#[derive(Deserialize)]
struct TypeDescriptions {
    type_description: TypeDescription,
    referenced_type_descriptions: Vec<TypeDescription>,
}

#[derive(Deserialize)]
struct TypeDescription {
    type_name: String,
    fields: Vec<FieldDescription>,
}

#[derive(Deserialize)]
struct FieldDescription {
    name: String,
    #[serde(rename = "type")]
    ty: FieldType,
}

#[derive(Deserialize)]
struct FieldType {
    type_id: u64,
    capacity: u64,
    string_capacity: u64,
    nested_type_name: String,
}

impl FieldDescription {
    fn to_field(&self) -> Result<Field> {
        let ty = self.ty.to_type().with_context(|| format!("The field {} cannot be read", self.name))?;
        Ok(Field { name: self.name.clone(), ty })
    }
}

impl FieldType {
    /// By the numbers of type_description_interfaces/msg/FieldType.msg: single elements from 1, arrays from 49,
    /// bounded sequences from 97, unbounded ones from 145.
    fn to_type(&self) -> Result<Type> {
        ensure!((1..193).contains(&self.type_id), "type_id {} is unknown", self.type_id);
        let element = self.to_element(self.type_id % 48)?;
        Ok(match self.type_id / 48 {
            0 => Type::One(element),
            1 => Type::Array(element, self.capacity),
            2 => Type::BoundedSequence(element, self.capacity),
            _ => Type::Sequence(element),
        })
    }

    fn to_element(&self, type_id: u64) -> Result<Element> {
        Ok(match type_id {
            1 => {
                let parts: Vec<_> = self.nested_type_name.split('/').collect();
                let [package, namespace, name] = parts[..] else {
                    bail!("{:?} is no type name", self.nested_type_name);
                };
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
            12 => bail!("long double has no Rust type"),
            other => bail!("type_id {other} (of an element) is unknown"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ty(type_id: u64, capacity: u64, string_capacity: u64, nested: &str) -> Type {
        FieldType { type_id, capacity, string_capacity, nested_type_name: nested.to_owned() }
            .to_type()
            .unwrap()
    }

    #[test]
    fn every_kind_of_field_is_told_by_its_number() {
        let point = Element::Message {
            package: "geometry_msgs".into(),
            namespace: "msg".into(),
            name: "Point".into(),
        };
        assert_eq!(ty(15, 0, 0, ""), Type::One(Element::Primitive("bool")));
        assert_eq!(ty(48 + 11, 36, 0, ""), Type::Array(Element::Primitive("f64"), 36));
        assert_eq!(ty(96 + 21, 3, 10, ""), Type::BoundedSequence(Element::BoundedString(10), 3));
        assert_eq!(ty(144 + 22, 0, 5, ""), Type::Sequence(Element::BoundedWString(5)));
        assert_eq!(ty(144 + 1, 0, 0, "geometry_msgs/msg/Point"), Type::Sequence(point));
    }

    #[test]
    fn constants_of_every_type_become_rust_literals() {
        let text = "bool B=true\nbyte BY=255\nchar C=100\nint8 I8=-128\nuint8 U8=255\nint16 I16=-32768\nuint16 U16=65535\n\
            int32 I32=-2147483648\nuint32 U32=4294967295\nint64 I64=-9223372036854775808\n\
            uint64 U64=18446744073709551615\nfloat32 F32=-1.5\nfloat64 F64=1e20\nfloat64 WHOLE=3\n\
            string S=\"say \\\"hé\\\"\"\nwstring W=\"wide\"\n";
        let message = ros2msg::parse_message_string("p", "C", text).unwrap();
        let constants: Vec<_> = message
            .constants
            .iter()
            .map(|parsed| constant(parsed).unwrap())
            .map(|c| (c.ty, c.value))
            .collect();
        let expected = [
            ("bool", "true"),
            ("u8", "255"),
            ("u8", "100"),
            ("i8", "-128"),
            ("u8", "255"),
            ("i16", "-32768"),
            ("u16", "65535"),
            ("i32", "-2147483648"),
            ("u32", "4294967295"),
            ("i64", "-9223372036854775808"),
            ("u64", "18446744073709551615"),
            ("f32", "-1.5"),
            ("f64", "1e20"),
            ("f64", "3.0"),
            ("&'static str", r#""say \"hé\"""#),
            ("&'static str", r#""wide""#),
        ];
        assert_eq!(constants, expected.map(|(ty, value)| (ty, value.to_owned())));
    }
}
