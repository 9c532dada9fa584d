"""An upstream that honours `Idempotency-Key`, logs everything, and misbehaves.

This runs in a separate process: `python3 -m chaos.upstream --log FILE --seed N --timeout SECONDS` prints its port.
SIGUSR1 ends the misbehaviour, SIGTERM the process.
"""

import argparse
import asyncio
import json
import random
import signal
import socket
import struct
import time
import uuid
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any, TextIO

from .mutations import BROKEN, REFUSED

# Percentages of the requests. Misbehaviour without an effect is listed first.
BEFORE_EFFECT = {"error": 2.0, "unavailable": 1.0, "too_many": 1.0, "request_timeout": 0.5, "busy": 1.0,
                 "close_unread": 1.5, "stall": 0.7}
AFTER_EFFECT = {"error_after": 1.5, "close_after": 1.5, "reset_after": 0.5, "cut": 1.5, "twice": 1.0, "late": 0.7,
                "slow": 8.0}
FAULTS = BEFORE_EFFECT | AFTER_EFFECT
# The percentage of time in which all requests of an organization fail. It suffices to open a circuit.
DARK, DARK_SECONDS = 3, 2.5
BATCH_PATH = "/$batch"
# A larger batch is answered 413, so that the gateway sends its halves.
MOST_PARTS = 15
# If there are more 409s, the gateway correctly reports a conflict.
BUSY_LIMIT = 2
# The seconds after which this process reads the clock again, to find delays.
TICK = 0.05


@dataclass
class Answer:
    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)

    def encoded(self) -> bytes:
        body = b"" if self.body is None else json.dumps(self.body).encode()
        head = [f"HTTP/1.1 {self.status} X"]
        if self.status != 204:
            head.append(f"Content-Length: {len(body)}")
        if body:
            head.append("Content-Type: application/json")
        head += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*head, "", ""]).encode() + body


@dataclass
class Request:
    number: int
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: "Connection | Place"
    is_over: bool = False

    @property
    def key(self) -> str:
        return self.headers.get("idempotency-key", "")

    @property
    def fate(self) -> str:
        return self.headers.get("prefer", "")


@dataclass
class Entry:
    """The stored state of an idempotency key."""

    answer: Answer | None = None
    waiting: list[Request] = field(default_factory=list)
    busy: int = 0
    is_running: bool = False


class Upstream:
    """The upstream's state and behaviour."""

    def __init__(self, log: TextIO, seed: int, timeout: float) -> None:
        self._log, self._seed, self._timeout = log, seed, timeout
        self._random = random.Random(f"{seed}/upstream")
        self._entries: dict[str, Entry] = {}
        self._requests = 0
        self._effects = 0
        self.misbehaves = True

    def receive(self, connection: "Connection", head: list[str], body: bytes) -> None:
        method, path, _ = head[0].split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        if path != BATCH_PATH:
            return self._take(connection, method, path, headers, body)
        parts = json.loads(body)["requests"]
        if len(parts) > MOST_PARTS:
            return connection.write(Answer(413).encoded())
        connection.batch = Batch(self, connection, parts)
        for part, place in zip(parts, connection.batch.places):
            text = json.dumps(part["body"]).encode() if "body" in part else b""
            self._take(place, part["method"], part["url"], part["headers"], text)

    def _take(
        self, connection: "Connection | Place", method: str, path: str, headers: dict[str, str], body: bytes
    ) -> None:
        self._requests += 1
        request = Request(self._requests, method, path, headers, body, connection)
        connection.request = request
        fault = self._fault(request)
        self._write(
            "request", request, key=request.key, organization=headers.get("x-sluice-organization"),
            user=headers.get("x-sluice-user"), marker=headers.get("content-language"), method=method, path=path,
            body=_parsed(body), fault=fault,
        )
        self._handle(request, self._entries.setdefault(request.key, Entry()), fault)

    def end(self, request: Request, how: str) -> None:
        """The gateway has received its response, or none will arrive."""
        if not request.is_over:
            request.is_over = True
            request.connection.request = None
            self._write("end", request, how=how)

    # Handling of a request

    def _fault(self, request: Request) -> str | None:
        if not self.misbehaves:
            return None
        organization = request.headers.get("x-sluice-organization")
        window = random.Random(f"{self._seed}/dark/{organization}/{time.monotonic() // DARK_SECONDS}")
        if window.random() * 100 < DARK:
            return "error"
        draw = self._random.random() * 100
        for name, share in FAULTS.items():
            if draw < share:
                return name
            draw -= share
        return None

    def _handle(self, request: Request, entry: Entry, fault: str | None) -> None:
        if fault == "busy" and (entry.busy >= BUSY_LIMIT or request.fate == BROKEN):
            # If a mutation were asked to wait a third time, or at its last attempt, it would become a conflict.
            fault = None
        if fault in BEFORE_EFFECT:
            return self._fail(request, entry, fault)
        if request.fate == BROKEN:
            return self._answer(request, Answer(500, {"error": "as always"}))
        if request.fate == REFUSED:
            return self._answer(request, Answer(422, {"error": "not this one"}))
        if entry.is_running:
            return self._wait(request, entry)
        if entry.answer is None and fault == "late":
            entry.is_running = True
            entry.waiting.append(request)
            pause = self._timeout + self._random.uniform(0.2, 0.9)
            asyncio.get_running_loop().call_later(pause, self._come_late, request, entry)
            return
        if entry.answer is None:
            self._take_effect(request, entry)
        self._answer_with(request, entry.answer, fault)

    def _fail(self, request: Request, entry: Entry, fault: str) -> None:
        match fault:
            case "error": self._answer(request, Answer(self._random.choice([500, 502]), {"error": "at random"}))
            case "unavailable": self._answer(request, Answer(503, None, {"Retry-After": "1"}))
            case "too_many":
                self._answer(request, Answer(429, {}, {"Retry-After": formatdate(time.time() + 1.5, usegmt=True)}))
            case "request_timeout": self._answer(request, Answer(408))
            case "busy":
                entry.busy += 1
                self._answer(request, Answer(409, {"error": "later"}, {"Retry-After": "1"}))
            case "close_unread": request.connection.close(request, "closed")
            case "stall":
                pause = self._timeout + 2
                asyncio.get_running_loop().call_later(pause, request.connection.close, request, "stalled")

    def _wait(self, request: Request, entry: Entry) -> None:
        """The effect is in progress, for a request that the gateway abandoned."""
        if entry.busy < BUSY_LIMIT:
            self._fail(request, entry, "busy")
        else:
            entry.waiting.append(request)

    def _come_late(self, request: Request, entry: Entry) -> None:
        entry.is_running = False
        self._take_effect(request, entry)
        for one in entry.waiting:
            self._answer(one, entry.answer)
        entry.waiting.clear()

    def _take_effect(self, request: Request, entry: Entry) -> None:
        self._effects += 1
        collection, given = self._identify(request)
        document = {"id": given, "marker": request.headers.get("content-language")}
        match request.method:
            case "POST" if collection == "contacts" and self._random.random() < 0.2:
                entry.answer = Answer(201, None, {"Location": f"/{collection}/{given}"})
            case "POST": entry.answer = Answer(201, document)
            case "DELETE": entry.answer = Answer(204)
            case _: entry.answer = Answer(200, document)
        self._write(
            "effect", request, key=request.key, marker=request.headers.get("content-language"), order=self._effects,
            organization=request.headers.get("x-sluice-organization"), user=request.headers.get("x-sluice-user"),
            id=given if request.method == "POST" else None,
        )

    def _identify(self, request: Request) -> tuple[str, int | str | None]:
        """Ids of all kinds that an API may use: numbers, strings that need escaping in a path, UUIDs."""
        segments = request.path.split("/")
        collection = segments[-1] if request.method == "POST" else segments[-2] if len(segments) > 1 else ""
        if request.method != "POST":
            return collection, None
        match collection:
            case "contacts": return collection, 1_000_000 + self._effects
            case "activities": return collection, f"act:{self._effects} ø"
            case _: return collection, str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    # Responses

    def _answer_with(self, request: Request, answer: Answer, fault: str | None) -> None:
        match fault:
            case "error_after": self._answer(request, Answer(500, {"error": "though it took effect"}))
            case "slow":
                pause = self._random.uniform(0.05, 0.6)
                asyncio.get_running_loop().call_later(pause, self._answer, request, answer)
            case "close_after": request.connection.close(request, "closed after the effect")
            case "reset_after": request.connection.reset(request)
            case "cut":
                text = answer.encoded()
                request.connection.write(text[: self._random.randint(1, len(text) - 1)])
                request.connection.close(request, "cut")
            case "twice":
                # An unsolicited response belongs to no request. If it is mistaken for a response, its id reveals that.
                poison = Answer(answer.status, {"id": 666_666_666, "marker": "poison"})
                if answer.status == 204:
                    poison = Answer(200, poison.body)
                request.connection.write(answer.encoded() + poison.encoded())
                self.end(request, f"answered {answer.status} twice")
            case _: self._answer(request, answer)

    def _answer(self, request: Request, answer: Answer) -> None:
        if request.is_over:
            return
        # Logged first, because the gateway's next request may arrive as soon as it has the response.
        self.end(request, f"answered {answer.status}")
        request.connection.write(answer.encoded())

    def _write(self, kind: str, request: Request, **members: Any) -> None:
        entry = {"is": kind, "at": time.monotonic(), "request": request.number} | members
        self._log.write(json.dumps(entry) + "\n")
        self._log.flush()


class Connection(asyncio.Protocol):
    """A connection of a gateway. It carries one request at a time."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self.request: Request | None = None
        self.batch: Batch | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].decode("latin-1").split("\r\n")
        length = next((int(line[15:]) for line in head if line.lower().startswith("content-length:")), 0)
        if len(self._buffer) < end + 4 + length:
            return
        body = bytes(self._buffer[end + 4 : end + 4 + length])
        del self._buffer[: end + 4 + length]
        self._upstream.receive(self, head, body)

    def connection_lost(self, error: Exception | None) -> None:
        open_requests = [self.request, *(place.request for place in (self.batch.places if self.batch else []))]
        for request in open_requests:
            if request:
                self._upstream.end(request, "given up")

    def write(self, text: bytes) -> None:
        if self._transport and not self._transport.is_closing():
            self._transport.write(text)

    def close(self, request: Request, how: str) -> None:
        if not request.is_over:
            self._upstream.end(request, how)
            if self._transport:
                self._transport.close()

    def reset(self, request: Request) -> None:
        self._upstream.end(request, "reset after the effect")
        if self._transport:
            linger = struct.pack("ii", 1, 0)
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self._transport.abort()


class Place:
    """A part's place in the response to a batch. To the part's request it is a connection."""

    def __init__(self, upstream: Upstream, batch: "Batch", name: str) -> None:
        self._upstream, self._batch, self._name = upstream, batch, name
        self.request: Request | None = None

    def write(self, text: bytes) -> None:
        """Adds one response or several; drops a part of a response."""
        while b"\r\n\r\n" in text:
            head, _, rest = text.partition(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines[1:])
            length = int(headers.pop("Content-Length", 0))
            if len(rest) < length:
                break
            response = {"id": self._name, "status": int(lines[0].split(" ")[1]), "headers": headers}
            if length:
                response["body"] = json.loads(rest[:length])
            self._batch.responses.append(response)
            text = rest[length:]
        self._batch.finish(self)

    def close(self, request: Request, how: str) -> None:
        if not request.is_over:
            self._upstream.end(request, how)
            self._batch.finish(self)

    def reset(self, request: Request) -> None:
        self._upstream.end(request, "reset after the effect")
        self._batch.finish(self)


class Batch:
    """Several requests in one (OData 4.01), answered when no part still waits for a response."""

    def __init__(self, upstream: Upstream, connection: Connection, parts: list[dict[str, Any]]) -> None:
        self._connection = connection
        self.places = [Place(upstream, self, part["id"]) for part in parts]
        self.responses: list[dict[str, Any]] = []
        self._open = set(self.places)

    def finish(self, place: Place) -> None:
        if place not in self._open:
            return
        self._open.remove(place)
        if not self._open:
            self._connection.batch = None
            self._connection.write(Answer(200, {"responses": self.responses}).encoded())


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return {"not JSON": body.decode(errors="replace")}


async def log_delays(log: TextIO) -> None:
    """Logs the intervals in which this process read nothing, so that requests were read later than they arrived."""
    while True:
        begin = time.monotonic()
        await asyncio.sleep(TICK)
        end = time.monotonic()
        if end - begin > 2 * TICK:
            log.write(json.dumps({"is": "delay", "begin": begin, "at": end}) + "\n")
            log.flush()


async def serve(chosen: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    with chosen.log.open("w") as log:
        upstream = Upstream(log, chosen.seed, chosen.timeout)
        loop.add_signal_handler(signal.SIGTERM, ended.set)
        loop.add_signal_handler(signal.SIGUSR1, setattr, upstream, "misbehaves", False)
        server = await loop.create_server(lambda: Connection(upstream), "127.0.0.1", 0, backlog=1024)
        print(server.sockets[0].getsockname()[1], flush=True)
        watch = asyncio.create_task(log_delays(log))
        await ended.wait()
        watch.cancel()
        server.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m chaos.upstream", description=__doc__)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--timeout", type=float, required=True, help="after which a gateway gives a request up")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
