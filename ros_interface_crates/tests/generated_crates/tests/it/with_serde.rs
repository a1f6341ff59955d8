// SPDX-License-Identifier: Apache-2.0
//! With the feature `serde`, every message survives a round trip to JSON.

/// Runs another cargo command, which enables the feature `serde`. If the feature were enabled for the whole workspace,
/// no test would show that the generated crates also compile without this feature.
#[cfg(not(feature = "serde"))]
#[test]
fn every_interface_works_with_serde() {
    let run = std::process::Command::new(env!("CARGO"))
        .args(["test", "--quiet", "--package", "generated_crates", "--features", "serde", "--test", "it"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["--", "--nocapture", "with_serde::"])
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && stdout.contains("1 passed"), "{stdout}\n{stderr}");
}

#[cfg(feature = "serde")]
#[test]
fn messages_survive_json() {
    use generated_crates::sample::{Interface, Source, Variant};

    fn check<T: Interface + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug>() {
        for variant in Variant::ALL {
            let sent = T::sample(&mut Source::new(variant));
            let json = serde_json::to_string(&sent).unwrap();
            let received: Result<T, _> = serde_json::from_str(&json);
            assert_eq!(received.ok().as_ref(), Some(&sent), "{} {variant:?}: {json}", T::NAME);
        }
    }
    macro_rules! check {
        ($($name:literal => $message:ty,)*) => {$( check::<$message>(); )*};
    }
    generated_crates::for_each_message!(check);
}
