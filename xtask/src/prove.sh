#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cargo xtask prove`: runs checks that take too long for CI, with the nightly toolchain in $TOOLCHAIN.
set -euo pipefail

# Each check has a separate target directory, because its compiler flags differ from those of all other builds.
nightly() {
  rustup component add --toolchain "$TOOLCHAIN" "$@" || rustup toolchain install "$TOOLCHAIN" --profile minimal
  rustup component add --toolchain "$TOOLCHAIN" "$@"
  export CARGO_TARGET_DIR=$CARGO_TARGET_DIR/$part
}

# Tests the code that has `unsafe` or uses the project's own lock. Other code is left out: Miri cannot call ROS's C
# libraries. Isolation is off, because the tests read the clock and the environment. Properties are tested with few
# values, because Miri is slow.
miri() {
  nightly miri rust-src
  export MIRIFLAGS='-Zmiri-disable-isolation -Zmiri-strict-provenance' PROPTEST_CASES=1
  rustup run "$TOOLCHAIN" cargo miri test --package topic_statistics_core --lib -- \
    collector:: record::clocks::clock:: record::clocks::host:: record::locks:: record::topics::recorder::
  rustup run "$TOOLCHAIN" cargo miri test --package rclrs_topic_statistics --lib -- \
    a_stamp_is_read_at_its_place a_string_is_read_up_to_its_first_nul lengths_are_read_at_their_places \
    n_values_end_where_one_after_the_other_ends
  rustup run "$TOOLCHAIN" cargo miri test --package topic_statistics_monitor --lib -- \
    the_pointer_to_a_struct_may_read_all_of_it
}

# Tests the preloaded library in a program without rcl and DDS. Then runs the unit tests, and the integration tests that
# need only one process, because other processes are not instrumented. Tests of memory are left out, because
# AddressSanitizer keeps freed memory.
sanitizer() {
  local sanitizer=$1 host
  nightly rust-src
  host=$(rustc -vV | sed -n 's/^host: //p')
  test() { rustup run "$TOOLCHAIN" cargo test -Zbuild-std --target "$host" --no-fail-fast --lib "$@"; }
  export RUSTFLAGS=-Zsanitizer=$sanitizer FASTDDS_BUILTIN_TRANSPORTS=UDPv4
  # The code of ROS, Fast DDS and C++ is not instrumented, so ThreadSanitizer does not see its locks.
  export TSAN_OPTIONS=ignore_noninstrumented_modules=1
  test --package topic_statistics_preload --test threads
  # rcl and Fast DDS never free some memory, so leaks are not reported here. The tests themselves look for leaks of the
  # library.
  export ASAN_OPTIONS=detect_leaks=0
  test --package rclrs_topic_statistics --package topic_statistics_core --test it -- \
    tests:: bounds:: code:: compatibility:: errors:: forms:: lifetime:: options:: parameters:: \
    --skip a_stopped_reader_neither_fills_memory
}

# .cargo/mutants.toml selects the code that is changed, and the tests that must notice these changes.
mutants() {
  cargo install --locked --version 27.1.0 --root target/tools/cargo-mutants cargo-mutants
  target/tools/cargo-mutants/bin/cargo-mutants mutants --output "$CARGO_TARGET_DIR"
}

for part in "$@"; do
  begun=$SECONDS
  case $part in
    miri | mutants) ("$part") ;;
    races) (sanitizer thread) ;;
    memory) (sanitizer address) ;;
    *) echo "There is no part $part" >&2 && exit 2 ;;
  esac
  echo "$part: passed, $((SECONDS - begun)) s"
done
