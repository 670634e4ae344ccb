#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes requirements/lock.txt: one set of versions for every requirements file, used as
# constraints. Resolved for Python 3.11 on this platform and then checked for 3.12: a universal
# resolution would also have to please Python 3.13 and later, where NumPy 1 holds much back.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
uv=$(command -v uv || ls -d "${NEWFOUND_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/newfound}"/uv-*/bin/uv | tail -1)
compile() { "$uv" pip compile --quiet --no-header --no-annotate "$@" requirements/*.in; }
compile --upgrade --python-version 3.11 --output-file requirements/lock.txt
compile --python-version 3.12 --constraints requirements/lock.txt --output-file /dev/null
