// SPDX-License-Identifier: Apache-2.0

//! Circles between the modules of a crate, and imports against the order that its root states.
//!
//! A file depends on another file if its code names an item of it. A re-export is no dependency: an item that is named
//! through it counts for the file that defines it. Tests are exempt.
//!
//! A folder is a module with its child modules. In each folder, its own file (`mod.rs`) and each child, with everything
//! below it, are the nodes of a graph without circles. So neither files nor folders depend on each other in a circle.
//!
//! The documentation of a root may state an order: "imports only from modules that are later in this list: a, b, c."

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};
use syn::{ext::IdentExt, visit::Visit, Attribute, Item, ItemMod, ItemUse, UseTree, Visibility};

/// The names of a path: `crate`, `record`, `Source`.
type Names = Vec<String>;

/// A circle of two files or folders, or of more; or a single dependency against the stated order.
#[derive(Debug, PartialEq, Eq)]
pub struct Circle(Vec<Dependency>);

/// A dependency of a file on another one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Dependency {
    from: PathBuf,
    to: PathBuf,
    /// The path of the item, as the code has it.
    item: String,
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.len() == 1 { "against the order of the modules:" } else { "a circle:" })?;
        self.0.iter().try_for_each(|Dependency { from, to, item }| {
            write!(f, "\n  {} uses {item} of {}", from.display(), to.display())
        })
    }
}

/// Returns the circles of the crate with this root, `src/lib.rs` or `src/main.rs`.
pub fn find(root: &Path) -> Result<Vec<Circle>> {
    let mut modules = Modules::default();
    modules.read(vec![], root, &root.with_file_name(""))?;
    let dependencies = modules.dependencies();
    let folders = modules.0.iter().filter(|(_, module)| !module.children.is_empty());
    let mut found: Vec<_> = folders.flat_map(|(folder, _)| circles(folder, &dependencies)).collect();
    let text = fs::read_to_string(root).with_context(|| format!("Cannot read {}", root.display()))?;
    let order = stated_order(&text);
    let place = |module: &Names| order.iter().position(|name| module.first() == Some(name));
    let is_against =
        |from: &Names, to: &Names| place(from).zip(place(to)).is_some_and(|(from, to)| to < from);
    let against = dependencies.into_iter().filter(|(from, to, _)| is_against(from, to));
    found.extend(against.map(|(_, _, dependency)| Circle(vec![dependency])));
    Ok(found)
}

/// Returns the names of modules in the order that the documentation of a root states; none if it states no order.
fn stated_order(root: &str) -> Names {
    let documentation: Vec<_> = root.lines().filter_map(|line| line.strip_prefix("//!")).collect();
    let documentation = documentation.join(" ");
    let list = documentation.split_once("later in this list:").map_or("", |(_, list)| list);
    let list = list.split('.').next().unwrap_or_default();
    list.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// A module with its file, or with the file in which it stands.
#[derive(Default)]
struct Module {
    file: PathBuf,
    children: BTreeSet<String>,
    /// The names of its own items.
    items: BTreeSet<String>,
    /// The names that `use` brings, with their paths.
    imports: BTreeMap<String, Names>,
    /// The modules that `use` imports as a whole (`use module::*`).
    globs: Vec<Names>,
    /// The paths in its code.
    paths: BTreeSet<Names>,
}

/// The modules of a crate, by path.
#[derive(Default)]
struct Modules(BTreeMap<Names, Module>);

/// What a path names.
enum Named {
    Module(Names),
    /// An item of a module.
    Item(Names),
}

impl Modules {
    /// Reads a module from its file. Its child modules are in `directory`.
    fn read(&mut self, path: Names, file: &Path, directory: &Path) -> Result<()> {
        let text = fs::read_to_string(file).with_context(|| format!("Cannot read {}", file.display()))?;
        let parsed = syn::parse_file(&text).with_context(|| format!("Cannot parse {}", file.display()))?;
        self.add(path, &parsed.items, file, directory)
    }

    fn add(&mut self, path: Names, items: &[Item], file: &Path, directory: &Path) -> Result<()> {
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        items.iter().for_each(|item| module.visit_item(item));
        for child in items.iter().filter_map(|item| match item {
            Item::Mod(child) if !is_test(&child.attrs) => Some(child),
            _ => None,
        }) {
            let name = child.ident.unraw().to_string();
            let path = [&path[..], std::slice::from_ref(&name)].concat();
            let below = directory.join(&name);
            match &child.content {
                Some((_, items)) => self.add(path, items, file, &below)?,
                None => {
                    let candidates = [below.with_extension("rs"), below.join("mod.rs")];
                    let of_attribute =
                        child.attrs.iter().find_map(|attribute| path_attribute(attribute, file));
                    let found = of_attribute.or_else(|| candidates.into_iter().find(|file| file.is_file()));
                    self.read(path, &found.with_context(|| format!("No file of {name}"))?, &below)?;
                }
            }
            module.children.insert(name);
        }
        self.0.insert(path, module);
        Ok(())
    }

    /// Returns the dependencies between files, with the paths of their modules.
    fn dependencies(&self) -> Vec<(Names, Names, Dependency)> {
        let mut dependencies = vec![];
        for (from, module) in &self.0 {
            for path in &module.paths {
                let Some(Named::Item(to)) = self.resolve(from, path, 0) else { continue };
                let dependency = Dependency {
                    from: module.file.clone(),
                    to: self.0[&to].file.clone(),
                    item: path.join("::"),
                };
                if dependency.from != dependency.to {
                    dependencies.push((from.clone(), to, dependency));
                }
            }
        }
        dependencies
    }

    /// Returns what a path in a module names; None if that is not of this crate.
    fn resolve(&self, module: &Names, path: &[String], depth: usize) -> Option<Named> {
        const DEEPEST: usize = 20; // `use log::log` of another crate names itself
        if depth > DEEPEST {
            return None;
        }
        let (mut at, mut rest) = (module.clone(), path);
        while let [name, further @ ..] = rest {
            match name.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => drop(at.pop()?),
                _ => match self.look_up(&at, name, depth)? {
                    Named::Module(module) => at = module,
                    item => return Some(item),
                },
            }
            rest = further;
        }
        Some(Named::Module(at))
    }

    /// Returns what a name in a module is.
    fn look_up(&self, at: &Names, name: &str, depth: usize) -> Option<Named> {
        let module = &self.0[at];
        if module.children.contains(name) {
            return Some(Named::Module([&at[..], &[name.to_owned()]].concat()));
        }
        if module.items.contains(name) {
            return Some(Named::Item(at.clone()));
        }
        if let Some(path) = module.imports.get(name) {
            return self.resolve(at, path, depth + 1);
        }
        module.globs.iter().find_map(|glob| match self.resolve(at, glob, depth + 1)? {
            Named::Module(module) => self.look_up(&module, name, depth + 1),
            Named::Item(_) => None,
        })
    }
}

/// Returns the circles between a folder's own file and its children.
fn circles(folder: &Names, dependencies: &[(Names, Names, Dependency)]) -> Vec<Circle> {
    /// The name of a child; None is the folder's own file.
    type Node<'a> = Option<&'a String>;
    let mut edges: BTreeMap<Node, BTreeMap<Node, &Dependency>> = BTreeMap::new();
    for (from, to, dependency) in dependencies {
        if !from.starts_with(folder) || !to.starts_with(folder) {
            continue;
        }
        let (from, to) = (from.get(folder.len()), to.get(folder.len()));
        if from != to {
            edges.entry(from).or_default().entry(to).or_insert(dependency);
        }
    }
    let mut found: Vec<Circle> = vec![];
    let mut reported: BTreeSet<Node> = BTreeSet::new();
    for start in edges.keys() {
        // The shortest way back, breadth first.
        let mut ways = VecDeque::from([vec![*start]]);
        let mut seen = BTreeSet::new();
        while let Some(way) = ways.pop_front() {
            for (next, _) in edges.get(way.last().unwrap_or(start)).into_iter().flatten() {
                let way = [&way[..], &[*next]].concat();
                if next == start && way.iter().all(|node| !reported.contains(node)) {
                    reported.extend(&way);
                    found
                        .push(Circle(way.windows(2).map(|pair| edges[&pair[0]][&pair[1]].clone()).collect()));
                }
                if seen.insert(*next) && next != start {
                    ways.push_back(way);
                }
            }
        }
    }
    found
}

impl<'a> Visit<'a> for Module {
    fn visit_item(&mut self, item: &'a Item) {
        let (name, attributes) = match item {
            Item::Const(item) => (Some(&item.ident), &item.attrs),
            Item::Enum(item) => (Some(&item.ident), &item.attrs),
            Item::Fn(item) => (Some(&item.sig.ident), &item.attrs),
            Item::Macro(item) => (item.ident.as_ref(), &item.attrs),
            Item::Static(item) => (Some(&item.ident), &item.attrs),
            Item::Struct(item) => (Some(&item.ident), &item.attrs),
            Item::Trait(item) => (Some(&item.ident), &item.attrs),
            Item::Type(item) => (Some(&item.ident), &item.attrs),
            Item::Union(item) => (Some(&item.ident), &item.attrs),
            Item::Impl(item) => (None, &item.attrs),
            Item::Use(item) => (None, &item.attrs),
            _ => (None, &vec![]),
        };
        if !is_test(attributes) {
            self.items.extend(name.map(|name| name.unraw().to_string()));
            syn::visit::visit_item(self, item);
        }
    }

    /// A child is a module of its own.
    fn visit_item_mod(&mut self, _: &'a ItemMod) {}

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        self.import(&item.tree, &mut vec![], matches!(item.vis, Visibility::Inherited));
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            syn::visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_attribute(&mut self, _: &'a Attribute) {}

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.leading_colon.is_none() {
            self.paths
                .insert(path.segments.iter().map(|segment| segment.ident.unraw().to_string()).collect());
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        self.visit_path(&call.path);
        self.visit_tokens(call.tokens.clone());
    }
}

impl Module {
    /// Accepts `use`. One that is private is a dependency, also if it only brings the methods of a trait.
    fn import(&mut self, tree: &UseTree, path: &mut Names, is_private: bool) {
        let (name, binding) = match tree {
            UseTree::Path(tree) => {
                path.push(tree.ident.unraw().to_string());
                self.import(&tree.tree, path, is_private);
                path.pop();
                return;
            }
            UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.import(tree, path, is_private))
            }
            UseTree::Glob(_) => return self.globs.push(path.clone()),
            UseTree::Name(name) => (&name.ident, &name.ident),
            UseTree::Rename(rename) => (&rename.ident, &rename.rename),
        };
        let mut full = path.clone();
        full.extend(Some(name.unraw().to_string()).filter(|name| name != "self"));
        let binding = match binding == "self" {
            true => full.last().cloned().unwrap_or_default(),
            false => binding.unraw().to_string(),
        };
        if is_private {
            self.paths.insert(full.clone());
        }
        self.imports.insert(binding, full);
    }

    /// Accepts the paths among the arguments of a macro, which are not parsed.
    fn visit_tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (vec![], 0);
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() && colons < 2 => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.paths.insert(std::mem::take(&mut path));
                    }
                    path.push(name.unraw().to_string());
                }
                other => {
                    self.paths.insert(std::mem::take(&mut path));
                    if let TokenTree::Group(group) = other {
                        self.visit_tokens(group.stream());
                    }
                }
            }
            colons = 0;
        }
        self.paths.insert(path);
    }
}

/// Returns whether an item is compiled for tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        let condition = attribute.meta.require_list().map(|list| list.tokens.to_string()).unwrap_or_default();
        let condition = condition.replace(' ', "");
        condition == "test" || condition.starts_with("all(test,")
    })
}

/// Returns the file of `#[path = "..."]`.
fn path_attribute(attribute: &Attribute, file: &Path) -> Option<PathBuf> {
    let value = &attribute.meta.require_name_value().ok().filter(|meta| meta.path.is_ident("path"))?.value;
    match value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => {
            Some(file.with_file_name(text.value()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the circles of a crate with these files, as text.
    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        for (path, code) in files {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, code).unwrap();
        }
        let prefix = format!("{}/", directory.path().display());
        let found = find(&directory.path().join(files[0].0)).unwrap();
        found.into_iter().map(|circle| circle.to_string().replace(&prefix, "")).collect()
    }

    #[test]
    fn a_circle_is_reported_with_its_items() {
        let circle = circles(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; struct A(B);"),
            ("b.rs", "pub struct B(super::c::C);"),
            ("c.rs", r#"pub struct C; fn c() { println!("{}", crate::a::A::NAME) }"#),
        ]);
        let expected =
            "a circle:\n  a.rs uses B of b.rs\n  b.rs uses super::c::C of c.rs\n  c.rs uses crate::a::A::NAME of a.rs";
        assert_eq!(circle, [expected]);
    }

    #[test]
    fn an_item_is_of_the_file_that_defines_it_and_a_reexport_is_no_dependency() {
        let facade = "mod inner; mod values; pub use inner::Inner; pub use values::*;";
        let inner = ("a/inner.rs", "use super::Value; pub struct Inner(Value);");
        let values = ("a/values.rs", "pub struct Value;");
        let root = ("lib.rs", "mod a; pub use a::Inner;");
        assert_eq!(circles(&[root, ("a/mod.rs", facade), inner, values]), [""; 0]);
        let uses = format!("{facade} pub struct Outer(Inner);");
        assert_eq!(circles(&[root, ("a/mod.rs", &uses), inner, values]), [""; 0]);
        let inner = ("a/inner.rs", "pub struct Inner(Option<Box<super::Outer>>);");
        let found = circles(&[root, ("a/mod.rs", &uses), inner, values]);
        assert_eq!(
            found,
            ["a circle:\n  a/mod.rs uses Inner of a/inner.rs\n  a/inner.rs uses super::Outer of a/mod.rs"]
        );
    }

    #[test]
    fn two_folders_form_a_circle_even_if_no_two_files_do() {
        let found = circles(&[
            ("main.rs", "mod a; mod b; fn main() {}"),
            ("a.rs", "pub mod one; pub mod two;"),
            ("a/one.rs", "use crate::b::low; fn f() { low::g() }"),
            ("a/two.rs", "pub fn f() {}"),
            ("b/mod.rs", "pub mod low; pub mod high;"),
            ("b/low.rs", "pub fn g() {}"),
            ("b/high.rs", "fn h() { crate::a::two::f() }"),
        ]);
        assert_eq!(
            found,
            ["a circle:\n  a/one.rs uses low::g of b/low.rs\n  b/high.rs uses crate::a::two::f of a/two.rs"]
        );
    }

    #[test]
    fn tests_other_crates_and_what_stands_in_the_same_file_form_no_circle() {
        let root = "mod a; mod b; mod log { pub fn l() { super::f() } } fn f() { log::l() }";
        let a = "use crate::b::B; use log::log as _; pub struct A(B); #[cfg(test)] mod tests { use crate::b::*; }";
        let b = "pub struct B; #[cfg(all(test, loom))] fn f(_: crate::a::A) {} \
                 #[cfg(test)] mod tests { use crate::a::A; }";
        assert_eq!(circles(&[("lib.rs", root), ("a.rs", a), ("b.rs", b)]), [""; 0]);
    }

    #[test]
    fn a_module_can_be_in_another_file() {
        let a = "use crate::b::B; pub struct A;";
        let found = circles(&[
            ("lib.rs", "#[path = \"x.rs\"] mod a; mod b;"),
            ("x.rs", a),
            ("b.rs", "pub struct B(crate::a::A);"),
        ]);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn an_import_against_the_order_that_the_root_states_is_reported() {
        let root = "//! A module imports only from modules that are later in this list:\n//! b, a. More.\nmod a; mod b;";
        let b = ("b/mod.rs", "pub struct B;");
        let found = circles(&[("lib.rs", root), ("a.rs", "struct A(crate::b::B);"), b]);
        assert_eq!(found, ["against the order of the modules:\n  a.rs uses crate::b::B of b/mod.rs"]);
        let root = root.replace("b, a", "a, b");
        assert_eq!(circles(&[("lib.rs", &root), ("a.rs", "struct A(crate::b::B);"), b]), [""; 0]);
    }

    #[test]
    fn the_library_and_its_page_state_the_same_order() {
        let order = stated_order(include_str!("../../../src/lib.rs"));
        let page = include_str!("../../../docs/architecture.md");
        let (_, table) = page.split_once("The library, `src/`:").unwrap();
        let (table, _) = table.trim_start().split_once("\n\n").unwrap();
        let first_cells = table.lines().filter_map(|row| row.split('|').nth(1));
        let names = first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
        let names: Vec<_> = names.map(|name| name.trim_end_matches(['/']).trim_end_matches(".rs")).collect();
        assert_eq!(names, order[..order.len() - 1], "without the core");
    }
}
