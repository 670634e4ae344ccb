# SPDX-License-Identifier: Apache-2.0
# `source env.sh`: the environment made by `make build`, with the workspace on top (bash or zsh).
newfound_root=$(cd "$(dirname "${BASH_SOURCE[0]:-${(%):-%x}}")" && pwd)
if [ ! -e "$newfound_root/.venv/bin/activate" ]; then
    echo "env.sh: no environment yet: run 'make build' in $newfound_root first" >&2
    return 1
fi
. "$newfound_root/.venv/bin/activate"
if [ -z "${ROS_DISTRO:-}" ]; then
    # The wheels put ROS into the environment itself.
    export AMENT_PREFIX_PATH=$VIRTUAL_ENV CMAKE_PREFIX_PATH=$VIRTUAL_ENV
    # Their bootstrap would re-execute every Python once to set this; set here, it need not.
    newfound_libs=$(printf '%s:' "$VIRTUAL_ENV"/lib/python3*/site-packages/ros_*.libs)
    export LD_LIBRARY_PATH=$VIRTUAL_ENV/lib:$newfound_libs${LD_LIBRARY_PATH:-}
    export _ROS_WHEELS_BOOTSTRAP_COMPLETE=1
    unset newfound_libs
fi
if [ -e "$newfound_root/install/local_setup.bash" ]; then
    . "$newfound_root/install/local_setup.${ZSH_VERSION:+z}${BASH_VERSION:+ba}sh"
fi
# Shared-memory segments large enough for camera images; see docs/dds.md.
export FASTRTPS_DEFAULT_PROFILES_FILE=${FASTRTPS_DEFAULT_PROFILES_FILE:-$newfound_root/config/fastdds.xml}
unset newfound_root
