// SPDX-License-Identifier: Apache-2.0
//! Compares the layout of every generated rmw structure with the layout of the C structure. The introspection type
//! support of the package reports the C layout.
//!
//! rcl and the middleware access these structures through pointers, so a wrong offset corrupts memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    ffi::{c_char, c_void, CStr},
    fs,
    path::PathBuf,
};

use generated_crates::LAYOUTS;
use libloading::{Library, Symbol};

/// `rosidl_typesupport_introspection_c__MessageMembers` of
/// rosidl_typesupport_introspection_c/message_introspection.h (the same in Jazzy and Kilted), up to the last field
/// that is read.
#[repr(C)]
struct MessageMembers {
    message_namespace: *const c_char,
    message_name: *const c_char,
    member_count: u32,
    size_of: usize,
    has_any_key_member: bool,
    members: *const MessageMember,
}

/// `rosidl_typesupport_introspection_c__MessageMember` of the same header.
#[repr(C)]
struct MessageMember {
    name: *const c_char,
    type_id: u8,
    string_upper_bound: usize,
    members: *const TypeSupport,
    is_key: bool,
    is_array: bool,
    array_size: usize,
    is_upper_bound: bool,
    offset: u32,
    default_value: *const c_void,
    functions: [*const c_void; 6],
}

/// `rosidl_message_type_support_t` of rosidl_runtime_c/message_type_support_struct.h, up to the last field read.
#[repr(C)]
struct TypeSupport {
    identifier: *const c_char,
    data: *const MessageMembers,
}

type TypeSupportFunction = unsafe extern "C" fn() -> *const TypeSupport;

#[test]
fn every_rmw_structure_has_the_layout_of_its_c_structure() {
    let mut libraries = BTreeMap::new();
    for (name, size, fields) in LAYOUTS {
        let package = name.split('/').next().unwrap();
        let library = libraries.entry(package).or_insert_with(|| introspection_library(package));
        // In Rust, a field with the name of a keyword gets an underscore at its end. Names in ROS never end with an
        // underscore, so the underscore at the end can be removed.
        let ours =
            fields.iter().map(|(name, offset)| (name.strip_suffix('_').unwrap_or(name).to_owned(), *offset));
        assert_eq!((*size, ours.collect::<Vec<_>>()), c_layout(name, library), "{name}");
    }
}

#[test]
fn no_interface_of_the_prefix_is_missing() {
    let have: BTreeSet<&str> = LAYOUTS.iter().map(|(name, ..)| *name).collect();
    let mut packages = BTreeMap::new();
    for prefix in prefixes() {
        let index = fs::read_dir(prefix.join("share/ament_index/resource_index/rosidl_interfaces"));
        for entry in index.into_iter().flatten().flatten() {
            let interfaces = fs::read_to_string(entry.path()).unwrap();
            packages.entry(entry.file_name().into_string().unwrap()).or_insert(interfaces);
        }
    }
    assert!(packages.len() > 10, "{packages:?}");
    for (package, interfaces) in packages {
        for interface in interfaces.lines().filter_map(|line| Some(line.rsplit_once('.')?.0)) {
            let suffixes: &[&str] = match interface.split('/').next() {
                Some("srv") => &["_Request", "_Response"],
                Some("action") => {
                    &["_Goal", "_Result", "_Feedback", "_FeedbackMessage", "_GetResult_Response"]
                }
                _ => &[""],
            };
            for suffix in suffixes {
                let name = format!("{package}/{interface}{suffix}");
                assert!(have.contains(&*name), "{name} is missing");
            }
        }
    }
}

/// Returns the size of a C structure, and the names and offsets of its fields.
fn c_layout(name: &str, library: &Library) -> (usize, Vec<(String, usize)>) {
    let name = name.replace('/', "__");
    let symbol = format!("rosidl_typesupport_introspection_c__get_message_type_support_handle__{name}");
    // SAFETY: rosidl generates a function of this name and type, without preconditions. The returned type support is a
    // static with an array of `member_count` members, and the library outlives this function.
    unsafe {
        let function: Symbol<TypeSupportFunction> =
            library.get(symbol.as_bytes()).unwrap_or_else(|error| panic!("{symbol}: {error}"));
        let members = &*(*function()).data;
        let text = |text| CStr::from_ptr(text).to_string_lossy().into_owned();
        let c_name = format!("{}__{}", text(members.message_namespace), text(members.message_name));
        assert_eq!(c_name, name, "another structure");
        let fields = std::slice::from_raw_parts(members.members, members.member_count as usize);
        (members.size_of, fields.iter().map(|field| (text(field.name), field.offset as usize)).collect())
    }
}

fn introspection_library(package: &str) -> Library {
    let name = format!("lib{package}__rosidl_typesupport_introspection_c.so");
    let path =
        prefixes().into_iter().map(|prefix| prefix.join("lib").join(&name)).find(|path| path.is_file());
    let path = path.unwrap_or_else(|| panic!("No prefix has {name}"));
    // SAFETY: Loading a type support library only initialises its own statics.
    unsafe { Library::new(&path) }.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn prefixes() -> Vec<PathBuf> {
    env::split_paths(&env::var_os("AMENT_PREFIX_PATH").unwrap_or_default()).collect()
}
