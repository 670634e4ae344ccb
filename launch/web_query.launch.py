# SPDX-License-Identifier: Apache-2.0
"""The node that asks the web what things are called and what they look like.

    ros2 launch newfound_bringup web_query.launch.py contact:=robots@example.org

newfound.launch.py does the work, and has the arguments.
"""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription


def generate_launch_description() -> LaunchDescription:
    suite = str(Path(__file__).with_name("newfound.launch.py"))
    return LaunchDescription(
        [IncludeLaunchDescription(suite, launch_arguments={"nodes": "web_query"}.items())]
    )
