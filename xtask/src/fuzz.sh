#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the fuzz target $3 for $2 seconds. It was built in $1, and has a corpus of its own there that begins with its
# seeds. Prints the last line of libFuzzer's progress, or the end of its output if it has failed.
set -eu
program=$(ls "$1"/*/debug/"$3") directory=$1/$3
rm -rf "$directory"
mkdir -p "$directory/corpus"
# libFuzzer writes to the first corpus only. Input from the network or from a file is handled in bounded time and memory:
# the limits of an input are in bytes, those of a run in seconds and megabytes.
if RUST_BACKTRACE=0 "$program" -max_len=8192 -timeout=20 -rss_limit_mb=1024 "-artifact_prefix=$directory/" \
  "-max_total_time=$2" "$directory/corpus" "testing/fuzz/seeds/$3" > "$directory/log" 2>&1; then
  printf '%-16s %s\n' "$3" "$(grep ' cov: ' "$directory/log" | tail -n 1 | tr '\t' ' ')"
else
  tail -n 40 "$directory/log"
  echo "FAILED: $3"
  echo "run it again: cargo xtask run -- cargo run --manifest-path testing/fuzz/Cargo.toml --bin $3 -- $directory/crash-..."
  echo "keep it: cp $directory/crash-... testing/fuzz/seeds/$3/"
  exit 1
fi
