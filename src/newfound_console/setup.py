# SPDX-License-Identifier: Apache-2.0
from setuptools import find_packages, setup

package = "newfound_console"

setup(
    name=package,
    version="0.1.0",
    packages=find_packages(exclude=["test"]),
    package_data={package: ["static/*", "static/pages/*"]},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{package}"]),
        (f"share/{package}", ["package.xml"]),
    ],
    install_requires=["setuptools"],
    zip_safe=False,
    maintainer="newfound maintainers",
    maintainer_email="maintainers@newfound.example",
    description="The operator's web page",
    license="Apache-2.0",
    entry_points={
        "console_scripts": ["console = newfound_runtime.executable:main"],
        "newfound.nodes": ["console = newfound_console.node:Console"],
    },
)
