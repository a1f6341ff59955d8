#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the fuzz target $4 for $3 seconds, with a corpus of its own in $2 that begins with its seeds. Prints the last line
# of libFuzzer's progress, or the end of its output if it has failed.
set -eu
program=$1/$4 directory=$2/$4
rm -rf "$directory"
mkdir -p "$directory/corpus"
# libFuzzer writes to the first corpus only. Input from the network or from a file is handled in bounded time and memory:
# the limits of an input are in bytes, those of a run in seconds and megabytes.
if RUST_BACKTRACE=0 "$program" -max_len=8192 -timeout=20 -rss_limit_mb=1024 "-artifact_prefix=$directory/" \
  "-max_total_time=$3" "$directory/corpus" "testing/fuzz/seeds/$4" > "$directory/log" 2>&1; then
  printf '%-16s %s\n' "$4" "$(grep ' cov: ' "$directory/log" | tail -n 1 | tr '\t' ' ')"
else
  tail -n 40 "$directory/log"
  echo "FAILED: $4"
  echo "run it again: cargo xtask run -- cargo run --manifest-path testing/fuzz/Cargo.toml --bin $4 -- $directory/crash-..."
  echo "keep it: cp $directory/crash-... testing/fuzz/seeds/$4/"
  exit 1
fi
