"""Phones that listen to events through any available gateway, and resume from their last position."""

import asyncio
import json
import random
import threading
import time
from dataclasses import dataclass, field

from harness.tokens import token

from .evidence import Evidence
from .mutations import Lane


@dataclass
class Heard:
    """The events that one phone received."""

    since: float | None = None
    """When it connected."""
    latest: dict[str, str] = field(default_factory=dict)
    """The last status of each mutation, by id."""
    cursor: str | None = None
    connections: int = 0


class Listeners:
    """Runs in a separate thread, from `start` to `stop`."""

    def __init__(self, lanes: list[Lane], ports: list[int], secret: str, seed: int) -> None:
        self._lanes, self._ports, self._secret = lanes, ports, secret
        self._random = random.Random(f"{seed}/listeners")
        self.heard = {lane.number: Heard() for lane in lanes}
        self.refusals: list[str] = []
        self._is_over = False
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over = True
        self._thread.join()

    def missed(self, evidence: Evidence) -> list[str]:
        """Mutations without an outcome event, although a phone listened when they were created."""
        missed = []
        by_id = {mutation.id: mutation for mutation in evidence.mutations.values()}
        for number, heard in self.heard.items():
            for row in evidence.views[number].mutations:
                pushed = evidence.made.get(by_id[row["id"]].marker) if row["id"] in by_id else None
                if heard.since is None or pushed is None or pushed < heard.since:
                    continue
                if heard.latest.get(row["id"]) != row["status"]:
                    missed.append(f"lane {number}: {row['id']} is {row['status']}, last: {heard.latest.get(row['id'])}")
        return missed

    async def _run(self) -> None:
        tasks = [asyncio.create_task(self._listen(lane)) for lane in self._lanes]
        while not self._is_over:
            await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self, lane: Lane) -> None:
        heard = self.heard[lane.number]
        bearer = token(self._secret, lane.organization, lane.user)
        while True:
            try:
                await self._connect(heard, bearer, self._random.choice(self._ports))
            except (OSError, EOFError, ValueError):
                pass
            await asyncio.sleep(0.1)

    async def _connect(self, heard: Heard, bearer: str, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
        try:
            head = ["GET /v1/events HTTP/1.1", "Host: gateway", f"Authorization: Bearer {bearer}"]
            head += [f"Last-Event-ID: {heard.cursor}"] if heard.cursor else []
            writer.write("\r\n".join([*head, "", ""]).encode())
            status = int((await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1])
            if status != 200:
                # 403: the user has not pushed yet
                if status not in (403, 503):
                    self.refusals.append(f"a listener was answered {status}")
                return
            heard.connections += 1
            await self._read(heard, reader)
        finally:
            writer.transport.abort()

    async def _read(self, heard: Heard, reader: asyncio.StreamReader) -> None:
        event, data = "", ""
        while line := (await reader.readline()).decode():
            name, _, value = line.rstrip("\r\n").partition(": ")
            match name:
                case "event": event = value
                case "data": data += value
                case "id":
                    heard.cursor = value
                    heard.since = heard.since or time.monotonic()
                case "":
                    if event == "mutation":
                        told = json.loads(data)
                        heard.latest[told["id"]] = told["status"]
                    event, data = "", ""
