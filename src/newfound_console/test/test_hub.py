# SPDX-License-Identifier: Apache-2.0
"""Many browsers, slow ones, sleeping ones, over real sockets."""

import asyncio
import json

import pytest
import websockets
from websockets.exceptions import ConnectionClosed, InvalidStatus

from newfound_console import hub as hubs
from newfound_console.hub import Hub, text_message
from newfound_console.pictures import Pictures
from newfound_console.security import Access
from newfound_console.server import WebServer, make_app


class Ticking:
    """A feed that counts how often it is started and stopped."""

    def __init__(self):
        self.running = 0

    def start(self):
        self.running += 1

    def stop(self):
        self.running -= 1


class Server:
    def __init__(self):
        self.feeds = {}
        self.hub = Hub(self.make)
        self.loop = asyncio.new_event_loop()
        self.web = WebServer("127.0.0.1", 0)
        access = Access.of("127.0.0.1", "")
        self.web.run(make_app(access, self.hub, Pictures(), {}), self.loop)
        self.origin = f"http://127.0.0.1:{self.web.port}"

    def make(self, channel):
        return self.feeds.setdefault(channel, Ticking()) if channel != "none" else None

    def publish(self, channel, data):
        message = data if isinstance(data, bytes) else text_message(channel, data)
        self.loop.call_soon_threadsafe(self.hub.publish, channel, message)

    def connect(self, **options):
        address = f"ws://127.0.0.1:{self.web.port}/live"
        return websockets.connect(address, origin=self.origin, **options)


@pytest.fixture
def server():
    made = Server()
    yield made
    made.web.close()


async def until(condition):
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def watch(socket, *channels):
    await socket.send(json.dumps({"watch": list(channels)}))


def test_a_feed_runs_only_while_someone_watches(server):
    async def run():
        async with server.connect() as one, server.connect() as two:
            await watch(one, "a")
            await watch(two, "a")
            await until(lambda: "a" in server.feeds and len(server.hub.clients) == 2)
            assert server.feeds["a"].running == 1
            await watch(one, "b")
            await until(lambda: "b" in server.feeds)
            assert server.feeds["a"].running == 1
            await watch(two)
            await until(lambda: server.feeds["a"].running == 0)
        await until(lambda: server.feeds["b"].running == 0)

    asyncio.run(run())


def test_a_hundred_browsers_get_the_newest(server):
    async def run():
        sockets = [await server.connect() for _ in range(100)]
        for socket in sockets:
            await watch(socket, "a")
        await until(lambda: sum("a" in c.channels for c in list(server.hub.clients)) == 100)
        server.publish("a", {"n": 1})
        answers = await asyncio.gather(*(asyncio.wait_for(s.recv(), 30) for s in sockets))
        assert {json.loads(a)["data"]["n"] for a in answers} == {1}
        for socket in sockets:
            await socket.close()
        await until(lambda: not server.hub.clients)

    asyncio.run(run())


def test_a_browser_that_floods_is_let_go_and_holds_up_nobody_else(server, monkeypatch):
    monkeypatch.setattr(hubs, "REQUEST_PERIOD", 1000.0)

    async def flooding(socket):
        for number in range(500):
            await watch(socket, f"flood {number}")
        await socket.recv()

    async def run():
        async with server.connect() as flood, server.connect() as other:
            with pytest.raises(ConnectionClosed) as closed:
                await flooding(flood)
            assert closed.value.rcvd.reason == "too many messages"
            await watch(other, "a")
            await until(lambda: "a" in server.feeds)
        await until(lambda: not server.hub.clients)
        assert len(server.feeds) == hubs.MAX_REQUESTS + 1

    asyncio.run(run())


def test_one_browser_too_many_is_told_so(server, monkeypatch):
    monkeypatch.setattr(hubs, "MAX_CLIENTS", 2)

    async def run():
        async with server.connect(), server.connect(), server.connect() as third:
            with pytest.raises(ConnectionClosed) as closed:
                await third.recv()
            assert closed.value.rcvd.code == 1013

    asyncio.run(run())


def test_a_browser_that_does_not_read_costs_one_message_and_gets_the_newest(server):
    """A slow phone, or a tab asleep for a day."""

    async def run():
        async with server.connect(max_queue=1) as slow, server.connect() as quick:
            await watch(slow, "a")
            await watch(quick, "a")
            await until(lambda: sum("a" in c.channels for c in list(server.hub.clients)) == 2)
            for number in range(300):  # 60 MB: more than the kernel keeps for a socket
                server.publish("a", number.to_bytes(4) + bytes(200_000))
                await asyncio.wait_for(quick.recv(), 30)
            waiting = [len(client._waiting) for client in list(server.hub.clients)]
            assert max(waiting) <= 1
            assert max(client.dropped for client in list(server.hub.clients)) > 100
            last = -1
            while last < 299:
                last = int.from_bytes((await asyncio.wait_for(slow.recv(), 30))[:4])

    asyncio.run(run())


def test_a_browser_that_takes_nothing_for_long_is_let_go(server, monkeypatch):
    monkeypatch.setattr(hubs, "SEND_TIMEOUT", 0.3)

    async def run():
        async with server.connect(max_queue=1, close_timeout=0.1) as slow:
            await watch(slow, "a")
            await until(lambda: any("a" in c.channels for c in list(server.hub.clients)))
            for _ in range(400):
                server.publish("a", bytes(200_000))
                if not server.hub.clients:
                    break
                await asyncio.sleep(0.005)
            await until(lambda: not server.hub.clients)

    asyncio.run(run())


@pytest.mark.parametrize(
    "message",
    ["", "{", "[]", '{"watch": "a"}', '{"watch": [1]}', '{"watch": ["' + "x" * 400 + '"]}',
     json.dumps({"watch": ["a"] * 50}), "[" * 3000, "x" * 100_000],
)  # fmt: skip
def test_a_message_that_is_no_wish_ends_the_connection(server, message):
    async def run():
        async with server.connect() as socket:
            await socket.send(message)
            with pytest.raises(ConnectionClosed):
                await asyncio.wait_for(socket.recv(), 30)
        await until(lambda: not server.hub.clients)

    asyncio.run(run())


def test_a_channel_that_does_not_exist_is_not_watched(server):
    async def run():
        async with server.connect() as socket:
            await watch(socket, "none", "a")
            await until(lambda: "a" in server.feeds)
            [client] = server.hub.clients
            assert client.channels == {"a"}

    asyncio.run(run())


def test_a_foreign_page_gets_no_socket(server):
    async def run():
        server.origin = "http://evil.example"
        with pytest.raises(InvalidStatus) as refused:
            await server.connect()
        assert refused.value.response.status_code == 403

    asyncio.run(run())
