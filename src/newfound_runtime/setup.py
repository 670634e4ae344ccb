# SPDX-License-Identifier: Apache-2.0
from setuptools import find_packages, setup

package = "newfound_runtime"

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
    description="What every newfound node shares: lifecycle base, image input, diagnostics.",
    license="Apache-2.0",
)
