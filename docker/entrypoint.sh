#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A command in the environment of ROS and newfound.
set -eo pipefail    # no -u: ROS's set-up files use unset variables
source /opt/ros/jazzy/setup.bash
source /newfound/env.sh
exec "$@"
