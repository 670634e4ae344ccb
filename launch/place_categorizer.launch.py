# SPDX-License-Identifier: Apache-2.0
"""The place categorizer, for one camera or several.

    ros2 launch newfound_bringup place_categorizer.launch.py checkpoint:=/path/to/model

perception.launch.py does the work; it runs both nodes.
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.substitutions import FindPackageShare

ARGUMENTS = {  # name: default, description
    "cameras": ("camera", "Namespaces of the cameras, separated by commas; each gets a node."),
    "namespace": ("", "Above those of the cameras."),
    "image_topic": ("image_raw", "Topic of the images, in each camera's namespace."),
    "image_transport": ("", "raw or compressed; empty: as in params_file."),
    "device": ("", "cpu or cuda; empty: as in params_file."),
    "params_file": ("", "YAML file that wins over config/place_categorizer.yaml."),
    "autostart": ("", "false under a lifecycle manager; empty: as in params_file."),
    "use_composition": ("true", "One process for all cameras, or one for each."),
    "log_level": ("info", "debug, info, warn, error or fatal."),
}


def generate_launch_description() -> LaunchDescription:
    both = PathJoinSubstitution(
        [FindPackageShare("newfound_bringup"), "launch", "perception.launch.py"]
    )
    passed = {name: LaunchConfiguration(name) for name in ARGUMENTS}
    passed["nodes"] = "place_categorizer"
    passed["places_checkpoint"] = LaunchConfiguration("checkpoint")
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "checkpoint",
                default_value="",
                description="Folder or name of the model; empty: as in params_file.",
            ),
            *(
                DeclareLaunchArgument(name, default_value=default, description=description)
                for name, (default, description) in ARGUMENTS.items()
            ),
            IncludeLaunchDescription(both, launch_arguments=passed.items()),
        ]
    )
