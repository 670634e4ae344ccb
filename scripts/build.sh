#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the colcon workspace into install/. Quiet unless something goes wrong.
set -eo pipefail     # no -u: the set-up files that colcon writes use unset variables
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p install
# A workspace built with another environment holds its paths: start anew then.
if [ "$(cat install/.environment 2>/dev/null)" != "$(readlink .venv)" ]; then
    rm -rf build install log && mkdir install
    readlink .venv > install/.environment
fi
source ./env.sh
echo "newfound build: colcon build"
if ! colcon --log-level error build --merge-install --symlink-install --base-paths src \
    --metas colcon.meta --event-handlers console_cohesion- > install/.build_log 2>&1; then
    cat install/.build_log >&2
    exit 1
fi
