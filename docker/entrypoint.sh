#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A command in the environment of ROS and newfound; without one, the suite with the parameter file
# NEWFOUND_PARAMS (a path, or the name of a file in config/; default robot.yaml), and with the
# operator's page if NEWFOUND_CONSOLE is true.
set -eo pipefail    # no -u: ROS's set-up files use unset variables
if [ -e /opt/ros/jazzy/setup.bash ]; then source /opt/ros/jazzy/setup.bash; fi
source /newfound/env.sh
[ $# -eq 0 ] || exec "$@"
params=${NEWFOUND_PARAMS:-robot.yaml}
if command -v ros2 > /dev/null; then
    exec ros2 launch newfound_bringup newfound.launch.py "params_file:=$params" \
        "console:=${NEWFOUND_CONSOLE:-false}"
fi
case $params in */*) ;; *) params=/newfound/config/$params ;; esac
if [ "${NEWFOUND_CONSOLE:-false}" = true ]; then
    cd /newfound && exec python -m scripts.up --params "$params"
fi
exec python -m newfound_runtime.container --ros-args --params-file "$params"
