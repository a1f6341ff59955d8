// SPDX-License-Identifier: Apache-2.0
//! Reads the generated interface crates on AMENT_PREFIX_PATH and writes tables of their content.
//!
//! With these tables, the tests cover all crates of the prefix, as they are on disk and not as the generator reports
//! them.

use std::{collections::BTreeMap, env, error::Error, fmt::Write, fs, path::PathBuf};

use syn::{Fields, Item, ItemStruct};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-env-changed=AMENT_PREFIX_PATH");
    let mut tables = Tables::default();
    for (package, crate_dir) in generated_crates()? {
        println!("cargo:rerun-if-changed={}", crate_dir.display());
        for namespace in ["msg", "srv", "action"] {
            for (layer, file) in [("", format!("{namespace}.rs")), ("::rmw", format!("{namespace}/rmw.rs"))] {
                if let Ok(text) = fs::read_to_string(crate_dir.join("src").join(file)) {
                    tables.add(&package, namespace, layer, &syn::parse_file(&text)?.items)?;
                }
            }
        }
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    fs::write(out.join("layouts.rs"), format!("&[\n{}]", tables.layouts))?;
    fs::write(out.join("samples.rs"), &tables.samples)?;
    let list = format!(
        "#[macro_export]\nmacro_rules! for_each_message {{ ($handle:ident) => {{ $handle! {{\n{}}} }} }}\n",
        tables.messages
    );
    fs::write(out.join("lists.rs"), list)?;
    Ok(())
}

/// Returns the crates that ros-env includes, by package. If several prefixes have a crate of the same package, returns
/// the crate of the first prefix.
fn generated_crates() -> Result<BTreeMap<String, PathBuf>, Box<dyn Error>> {
    let mut crates = BTreeMap::new();
    let path = env::var_os("AMENT_PREFIX_PATH").unwrap_or_default();
    for share in env::split_paths(&path).map(|prefix| prefix.join("share")).filter(|share| share.is_dir()) {
        for entry in fs::read_dir(share)? {
            let package = entry?;
            let crate_dir = package.path().join("rust");
            let manifest = fs::read_to_string(crate_dir.join("Cargo.toml")).unwrap_or_default();
            if manifest.contains("[package.metadata.ros-env]") && manifest.contains("include = true") {
                crates.entry(package.file_name().to_string_lossy().into_owned()).or_insert(crate_dir);
            }
        }
    }
    Ok(crates)
}

/// The tables, as Rust source.
#[derive(Default)]
struct Tables {
    layouts: String,
    samples: String,
    /// Entries `"pkg/msg/Name" => path,` of the messages in the namespace `msg`.
    messages: String,
}

impl Tables {
    fn add(
        &mut self,
        package: &str,
        namespace: &str,
        layer: &str,
        items: &[Item],
    ) -> Result<(), Box<dyn Error>> {
        for item in items {
            let Item::Struct(item) = item else { continue };
            if matches!(item.fields, Fields::Named(_)) {
                let ros_name = format!("{package}/{namespace}/{}", item.ident);
                let path = format!("ros_env::{package}::{namespace}{layer}::{}", item.ident);
                self.sample(&ros_name, &path, item)?;
                if layer == "::rmw" {
                    self.layout(&ros_name, &path, item)?;
                } else if namespace == "msg" {
                    writeln!(self.messages, "{ros_name:?} => {path},")?;
                }
            }
        }
        Ok(())
    }

    fn layout(&mut self, ros_name: &str, path: &str, item: &ItemStruct) -> Result<(), Box<dyn Error>> {
        let mut fields = String::new();
        for name in item.fields.iter().filter_map(|field| field.ident.as_ref()) {
            write!(fields, "(\"{name}\", offset_of!({path}, {name})),")?;
        }
        writeln!(self.layouts, "({ros_name:?}, size_of::<{path}>(), &[{fields}]),")?;
        Ok(())
    }

    fn sample(&mut self, ros_name: &str, path: &str, item: &ItemStruct) -> Result<(), Box<dyn Error>> {
        let (mut sample, mut json) = (String::new(), String::new());
        for name in item.fields.iter().filter_map(|field| field.ident.as_ref()).map(ToString::to_string) {
            // C needs this field in an otherwise empty structure. ROS does not have the field, so a middleware need not
            // transport it.
            if name == "structure_needs_at_least_one_member" {
                write!(sample, "{name}: default.{name},")?;
                continue;
            }
            let ros_field = name.strip_suffix('_').unwrap_or(&name);
            write!(sample, "{name}: Sample::sample_unlike(&default.{name}, source),")?;
            write!(json, "({ros_field:?}.to_owned(), self.{name}.to_json()),")?;
        }
        writeln!(
            self.samples,
            "impl Sample for {path} {{ \
               fn sample(source: &mut Source) -> Self {{ \
                   let default = Self::default(); let _ = &source; Self {{ {sample} }} }} \
               fn to_json(&self) -> Value {{ Value::Object(serde_json::Map::from_iter([{json}])) }} }} \
             impl Interface for {path} {{ const NAME: &'static str = {ros_name:?}; }}"
        )?;
        Ok(())
    }
}
