# SPDX-License-Identifier: Apache-2.0
from setuptools import find_packages, setup

package = "newfound_nodes"

setup(
    name=package,
    version="0.1.0",
    packages=find_packages(exclude=["test"]),
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{package}"]),
        (f"share/{package}", ["package.xml"]),
    ],
    install_requires=["setuptools"],
    zip_safe=False,
    maintainer="newfound maintainers",
    maintainer_email="maintainers@newfound.example",
    description="The perception nodes of newfound and the curator.",
    license="Apache-2.0",
    entry_points={
        "console_scripts": [
            "adaptive_classifier = newfound_runtime.executable:main",
            "container = newfound_runtime.executable:main",
            "curator = newfound_runtime.executable:main",
            "object_memory = newfound_runtime.executable:main",
            "open_world_detector = newfound_runtime.executable:main",
            "place_categorizer = newfound_runtime.executable:main",
            "segmenter = newfound_runtime.executable:main",
        ],
        # Names the container knows; one line per executable above that is a node.
        "newfound.nodes": [
            "adaptive_classifier = newfound_nodes.adaptive_classifier:AdaptiveClassifier",
            "curator = newfound_nodes.curation.node:Curator",
            "object_memory = newfound_nodes.object_memory.node:ObjectMemoryNode",
            "open_world_detector = newfound_nodes.open_world.node:OpenWorldDetector",
            "place_categorizer = newfound_nodes.place_categorizer:PlaceCategorizer",
            "segmenter = newfound_nodes.segmenter.node:SegmenterNode",
        ],
    },
)
