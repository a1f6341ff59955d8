// SPDX-License-Identifier: Apache-2.0
//! The identity of this generator.

use std::sync::LazyLock;

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
    format!("{} {} ({:016x})", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), *HASH)
}

/// FNV-1a with 64 bits.
static HASH: LazyLock<u64> = LazyLock::new(|| {
    let bytes = SOURCES.iter().flat_map(|source| source.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
});
