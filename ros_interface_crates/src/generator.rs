// SPDX-License-Identifier: Apache-2.0
//! The identity of this generator.

/// The sources that determine the generated code.
const SOURCES: [&str; 12] = [
    ros_idl_tokens::SOURCE,
    include_str!("description.rs"),
    include_str!("doc.rs"),
    include_str!("generator.rs"),
    include_str!("idl.rs"),
    include_str!("model.rs"),
    include_str!("names.rs"),
    include_str!("read.rs"),
    include_str!("record.rs"),
    include_str!("render.rs"),
    include_str!("render/message.rs"),
    include_str!("render/service.rs"),
];

/// Returns the name, the version and the source hash of this generator: `ros_interface_crates 0.1.0
/// (0123456789abcdef)`.
///
/// Every generated crate records this text, so that a crate is generated again after the generator's source has
/// changed.
pub fn generator() -> String {
    format!("{} {} ({:016x})", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), HASH)
}

const HASH: u64 = hash();

/// FNV-1a with 64 bits.
const fn hash() -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut source = 0;
    while source < SOURCES.len() {
        let bytes = SOURCES[source].as_bytes();
        let mut index = 0;
        while index < bytes.len() {
            hash = (hash ^ bytes[index] as u64).wrapping_mul(0x100_0000_01b3);
            index += 1;
        }
        source += 1;
    }
    hash
}
