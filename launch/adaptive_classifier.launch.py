# SPDX-License-Identifier: Apache-2.0
"""The adaptive classifier, for one camera or several.

    ros2 launch newfound_bringup adaptive_classifier.launch.py checkpoint:=/path/to/model

perception.launch.py does the work and has the other arguments, such as cameras and params_file.
"""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.substitutions import LaunchConfiguration


def generate_launch_description() -> LaunchDescription:
    chosen = {
        "nodes": "adaptive_classifier",
        "classifier_checkpoint": LaunchConfiguration("checkpoint"),
    }
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "checkpoint",
                default_value="",
                description="Folder or name of the model; empty: as in params_file.",
            ),
            # A plain path, so that `ros2 launch --show-args` finds the arguments in there.
            IncludeLaunchDescription(
                str(Path(__file__).with_name("perception.launch.py")),
                launch_arguments=chosen.items(),
            ),
        ]
    )
