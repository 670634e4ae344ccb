# SPDX-License-Identifier: Apache-2.0
from setuptools import find_packages, setup

package_name = "newfound_sim"

setup(
    name=package_name,
    version="0.1.0",
    packages=find_packages(exclude=["test"]),
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{package_name}"]),
        (f"share/{package_name}", ["package.xml"]),
    ],
    install_requires=["setuptools"],
    zip_safe=True,
    maintainer="newfound maintainers",
    maintainer_email="maintainers@newfound.example",
    description="Workbenches and rooms rendered with Mitsuba 3, and a simulated camera",
    license="Apache-2.0",
)
