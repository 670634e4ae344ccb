# SPDX-License-Identifier: Apache-2.0
"""The open-world detector, for one camera or several.

    ros2 launch newfound_bringup open_world_detector.launch.py cameras:=camera

finds objects in /camera/image_raw by /camera/depth. Each detector has a knowledge base of its own.
perception.launch.py does the work; it runs other nodes, too.
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.substitutions import FindPackageShare

ARGUMENTS = {  # name: default, description
    "cameras": ("camera", "Namespaces of the cameras, separated by commas; each gets a node."),
    "namespace": ("", "Above those of the cameras."),
    "image_topic": ("image_raw", "Topic of the images, in each camera's namespace."),
    "depth_topic": ("depth", "Topic of the depth registered to them, likewise."),
    "proposer": ("", "depth, rpn or whole_image; empty: as in params_file."),
    "proposer_checkpoint": ("", "Model of the proposer rpn; empty: as in params_file."),
    "knowledge_base": ("", "Folder, for one camera only; empty: as in params_file."),
    "image_transport": ("", "raw or compressed; empty: as in params_file."),
    "device": ("", "cpu or cuda; empty: as in params_file."),
    "params_file": ("", "YAML file that wins over config/open_world_detector.yaml."),
    "autostart": ("", "false under a lifecycle manager; empty: as in params_file."),
    "use_composition": ("true", "One process for all cameras, or one for each."),
    "log_level": ("info", "debug, info, warn, error or fatal."),
}


def generate_launch_description() -> LaunchDescription:
    both = PathJoinSubstitution(
        [FindPackageShare("newfound_bringup"), "launch", "perception.launch.py"]
    )
    passed = {name: LaunchConfiguration(name) for name in ARGUMENTS}
    passed["nodes"] = "open_world_detector"
    passed["detector_checkpoint"] = LaunchConfiguration("checkpoint")
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
