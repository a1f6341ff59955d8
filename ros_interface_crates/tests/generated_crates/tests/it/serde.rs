// SPDX-License-Identifier: Apache-2.0
//! With the feature `serde`, every message of both layers survives the way to JSON and back.

use generated_crates::{
    for_each_message, for_each_rmw_message,
    sample::{Interface, Source, Variant},
};
use serde::{de::DeserializeOwned, Serialize};

#[test]
fn messages_survive_json() {
    let mut checked = 0;
    macro_rules! check {
        ($($name:literal => $message:ty,)*) => {$( survives_json::<$message>(); checked += 1; )*};
    }
    for_each_message!(check);
    for_each_rmw_message!(check);
    assert!(checked > 0, "No message was checked");
    println!("{checked} types checked");
}

fn survives_json<T: Interface + Serialize + DeserializeOwned + std::fmt::Debug>() {
    for variant in Variant::ALL {
        let sent = T::sample(&mut Source::new(variant));
        let json = serde_json::to_string(&sent).unwrap();
        let received: T = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{}: {error}", T::NAME));
        assert_eq!(received, sent, "{} {variant:?}", T::NAME);
    }
}
