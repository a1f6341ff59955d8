//! One message through both collectors, beside its floor: the reading of the clock that it needs.

use std::{hint::black_box, time::SystemTime};

use criterion::{criterion_group, criterion_main, Criterion};
use rclrs_topic_statistics::collector::{AgeCollector, PeriodCollector};

fn collectors(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("message");
    group.bench_function("clock", |bencher| bencher.iter(SystemTime::now));
    group.bench_function("age_and_period", |bencher| {
        let (mut age, mut period) = (AgeCollector::default(), PeriodCollector::default());
        let mut now = 1_790_000_000_000_000_000;
        bencher.iter(|| {
            now += 10_000_000;
            age.accept(black_box(now - 2_000_000), now);
            period.accept(black_box(now));
        });
        black_box((age, period));
    });
    group.finish();
}

criterion_group!(benches, collectors);
criterion_main!(benches);
