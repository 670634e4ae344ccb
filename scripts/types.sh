#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mypy on the packages that hold the methods; ROS packages have no types to check against.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for package in newfound_core newfound_training newfound_sim; do
    [ -d "src/$package" ] || continue
    (cd "src/$package" && mypy --config-file ../../pyproject.toml "$package")
done
