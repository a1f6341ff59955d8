#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cargo xtask fuzz`: builds the fuzz targets, all of them if none is named, by $CARGO_FUZZ, and runs each for $SECONDS_EACH
# from its seeds. Prints the last line of libFuzzer's progress, or the end of the output of a target that has failed.
set -euo pipefail
# Not with the tests: cargo lets one build at a time have a directory, and a test that builds a program would wait for this
# one, which `.ci/run` gives only the time that nothing else wants.
export place=$CARGO_TARGET_DIR/fuzz

run() {
  local program directory=$place/$1
  program=$(ls "$place"/*/debug/"$1")
  rm -rf "$directory"
  mkdir -p "$directory/corpus"
  # libFuzzer writes to the first corpus only. Input from the network or from a file is handled in bounded time and
  # memory: the limits of an input are in bytes, those of a run in seconds and megabytes.
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
# Quickly, because they are built once: an optimised target does ten times as much, and takes twice as long to build. Safe
# Rust handles the inputs: a sanitizer would find nothing, and a stable compiler is enough. With the profile dev, macros
# and build scripts are those of the tests.
optimised=0
[ "$SECONDS_EACH" -lt 60 ] || optimised=1
one=
[ ${#targets[@]} -gt 1 ] || one=${targets[0]}
CARGO_PROFILE_DEV_INCREMENTAL=false CARGO_PROFILE_DEV_OPT_LEVEL=$optimised RUSTFLAGS=-Cdebuginfo=0 \
  "$CARGO_FUZZ" build --dev --sanitizer none --codegen-units 16 --fuzz-dir testing/fuzz --target-dir "$place" ${one:+"$one"}
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I {} bash -euo pipefail -c 'run {}'
