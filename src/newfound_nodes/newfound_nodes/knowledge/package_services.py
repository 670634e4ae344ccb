# SPDX-License-Identifier: Apache-2.0
"""`~/export_class` and `~/import_package`: classes that travel between robots."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rclpy.callback_groups import CallbackGroup

from newfound_core.errors import DataError
from newfound_core.packages import Package, PackageError, check_trust, pack, unpack
from newfound_core.packages.keys import SIGNING_NAME, SigningKey, default_keys
from newfound_msgs.srv import ExportClass, ImportPackage
from newfound_nodes.knowledge.owner import KnowledgeOwner
from newfound_runtime.managed_node import ManagedNode
from newfound_runtime.services import RequestError, answering


class PackageServices:
    """Packages go through the services as bytes: no path that a client names is opened."""

    def __init__(
        self,
        node: ManagedNode,
        group: CallbackGroup,
        session: Callable[[], KnowledgeOwner[Any]],  # or raises a RequestError
        learn: Callable[[Package], str],  # queues its job, or raises a PackageError
    ) -> None:
        self._node, self._session, self._learn = node, session, learn
        for kind, name, handler in (
            (ExportClass, "export_class", self._export),
            (ImportPackage, "import_package", self._import),
        ):
            callback = answering(node, handler)
            node.create_service(kind, f"~/{name}", callback, callback_group=group)

    def _export(self, request: Any, response: Any) -> None:
        keys = self._keys()
        try:
            package = self._session().export(request.label, self._node.get_fully_qualified_name())
            key = SigningKey.load(keys) if (keys / SIGNING_NAME).exists() else None
            response.package = pack(package, key)
        except DataError as error:
            raise RequestError("BAD_PACKAGE", str(error)) from error
        response.file_name = f"{_file_name(package.name)}.nfp"
        if key is None:
            response.message = f"not signed: there is no {keys / SIGNING_NAME}"

    def _import(self, request: Any, response: Any) -> None:
        self._session()  # or there is nobody to take it
        try:
            package = unpack(bytes(request.package))
            signed = self._node.param("signed_packages_only")
            response.signer = check_trust(package, self._keys(), require_signature=signed)
            response.job_id = self._learn(package)
        except PackageError as error:
            raise RequestError("BAD_PACKAGE", str(error)) from error
        response.label = package.name

    def _keys(self) -> Path:
        folder = self._node.param("package_keys")
        return Path(folder).expanduser() if folder else default_keys()


def _file_name(label: str) -> str:
    return re.sub(r"[^\w-]+", "_", label).strip("_") or "class"
