#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every test, shared out among processes: one more than there are cores, since many tests wait
# (NEWFOUND_TEST_PROCESSES for another number). Arguments go to pytest.
set -eu
unset PYTHONDONTWRITEBYTECODE   # many tests start processes; each would compile our modules again
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec python -m pytest -p no:cacheprovider --numprocesses "${NEWFOUND_TEST_PROCESSES:-$(($(nproc) + 1))}" \
    --dist worksteal "$@" src tests
