// SPDX-License-Identifier: Apache-2.0

//! Finds cycles between the modules of a crate, and imports that violate the order which the documentation of a folder
//! states. (`cargo modules --acyclic` knows no such order, and compiles rust-analyzer first.)
//!
//! Each folder has its own graph, which must have no cycles. A node is a child module with all modules below it. A path
//! in the code is a dependency on the module that the path names. The folder's own file is not a node, because it only
//! exports names: the use of an exported name is a dependency on the module that defines the name. Tests are not
//! checked.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{anyhow, Context, Result};
use proc_macro2::{TokenStream, TokenTree};

/// The names of a path: `crate`, `record`, `Source`.
type Names = Vec<String>;

/// The modules that have a file.
type Modules = BTreeMap<Names, Module>;

struct Module {
    /// The paths in the module's code.
    paths: BTreeSet<Names>,
    /// The child modules, in the order that the module's documentation states.
    order: Names,
}

/// Returns the cycles of the crate with this root file (`src/lib.rs` or `src/main.rs`), and the imports that violate a
/// stated order, as text.
pub fn find(root: &Path) -> Result<Vec<String>> {
    let mut modules = Modules::new();
    read(&mut modules, vec![], root, &root.with_file_name(""))?;
    let mut dependencies = BTreeMap::new();
    for (from, module) in &modules {
        for path in &module.paths {
            if let Some(to) = named_module(&modules, from, path) {
                let text = format!("{} uses {}", from.join("::"), path.join("::"));
                dependencies.entry((from, to)).or_insert(text);
            }
        }
    }
    let mut found = vec![];
    for (folder, Module { order, .. }) in &modules {
        let node = |module: &Names| module.get(folder.len()).filter(|_| module.starts_with(folder)).cloned();
        let edges = dependencies.iter().map(|((from, to), text)| ((node(from), node(to)), text));
        let is_edge = |(from, to): &(Option<_>, Option<_>)| from.is_some() && to.is_some() && from != to;
        let mut edges: BTreeMap<_, _> = edges.filter(|(pair, _)| is_edge(pair)).collect();
        let place = |child: &Option<String>| order.iter().position(|name| Some(name) == child.as_ref());
        let is_wrong = |from, to| place(from).zip(place(to)).is_some_and(|(from, to)| to < from);
        let wrong = edges.iter().filter(|((from, to), _)| is_wrong(from, to));
        found.extend(wrong.map(|(_, text)| format!("against the order of the modules: {text}")));
        // A node without incoming or without outgoing edges is in no cycle, so its edges are removed, again and again.
        for _ in 0..edges.len() {
            let (begins, ends): (BTreeSet<_>, BTreeSet<_>) = edges.keys().cloned().unzip();
            edges.retain(|(from, to), _| ends.contains(from) && begins.contains(to));
        }
        found.extend(edges.values().map(|text| format!("a cycle: {text}")));
    }
    Ok(found)
}

/// Returns the modules in the order that the documentation of a folder states after "later in this list:".
fn stated_order(file: &str) -> Names {
    let lines: Vec<_> = file.lines().filter_map(|line| line.strip_prefix("//!")).collect();
    let documentation = lines.join(" ");
    let list = documentation.split_once("later in this list:").map_or("", |(_, list)| list);
    list.split('.').next().unwrap_or_default().split(',').map(|name| name.trim().to_owned()).collect()
}

/// Returns the deepest module that a path names. `from` is the module whose code contains the path.
fn named_module(modules: &Modules, from: &Names, path: &[String]) -> Option<Names> {
    let mut at = if path.first()? == "crate" { vec![] } else { from.clone() };
    for name in path {
        let child = [&at[..], std::slice::from_ref(name)].concat();
        match name.as_str() {
            "crate" | "self" => {}
            "super" => drop(at.pop()?),
            _ if modules.contains_key(&child) => at = child,
            _ => {
                let is_of_child = |path: &Names| modules.contains_key(&[&at[..], &path[..1]].concat());
                let is_export =
                    |path: &&Names| path.len() > 1 && path.last() == Some(name) && is_of_child(path);
                return match modules[&at].paths.iter().find(is_export) {
                    Some(export) => named_module(modules, &at, export),
                    None => Some(at),
                };
            }
        }
    }
    Some(at)
}

/// Reads a module from `file`, and its child modules from `directory`.
fn read(modules: &mut Modules, path: Names, file: &Path, directory: &Path) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("Cannot read {}", file.display()))?;
    let tokens: TokenStream = text.parse().map_err(|error| anyhow!("{}: {error}", file.display()))?;
    let (mut paths, mut children) = (BTreeSet::new(), vec![]);
    walk(tokens, &[], &mut paths, &mut children);
    modules.insert(path.clone(), Module { paths, order: stated_order(&text) });
    for child in children {
        let below = directory.join(&child);
        let files = [below.with_extension("rs"), below.join("mod.rs")];
        if let Some(file) = files.iter().find(|file| file.is_file()) {
            read(modules, [&path[..], &[child]].concat(), file, &below)?;
        }
    }
    Ok(())
}

/// Collects the paths in code and the names after `mod`. `a::{b, c}` is two paths; `before` is their common part.
fn walk(tokens: TokenStream, before: &[String], paths: &mut BTreeSet<Names>, children: &mut Names) {
    let (mut path, mut colons, mut last, mut is_test) = (before.to_vec(), 2, String::new(), false);
    for token in tokens {
        let text = token.to_string();
        let is_attribute = last == "#" && text.starts_with('[');
        if is_attribute {
            let condition = text.replace(' ', "");
            is_test |= condition.starts_with("[cfg(test") || condition.starts_with("[cfg(all(test");
        } else if is_test {
            is_test = text != ";" && !text.starts_with('{'); // until the end of the item
        } else {
            let is_joined = colons == 2 && !matches!(token, TokenTree::Punct(_));
            if !is_joined && text != ":" {
                paths.insert(std::mem::replace(&mut path, before.to_vec()));
            }
            match token {
                TokenTree::Ident(_) if last == "mod" => children.push(text.clone()),
                TokenTree::Ident(_) => path.push(text.clone()),
                TokenTree::Group(group) if is_joined => walk(group.stream(), &path, paths, children),
                TokenTree::Group(group) => walk(group.stream(), &[], paths, children),
                _ => {}
            }
        }
        colons = if text == ":" { colons + 1 } else { 0 };
        last = text;
    }
    paths.insert(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_and_imports_against_the_order_are_found() {
        const ORDER: &str = "//! Only from modules that are later in this list:\n//! b, a. More.\n";
        // In `code`, `|` separates the files lib.rs, a.rs, b/mod.rs and c.rs.
        for (code, expected) in [
            // A cycle of three modules. The paths are in a `use`, in code and in a macro.
            ("mod a; mod b; mod c; | use crate::{b::B, x}; | struct B(super::c::C); | f!(crate::a::A)", 3),
            // Paths in tests, to other crates and in the root file are no dependencies.
            ("mod a; mod b; mod c; | use crate::b::B; | #[cfg(test)] mod t { use crate::a; } | use a::A;", 0),
            ("ORDER mod a; mod b; | fn f() { crate::b::g() } | struct B; |", 1),
            // The root exports the name. The dependency is on the module that defines the name.
            ("ORDER mod a; mod b; pub use b::B; | use crate::B; | pub struct B; |", 1),
            ("ORDER mod a; mod b; | struct A; | use crate::a::A; #[cfg(all(test, loom))] fn f() {} |", 0),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let path = |name: &str| directory.path().join(name);
            fs::create_dir(path("b")).unwrap();
            let code_with_order = code.replace("ORDER ", ORDER);
            for (name, code) in
                ["lib.rs", "a.rs", "b/mod.rs", "c.rs"].into_iter().zip(code_with_order.split('|'))
            {
                fs::write(path(name), code).unwrap();
            }
            let found = find(&path("lib.rs")).unwrap();
            assert_eq!(found.len(), expected, "{code}: {found:?}");
        }
    }
}
