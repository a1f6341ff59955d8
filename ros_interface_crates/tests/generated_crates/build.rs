// SPDX-License-Identifier: Apache-2.0
//! Reads the generated interface crates on AMENT_PREFIX_PATH and writes tables of their content.
//!
//! The tests use these tables, so that they cover all crates of the prefix, as really generated and not as the
//! generator reports them.

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use quote::ToTokens;
use syn::{Fields, GenericArgument, ImplItem, Item, ItemStruct, PathArguments, Type};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-env-changed=AMENT_PREFIX_PATH");
    let prefixes: Vec<PathBuf> =
        env::split_paths(&env::var_os("AMENT_PREFIX_PATH").unwrap_or_default()).collect();
    let mut tables = Tables::default();
    for (package, crate_dir) in generated_crates(&prefixes)? {
        println!("cargo:rerun-if-changed={}", crate_dir.display());
        for namespace in ["msg", "srv", "action"] {
            let src = crate_dir.join("src");
            let idiomatic = src.join(format!("{namespace}.rs"));
            if idiomatic.is_file() {
                tables.add(&package, namespace, Layer::Idiomatic, &idiomatic)?;
                tables.add(&package, namespace, Layer::Rmw, &src.join(namespace).join("rmw.rs"))?;
            }
        }
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    fs::write(out.join("layouts.rs"), format!("&[\n{}]", tables.layouts))?;
    fs::write(out.join("samples.rs"), &tables.samples)?;
    fs::write(out.join("lists.rs"), tables.lists())?;
    Ok(())
}

/// The crates that ros-env includes, by package; the first prefix that has one provides it.
fn generated_crates(prefixes: &[PathBuf]) -> Result<BTreeMap<String, PathBuf>, Box<dyn Error>> {
    let mut crates = BTreeMap::new();
    for share in prefixes.iter().map(|prefix| prefix.join("share")).filter(|share| share.is_dir()) {
        for entry in fs::read_dir(share)? {
            let entry = entry?;
            let crate_dir = entry.path().join("rust");
            let Ok(manifest) = fs::read_to_string(crate_dir.join("Cargo.toml")) else { continue };
            let package = entry.file_name().to_string_lossy().into_owned();
            if manifest.contains("[package.metadata.ros-env]") && manifest.contains("include = true") {
                crates.entry(package).or_insert(crate_dir);
            }
        }
    }
    Ok(crates)
}

#[derive(Clone, Copy, PartialEq)]
enum Layer {
    Idiomatic,
    Rmw,
}

/// Rust source, table by table.
#[derive(Default)]
struct Tables {
    layouts: String,
    samples: String,
    /// Entries `"pkg/msg/Name" => path,` of the messages proper (those of namespace msg), in both layers.
    messages: String,
    rmw_messages: String,
    services: String,
}

impl Tables {
    fn add(
        &mut self,
        package: &str,
        namespace: &str,
        layer: Layer,
        file: &Path,
    ) -> Result<(), Box<dyn Error>> {
        let items = syn::parse_file(&fs::read_to_string(file)?)?.items;
        let module = match layer {
            Layer::Idiomatic => format!("ros_env::{package}::{namespace}"),
            Layer::Rmw => format!("ros_env::{package}::{namespace}::rmw"),
        };
        for item in &items {
            match item {
                Item::Struct(item) if matches!(item.fields, Fields::Named(_)) => {
                    let ros_name = format!("{package}/{namespace}/{}", item.ident);
                    let path = format!("{module}::{}", item.ident);
                    self.sample(&ros_name, &path, item, &constants_of(&items, item))?;
                    match layer {
                        Layer::Rmw => {
                            self.layout(package, namespace, &path, item)?;
                            writeln!(self.rmw_messages, "{ros_name:?} => {path},")?;
                        }
                        Layer::Idiomatic if namespace == "msg" => {
                            writeln!(self.messages, "{ros_name:?} => {path},")?
                        }
                        Layer::Idiomatic => {}
                    }
                }
                Item::Impl(item) if layer == Layer::Idiomatic => {
                    let Some((_, implemented, _)) = &item.trait_ else { continue };
                    let name = item.self_ty.to_token_stream();
                    let entry = format!("\"{package}/{namespace}/{name}\" => {module}::{name},\n");
                    match implemented.segments.last() {
                        Some(last) if last.ident == "Service" && namespace == "srv" => {
                            self.services += &entry
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn layout(
        &mut self,
        package: &str,
        namespace: &str,
        path: &str,
        item: &ItemStruct,
    ) -> Result<(), Box<dyn Error>> {
        let mut fields = String::new();
        for field in &item.fields {
            let name = field.ident.as_ref().ok_or("a field has no name")?;
            let kind = kind(package, &field.ty)?;
            write!(fields, "Field {{ name: \"{name}\", offset: offset_of!({path}, {name}), {kind} }},")?;
        }
        writeln!(
            self.layouts,
            "Layout {{ package: {package:?}, namespace: {namespace:?}, name: \"{}\", \
             size: size_of::<{path}>(), fields: &[{fields}] }},",
            item.ident
        )?;
        Ok(())
    }

    fn sample(
        &mut self,
        ros_name: &str,
        path: &str,
        item: &ItemStruct,
        constants: &[String],
    ) -> Result<(), Box<dyn Error>> {
        let (mut sample, mut json) = (String::new(), String::new());
        for field in &item.fields {
            let name = field.ident.as_ref().ok_or("a field has no name")?.to_string();
            // C needs it and ROS does not have it: no middleware promises to transport it.
            if name == "structure_needs_at_least_one_member" {
                write!(sample, "{name}: default.{name},")?;
                continue;
            }
            let ros_field = name.strip_suffix('_').unwrap_or(&name);
            write!(sample, "{name}: Sample::sample_unlike(&default.{name}, source),")?;
            write!(json, "({ros_field:?}.to_owned(), self.{name}.to_json()),")?;
        }
        let constants: String =
            constants.iter().map(|name| format!("({name:?}, {path}::{name}.to_json()),")).collect();
        writeln!(
            self.samples,
            "impl Sample for {path} {{ \
               fn sample(source: &mut Source) -> Self {{ \
                   let default = Self::default(); let _ = &source; Self {{ {sample} }} }} \
               fn to_json(&self) -> Value {{ Value::Object(serde_json::Map::from_iter([{json}])) }} }} \
             impl Interface for {path} {{ \
               const NAME: &'static str = {ros_name:?}; \
               fn constants() -> Vec<(&'static str, Value)> {{ vec![{constants}] }} }}"
        )?;
        Ok(())
    }

    /// Macros that hand every `"name" => type` of a kind to another macro.
    fn lists(&self) -> String {
        [
            ("for_each_message", &self.messages),
            ("for_each_rmw_message", &self.rmw_messages),
            ("for_each_service", &self.services),
        ]
        .iter()
        .map(|(name, entries)| {
            format!(
                "#[macro_export]\nmacro_rules! {name} {{ ($handle:ident) => {{ $handle! {{\n{entries}}} }} }}\n"
            )
        })
        .collect()
    }
}

/// The names of the constants of a structure.
fn constants_of(items: &[Item], structure: &ItemStruct) -> Vec<String> {
    items
        .iter()
        .filter_map(|item| match item {
            Item::Impl(item) if item.trait_.is_none() => Some(item),
            _ => None,
        })
        .filter(|item| matches!(&*item.self_ty, Type::Path(path) if path.path.is_ident(&structure.ident)))
        .flat_map(|item| &item.items)
        .filter_map(|item| match item {
            ImplItem::Const(constant) => Some(constant.ident.to_string()),
            _ => None,
        })
        .collect()
}

/// The fields `shape` and `element` of a table's `Field`.
fn kind(package: &str, ty: &Type) -> Result<String, Box<dyn Error>> {
    if let Type::Array(array) = ty {
        let length = array.len.to_token_stream();
        return Ok(format!("shape: Shape::Array({length}), element: {}", element(package, &array.elem)?));
    }
    let (name, arguments) = last_segment(ty)?;
    Ok(match (name.as_str(), &arguments[..]) {
        ("Sequence", [GenericArgument::Type(item)]) => {
            format!("shape: Shape::Sequence, element: {}", element(package, item)?)
        }
        ("BoundedSequence", [GenericArgument::Type(item), bound]) => format!(
            "shape: Shape::BoundedSequence({}), element: {}",
            bound.to_token_stream(),
            element(package, item)?
        ),
        _ => format!("shape: Shape::Single, element: {}", element(package, ty)?),
    })
}

fn element(package: &str, ty: &Type) -> Result<String, Box<dyn Error>> {
    let Type::Path(path) = ty else { return Err("a field's type is no path".into()) };
    let (name, arguments) = last_segment(ty)?;
    let segments: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let bound = arguments.first().map(|bound| bound.to_token_stream().to_string()).unwrap_or_default();
    Ok(match segments[..] {
        [primitive] => format!("Element::Primitive({primitive:?})"),
        ["rosidl_runtime_rs", "String"] => "Element::String(0)".to_owned(),
        ["rosidl_runtime_rs", "WString"] => "Element::WString(0)".to_owned(),
        ["rosidl_runtime_rs", "BoundedString"] => format!("Element::String({bound})"),
        ["rosidl_runtime_rs", "BoundedWString"] => format!("Element::WString({bound})"),
        ["super", "super", namespace, "rmw", _] => {
            format!("Element::Message(\"{package}__{namespace}\", {name:?})")
        }
        [other, namespace, "rmw", _] => format!("Element::Message(\"{other}__{namespace}\", {name:?})"),
        _ => return Err(format!("the type {} is unknown", path.to_token_stream()).into()),
    })
}

fn last_segment(ty: &Type) -> Result<(String, Vec<GenericArgument>), Box<dyn Error>> {
    let Type::Path(path) = ty else { return Err("a field's type is no path".into()) };
    let last = path.path.segments.last().ok_or("a path is empty")?;
    let arguments = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => arguments.args.iter().cloned().collect(),
        _ => Vec::new(),
    };
    Ok((last.ident.to_string(), arguments))
}
