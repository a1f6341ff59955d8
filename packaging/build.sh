#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the packages that users install, into target/packages:
#
#   build.sh wheel|deb|archive [TARGET]   bag_statistics; for glibc also topic_statistics with its library; without ROS
#   build.sh ros-deb                      topic_monitor and exporter for the ROS 2 that is sourced
#
# `cargo xtask package --build WHAT` runs this script. It first installs the tools hatchling, cargo-deb, cargo-zigbuild
# and ziglang from PyPI. zig links against an old glibc, so that one build runs on every distribution. zig also builds
# for other processors. For these, set NATIVE to the folder with programs that run on this machine, because the programs
# print their manual pages: NATIVE=target/debug. PROFILE is cargo's profile (default release).
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-}
target=${2:-$(rustc -vV | sed -n 's/^host: //p')}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' topic_statistics_bag/Cargo.toml)
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target} CARGO_PROFILE_RELEASE_STRIP=true
profile=${PROFILE:-release}
out=$PWD/target/packages
prefix=$out/prefix # bin/, lib/, share/

# Copies a program to the prefix, with its manual page and its completions for several shells.
program() {
  local file=$1 name share=$prefix/share
  name=$(basename "$file" .exe)
  mkdir -p "$prefix/bin"
  cp "$file" "$prefix/bin/"
  [ -z "${NATIVE:-}" ] || file=$NATIVE/$name
  mkdir -p "$share"/{man/man1,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
  "$file" --generate man > "$share/man/man1/$name.1"
  "$file" --generate complete-bash > "$share/bash-completion/completions/$name"
  "$file" --generate complete-zsh > "$share/zsh/site-functions/_$name"
  "$file" --generate complete-fish > "$share/fish/vendor_completions.d/$name.fish"
}

# Builds the programs for the target platform, and copies them to the prefix.
build() {
  local built=$CARGO_TARGET_DIR/$target/${profile/#dev/debug}
  local cargo=(cargo build) packages=(--package topic_statistics_bag) to=$target
  case $target in
    *-linux-gnu) to=$target.2.17 packages+=(--package topic_statistics_preload) ;;
  esac
  [[ $target != *-linux-* ]] || cargo=(cargo zigbuild)
  "${cargo[@]}" --locked --profile "$profile" --target "$to" "${packages[@]}"
  rm -rf "$prefix"
  case $target in
    *-windows-*) program "$built/bag_statistics.exe" ;;
    *) program "$built/bag_statistics" ;;
  esac
  case $target in
    *-linux-gnu)
      program "$built/topic_statistics"
      mkdir -p "$prefix/lib"
      cp "$built/libtopic_statistics_preload.so" "$prefix/lib/"
      ;;
  esac
}

# Fails if a wheel has other files than these. Without this check, only users would notice a missing file.
check_wheel() {
  local expected=(scripts/bag_statistics)
  [[ $target != *-windows-* ]] || expected=(scripts/bag_statistics.exe)
  [[ $target != *-linux-gnu ]] || expected+=(
    scripts/topic_statistics
    data/lib/libtopic_statistics_preload.so
    data/share/man/man1/topic_statistics.1
    data/share/bash-completion/completions/topic_statistics
    data/share/fish/vendor_completions.d/topic_statistics.fish
    data/share/zsh/site-functions/_topic_statistics
  )
  expected+=(
    data/share/man/man1/bag_statistics.1
    data/share/bash-completion/completions/bag_statistics
    data/share/fish/vendor_completions.d/bag_statistics.fish
    data/share/zsh/site-functions/_bag_statistics
  )
  diff <(printf '%s\n' "${expected[@]}" | LC_ALL=C sort) <(python3 -c 'import sys, zipfile
names = [name.partition(".data/")[2] for name in zipfile.ZipFile(sys.argv[1]).namelist()]
sys.stdout.buffer.write("".join(name + "\n" for name in sorted(filter(None, names))).encode())' "$1") \
    || { echo "$1 lacks the files with <, or has those with > besides" >&2 && exit 1; }
}

# Prints the Debian changelog of a package.
changelog() {
  printf '%s (%s-1) unstable; urgency=medium\n\n  * https://github.com/rclrs-topic-statistics/rclrs_topic_statistics/blob/main/CHANGELOG.md\n\n -- %s  %s\n' \
    "$1" "$version" "$maintainer" "$(date -uR -d "@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}")"
}
maintainer='The rclrs_topic_statistics developers <rclrs-topic-statistics@users.noreply.github.com>'

case $what in
  wheel)
    build
    case $target in
      *-linux-gnu) platform=manylinux_2_17_${target%%-*} ;;
      *-linux-musl) platform=musllinux_1_2_${target%%-*} ;;
      aarch64-apple-darwin) platform=macosx_11_0_arm64 ;;
      x86_64-apple-darwin) platform=macosx_10_12_x86_64 ;;
      x86_64-pc-windows-msvc) platform=win_amd64 ;;
    esac
    (cd packaging/pypi && WHEEL_PREFIX=$prefix WHEEL_PLATFORM=$platform python3 -m hatchling build -t wheel -d "$out")
    check_wheel "$out/topic_statistics-$version-py3-none-$platform.whl"
    ;;
  deb)
    build
    for package in bag preload; do
      changelog topic-statistics-$package > "$prefix/changelog"
      cargo deb --no-build --no-strip --target "$target" --package topic_statistics_$package --output "$out/"
    done
    ;;
  archive) # for `cargo binstall`, and for machines without a package manager
    build
    cp LICENSE "$prefix"
    tar -czf "$out/topic_statistics-$target.tar.gz" -C "$prefix" .
    ;;
  ros-deb)
    architecture=$(dpkg --print-architecture)
    for package in topic_statistics_monitor:topic_monitor topic_statistics_exporter:exporter; do
      program=${package#*:} package=${package%:*}
      name=ros-$ROS_DISTRO-${package//_/-} root=$out/root
      # Without the feature `interfaces`, because no distribution of ROS 2 contains topic_statistics_interfaces.
      cargo build --locked --release --package "$package" --no-default-features
      rm -rf "$root"
      prefix=$root/opt/ros/$ROS_DISTRO
      program "$CARGO_TARGET_DIR/release/$program"
      install -d "$prefix/lib/$package" "$root/DEBIAN" "$prefix/share/ament_index/resource_index/packages"
      mv "$prefix/bin/$program" "$prefix/lib/$package/" # for `ros2 run`
      ln -s "../lib/$package/$program" "$prefix/bin/$program"
      touch "$prefix/share/ament_index/resource_index/packages/$package"
      install -Dm 644 -t "$prefix/share/$package" "$package/package.xml"
      mkdir -p "$root/usr/share/doc/$name"
      printf 'Copyright: 2026 The rclrs_topic_statistics developers\nLicense: Apache-2.0, in /usr/share/common-licenses/Apache-2.0\n' \
        > "$root/usr/share/doc/$name/copyright"
      changelog "$name" | gzip -9n > "$root/usr/share/doc/$name/changelog.Debian.gz"
      depends=$(sed -n 's|^  <depend>\(.*\)</depend>|\1|p' "$package/package.xml" | grep -v topic_statistics \
        | sed "s/^/ros-$ROS_DISTRO-/" | tr _ - | paste -sd ,)
      cat > "$root/DEBIAN/control" << END
Package: $name
Version: $version-1
Architecture: $architecture
Maintainer: $maintainer
Section: misc
Priority: optional
Homepage: https://github.com/rclrs-topic-statistics/rclrs_topic_statistics
Depends: libc6, libgcc-s1, ${depends//,/, }
Description: $(sed -n 's|^description = "\(.*\)"$|\1|p' "$package/Cargo.toml")
 For ROS 2 $ROS_DISTRO. A colcon workspace also has distributions and loss events.
END
      (cd "$root" && find opt usr -type f -exec md5sum {} + > DEBIAN/md5sums)
      dpkg-deb --root-owner-group --build "$root" "$out"
    done
    ;;
  *)
    sed -n '3,12s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
