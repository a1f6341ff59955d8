#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the picture of a report in docs/bags.md anew, from a recording of a minute. Needs Chromium:
# cargo xtask run -- docs/pictures/report.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

cargo build -p rclrs_topic_statistics_examples -p topic_statistics_monitor -p topic_statistics_bag
programs=$(realpath "${CARGO_TARGET_DIR:-target}/debug")
picture=$PWD/docs/pictures/report.png
directory=$(mktemp -d)
talker=
# shellcheck disable=SC2317 # the trap calls it
clean() {
  if [ -n "$talker" ]; then kill "$talker" || true; fi
  rm -rf "$directory"
}
trap clean EXIT
cd "$directory"
export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST

"$programs/talker" --ros-args -p rate:=100.0 > talker.txt &
talker=$!
"$programs/topic_monitor" imu --depth 10 --record robot.mcap --max-duration 60 --plain > lines.txt &
monitor=$!
sleep 20
kill -STOP $monitor # The recorder has no CPU time: messages are lost, and others are late.
sleep 0.4
kill -CONT $monitor
sleep 20
kill -STOP $talker # The sensor is silent.
sleep 2.5
kill -CONT $talker
wait $monitor

# The conditions are not fulfilled: that is shown.
PATH=$programs:$PATH bag_statistics robot.mcap --report report.html --require 'rate>=90 age.max<50 lost=0' || [ $? = 1 ]
chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
  --disable-component-update --disable-sync --user-data-dir="$directory/chromium" --hide-scrollbars \
  --force-device-scale-factor=1 --window-size=960,1275 --screenshot="$picture" "file://$directory/report.html"
