# SPDX-License-Identifier: Apache-2.0
"""Browsers that watch a camera, as the page does: python -m … PORT CAMERA COUNT."""

import asyncio
import json
import sys

import websockets


async def watch(port: str, camera: str, frames: list[int], number: int) -> None:
    """Take everything that is sent."""
    address, origin = f"ws://127.0.0.1:{port}/live", f"http://127.0.0.1:{port}"
    async with websockets.connect(address, origin=origin) as socket:
        await socket.send(json.dumps({"watch": ["status", f"live:{camera}"]}))
        while True:
            frames[number] += isinstance(await socket.recv(), bytes)


async def main(port: str, camera: str, count: str) -> None:
    frames = [0] * int(count)
    tasks = [asyncio.create_task(watch(port, camera, frames, n)) for n in range(len(frames))]
    while not all(frames):
        await asyncio.sleep(0.05)
    print("watching", flush=True)
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
