#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every test, in two processes side by side: the packages without ROS, and the others, whose
# tests mostly wait. Arguments go to pytest. What the first has to say follows the second.
set -u
quietly=$(mktemp)
python -m pytest -p no:cacheprovider "$@" src/newfound_core src/newfound_training > "$quietly" 2>&1 &
first=$!
trap 'kill "$first" 2> /dev/null; rm -f "$quietly"' EXIT
python -m pytest -p no:cacheprovider "$@" \
    src/newfound_runtime src/newfound_nodes src/newfound_web src/newfound_sim tests
second_code=$?
wait "$first"
first_code=$?
cat "$quietly"
if [ "$first_code" -ne 0 ] || [ "$second_code" -ne 0 ]; then
    echo "tests failed: newfound_core and newfound_training $first_code, the others $second_code" >&2
    exit 1
fi
