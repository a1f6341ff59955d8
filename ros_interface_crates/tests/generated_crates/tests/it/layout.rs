// SPDX-License-Identifier: Apache-2.0
//! The layout of every generated rmw structure equals the C structure's, by the introspection type support of its
//! package.
//!
//! rcl and the middleware read and write these structures through pointers, so a wrong offset is memory corruption.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    ffi::{c_char, c_void, CStr},
    fs,
    path::PathBuf,
};

use generated_crates::layout::{Element, Field, Layout, Shape, LAYOUTS};
use libloading::{Library, Symbol};

/// `rosidl_typesupport_introspection_c__MessageMembers` of
/// rosidl_typesupport_introspection_c/message_introspection.h, the same in Jazzy and Kilted, up to what is read.
#[repr(C)]
struct MessageMembers {
    message_namespace: *const c_char,
    message_name: *const c_char,
    member_count: u32,
    size_of: usize,
    has_any_key_member: bool,
    members: *const MessageMember,
    init_function: *const c_void,
    fini_function: *const c_void,
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
    size_function: *const c_void,
    get_const_function: *const c_void,
    get_function: *const c_void,
    fetch_function: *const c_void,
    assign_function: *const c_void,
    resize_function: *const c_void,
}

/// `rosidl_message_type_support_t` of rosidl_runtime_c/message_type_support_struct.h, up to what is read.
#[repr(C)]
struct TypeSupport {
    identifier: *const c_char,
    data: *const MessageMembers,
}

type TypeSupportFunction = unsafe extern "C" fn() -> *const TypeSupport;

/// A member, with its pointers followed.
#[derive(Debug, PartialEq)]
struct Member {
    name: String,
    offset: usize,
    shape: Shape,
    type_id: u8,
    string_bound: usize,
    /// Namespace and name, as C has them.
    message: Option<(String, String)>,
}

#[test]
fn every_rmw_structure_has_the_layout_of_its_c_structure() {
    let mut libraries = BTreeMap::new();
    let mut fields = 0;
    for layout in LAYOUTS {
        let library =
            libraries.entry(layout.package).or_insert_with(|| introspection_library(layout.package));
        fields += check(layout, library);
    }
    assert!(fields > 0, "No field was checked");
    println!("{} structures with {fields} fields in {} packages checked", LAYOUTS.len(), libraries.len());
}

#[test]
fn no_interface_of_the_prefix_is_missing() {
    let have: BTreeSet<String> =
        LAYOUTS.iter().map(|one| format!("{}/{}/{}", one.package, one.namespace, one.name)).collect();
    let packages: BTreeSet<&str> = LAYOUTS.iter().map(|layout| layout.package).collect();
    let (mut seen, mut checked) = (BTreeSet::new(), 0);
    for prefix in prefixes() {
        let Ok(index) = fs::read_dir(prefix.join("share/ament_index/resource_index/rosidl_interfaces"))
        else {
            continue;
        };
        for entry in index {
            let entry = entry.unwrap();
            let package = entry.file_name().into_string().unwrap();
            if !seen.insert(package.clone()) {
                continue;
            }
            for message in listed_messages(&fs::read_to_string(entry.path()).unwrap()) {
                let message = format!("{package}/{message}");
                assert!(have.contains(&message), "{message} is missing");
                checked += 1;
            }
        }
    }
    assert!(checked > 0, "No interface was found");
    println!("{checked} listed structures of {} packages are there", packages.len());
}

/// The structures of the interfaces that a resource of the ament index lists: `msg/Point.msg`.
fn listed_messages(index: &str) -> BTreeSet<String> {
    let interfaces: BTreeSet<&str> =
        index.lines().filter_map(|line| Some(line.rsplit_once('.')?.0)).collect();
    interfaces
        .into_iter()
        .flat_map(|interface| {
            let suffixes: &[&str] = match interface.split('/').next() {
                Some("srv") => &["_Request", "_Response"],
                Some("action") => &[
                    "_Goal",
                    "_Result",
                    "_Feedback",
                    "_FeedbackMessage",
                    "_SendGoal_Request",
                    "_SendGoal_Response",
                    "_GetResult_Request",
                    "_GetResult_Response",
                ],
                _ => &[""],
            };
            suffixes.iter().map(move |suffix| format!("{interface}{suffix}"))
        })
        .collect()
}

/// Returns the number of fields.
fn check(layout: &Layout, library: &Library) -> usize {
    let Layout { package, namespace, name, size, fields } = layout;
    let symbol = format!(
        "rosidl_typesupport_introspection_c__get_message_type_support_handle__{package}__{namespace}__{name}"
    );
    // SAFETY: rosidl generates a function of this type and without preconditions by this name. The type support
    // that it returns is a static, and the library outlives this function.
    let (c_size, members) = unsafe {
        let function: Symbol<TypeSupportFunction> =
            library.get(symbol.as_bytes()).unwrap_or_else(|error| panic!("{symbol}: {error}"));
        let members = &*(*function()).data;
        assert_eq!(text(members.message_namespace), format!("{package}__{namespace}"));
        assert_eq!(text(members.message_name), *name);
        (members.size_of, read_members(members))
    };
    let title = format!("{package}/{namespace}/{name}");
    assert_eq!(*size, c_size, "size of {title}");
    let names: Vec<_> = fields.iter().map(ros_name).collect();
    let c_names: Vec<_> = members.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(names, c_names, "fields of {title}");
    for (field, member) in fields.iter().zip(&members) {
        let title = format!("{title}.{}", field.name);
        assert_eq!(field.offset, member.offset, "offset of {title}");
        assert_eq!(field.shape, member.shape, "shape of {title}");
        assert!(is(&field.element, member), "{title} is {:?}, in C {member:?}", field.element);
    }
    fields.len()
}

/// A keyword has an underscore behind it in Rust; in ROS no name has.
fn ros_name(field: &Field) -> &str {
    field.name.strip_suffix('_').unwrap_or(field.name)
}

/// Whether `element` fits the constants of rosidl_typesupport_introspection_c/field_types.h.
fn is(element: &Element, member: &Member) -> bool {
    match element {
        Element::Primitive(name) => matches!(
            (*name, member.type_id),
            ("f32", 1)
                | ("f64", 2)
                | ("u8", 4 | 7 | 8) // char, octet, uint8
                | ("u16", 5 | 10) // wchar, uint16
                | ("bool", 6)
                | ("i8", 9)
                | ("i16", 11)
                | ("u32", 12)
                | ("i32", 13)
                | ("u64", 14)
                | ("i64", 15)
        ),
        Element::String(bound) => member.type_id == 16 && member.string_bound == *bound,
        Element::WString(bound) => member.type_id == 17 && member.string_bound == *bound,
        Element::Message(namespace, name) => {
            let message = member.message.as_ref();
            member.type_id == 18 && message.is_some_and(|(ns, n)| ns == namespace && n == name)
        }
    }
}

/// # Safety
/// `members` must come from the C code of rosidl_typesupport_introspection_c.
unsafe fn read_members(members: &MessageMembers) -> Vec<Member> {
    // SAFETY: By contract this is an array of `member_count` members, and their pointers are valid or null.
    unsafe {
        std::slice::from_raw_parts(members.members, members.member_count as usize)
            .iter()
            .map(|member| Member {
                name: text(member.name),
                offset: member.offset as usize,
                shape: match (member.is_array, member.is_upper_bound, member.array_size) {
                    (false, ..) => Shape::Single,
                    (true, false, 0) => Shape::Sequence,
                    (true, false, length) => Shape::Array(length),
                    (true, true, bound) => Shape::BoundedSequence(bound),
                },
                type_id: member.type_id,
                string_bound: member.string_upper_bound,
                message: member.members.as_ref().map(|type_support| {
                    let members = &*type_support.data;
                    (text(members.message_namespace), text(members.message_name))
                }),
            })
            .collect()
    }
}

/// # Safety
/// `c_string` must be a valid C string.
unsafe fn text(c_string: *const c_char) -> String {
    // SAFETY: This function's own contract.
    unsafe { CStr::from_ptr(c_string) }.to_string_lossy().into_owned()
}

fn introspection_library(package: &str) -> Library {
    let name = format!("lib{package}__rosidl_typesupport_introspection_c.so");
    let path = prefixes()
        .into_iter()
        .map(|prefix| prefix.join("lib").join(&name))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("No prefix has {name}"));
    // SAFETY: Loading a type support library only initialises its own statics.
    unsafe { Library::new(&path) }.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn prefixes() -> Vec<PathBuf> {
    env::split_paths(&env::var_os("AMENT_PREFIX_PATH").unwrap_or_default()).collect()
}
