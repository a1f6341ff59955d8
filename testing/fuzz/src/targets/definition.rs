// SPDX-License-Identifier: Apache-2.0

//! Passes definitions of an interface to the generator of Rust crates.

use std::{collections::BTreeSet, path::Path};

use pulldown_cmark::{CodeBlockKind, Event, Tag};
use ros_interface_crates::{
    testing::{files, Message, Namespace, Package},
    Error,
};
use syn::visit::Visit;

use crate::check::has_no_control;

const SEPARATOR: &str = "%%";

/// The output must be Rust and TOML with only the definition's content: comments, names and values cannot inject code.
///
/// An input has four parts, separated by `%%`: the names of the package and of the interface, `package.xml`, the type
/// description, and the `.idl` file.
pub fn definition(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.splitn(4, SEPARATOR);
    let [names, manifest, description, idl] = [(); 4].map(|()| parts.next().unwrap_or_default());
    let (name, interface) = names.trim().split_once(' ').unwrap_or((names.trim(), "msg/Shape"));
    let package = Package::new(Path::new("/prefix"), name, manifest.trim()).and_then(|mut package| {
        package.add_interface(Path::new("/share"), interface, description, Ok(idl.to_owned()))?;
        Ok(package)
    });
    let package = match package {
        Ok(package) => package,
        Err(Error::Definition { reason, .. }) => return has_no_control(&reason, "an error"),
        Err(error) => panic!("{error}: no file is read"),
    };
    package.notes.iter().for_each(|note| has_no_control(note, "a note"));
    let files = files(&package);
    let size: usize = files.iter().map(|(_, content)| content.len()).sum();
    assert!(size < 200_000 + 500 * bytes.len(), "{size} bytes of {}", bytes.len());
    for (path, content) in &files {
        check_file(&package, path, content);
    }
}

fn check_file(package: &Package, path: &str, content: &str) {
    // rustc denies these characters in comments, because source code with them looks different from what it is.
    let is_wrong = |c: char| {
        (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!content.contains(is_wrong), "{path}: {content:?}");
    match path {
        "Cargo.toml" => manifest(package, content),
        "src/lib.rs" | "build.rs" => drop(parse(path, content)),
        _ if path.ends_with(".json") => {
            drop(serde_json::from_str::<serde_json::Value>(content).expect("JSON"))
        }
        _ => source(package, path, content),
    }
}

fn manifest(package: &Package, content: &str) {
    let table: toml::Table = toml::from_str(content).unwrap_or_else(|error| panic!("{error}: {content}"));
    let mut dependencies: BTreeSet<_> = package.dependencies().into_iter().collect();
    dependencies.extend(["rosidl_runtime_rs", "serde", "serde-big-array"].map(str::to_owned));
    let is = |table: &toml::Table, keys: &BTreeSet<String>| {
        assert!(table.keys().eq(keys.iter()), "{table:?} does not have the keys {keys:?}");
    };
    let set = |keys: &str| keys.split(' ').map(str::to_owned).collect::<BTreeSet<_>>();
    let part = |name: &str| table[name].as_table().expect("a table");
    is(&table, &set("dependencies features package"));
    is(part("package"), &set("edition metadata name version"));
    is(part("dependencies"), &dependencies);
    assert_eq!(part("package")["name"].as_str(), Some(&*package.name));
    assert_eq!(part("package")["version"].as_str(), Some(&*package.version));
}

fn parse(path: &str, content: &str) -> syn::File {
    syn::parse_file(content).unwrap_or_else(|error| panic!("{path}: {error}\n{content}"))
}

/// Panics if a file has other structures, fields or constants than the definitions of its namespace.
fn source(package: &Package, path: &str, content: &str) {
    let file = parse(path, content);
    let is_rmw = path.ends_with("/rmw.rs");
    let namespace = path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/rmw");
    let namespace: &Namespace = &package.namespaces[namespace];
    let mut messages = namespace.messages.iter();
    let mut others = namespace.services.iter().chain(namespace.actions.iter().filter(|_| !is_rmw));
    let mut with_constants = namespace.messages.iter().filter(|message| !message.constants.is_empty());
    for item in &file.items {
        match item {
            syn::Item::Struct(item) => match messages.next() {
                Some(message) => structure(item, message),
                None => assert_eq!(item.ident, others.next().expect("another structure"), "{content}"),
            },
            syn::Item::Impl(item) if item.trait_.is_none() => {
                let message = with_constants.next().expect("constants");
                assert_eq!(item.items.len(), message.constants.len(), "constants of {content}");
                for (item, constant) in item.items.iter().zip(&message.constants) {
                    let syn::ImplItem::Const(item) = item else { panic!("no constant: {content}") };
                    let name = item.ident.to_string();
                    assert_eq!(name.trim_end_matches('_'), constant.name.trim_end_matches('_'));
                    assert!(is_literal(&item.expr), "a value: {content}");
                }
            }
            syn::Item::Impl(_) | syn::Item::ForeignMod(_) => {}
            _ => panic!("an unexpected item in {path}: {content}"),
        }
    }
    let left = (messages.count(), others.count(), with_constants.count());
    assert_eq!(left, (0, 0, 0), "missing structures in {content}");
    Harmless { content }.visit_file(&file);
}

fn structure(item: &syn::ItemStruct, message: &Message) {
    assert_eq!(item.ident, message.name);
    assert_eq!(item.fields.len(), message.fields.len(), "fields of {}", message.name);
    for (field, expected) in item.fields.iter().zip(&message.fields) {
        let name = field.ident.as_ref().expect("a name").to_string();
        assert!(name == expected.name || name == format!("{}_", expected.name), "{name}");
        documentation(&field.attrs);
    }
    documentation(&item.attrs);
}

fn is_literal(expr: &syn::Expr) -> bool {
    match expr {
        syn::Expr::Lit(_) => true,
        syn::Expr::Unary(syn::ExprUnary { op: syn::UnOp::Neg(_), expr, .. }) => is_literal(expr),
        _ => false,
    }
}

/// Panics if documentation contains HTML, or code that rustdoc would run as a test.
fn documentation(attributes: &[syn::Attribute]) {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(name_value) if name_value.path.is_ident("doc") => match &name_value.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(line), .. }) => Some(line.value()),
            _ => panic!("documentation that is no text"),
        },
        _ => None,
    });
    let text: String = lines.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(&line))).collect();
    for event in pulldown_cmark::Parser::new_ext(&text, pulldown_cmark::Options::all()) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) if &*language == "text" => {}
            Event::Start(Tag::CodeBlock(_)) => panic!("a code block: {text}"),
            Event::Html(html) | Event::InlineHtml(html) => panic!("HTML {html:?}: {text}"),
            _ => {}
        }
    }
}

/// Panics at tokens that the generator's templates do not contain.
struct Harmless<'a> {
    content: &'a str,
}

impl<'ast> Visit<'ast> for Harmless<'_> {
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        let is_expected = ["allow", "cfg_attr", "derive", "doc", "link", "repr"]
            .iter()
            .any(|name| attribute.path().is_ident(name));
        assert!(is_expected && matches!(attribute.style, syn::AttrStyle::Outer), "{}", self.content);
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        assert!(invocation.path.is_ident("panic"), "an unexpected macro: {}", self.content);
    }

    fn visit_type_array(&mut self, array: &'ast syn::TypeArray) {
        assert!(is_literal(&array.len), "the length of an array: {}", self.content);
        syn::visit::visit_type_array(self, array);
    }

    fn visit_generic_argument(&mut self, argument: &'ast syn::GenericArgument) {
        match argument {
            syn::GenericArgument::Const(value) => assert!(is_literal(value), "{}", self.content),
            _ => syn::visit::visit_generic_argument(self, argument),
        }
    }
}
