"""Delivery runs: many listeners to events without changes, and pulls of a feed of a million entities."""

import http.client
import json
import re
import select
import socket
import time
import uuid
from dataclasses import asdict, dataclass, field

from . import cpu
from .children import Failure
from .cluster import Cluster
from .gateway import Gateway
from .names import organization
from .runs import Meter
from .tokens import token

DATABASE = "delivery"
LISTENERS = 10_000
ENTITIES = 1_000_000
# Connections that are opened before the first answer is read.
BURST = 200
LISTENING = 1
FEED = 2


@dataclass
class Delivery:
    """The measured values, by name, with the unit in the name."""

    figure: str
    values: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> dict:
        return asdict(self)


def listen(gateway: Gateway, cluster: Cluster, *, listeners: int = LISTENERS, seconds: float = 30) -> Delivery:
    """Memory and CPU with this many listeners, half of them in one organization, and the time until a push reaches
    all."""
    before = cpu.memory(gateway.pid)["resident"]
    started = time.monotonic()
    sockets = [_listener(gateway, number) for number in range(listeners)]
    opened = time.monotonic() - started
    # the cost of connecting is not measured
    time.sleep(5)
    for one in sockets:
        _drain(one)
    meter = Meter(cluster, gateway, DATABASE)
    time.sleep(seconds)
    meter.stop()
    resident = cpu.memory(gateway.pid)
    waits = [_hint(gateway, sockets) for _ in range(5)]
    for one in sockets:
        one.close()
    return Delivery("listeners", {
        "listeners": listeners,
        "opened_per_second": listeners / opened,
        "resident_before_mb": before,
        "resident_mb": resident["resident"],
        "peak_mb": resident["peak"],
        "gateway_cpu_percent": meter.gateway / seconds * 100,
        "postgres_cpu_percent": meter.postgres / seconds * 100,
        "first_hint_ms": sorted(first for first, _ in waits)[len(waits) // 2] * 1000,
        "last_hint_ms": sorted(last for _, last in waits)[len(waits) // 2] * 1000,
    })


def pull(gateway: Gateway, cluster: Cluster, *, entities: int = ENTITIES) -> Delivery:
    """Pages of 1,000 through the whole feed: the rate of the first tenth and of the last."""
    cluster.query(DATABASE, _entities(entities))
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    headers = {"Authorization": f"Bearer {token(gateway.secret, organization(FEED), str(uuid.UUID(int=7)))}"}
    times, seen, cursor = [], 0, ""
    # pages are checked by these texts, because parsing a thousand documents takes longer than pulling them
    mark, end = b'"entity_type":', re.compile(rb'"next":"([^"]+)","up_to_date":(true|false)}$')
    while True:
        started = time.perf_counter()
        connection.request("GET", f"/v1/changes?limit=1000{cursor}", headers=headers)
        response = connection.getresponse()
        body = response.read()
        times.append(time.perf_counter() - started)
        found = end.search(body)
        if response.status != 200 or not found:
            raise Failure(f"a pull was answered {response.status}: {body[:200]!r}")
        seen += body.count(mark)
        if found[2] == b"true":
            break
        cursor = f"&since={found[1].decode()}"
    connection.close()
    if seen != entities:
        raise Failure(f"{seen:,} of {entities:,} entities were pulled")
    tenth = len(times) // 10
    return Delivery("feed", {
        "entities": entities,
        "entities_per_second": entities / sum(times),
        "first_tenth_per_second": tenth * 1000 / sum(times[:tenth]),
        "last_tenth_per_second": tenth * 1000 / sum(times[-tenth - 1:-1]),
    })


def _listener(gateway: Gateway, number: int) -> socket.socket:
    one = socket.create_connection(("127.0.0.1", gateway.port))
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    # half of them in one organization, half in organizations shared by a hundred
    where = LISTENING if number % 2 == 0 else FEED + 1 + number // 200
    bearer = token(gateway.secret, organization(where), str(uuid.UUID(int=1000 + number)))
    one.sendall(f"GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {bearer}\r\n\r\n".encode())
    head = one.recv(4096)
    if b" 200 " not in head.split(b"\r\n")[0]:
        raise Failure(f"a listener was answered {head!r}")
    one.setblocking(False)
    return one


def _drain(one: socket.socket) -> bytes:
    try:
        return one.recv(65536)
    except BlockingIOError:
        return b""


def _hint(gateway: Gateway, sockets: list[socket.socket]) -> tuple[float, float]:
    """Seconds from a push until the first and the last of its organization's listeners were notified."""
    waiting = {one.fileno(): one for one in sockets[::2]}
    poll = select.epoll()
    for number, one in waiting.items():
        _drain(one)
        poll.register(number, select.EPOLLIN)
    create = {
        "id": str(uuid.uuid4()), "idempotency_key": str(uuid.uuid4()), "sequence_number": 1, "operation": "create",
        "entity_type": "task", "local_id": str(uuid.uuid4()), "payload": {"title": "x"},
        "created_at": "2026-11-18T07:00:00.000Z",
    }
    body = json.dumps({"device_id": str(uuid.uuid4()), "mutations": [create]})
    bearer = token(gateway.secret, organization(LISTENING), str(uuid.uuid4()))
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
    headers = {"Authorization": f"Bearer {bearer}", "Content-Type": "application/json"}
    started = time.monotonic()
    connection.request("POST", "/v1/mutations", body, headers)
    first = last = 0.0
    while waiting:
        events = poll.poll(timeout=20)
        if not events:
            raise Failure(f"{len(waiting):,} listeners received nothing")
        for number, _ in events:
            if b"event: changes" in _drain(waiting[number]):
                last = time.monotonic() - started
                first = first or last
                poll.unregister(number)
                del waiting[number]
    connection.getresponse().read()
    connection.close()
    poll.close()
    return first, last


def _entities(count: int) -> str:
    """A feed in the state after pushes."""
    where = organization(FEED)
    return f"""
        INSERT INTO entities (organization_id, entity_type, id, version, document, feed_position, owner_id, updated_by,
            updated_on, run_base, created_at, updated_at)
        SELECT '{where}', 'task', gen_random_uuid(), 1,
            ('{{"title":"Visit ' || n || '","notes":"' || repeat('x', 300) || '"}}')::json, n,
            '{uuid.UUID(int=8)}', '{uuid.UUID(int=8)}', '{uuid.UUID(int=9)}', 0, now(), now()
        FROM generate_series(1, {count}) n;
        UPDATE feeds SET last_position = {count} WHERE organization_id = '{where}';
        """
