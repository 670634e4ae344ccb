#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes requirements/lock.txt: one consistent set of versions for every requirements file.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
uv=$(command -v uv || ls -d "${NEWFOUND_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/newfound}"/uv-*/bin/uv | tail -1)
"$uv" pip compile --quiet --upgrade --universal --no-header --no-annotate --python-version 3.11 \
    requirements/*.in --output-file requirements/lock.txt
