# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from setuptools import find_packages, setup

package_name = "newfound_sim"


def clips():
    """Every folder of a shipped clip, with its files."""
    for folder in sorted({file.parent for file in Path("clips").rglob("*") if file.is_file()}):
        files = sorted(str(file) for file in folder.iterdir() if file.is_file())
        yield f"share/{package_name}/{folder}", files


setup(
    name=package_name,
    version="0.1.0",
    packages=find_packages(exclude=["test"]),
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{package_name}"]),
        (f"share/{package_name}", ["package.xml"]),
        *clips(),
    ],
    install_requires=["setuptools"],
    zip_safe=False,
    maintainer="newfound maintainers",
    maintainer_email="maintainers@newfound.example",
    description="Workbenches and rooms rendered with Mitsuba 3, and a simulated camera",
    license="Apache-2.0",
    entry_points={
        "console_scripts": ["sim_camera = newfound_runtime.executable:main"],
        "newfound.nodes": ["sim_camera = newfound_sim.sim_camera:SimCamera"],
    },
)
