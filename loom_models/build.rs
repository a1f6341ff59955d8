// SPDX-License-Identifier: Apache-2.0

//! Sets `cfg(loom)` for this package only: as a flag for all packages it would change tokio, too.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=loom");
}
