# SPDX-License-Identifier: Apache-2.0
"""The simulated camera.

    ros2 launch newfound_bringup sim_camera.launch.py source:=/path/to/clip rate:=30.0

Its topics are those of a camera driver: /camera/image_raw, /camera/camera_info and so on.
"""

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction, SetEnvironmentVariable
from launch.substitutions import (
    EnvironmentVariable,
    LaunchConfiguration,
    PathJoinSubstitution,
)
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

CONFIG = [FindPackageShare("newfound_bringup"), "config"]


def generate_launch_description() -> LaunchDescription:
    profile = PathJoinSubstitution([*CONFIG, "fastdds.xml"])
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "params_file",
                default_value=PathJoinSubstitution([*CONFIG, "sim_camera.yaml"]),
                description="YAML file with the node's parameters.",
            ),
            DeclareLaunchArgument(
                "source",
                default_value="",
                description="Clip, scenario, image folder or video; empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "rate",
                default_value="",
                description="Frames per second, 0 as recorded; empty: as in params_file.",
            ),
            DeclareLaunchArgument(
                "loop", default_value="", description="true or false; empty: as in params_file."
            ),
            DeclareLaunchArgument(
                "namespace", default_value="camera", description="Of the node and its topics."
            ),
            DeclareLaunchArgument(
                "log_level", default_value="info", description="debug, info, warn, error or fatal."
            ),
            # Shared memory that holds camera images, unless the user has a profile of his own.
            SetEnvironmentVariable(
                "FASTRTPS_DEFAULT_PROFILES_FILE",
                EnvironmentVariable("FASTRTPS_DEFAULT_PROFILES_FILE", default_value=profile),
            ),
            OpaqueFunction(function=_camera),
        ]
    )


def _camera(context: LaunchContext) -> list[Node]:
    """The node; arguments that were given win over the parameter file."""
    kinds = {"source": str, "rate": float, "loop": lambda text: text.lower() == "true"}
    given = {name: LaunchConfiguration(name).perform(context) for name in kinds}
    overrides = {name: kinds[name](text) for name, text in given.items() if text}
    return [
        Node(
            package="newfound_sim",
            executable="sim_camera",
            namespace=LaunchConfiguration("namespace"),
            parameters=[LaunchConfiguration("params_file"), overrides],
            arguments=["--ros-args", "--log-level", LaunchConfiguration("log_level")],
            output="screen",
            emulate_tty=True,
        )
    ]
