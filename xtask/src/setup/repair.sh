#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Repairs the wheels in the virtual environment $1. Each file is either replaced completely or not changed.
set -eu
cd "$1"

# Libraries are linked to the libraries of the Python type support, which need libpython's symbols. A Rust program does
# not have these symbols, and only the Python type support itself uses them. So the links are removed.
for library in lib/lib*.so*; do
  case $library in *__rosidl_generator_py.so | *.part) continue ;; esac
  [ -L "$library" ] && continue
  echo "$library"
  patchelf --print-needed "$library" > needed.part
  needed=$(sed -n 's/.*__rosidl_generator_py\.so$/--remove-needed &/p' needed.part)
  [ -z "$needed" ] && continue
  # shellcheck disable=SC2086 # options
  patchelf $needed --output "$library.part" "$library"
  mv "$library.part" "$library"
done
rm -f needed.part

# CMake files contain the paths that the headers of Python and numpy had on the machine that built the wheels.
python=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))' | sed 's/[&|\\]/\\&/g')
numpy=$(python3 -c 'import numpy; print(numpy.get_include())' | sed 's/[&|\\]/\\&/g')
grep -lr /opt/python/ share/*/cmake | while read -r file; do
  echo "$file"
  sed -i -e "s|/opt/python/[^\"; ]*/numpy/[^\"; ]*|$numpy|g" -e "s|/opt/python/[^\"; ]*|$python|g" "$file"
done
