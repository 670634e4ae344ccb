# SPDX-License-Identifier: Apache-2.0
"""`make up`: the nodes of a parameter file in one process, the operator's page in another.

Both end with Ctrl-C, and when one of them ends by itself, so does the other.
"""

import argparse
import signal
import socket
import subprocess
import sys
import time

PATIENCE = 40.0  # s for an orderly end
PORT = 8420
PAGE = "from newfound_runtime.executable import main; raise SystemExit(main('console'))"


def page_command(port: int) -> list[str]:
    """The command that runs the page."""
    return [sys.executable, "-c", PAGE, "--ros-args", "-p", f"port:={port}"]


def main() -> int:
    parser = argparse.ArgumentParser("python -m scripts.up", description=__doc__)
    parser.add_argument("--params", required=True, help="parameter file of the container")
    parser.add_argument("--port", type=int, default=PORT, help="of the page")
    options = parser.parse_args()
    if answers(options.port):
        print(f"up: port {options.port} is in use: end what has it, or give PORT", file=sys.stderr)
        return 1
    container = [sys.executable, "-m", "newfound_runtime.container"]
    commands = [
        [*container, "--ros-args", "--params-file", options.params],
        page_command(options.port),
    ]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Groups of their own: Ctrl-C reaches them through `end`, once.
    processes = [subprocess.Popen(command, process_group=0) for command in commands]
    announced = False
    try:
        while all(process.poll() is None for process in processes):
            if not announced and answers(options.port):
                print(f"newfound: the page is at http://localhost:{options.port}/", flush=True)
                announced = True
            time.sleep(0.2)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return end(processes)


def answers(port: int) -> bool:
    """Whether something on this machine listens at a port."""
    with socket.socket() as client:
        return client.connect_ex(("localhost", port)) == 0


def end(processes: list[subprocess.Popen]) -> int:
    """End all as Ctrl-C does; the code of the first that had ended by itself."""
    ended = [process.returncode for process in processes if process.poll() is not None]
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
    for process in processes:
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return next((abs(code) for code in ended if code), 0)


if __name__ == "__main__":
    sys.exit(main())
