# SPDX-License-Identifier: Apache-2.0
from setuptools import find_packages, setup

package_name = "newfound_core"

setup(
    name=package_name,
    version="0.1.0",
    packages=find_packages(exclude=["test"]),
    package_data={package_name: ["py.typed"]},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{package_name}"]),
        (f"share/{package_name}", ["package.xml"]),
    ],
    install_requires=["setuptools"],
    zip_safe=False,
    maintainer="newfound maintainers",
    maintainer_email="maintainers@newfound.example",
    description="Adaptation, domain generalisation and open-world recognition as PyTorch modules.",
    license="Apache-2.0",
    tests_require=["pytest"],
    entry_points={"console_scripts": ["package = newfound_core.packages.__main__:main"]},
)
