# SPDX-License-Identifier: Apache-2.0
"""`console`: the operator's page, a web server that shows and answers what the other nodes say."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from newfound_console.bridge import Bridge
from newfound_console.console import Console as Pages
from newfound_console.console import Settings
from newfound_console.inbox_actions import InboxActions
from newfound_console.knowledge_actions import KnowledgeActions
from newfound_console.other_actions import DrawActions, LightActions, ObjectActions, TeachActions
from newfound_console.security import Access, is_loopback, read_token
from newfound_console.server import WebServer, make_app
from newfound_runtime.managed_node import LoadError, ManagedNode
from newfound_runtime.parameters import Parameter

ACTIONS = (
    InboxActions,
    KnowledgeActions,
    TeachActions,
    DrawActions,
    ObjectActions,
    LightActions,
)
PARAMETERS = (
    Parameter(
        "host",
        "127.0.0.1",
        "Address to listen on. With one that other machines can reach, a token is needed.",
    ),
    Parameter("port", 8420, "Port to listen on; 0: any free one.", 0, 65535),
    Parameter(
        "allowed_hosts",
        [""],
        "Further names that browsers may use for this machine, besides its own and its addresses.",
    ),
    Parameter(
        "token_file",
        "",
        "File of the token, of mode 0600; empty: newfound/<name of the node>.token in $ROS_HOME.",
    ),
    Parameter("image_rate", 6.0, "Images sent per second and camera, at most.", 0.1, 30.0),
    Parameter("image_side", 640, "Longer side of the images sent (pixels).", 64, 1920),
)


class Console(ManagedNode):
    """Serves the page while it is active."""

    NAME = "console"
    PARAMETERS = PARAMETERS

    def __init__(self, name: str | None = None, **node_arguments: Any) -> None:
        self._server: WebServer | None = None
        self._bridge: Bridge | None = None
        self.pages: Pages | None = None
        super().__init__(name, **node_arguments)

    @property
    def address(self) -> str:
        """Where the page is; empty while the node is not active."""
        if self._server is None:
            return ""
        host = self.param("host")
        shown = "localhost" if host in ("127.0.0.1", "0.0.0.0", "::", "::1") else host
        return f"http://{shown}:{self._server.port}/"

    def activated(self) -> None:
        """Begin to serve."""
        host, port = self.param("host"), self.param("port")
        try:
            token, new = ("", False) if is_loopback(host) else read_token(self._token_file())
        except OSError as error:
            raise LoadError(f"the token cannot be kept ({error}): set token_file") from error
        try:
            server = WebServer(host, port)
        except OSError as error:
            raise LoadError(f"port {port} of {host} cannot be used ({error}): set port") from error
        loop = asyncio.new_event_loop()
        self._bridge = Bridge(self, loop)
        settings = Settings(self.param("image_rate"), self.param("image_side"))
        self.pages = Pages(self._bridge, settings)
        access = Access.of(host, token, self.param("allowed_hosts"))
        actions = {name: do for kind in ACTIONS for name, do in kind(self.pages).all().items()}
        app = make_app(access, self.pages.hub, self.pages.pictures, actions)
        server.run(app, loop)
        self._server = server
        self._say_where(token if new else "")

    def _say_where(self, new_token: str) -> None:
        text = f"the console is at {self.address}"
        if new_token:  # once: afterwards it is in the file only
            text += f"#token={new_token} (the token is kept in {self._token_file()})"
        elif not is_loopback(self.param("host")):
            text += f", with the token in {self._token_file()}"
        if self.param("host") in ("0.0.0.0", "::"):
            text += "; elsewhere, put this machine's name for localhost"
        self.get_logger().info(text)

    def deactivated(self) -> None:
        """Close all connections."""
        if self._server is not None:
            self._server.close()
        if self._bridge is not None:
            self._bridge.close()
        self._server = self._bridge = self.pages = None

    def diagnose(self) -> Mapping[str, object]:
        """Where it is, and who watches."""
        pages = self.pages
        if pages is None:
            return {}
        clients = pages.hub.clients
        return {
            "address": self.address,
            "browsers": len(clients),
            "messages dropped for slow browsers": sum(client.dropped for client in list(clients)),
            "pictures kept (MB)": round(pages.pictures.size / 2**20, 1),
        }

    def _token_file(self) -> Path:
        home = Path(os.environ.get("ROS_HOME") or "~/.ros").expanduser()
        default = home / "newfound" / f"{self.get_fully_qualified_name().strip('/')}.token"
        return Path(self.param("token_file") or default).expanduser()
