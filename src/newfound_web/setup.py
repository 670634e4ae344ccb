# SPDX-License-Identifier: Apache-2.0
from setuptools import find_packages, setup

package = "newfound_web"

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
    description="Label queries and image fetches, from web services or local sources",
    license="Apache-2.0",
    entry_points={
        "console_scripts": ["web_query = newfound_runtime.executable:main"],
        "newfound.nodes": ["web_query = newfound_web.web_query:WebQuery"],
    },
)
