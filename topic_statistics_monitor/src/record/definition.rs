// SPDX-License-Identifier: Apache-2.0

//! The definition of a message type with all types that it contains, as MCAP and rosbag2 write it.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use rclrs::MessageTypeName;
use topic_statistics_observe::input::read_text;

/// The definition of a message type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    /// `ros2msg` or `ros2idl`. Empty if the definition was not found.
    pub encoding: &'static str,
    pub text: String,
    /// The hash of the type (REP-2016): `RIHS01_...`.
    pub type_hash: Option<String>,
}

/// The definitions that the ROS prefixes of this process have.
pub trait Files {
    /// Returns the directory of a package's definitions.
    fn directory(&self, package: &str) -> Option<PathBuf>;
}

/// Those on AMENT_PREFIX_PATH.
pub struct Prefixes(Option<ament_rs::Ament>);

impl Prefixes {
    pub fn new() -> Self {
        Self(ament_rs::Ament::new().ok())
    }

    /// Returns the prefix that has a package.
    pub fn of_package(&self, package: &str) -> Option<PathBuf> {
        Some(self.0.as_ref()?.find_package(package)?.into())
    }
}

impl Files for Prefixes {
    fn directory(&self, package: &str) -> Option<PathBuf> {
        Some(self.of_package(package)?.join("share").join(package))
    }
}

impl Definition {
    /// The largest file that is read, in bytes.
    const MAX_FILE: u64 = 4 << 20;
    /// How many types a definition has at most.
    const MAX_TYPES: usize = 1024;

    /// Returns the definition of a type. It is empty if a file is missing: then readers know the type by its name only.
    pub fn of(files: &impl Files, message_type: &MessageTypeName) -> Self {
        let MessageTypeName { package_name, type_name } = message_type;
        let root = (package_name.clone(), type_name.clone());
        let text = |format: Format| Some((format.encoding(), format.text(files, &root)?));
        let (encoding, text) = text(Format::Msg).or_else(|| text(Format::Idl)).unwrap_or(("", String::new()));
        Self { encoding, text, type_hash: type_hash(files, &root) }
    }
}

/// A package and a type in it.
type Name = (String, String);

#[derive(Clone, Copy)]
enum Format {
    Msg,
    Idl,
}

impl Format {
    fn encoding(self) -> &'static str {
        match self {
            Self::Msg => "ros2msg",
            Self::Idl => "ros2idl",
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Self::Msg => "msg",
            Self::Idl => "idl",
        }
    }

    /// Returns the definitions of a type and of all types that it contains. `None` if one is missing.
    fn text(self, files: &impl Files, root: &Name) -> Option<String> {
        let (mut text, mut wanted) = (String::new(), vec![root.clone()]);
        let mut known = BTreeSet::from([root.clone()]);
        let mut at = 0;
        while let Some((package, name)) = wanted.get(at).cloned() {
            let path = files.directory(&package)?.join("msg").join(format!("{name}.{}", self.extension()));
            let definition = read(&path)?;
            let line = "=".repeat(80);
            match self {
                Self::Msg if at == 0 => {}
                Self::Msg => text.push_str(&format!("\n{line}\nMSG: {package}/{name}\n")),
                Self::Idl => text.push_str(&format!("{line}\nIDL: {package}/msg/{name}\n")),
            }
            text.push_str(&definition);
            for name in self.contained(&package, &definition) {
                if known.insert(name.clone()) {
                    wanted.push(name);
                }
            }
            if wanted.len() > Definition::MAX_TYPES {
                return None;
            }
            at += 1;
        }
        Some(text)
    }

    /// Returns the types that a definition names.
    fn contained(self, package: &str, definition: &str) -> Vec<Name> {
        let name = |line: &str| match self {
            Self::Msg => of_field(package, line),
            Self::Idl => of_include(line),
        };
        definition.lines().filter_map(name).collect()
    }
}

/// Returns the message type of a field: `geometry_msgs/Point[<=3] points # comment`.
fn of_field(package: &str, line: &str) -> Option<Name> {
    const PRIMITIVES: [&str; 17] = [
        "bool", "byte", "char", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32",
        "int64", "uint64", "string", "wstring", "duration", "time",
    ];
    let field = line.split('#').next()?.split_whitespace().next()?;
    let name = &field[..field.find(['[', '<', '=']).unwrap_or(field.len())];
    if PRIMITIVES.contains(&name) || !name.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        return None;
    }
    match name.split('/').collect::<Vec<_>>()[..] {
        [name] => Some((package.to_owned(), name.to_owned())),
        [package, name] | [package, "msg", name] => Some((package.to_owned(), name.to_owned())),
        _ => None,
    }
}

/// Returns the type of an include: `#include "std_msgs/msg/Header.idl"`.
fn of_include(line: &str) -> Option<Name> {
    let path = line.trim().strip_prefix("#include")?.trim().trim_matches(['"', '<', '>']);
    match path.strip_suffix(".idl")?.split('/').collect::<Vec<_>>()[..] {
        [package, "msg", name] => Some((package.to_owned(), name.to_owned())),
        _ => None,
    }
}

fn read(path: &Path) -> Option<String> {
    read_text(path, Definition::MAX_FILE).ok()
}

/// Returns the hash of a type, which rosidl installs beside its definition.
fn type_hash(files: &impl Files, (package, name): &Name) -> Option<String> {
    let path = files.directory(package)?.join("msg").join(format!("{name}.json"));
    let description: serde_json::Value = serde_json::from_str(&read(&path)?).ok()?;
    let wanted = format!("{package}/msg/{name}");
    let hashes = description["type_hashes"].as_array()?;
    let hash = hashes.iter().find(|entry| entry["type_name"] == wanted.as_str())?;
    Some(hash["hash_string"].as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Directory(tempfile::TempDir);

    impl Files for Directory {
        fn directory(&self, package: &str) -> Option<PathBuf> {
            Some(self.0.path().join(package)).filter(|path| path.is_dir())
        }
    }

    fn files(all: &[(&str, &str)]) -> Directory {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in all {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Directory(directory)
    }

    #[test]
    fn a_definition_has_all_types_that_it_contains_once() {
        let files = files(&[
            (
                "a_msgs/msg/Root.msg",
                "uint8 KIND=1 # Other is no type\nb_msgs/Leaf[<=3] leaves\nInner inner\nstring<=5 s\n",
            ),
            ("a_msgs/msg/Inner.msg", "b_msgs/msg/Leaf leaf\nint32[4] values\n"),
            ("b_msgs/msg/Leaf.msg", "float64 x 1.0\n"),
            (
                "a_msgs/msg/Root.json",
                r#"{"type_hashes": [{"type_name": "b_msgs/msg/Leaf", "hash_string": "no"},
                    {"type_name": "a_msgs/msg/Root", "hash_string": "RIHS01_12"}]}"#,
            ),
            ("a_msgs/msg/Keyed.idl", "#include \"c_msgs/msg/Leaf.idl\"\nmodule a_msgs {};\n"),
            ("c_msgs/msg/Leaf.idl", "module c_msgs {};\n"),
            ("a_msgs/msg/Lost.msg", "d_msgs/Missing field\n"),
        ]);
        let definition = |name: &str| Definition::of(&files, &name.try_into().unwrap());
        let Definition { encoding, text, type_hash } = definition("a_msgs/msg/Root");
        let parts: Vec<_> = text.split(&format!("\n{}\n", "=".repeat(80))).collect();
        assert_eq!((encoding, parts.len()), ("ros2msg", 3), "{text}");
        assert!(parts[1].starts_with("MSG: b_msgs/Leaf\nfloat64 x"), "{text}");
        assert!(parts[2].starts_with("MSG: a_msgs/Inner\n"), "{text}");
        assert_eq!(type_hash.as_deref(), Some("RIHS01_12"));
        // A type without .msg has its .idl, and one without both has none.
        let keyed = definition("a_msgs/msg/Keyed");
        assert_eq!((keyed.encoding, keyed.text.matches("IDL: ").count()), ("ros2idl", 2), "{keyed:?}");
        assert_eq!(definition("a_msgs/msg/Lost"), Definition::default());
        // Types of the prefix are found.
        let imu = Definition::of(&Prefixes::new(), &"sensor_msgs/msg/Imu".try_into().unwrap());
        let parts =
            ["std_msgs/Header header", "MSG: builtin_interfaces/Time", "MSG: geometry_msgs/Quaternion"];
        assert!(imu.encoding == "ros2msg" && parts.iter().all(|part| imu.text.contains(part)), "{imu:?}");
        assert!(imu.type_hash.is_some_and(|hash| hash.starts_with("RIHS01_") && hash.len() == 71));
    }
}
