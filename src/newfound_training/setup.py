# SPDX-License-Identifier: Apache-2.0
from setuptools import find_packages, setup

package_name = "newfound_training"
commands = (
    "train_source",
    "evaluate_online",
    "train_places",
    "evaluate_places",
    "train_latent",
    "evaluate_latent",
    "train_openworld",
    "evaluate_openworld",
    "learn",
    "train_task",
    "make_delta",
    "apply_delta",
    "evaluate_tasks",
    "train_segmentation",
    "learn_segment",
    "cut_masks",
    "evaluate_segmentation",
    "make_names",
    "train_names",
    "evaluate_names",
    "train_detector",
    "cut_crops",
    "evaluate_detector",
    "train_predictive",
    "evaluate_predictive",
    "choose_layers",
    "calibrate",
    "export",
)

setup(
    name=package_name,
    version="0.1.0",
    packages=find_packages(exclude=["test"]),
    package_data={package_name: ["py.typed", "presets/*/*.yaml", "naming/*.txt"]},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{package_name}"]),
        (f"share/{package_name}", ["package.xml"]),
    ],
    install_requires=["setuptools"],
    zip_safe=False,
    maintainer="newfound maintainers",
    maintainer_email="maintainers@newfound.example",
    description="From folders of images to checkpoints, tables and figures.",
    license="Apache-2.0",
    tests_require=["pytest"],
    entry_points={
        "console_scripts": [f"{name} = {package_name}.commands:{name}" for name in commands]
    },
)
