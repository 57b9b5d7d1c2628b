"""HTTP over plain sockets, for tests that send what a client library would not, or thousands of requests at once."""

import contextlib
import errno
import json
import re
import resource
import select
import socket
import time
import urllib.parse

from tiny_server import KEY, MODEL, Server

PATIENCE = 120  # seconds; only a failing test waits for so long


def until(condition, what: str, seconds: float = PATIENCE):
    """Polls until the condition holds, and returns its value."""
    limit = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > limit:
            raise AssertionError(f"not within {seconds} s: {what}")
    return value


def raise_descriptors(wanted: int) -> int:
    """As many as the system gives, at most so many; servers started from here have them too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))
    return max(soft, limit)


def rss(server: Server) -> int:
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))


def request(path: str, body=None, method: str = "", key: str | None = KEY, **headers) -> bytes:
    """The bytes of a request; the body is JSON unless it is bytes. A header's name has _ for -."""
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    lines = [f"{method or ('GET' if body is None else 'POST')} {path} HTTP/1.1", "Host: localhost"]
    lines += [f"Authorization: Bearer {key}"] if key is not None else []
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}"] if body is not None else []
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


def completion(prompt="It was", **options) -> dict:
    return {"model": MODEL, "prompt": prompt, "temperature": 0, "ignore_eos": True} | options


class Answer:
    def __init__(self, data: bytes):
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.is_chunked = self.headers.get("transfer-encoding") == "chunked"
        self.is_whole = len(body) == int(self.headers.get("content-length", -1))
        if self.is_chunked:
            body, self.is_whole = dechunk(body)
        self.body = body

    def json(self):
        return json.loads(self.body)

    def events(self) -> list:
        """What the stream's events hold; the last one of a stream that ended well is "[DONE]"."""
        found = re.findall(r"^data: (.*)$", self.body.decode(), re.MULTILINE)
        return [text if text == "[DONE]" else json.loads(text) for text in found]

    def error(self) -> dict:
        return self.json()["error"]


def dechunk(data: bytes) -> tuple[bytes, bool]:
    out, at = [], 0
    while (end := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:end], 16)
        if size == 0:
            return b"".join(out), True
        out.append(data[end + 2:end + 2 + size])
        at = end + 4 + size
    return b"".join(out), False


class Wire:
    """One connection."""

    def __init__(self, server: Server, tls=None, receive_buffer: int = 0):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE)
        try:
            self.socket.connect(address(server))
            if tls:
                self.socket = tls.wrap_socket(self.socket, server_hostname="127.0.0.1")
        except OSError:
            self.socket.close()
            raise

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data: bytes) -> "Wire":
        self.socket.sendall(data)
        return self

    def read_until(self, mark: bytes) -> bytes:
        data = b""
        while mark not in data:
            more = self.socket.recv(65536)
            if not more:
                raise AssertionError(f"the connection ended before {mark!r}; got {data[-2000:]!r}")
            data += more
        return data

    def read_all(self) -> bytes:
        data = []
        with contextlib.suppress(ConnectionResetError):
            while more := self.socket.recv(1 << 16):
                data.append(more)
        return b"".join(data)


def address(server: Server) -> tuple[str, int]:
    url = urllib.parse.urlsplit(server.url)
    return url.hostname, url.port


def ask(server: Server, path: str, body=None, tls=None, **options) -> Answer:
    with Wire(server, tls) as wire:
        return Answer(wire.send(request(path, body, **options, Connection="close")).read_all())


def ask_raw(server: Server, data: bytes) -> Answer:
    with Wire(server) as wire:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it need not read all of it
            wire.send(data)
        return Answer(wire.read_all())


def stream(server: Server, body: dict, path: str = "/v1/completions") -> Wire:
    """A stream that has begun."""
    wire = Wire(server).send(request(path, body | {"stream": True}))
    wire.begun = wire.read_until(b"data: ")
    return wire


def metric(server: Server, name: str, label: str = "") -> float:
    text = ask(server, "/metrics").body.decode()
    values = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
              if line.split("{")[0].split(" ")[0] == f"vllm:{name}" and label in line]
    assert values or label, f"/metrics has no vllm:{name}:\n{text}"
    return sum(values)


def send_all(server: Server, requests: list[bytes]) -> list[socket.socket]:
    """A connection for each request, all of which are sent."""
    sockets, poll = [], select.epoll()
    where = address(server)
    for data in requests:
        one = socket.socket()
        one.setblocking(False)
        if one.connect_ex(where) not in (0, errno.EINPROGRESS):
            raise AssertionError("cannot connect")
        sockets.append(one)
        poll.register(one, select.EPOLLOUT)
    left = {one.fileno(): (one, data) for one, data in zip(sockets, requests)}
    limit = time.monotonic() + PATIENCE
    while left and time.monotonic() < limit:
        for number, _ in poll.poll(1):
            one, data = left.pop(number)
            poll.unregister(number)
            one.setblocking(True)
            one.settimeout(PATIENCE)
            one.sendall(data)
    poll.close()
    assert not left, f"{len(left)} connections were not made"
    return sockets


def read_all(sockets: list[socket.socket]) -> list[Answer | None]:
    """The answers of connections that the server closes after them; None: none came."""
    poll = select.epoll()
    places = {}
    parts: list[list[bytes]] = [[] for _ in sockets]
    for place, one in enumerate(sockets):
        one.setblocking(False)
        poll.register(one, select.EPOLLIN)
        places[one.fileno()] = place
    limit = time.monotonic() + PATIENCE
    while places and time.monotonic() < limit:
        for number, _ in poll.poll(1):
            place = places[number]
            try:
                more = sockets[place].recv(1 << 20)
            except ConnectionError:
                more = b""
            if more:
                parts[place].append(more)
                continue
            poll.unregister(number)
            del places[number]
            sockets[place].close()
    poll.close()
    for place in places.values():
        sockets[place].close()
    return [Answer(data) if (data := b"".join(some)) else None for some in parts]


def ask_all(server: Server, requests: list[bytes]) -> list[Answer | None]:
    return read_all(send_all(server, requests))
