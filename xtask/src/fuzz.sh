#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cargo xtask fuzz`: builds the fuzz targets in the arguments, or all targets, with $CARGO_FUZZ. Runs each target for
# $SECONDS_EACH (0: not at all) from its seeds. Prints the last line of libFuzzer's progress, or the end of a failed
# target's output.
set -euo pipefail
# This build has a separate directory, because cargo allows only one build at a time in a directory. In the same
# directory, a test that builds a program would wait for this build, which `.ci/run` runs at a low priority.
export place=$CARGO_TARGET_DIR/fuzz

run() {
  local program directory=$place/$1
  program=$(ls "$place"/*/debug/"$1")
  rm -rf "$directory"
  mkdir -p "$directory/corpus"
  # libFuzzer writes only to the first corpus, so the seeds do not change. The limits, in bytes, seconds and megabytes,
  # check that a target handles its input in bounded time and memory.
  if RUST_BACKTRACE=0 "$program" -max_len=8192 -timeout=20 -rss_limit_mb=1024 "-artifact_prefix=$directory/" \
    "-max_total_time=$SECONDS_EACH" "$directory/corpus" "testing/fuzz/seeds/$1" > "$directory/log" 2>&1; then
    printf '%-16s %s\n' "$1" "$(grep ' cov: ' "$directory/log" | tail -n 1 | tr '\t' ' ')"
  else
    tail -n 40 "$directory/log"
    echo "FAILED: $1"
    echo "run it again: cargo xtask run -- cargo run --manifest-path testing/fuzz/Cargo.toml --bin $1 -- $directory/crash-..."
    echo "keep it: cp $directory/crash-... testing/fuzz/seeds/$1/"
    return 1
  fi
}
export -f run

targets=("$@")
if [ $# = 0 ]; then
  for file in testing/fuzz/fuzz_targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
fi
# Targets are not optimised for short runs: an optimised target is ten times as fast, but takes twice as long to build.
# The input is handled by safe Rust, so no sanitizer is needed, and a stable compiler is enough. With the profile dev,
# macros and build scripts need not be built again after the tests.
optimised=0
[ "$SECONDS_EACH" -lt 60 ] || optimised=1
one=
[ ${#targets[@]} -gt 1 ] || one=${targets[0]}
CARGO_PROFILE_DEV_INCREMENTAL=false CARGO_PROFILE_DEV_OPT_LEVEL=$optimised RUSTFLAGS=-Cdebuginfo=0 \
  "$CARGO_FUZZ" build --dev --sanitizer none --codegen-units 16 --fuzz-dir testing/fuzz --target-dir "$place" ${one:+"$one"}
[ "$SECONDS_EACH" != 0 ] || exit 0
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I {} bash -euo pipefail -c 'run {}'
