# SPDX-License-Identifier: Apache-2.0
"""Entry point of every node executable: the node that is registered under the executable's name.

Imports are slow (rclpy, then torch) and Ctrl-C may come at any moment. Until the node's process
is set up there is nothing to end in order, so the process just ends, without a traceback.
"""

import os
import signal
import sys
from pathlib import Path


def main(name: str = "") -> int:
    """Run the node until Ctrl-C or SIGTERM; returns the exit code.

    `name` is that of an executable, or the dotted path of a node class.
    """
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    from newfound_runtime import container

    name = name or Path(sys.argv[0]).stem
    loaded = None if name == "container" else container.node_class(name)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return container.main() if loaded is None else container.run(loaded)
