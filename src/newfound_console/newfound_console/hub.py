# SPDX-License-Identifier: Apache-2.0
"""Browsers and what each of them watches. Everything here runs in the server's event loop.

A channel has a newest message; older ones are of no use to anyone. So a browser that is slow, or
whose tab is asleep, costs one message per channel it watches, and gets the newest when it can.
"""

import asyncio
import json
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

MAX_CLIENTS = 150
MAX_CHANNELS = 12  # that one browser watches
MAX_REQUESTS, REQUEST_PERIOD = 60, 10.0  # of a browser, in so many s: each may open subscriptions
SEND_TIMEOUT = 30.0  # s in which a browser must take a message, or it is taken for gone
Payload = str | bytes


class Feed(Protocol):
    """Makes the messages of a channel while someone watches it."""

    def start(self) -> None:
        """Someone watches."""
        ...

    def stop(self) -> None:
        """Nobody does any more."""
        ...


class Client:
    """One browser: what it watches, and what waits to be sent to it."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self.channels: set[str] = set()
        self._waiting: dict[str, Payload] = {}  # the newest message of each channel
        self._wake = asyncio.Event()
        self.dropped = 0  # messages that were replaced by newer ones before they were sent

    def put(self, channel: str, payload: Payload) -> None:
        """Send a message when the browser is ready, unless a newer one comes before."""
        self.dropped += channel in self._waiting
        self._waiting[channel] = payload
        self._wake.set()

    def forget(self, channel: str) -> None:
        """Do not send what waits in a channel."""
        self._waiting.pop(channel, None)

    async def send_all(self) -> None:
        """Send what is put, until the browser is gone."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                channel = next(iter(self._waiting))
                payload = self._waiting.pop(channel)
                socket, encoded = self._socket, isinstance(payload, bytes)
                send = socket.send_bytes if encoded else socket.send_text
                await asyncio.wait_for(send(payload), SEND_TIMEOUT)  # type: ignore[arg-type]


class Hub:
    """All browsers; starts and stops the feeds of channels as they are watched.

    `make_feed` gives the feed of a channel's name, or None if there is no such channel.
    """

    def __init__(self, make_feed: Callable[[str], Feed | None]) -> None:
        self._make_feed = make_feed
        self.clients: set[Client] = set()
        self._feeds: dict[str, Feed] = {}
        self._newest: dict[str, Payload] = {}
        self.on_first: Callable[[], None] = lambda: None  # a browser came, and there was none
        self.on_last: Callable[[], None] = lambda: None  # the last one has gone

    def publish(self, channel: str, payload: Payload) -> None:
        """Replace the message of a channel; sent to all who watch it."""
        if channel not in self._feeds:
            return
        self._newest[channel] = payload
        for client in self.clients:
            if channel in client.channels:
                client.put(channel, payload)

    def watched(self, channel: str) -> bool:
        """Whether someone watches a channel."""
        return channel in self._feeds

    def feed(self, channel: str) -> Any:
        """The feed of a channel that is watched; None if it is not."""
        return self._feeds.get(channel)

    async def serve(self, socket: WebSocket) -> None:
        """Stay with a browser until it goes."""
        if len(self.clients) >= MAX_CLIENTS:
            await socket.accept()
            await socket.close(1013, "too many browsers")
            return
        await socket.accept()
        client = Client(socket)
        self.clients.add(client)
        if len(self.clients) == 1:
            self.on_first()
        tasks = [asyncio.create_task(self._listen(client, socket))]
        tasks.append(asyncio.create_task(client.send_all()))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:  # a browser that goes is no error
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._leave(client)

    async def _listen(self, client: Client, socket: WebSocket) -> None:
        requests: deque[float] = deque(maxlen=MAX_REQUESTS)  # when they came
        while True:
            try:
                text = await socket.receive_text()
            except (WebSocketDisconnect, KeyError, RuntimeError):
                return
            now = time.monotonic()
            if len(requests) == MAX_REQUESTS and now - requests[0] < REQUEST_PERIOD:
                await socket.close(1008, "too many messages")
                return
            requests.append(now)
            if not self._obey(client, text):
                await socket.close(1008, "not understood")
                return

    def _obey(self, client: Client, text: str) -> bool:
        """Take a browser's request to watch channels, all in one list; False if it is none."""
        try:
            request = json.loads(text)
            channels = request["watch"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return False
        if not isinstance(channels, list) or len(channels) > MAX_CHANNELS:
            return False
        if not all(isinstance(name, str) and len(name) <= 300 for name in channels):
            return False
        self._watch(client, set(channels))
        return True

    def _watch(self, client: Client, channels: set[str]) -> None:
        added = channels - client.channels
        for channel in client.channels - channels:
            client.forget(channel)
        client.channels = {name for name in channels if self._open(name)}
        self._close_unwatched()
        for channel in added & client.channels:
            if channel in self._newest:
                client.put(channel, self._newest[channel])

    def _open(self, channel: str) -> bool:
        if channel not in self._feeds:
            feed = self._make_feed(channel)
            if feed is None:
                return False
            self._feeds[channel] = feed
            feed.start()
        return True

    def _leave(self, client: Client) -> None:
        self.clients.discard(client)
        self._close_unwatched()
        if not self.clients:
            self.on_last()

    def _close_unwatched(self) -> None:
        wanted = {name for client in self.clients for name in client.channels}
        for channel in [name for name in self._feeds if name not in wanted]:
            self._feeds.pop(channel).stop()
            self._newest.pop(channel, None)


def text_message(channel: str, data: Any) -> str:
    """A message of a channel as the page expects it."""
    return json.dumps({"channel": channel, "data": data}, separators=(",", ":"), allow_nan=False)


def image_message(channel: str, data: Mapping[str, Any], image: bytes) -> bytes:
    """The same with an image: length of the text, the text, the image."""
    text = text_message(channel, data).encode()
    return struct.pack(">I", len(text)) + text + image
