// SPDX-License-Identifier: Apache-2.0

use super::*;

/// Returns a random number with nearly a normal distribution.
fn noise(chance: &mut fastrand::Rng) -> f64 {
    (0..12).map(|_| chance.f64()).sum::<f64>() - 6.0
}

/// Returns values of windows, each of which depends on the previous value.
fn correlated(chance: &mut fastrand::Rng, count: usize, dependence: f64) -> Vec<f64> {
    let mut last = 0.0;
    std::iter::repeat_with(|| {
        last = dependence * last + noise(chance);
        10.0 + last
    })
    .skip(100)
    .take(count)
    .collect()
}

fn profile(quantities: &[(&str, &[f64])]) -> Profile {
    let mut profile = Profile::new(Duration::from_secs(1));
    let topic = profile.topics.entry("/imu".to_owned()).or_default();
    for (name, values) in quantities {
        let blocks = topic.entry((*name).to_owned()).or_default();
        values.iter().for_each(|value| blocks.add(*value));
    }
    profile
}

fn verdict(quantity: &str, before: &[f64], after: &[f64]) -> Comparison {
    let comparisons = compare(&profile(&[(quantity, before)]), &profile(&[(quantity, after)])).unwrap();
    comparisons.into_iter().next().unwrap()
}

#[test]
fn windows_that_depend_on_each_other_are_no_change_though_a_test_of_windows_says_so() {
    let mut chance = fastrand::Rng::with_seed(1);
    let (mut changed, mut naive, mut decided) = (0, 0, 0);
    for _ in 0..300 {
        let [before, after] = [0; 2].map(|_| correlated(&mut chance, 600, 0.8));
        let comparison = verdict("message_age", &before, &after);
        assert!(comparison.windows > 1, "{comparison:?}");
        changed += u32::from(!matches!(comparison.verdict, Verdict::CouldBeChance | Verdict::TooFew));
        decided += u32::from(comparison.verdict != Verdict::TooFew);
        naive += u32::from(rank_test(&before, &after).p_value < SIGNIFICANCE);
    }
    assert!(changed <= 12, "{changed} of 300, 3 are expected");
    assert!(naive > 60, "{naive} of 300 by windows");
    assert!(decided > 290, "{decided}");
}

#[test]
fn independent_windows_are_taken_as_they_are_and_a_change_is_found() {
    let mut chance = fastrand::Rng::with_seed(2);
    let mut windows = |mean: f64| -> Vec<f64> { (0..100).map(|_| mean + noise(&mut chance)).collect() };
    let (before, after) = (windows(10.0), windows(11.0));
    let comparison = verdict("message_age", &before, &after);
    assert_eq!(
        (comparison.verdict, comparison.windows, comparison.blocks),
        (Verdict::Worse, 1, (100, 100)),
        "{comparison:?}"
    );
    assert!(comparison.superiority > 0.7 && comparison.p_value < 1e-4, "{comparison:?}");
    assert!(
        (comparison.baseline - 10.0).abs() < 0.5 && (comparison.now - 11.0).abs() < 0.5,
        "{comparison:?}"
    );
    for (quantity, up, down) in [
        ("message_age", Verdict::Worse, Verdict::Better),
        ("message_period.max", Verdict::Worse, Verdict::Better),
        ("publication_seq_gap", Verdict::Worse, Verdict::Better),
        ("rate", Verdict::Better, Verdict::Worse),
        ("bandwidth", Verdict::Different, Verdict::Different),
        ("message_size", Verdict::Different, Verdict::Different),
    ] {
        assert_eq!(verdict(quantity, &before, &after).verdict, up, "{quantity}");
        assert_eq!(verdict(quantity, &after, &before).verdict, down, "{quantity}");
    }
}

#[test]
fn a_bag_against_itself_is_chance_and_a_single_outlier_is_too() {
    let mut chance = fastrand::Rng::with_seed(3);
    let windows = correlated(&mut chance, 100, 0.0);
    let comparison = verdict("message_age", &windows, &windows);
    assert_eq!(
        (comparison.verdict, comparison.superiority, comparison.p_value),
        (Verdict::CouldBeChance, 0.5, 1.0)
    );
    let mut outlier = windows.clone();
    outlier[50] = 1e9;
    assert_eq!(verdict("message_age", &windows, &outlier).verdict, Verdict::CouldBeChance);
    // Without noise, equal values are no change, and any difference is a change.
    assert_eq!(verdict("message_size", &[5.0; 20], &[5.0; 20]).verdict, Verdict::CouldBeChance);
    assert_eq!(verdict("message_size", &[5.0; 20], &[6.0; 20]).verdict, Verdict::Different);
}

#[test]
fn too_few_blocks_say_nothing() {
    let windows: Vec<f64> = (0..100).map(|number| f64::from(number * 7 % 10)).collect();
    let comparison = verdict("rate", &windows[..7], &windows);
    assert_eq!((comparison.verdict, comparison.blocks), (Verdict::TooFew, (7, 100)));
    assert!(comparison.p_value.is_nan() && comparison.superiority.is_nan() && !comparison.baseline.is_nan());
    let trend: Vec<f64> = (0..500).map(f64::from).collect();
    assert_eq!(
        verdict("rate", &trend, &trend).verdict,
        Verdict::TooFew,
        "each block depends on the previous block"
    );
    let comparison = verdict("rate", &[], &windows);
    assert!(comparison.verdict == Verdict::TooFew && comparison.baseline.is_nan());
}

/// Among many unchanged quantities, some have small p-values by chance. The test fails if two of them count as changed.
#[test]
fn p_values_are_adjusted_for_their_number() {
    let mut chance = fastrand::Rng::with_seed(4);
    let (mut one_by_one, mut together) = (0, 0);
    for _ in 0..20 {
        let mut all: Vec<Comparison> = (0..100)
            .map(|number| {
                let [before, after] = [0; 2].map(|_| {
                    let mut blocks = Blocks::default();
                    correlated(&mut chance, 30, 0.0).iter().for_each(|value| blocks.add(*value));
                    blocks
                });
                one("/imu", &format!("quantity_{number}"), &before, &after)
            })
            .collect();
        one_by_one += all.iter().filter(|change| change.p_value < SIGNIFICANCE).count();
        adjust(&mut all);
        together += all.iter().filter(|one| matches!(one.verdict, Verdict::Worse | Verdict::Better)).count();
    }
    assert!(one_by_one >= 5, "{one_by_one}");
    assert!(together <= 1, "{together}");
}

#[test]
fn profiles_are_kept_as_json_and_have_the_same_windows() {
    let before = profile(&[("rate", &[1.0, 2.5, 1e-3]), ("message_age", &[0.1 + 0.2])]);
    let text = serde_json::to_string(&before).unwrap();
    assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), before);
    let other = Profile::new(Duration::from_millis(100));
    let error = compare(&before, &other).unwrap_err().to_string();
    assert_eq!(
        error,
        "The baseline has windows of 1s, this bag has windows of 100ms: both have to be the same"
    );
}
