#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Repairs the wheels in the virtual environment $1. Each file is replaced as a whole, or not at all.
set -eu
cd "$1"

# Libraries of the wheels are linked to the Python type support, which needs symbols of libpython. A Rust program does
# not have these symbols. So this link is removed, except in the Python type support, because only that uses it.
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

# CMake files contain the paths of Python's and numpy's headers on the machine that built the wheels.
python=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))' | sed 's/[&|\\]/\\&/g')
numpy=$(python3 -c 'import numpy; print(numpy.get_include())' | sed 's/[&|\\]/\\&/g')
grep -lr /opt/python/ share/*/cmake | while read -r file; do
  echo "$file"
  sed -i -e "s|/opt/python/[^\"; ]*/numpy/[^\"; ]*|$numpy|g" -e "s|/opt/python/[^\"; ]*|$python|g" "$file"
done
