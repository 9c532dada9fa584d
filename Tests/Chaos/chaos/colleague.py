"""Colleagues who edit elsewhere, and a receiver of webhooks.

The colleagues send events to `POST /v1/ingest` through either gateway and repeat them until they are answered.

This runs in a separate process: `python3 -m chaos.colleague --log FILE --seed N --ports A,B` prints the receiver's port
and reads a line of JSON from standard input: `{"sources": {organization: token}, "secrets": {organization: secret}}`.
When it reads `finish`, it completes what it has started. It receives messages until it is ended.
"""

import argparse
import asyncio
import base64
import hashlib
import hmac
import json
import random
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from .client import Client, Unanswered

STOCK = "stock"
"""The entity type that only colleagues write."""
ARTICLES = 40
"""The number of articles of each organization."""


class Colleague:
    """The articles of one organization, and its unanswered events."""

    def __init__(self, organization: str, token: str, ports: list[int], log: "Log", seed: int) -> None:
        self._organization, self._token, self._ports, self._log = organization, token, ports, log
        self._random = random.Random(f"{seed}/colleague/{organization}")
        self._versions = dict.fromkeys(range(1, ARTICLES + 1), 0)
        self._sent: list[list[dict]] = []
        self.is_finishing = False

    async def run(self) -> None:
        client = Client(timeout=5)
        held: list[list[dict]] = []
        while not self.is_finishing or held:
            # events may arrive in another order than the changes were made in
            batches = [held.pop(0)] if held and (self.is_finishing or self._random.random() < 0.3) else []
            if not self.is_finishing:
                batch = self._batch()
                (held if self._random.random() < 0.2 else batches).append(batch)
            for batch in batches:
                await self._bring(client, batch)
            if self._sent and self._random.random() < 0.1:
                await self._bring(client, self._random.choice(self._sent), again=True)
            await asyncio.sleep(self._random.uniform(0.01, 0.2))
        await client.close()

    def _batch(self) -> list[dict]:
        events = []
        for _ in range(self._random.randint(1, 20)):
            article = self._random.randint(1, ARTICLES)
            self._versions[article] += 1
            version = self._versions[article]
            event = {"event_id": f"{article}-{version}", "entity_type": STOCK, "id": article, "version": version,
                     "operation": "delete" if self._random.random() < 0.1 else "upsert"}
            if event["operation"] == "upsert":
                event["document"] = {"count": self._random.randint(0, 1_000_000), "of": self._organization}
            events.append(event)
        if self._random.random() < 0.3:
            self._random.shuffle(events)
        self._log.write("event", organization=self._organization, events=events)
        return events

    async def _bring(self, client: Client, events: list[dict], again: bool = False) -> None:
        body = json.dumps({"events": events}).encode()
        is_known = again
        while True:
            port = self._random.choice(self._ports)
            try:
                status, answer = await client.request(port, "POST", "/v1/ingest", self._token, body)
            except Unanswered:
                status, answer = 0, None
            if status == 200:
                break
            # 404: an older gateway without event ingestion
            if status not in (0, 404, 500, 503):
                self._complain(f"events were answered {status}", answer)
                return
            is_known = True
            await asyncio.sleep(self._random.uniform(0.02, 0.3))
        self._check(events, answer, is_known, again)
        if not again:
            self._sent.append(events)

    def _check(self, events: list[dict], answer: dict, is_known: bool, again: bool) -> None:
        results = answer["results"]
        if [one["event_id"] for one in results] != [one["event_id"] for one in events]:
            return self._complain("the results are not those of the events", answer)
        for one in results:
            taken = one["original"] if one["result"] == "duplicate" else one["result"]
            if taken not in ("applied", "stale"):
                self._complain("an event about an entity that no phone writes was neither applied nor stale", one)
            if one["result"] == "duplicate" and not is_known:
                self._complain("a new event was treated as a known one", one, "found")
            if again and one["result"] != "duplicate":
                self._complain("a repeated event was treated as a new one", one)
        self._log.write("taken", organization=self._organization, ids=[one["event_id"] for one in events])

    def _complain(self, what: str, answer: Any, kind: str = "complaint") -> None:
        self._log.write(kind, organization=self._organization, what=what, answer=answer)


class Receiver:
    """Accepts every message with a valid signature."""

    def __init__(self, log: "Log") -> None:
        self._log = log
        self.secrets: dict[str, str] = {}

    async def serve(self) -> int:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=2**20)
        return server.sockets[0].getsockname()[1]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                self._take(head[0].split(" ")[1].strip("/"), fields, body)
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
                await writer.drain()
        except (OSError, EOFError, ValueError):
            pass
        finally:
            writer.transport.abort()

    def _take(self, organization: str, fields: dict[str, str], body: bytes) -> None:
        known, at = fields.get("webhook-id", ""), fields.get("webhook-timestamp", "")
        key = base64.b64decode(self.secrets[organization].removeprefix("whsec_"))
        signature = base64.b64encode(hmac.digest(key, f"{known}.{at}.".encode() + body, hashlib.sha256)).decode()
        if f"v1,{signature}" not in fields.get("webhook-signature", "").split(" "):
            self._log.write("complaint", organization=organization, what="a message is not signed", answer=fields)
        message = json.loads(body)
        self._log.write(
            "told", organization=organization, id=known, type=message["type"], sequence=message["sequence"],
            of=message["organization_id"], data=message["data"],
        )


class Log:
    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, kind: str, **members: Any) -> None:
        self._file.write(json.dumps({"is": kind, "at": time.monotonic()} | members) + "\n")
        self._file.flush()


async def run(chosen: argparse.Namespace) -> None:
    with chosen.log.open("w") as file:
        log = Log(file)
        receiver = Receiver(log)
        print(await receiver.serve(), flush=True)
        lines = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        told = json.loads(await lines.readline())
        receiver.secrets = told["secrets"]
        log.write("begin", organizations=list(told["sources"]))
        colleagues = [
            Colleague(organization, token, chosen.ports, log, chosen.seed)
            for organization, token in told["sources"].items()
        ]
        work = asyncio.gather(*(colleague.run() for colleague in colleagues))
        # at the end of the input they finish as well, because no further command can arrive
        await lines.readline()
        for colleague in colleagues:
            colleague.is_finishing = True
        await work
        log.write("finished")
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m chaos.colleague", description=__doc__)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--ports", type=lambda text: [int(port) for port in text.split(",")], required=True)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
