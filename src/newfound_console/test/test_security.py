# SPDX-License-Identifier: Apache-2.0
"""Hostile requests to a real server: none gets in."""

import http.client
import json
import socket
import stat

import pytest

from newfound_console.node import Console
from newfound_console.security import MAX_BODY, MAX_PACKAGE, Access, is_loopback, read_token
from newfound_runtime.testing import Harness, eventually

BODY = json.dumps({"detector": "/d", "ids": ["u1"], "label": "x"}).encode()
JSON = "application/json"
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """One for this machine alone, and one for others that wants a token."""
    patch = pytest.MonkeyPatch()
    patch.setattr("newfound_console.bridge.FIND_TIMEOUT", 0.1)  # there are no other nodes
    ros = Harness()
    token_file = tmp_path_factory.mktemp("secret") / "token"
    ours = ros.started(Console, "ours", port=0)
    others = ros.started(Console, "others", port=0, host="0.0.0.0", token_file=str(token_file))
    yield {"ours": ours, "others": others, "token": token_file.read_text().strip()}
    patch.undo()
    ros.close()


def ask(port, method, path, headers=(), body=None, host=None):
    """One request, with exactly these headers; its status, headers and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    if host != "":
        connection.putheader("Host", host or f"127.0.0.1:{port}")
    if body is not None and "Content-Length" not in dict(headers):
        connection.putheader("Content-Length", str(len(body)))
    for name, value in headers:
        connection.putheader(name, value.replace("PORT", str(port)))
    try:
        connection.endheaders(body)
        answer = connection.getresponse()
    except (ConnectionError, http.client.RemoteDisconnected):
        return 400, {}, b""  # cut off before it was read to its end
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found


GOOD = {"Origin": "http://127.0.0.1:PORT", "Content-Type": JSON, "X-Newfound": "1"}


def post(path="/api/forget", body=BODY, server="ours", host=None, **changes):
    """A POST as the page would send it, but for some headers; None leaves one out."""
    given = {**GOOD, **{name.replace("_", "-"): value for name, value in changes.items()}}
    headers = [(name, value) for name, value in given.items() if value is not None]
    return server, "POST", path, headers, body, host


def get(path, server="ours", host=None, **headers):
    return server, "GET", path, [(n.replace("_", "-"), v) for n, v in headers.items()], None, host


def live(server="ours", host=None, **headers):
    return server, "GET", "/live", [*UPGRADE.items(), *headers.items()], None, host


HOSTILE = {
    # Another site whose name leads here.
    "rebinding": get("/", host="evil.example"),
    "rebinding with our port": get("/api/session", host="evil.example:8420"),
    "a name that begins like ours": get("/", host="localhost.evil.example"),
    "a name that ends like ours": get("/", host="evil-localhost"),
    "no host": get("/", host=""),
    "a host with a path": get("/", host="localhost/evil"),
    "a host with a user": get("/", host="localhost@evil.example"),
    "an address where only loopback is": get("/", host="192.168.1.5"),
    "rebinding of a post": post(host="evil.example", Origin="http://evil.example"),
    "rebinding of the socket": live(host="evil.example", Origin="http://evil.example"),
    "rebinding where a token is": get("/", server="others", host="evil.example"),
    # Pages of other sites.
    "a foreign origin": post(Origin="http://evil.example"),
    "the origin null": post(Origin="null"),
    "no origin": post(Origin=None),
    "our origin on another port": post(Origin="http://127.0.0.1:1"),
    "an origin with our name inside": post(Origin="http://127.0.0.1:PORT.evil.example"),
    "a form": post(Content_Type="application/x-www-form-urlencoded"),
    "a text that is JSON": post(Content_Type="text/plain"),
    "a form with a file": post(Content_Type="multipart/form-data; boundary=x"),
    "no content type": post(Content_Type=None),
    "no header of ours": post(X_Newfound=None),
    "another value of it": post(X_Newfound="0"),
    "a picture in a foreign page": get("/pictures/0.jpg", Sec_Fetch_Site="cross-site"),
    "a foreign request of another port": get("/api/session", Sec_Fetch_Site="same-site"),
    "a socket of a foreign page": live(Origin="http://evil.example"),
    "a socket without an origin": live(),
    # Without the token, or with a wrong one.
    "no token": post(server="others"),
    "a wrong cookie": post(server="others", Cookie="newfound_console=" + "0" * 64),
    "an empty cookie": post(server="others", Cookie="newfound_console="),
    "a damaged cookie": post(server="others", Cookie="newfound_console=\x01;=;;"),
    "a wrong bearer": post(server="others", Authorization="Bearer nothing"),
    "an empty bearer": post(server="others", Authorization="Bearer "),
    "a picture without the token": get("/pictures/0.jpg", server="others"),
    "a socket without the token": live(server="others", Origin="http://127.0.0.1:PORT"),
    "a login with a wrong token": post("/api/login", b'{"token": "guess"}', server="others"),
    "a login with a list": post("/api/login", b'{"token": ["a"]}', server="others"),
    "a path that only looks public": get("/static/../api/x", server="others", Accept="*/*"),
    # Paths.
    "dots": get("/static/../../node.py"),
    "encoded dots": get("/static/%2e%2e/%2e%2e/security.py"),
    "twice encoded dots": get("/static/%252e%252e/node.py"),
    "backslashes": get("/static/..%5c..%5cnode.py"),
    "an absolute path": get("//etc/passwd"),
    "a null byte": get("/static/main.js%00.html"),
    "a picture by its path": get("/pictures/..%2f..%2f..%2fetc%2fpasswd"),
    "a folder": get("/static/pages/"),
    # Bodies and methods.
    "a huge body": post(body=b"[" * (MAX_BODY + 1)),
    "a huge package": post("/api/import", body=b"{}", Content_Length=str(MAX_PACKAGE + 1)),
    "a package that is no text": post("/api/import", body=b'{"detector": "/a", "package": [1]}'),
    "a package that is not base64": post(
        "/api/import", body=b'{"detector": "/a", "package": "!"}'
    ),
    "a package without the header": post("/api/import", X_Newfound=None),
    "a huge body that is announced": post(body=b"{}", Content_Length="99999999999999999999"),
    "a negative length": post(body=b"{}", Content_Length="-1"),
    "deep JSON": post(body=b"[" * 20000 + b"]" * 20000),
    "no JSON": post(body=b"{"),
    "a list": post(body=b"[]"),
    "labels that are no texts": post(body=b'{"detector": 5, "label": {}}'),
    "a name that is no node": post(body=b'{"detector": "/a/../b", "label": "x"}'),
    "a node with a space": post(body=b'{"detector": "/a b", "label": "x"}'),
    "an unknown action": post("/api/__class__"),
    "a method that is not used": (
        "ours",
        "DELETE",
        "/api/forget",
        list(GOOD.items()),
        b"{}",
        None,
    ),
    "another method": ("ours", "PUT", "/static/main.js", list(GOOD.items()), b"{}", None),
    "asking what is allowed": ("ours", "OPTIONS", "/api/forget", [], None, None),
    "an action by GET": get("/api/forget"),
    # Texts that ROS cannot carry.
    "half a character": post(body=rb'{"detector": "/d", "label": "\ud800"}'),
    "half a character among ids": post("/api/dismiss", rb'{"detector": "/d", "ids": ["\udfff"]}'),
    "a zero in a text": post(body=rb'{"detector": "/d", "label": "a\u0000b"}'),
    "half a character as token": post("/api/login", rb'{"token": "\ud800"}', server="others"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_request_does_not_get_in(servers, name):
    server, method, path, headers, body, host = HOSTILE[name]
    status, answered, content = ask(
        servers[server]._server.port, method, path, headers, body, host
    )
    assert 400 <= status < 500, (status, content)
    assert b"import" not in content
    assert "Access-Control-Allow-Origin" not in answered
    assert "set-cookie" not in {key.lower() for key in answered}


def test_a_request_of_our_own_page_gets_through(servers):
    _, method, path, headers, body, _ = post()
    status, _, content = ask(servers["ours"]._server.port, method, path, headers, body)
    assert status == 409  # asked, and there is no such node
    assert b"/d/forget_class is not there" in content


def test_every_answer_forbids_scripts_and_frames_of_others(servers):
    for path in ("/", "/static/main.js", "/nothing", "/api/session"):
        _, headers, _ = ask(servers["ours"]._server.port, "GET", path)
        found = {key.lower(): value for key, value in headers.items()}
        policy = found["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert found["x-frame-options"] == "DENY"
        assert found["x-content-type-options"] == "nosniff"


def test_the_token_opens_and_the_cookie_is_not_the_token(servers):
    port, token = servers["others"]._server.port, servers["token"]
    _, method, path, headers, _, _ = post("/api/login")
    status, answered, _ = ask(port, method, path, headers, json.dumps({"token": token}).encode())
    cookie = next(value for key, value in answered.items() if key.lower() == "set-cookie")
    assert status == 200
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert token not in cookie
    headers = [*headers, ("Cookie", cookie.partition(";")[0])]
    assert ask(port, "POST", "/api/forget", headers, BODY)[0] == 409
    bearer = [*post()[3], ("Authorization", f"Bearer {token}")]
    assert ask(port, "POST", "/api/forget", bearer, BODY)[0] == 409


def test_the_token_is_kept_where_only_its_owner_reads_it(tmp_path):
    file = tmp_path / "deep" / "token"
    token, new = read_token(file)
    assert new
    assert len(token) >= 32
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_token(file) == (token, False)
    file.chmod(0o644)  # others may have read it
    again, new = read_token(file)
    assert new
    assert again != token
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_name_of_the_operators_is_allowed_when_it_is_given():
    access = Access.of("0.0.0.0", "t" * 40, ["robot.shop.example"])
    assert "robot.shop.example" in access.names
    assert access.any_address
    assert not Access.of("127.0.0.1", "").any_address


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("robot", False),
    ],
)
def test_only_loopback_needs_no_token(host, expected):
    assert is_loopback(host) is expected


def test_headers_without_an_end_are_not_kept(servers):
    with socket.create_connection(("127.0.0.1", servers["ours"]._server.port), timeout=10) as link:
        link.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 70_000)
        answer = link.recv(1000)
    assert answer == b"" or b" 4" in answer[:20]


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n",
        b"GET /static/icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\nGET",  # answered, then waits
        b"POST /api/undo HTTP/1.1\r\nHost: localhost:PORT\r\nOrigin: http://localhost:PORT\r\n"
        b"X-Newfound: 1\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{",
    ],
    ids=["nothing", "half a header", "half a second header", "half a body"],
)
def test_a_request_that_never_ends_is_let_go(servers, begun, monkeypatch):
    monkeypatch.setattr("newfound_console.server.HEADER_TIMEOUT", 0.3)
    monkeypatch.setattr("newfound_console.security.BODY_TIMEOUT", 0.3)
    port = servers["ours"]._server.port
    with socket.create_connection(("127.0.0.1", port), timeout=30) as link:
        link.sendall(begun.replace(b"PORT", str(port).encode()))
        answer = b""
        while part := link.recv(10_000):
            answer += part
            if b"408" in answer:
                link.sendall(b"x")  # and it goes on
    assert (b"408" in answer) == begun.startswith(b"POST")


def test_a_client_that_takes_no_answer_is_cut_off(servers, monkeypatch):
    """Or 600 of them would use up all connections, without a token."""
    monkeypatch.setattr("newfound_console.server.TAKE_TIMEOUT", 0.3)
    request = b"GET /static/main.js HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def cut_off() -> bool:
        try:
            link.send(request)
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        return False

    with socket.socket() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        link.connect(("127.0.0.1", servers["ours"]._server.port))
        link.setblocking(False)
        eventually(cut_off, "the connection is closed")


def test_a_port_in_use_is_said(ros, servers):
    # Of two nodes of one name in a process only one is heard on rosout.
    node = ros.add(Console, "late_console", port=servers["ours"]._server.port)
    eventually(lambda: "cannot be used" in node.last_error, "the reason")
    eventually(lambda: ros.logged("not activated: port"), "the log")
    assert not ros.logged("Traceback")


def test_a_token_that_cannot_be_kept_is_said(ros, tmp_path):
    (tmp_path / "file").touch()
    token_file = str(tmp_path / "file" / "token")
    node = ros.add(Console, "closed_console", port=0, host="0.0.0.0", token_file=token_file)
    eventually(lambda: "the token cannot be kept" in node.last_error, "the reason")
    assert "set token_file" in node.last_error
    assert not ros.logged("Traceback")


def test_it_is_said_that_others_need_the_name_of_this_machine(ros, tmp_path):
    token_file = str(tmp_path / "token")
    ros.started(Console, "open_console", port=0, host="0.0.0.0", token_file=token_file)
    eventually(lambda: ros.logged("elsewhere, put this machine's name for localhost"), "the log")
