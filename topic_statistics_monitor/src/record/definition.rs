// SPDX-License-Identifier: Apache-2.0

//! The definition of a message type, with the definitions of all types that it contains, in the form that MCAP and
//! rosbag2 use.

use std::path::PathBuf;

use rclrs::MessageTypeName;
use serde_json::Value;
use topic_statistics_observe::input::read_text;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    /// `ros2msg` or `ros2idl`. Empty if the definition was not found.
    pub encoding: &'static str,
    pub text: String,
    /// The hash of the type (REP-2016): `RIHS01_...`.
    pub type_hash: Option<String>,
}

/// Returns the directory with the definition files of a package.
type Directory<'a> = &'a dyn Fn(&str) -> Option<PathBuf>;

impl Definition {
    /// The maximum size of a definition file, in bytes.
    const MAX_FILE: u64 = 4 << 20;
    const MAX_TYPES: usize = 1024;

    /// Returns an empty definition if a file is missing. A reader of the recording then knows only the name of the
    /// type, not its fields.
    pub fn new(message_type: &MessageTypeName) -> Self {
        let ament = ament_rs::Ament::new().ok();
        let prefix = |package: &str| ament.as_ref()?.find_package(package);
        let directory = |package: &str| Some(format!("{}/share/{package}", prefix(package)?).into());
        Self::find(&directory, message_type).unwrap_or_default()
    }

    fn find(files: Directory, message_type: &MessageTypeName) -> Option<Self> {
        // Beside a definition, rosidl installs a JSON file with the hashes of the type and of the contained types.
        let description: Value = serde_json::from_str(&read(files, message_type, "json")?).ok()?;
        let own = message_type.to_string();
        let (mut type_hash, mut contained) = (None, vec![]);
        for hash in description["type_hashes"].as_array()? {
            let name = hash["type_name"].as_str()?;
            match name == own {
                true => type_hash = Some(hash["hash_string"].as_str()?.to_owned()),
                false => contained.push(MessageTypeName::try_from(name).ok()?),
            }
        }
        if contained.len() >= Self::MAX_TYPES {
            return None;
        }
        let text = |encoding| Some((encoding, text(files, message_type, &contained, encoding)?));
        let (encoding, text) = text("ros2msg").or_else(|| text("ros2idl")).unwrap_or_default();
        Some(Self { encoding, text, type_hash })
    }
}

/// Returns the definitions of a type and of the types that it contains. `None` if a definition is missing.
fn text(
    files: Directory,
    root: &MessageTypeName,
    contained: &[MessageTypeName],
    encoding: &str,
) -> Option<String> {
    let line = "=".repeat(80);
    let is_msg = encoding == "ros2msg";
    let mut text = match is_msg {
        true => read(files, root, "msg")?,
        false => format!("{line}\nIDL: {root}\n{}", read(files, root, "idl")?),
    };
    for name in contained {
        let MessageTypeName { package_name, type_name } = name;
        text += &match is_msg {
            true => format!("\n{line}\nMSG: {package_name}/{type_name}\n{}", read(files, name, "msg")?),
            false => format!("{line}\nIDL: {name}\n{}", read(files, name, "idl")?),
        };
    }
    Some(text)
}

fn read(files: Directory, message_type: &MessageTypeName, extension: &str) -> Option<String> {
    let MessageTypeName { package_name, type_name } = message_type;
    let path = files(package_name)?.join("msg").join(format!("{type_name}.{extension}"));
    read_text(&path, Definition::MAX_FILE).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::fs;

    #[test]
    fn a_definition_has_all_types_that_it_contains_once() {
        let json = |types: &[&str]| {
            let hashes =
                types.iter().map(|name| json!({"type_name": name, "hash_string": format!("RIHS01_{name}")}));
            json!({"type_hashes": hashes.collect::<Vec<_>>()}).to_string()
        };
        let root = ["a_msgs/msg/Inner", "a_msgs/msg/Root", "b_msgs/msg/Leaf"];
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("a_msgs/msg/Root.msg", "b_msgs/Leaf[<=3] leaves\nInner inner\n"),
            ("a_msgs/msg/Root.json", &json(&root)),
            ("a_msgs/msg/Inner.msg", "b_msgs/msg/Leaf leaf\nint32[4] values\n"),
            ("b_msgs/msg/Leaf.msg", "float64 x 1.0\n"),
            ("a_msgs/msg/Keyed.idl", "#include \"c_msgs/msg/Leaf.idl\"\nmodule a_msgs {};\n"),
            ("a_msgs/msg/Keyed.json", &json(&["a_msgs/msg/Keyed", "c_msgs/msg/Leaf"])),
            ("c_msgs/msg/Leaf.idl", "module c_msgs {};\n"),
            ("a_msgs/msg/Lost.msg", "d_msgs/Missing field\n"),
            ("a_msgs/msg/Lost.json", &json(&["a_msgs/msg/Lost", "d_msgs/msg/Missing"])),
        ] {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let files = |package: &str| Some(directory.path().join(package)).filter(|path| path.is_dir());
        let definition = |name: &str| Definition::find(&files, &name.try_into().unwrap()).unwrap_or_default();
        let Definition { encoding, text, type_hash } = definition("a_msgs/msg/Root");
        let parts: Vec<_> = text.split(&format!("\n{}\n", "=".repeat(80))).collect();
        assert_eq!((encoding, parts.len()), ("ros2msg", 3), "{text}");
        assert!(parts[1].starts_with("MSG: a_msgs/Inner\n"), "{text}");
        assert!(parts[2].starts_with("MSG: b_msgs/Leaf\nfloat64 x"), "{text}");
        assert_eq!(type_hash.as_deref(), Some("RIHS01_a_msgs/msg/Root"));
        // If a type has no .msg file, its .idl file is used. If no definition file is found, the text is empty.
        let keyed = definition("a_msgs/msg/Keyed");
        assert_eq!((keyed.encoding, keyed.text.matches("IDL: ").count()), ("ros2idl", 2), "{keyed:?}");
        assert_eq!((definition("a_msgs/msg/Lost").encoding, &*definition("a_msgs/msg/Lost").text), ("", ""));
        assert_eq!(definition("a_msgs/msg/Inner"), Definition::default());
        // Types on the AMENT_PREFIX_PATH of the test are found.
        let imu = Definition::new(&"sensor_msgs/msg/Imu".try_into().unwrap());
        let parts =
            ["std_msgs/Header header", "MSG: builtin_interfaces/Time", "MSG: geometry_msgs/Quaternion"];
        assert!(imu.encoding == "ros2msg" && parts.iter().all(|part| imu.text.contains(part)), "{imu:?}");
        assert!(imu.type_hash.is_some_and(|hash| hash.starts_with("RIHS01_") && hash.len() == 71));
    }
}
