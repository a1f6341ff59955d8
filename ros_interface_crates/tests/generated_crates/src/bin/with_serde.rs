// SPDX-License-Identifier: Apache-2.0
//! Writes every message as JSON and reads it again. Prints the number of messages that are the same after this.
//!
//! This is a program and not a test, so that the crates that only tests need are not built again with the feature
//! `serde`.

use generated_crates::sample::{Interface, Source, Variant};

fn check<T: Interface + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug>() -> usize {
    for variant in Variant::ALL {
        let sent = T::sample(&mut Source::new(variant));
        let json = serde_json::to_string(&sent).unwrap();
        let received: Result<T, _> = serde_json::from_str(&json);
        assert_eq!(received.ok().as_ref(), Some(&sent), "{} {variant:?}: {json}", T::NAME);
    }
    Variant::ALL.len()
}

fn main() {
    let mut count = 0;
    macro_rules! check {
        ($($name:literal => $message:ty,)*) => {$( count += check::<$message>(); )*};
    }
    generated_crates::for_each_message!(check);
    println!("{count} messages");
}
