#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mypy on every Python package, one at a time; what ROS does not type counts as Any.
set -euo pipefail
unset PYTHONPATH    # of a sourced workspace: with it other packages have types, and findings differ
cd "$(dirname "${BASH_SOURCE[0]}")/.."
failed=()
for package in newfound_core newfound_runtime newfound_nodes newfound_web newfound_console newfound_sim newfound_training; do
    echo "mypy: $package"
    (cd "src/$package" && mypy --config-file ../../pyproject.toml "$package") || failed+=("$package")
done
[ ${#failed[@]} -eq 0 ] || { echo "mypy: errors in ${failed[*]}" >&2; exit 1; }
