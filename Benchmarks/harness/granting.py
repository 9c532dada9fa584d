"""Grants and revokes a channel, or pulls a feed, until it is stopped.

`granting.py WORK PORT OPERATIONS-PORT ORGANIZATION USER CHANNEL ENTITIES PAGE`, where WORK is

  grant             grants the channel to the user and revokes it, without pulls
  grant-and-pull    also pulls all entities of the channel after each grant, and their removal after each revocation
  pull              pulls the feed of the user from the beginning to the end

Prints `begun` once the work has begun, and at the end the work done, in JSON. A separate process with the lowest
priority, because in production the operator and the user would run on other machines."""

import http.client
import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.noisy import yield_the_cores  # noqa: E402

_END = re.compile(rb'"next":"([^"]+)","up_to_date":(true|false)}$')


class Ended(Exception):
    """The process is to stop."""


class Granting:
    """The work on one channel and one user."""

    def __init__(self, port: str, operations: str, organization: str, user: str, channel: str, entities: str,
                 page: str) -> None:
        self._gateway = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
        self._operations = http.client.HTTPConnection("127.0.0.1", int(operations), timeout=60)
        self._path = f"/admin/organizations/{organization}/users/{user}/channels"
        self._channel, self._entities, self._page = channel, int(entities), page
        self._cursor: str | None = None
        self._is_granted = False
        self.is_ended = False
        """Set to end the work before the next request."""
        self._times: dict[str, list[float]] = {"grant_ms": [], "revoke_ms": [], "pull_s": []}
        self._pages = self._changes = 0

    def run(self, work: str) -> None:
        if work == "grant-and-pull":
            # the user holds nothing, so the cursor is at the end of the feed
            self._pull(removed=False, expected=0)
            self._times["pull_s"].clear()
        print("begun", flush=True)
        while True:
            if work != "pull":
                self._grant()
                if work == "grant-and-pull":
                    self._pull(removed=False, expected=self._entities)
                self._revoke()
                if work == "grant-and-pull":
                    self._pull(removed=True, expected=self._entities)
            else:
                self._cursor = None
                self._pull(removed=False, expected=self._entities)

    def end(self) -> None:
        """Revokes the channel, and prints the work done."""
        if self._is_granted:
            self._revoke()
        print(json.dumps({
            "grants": len(self._times["grant_ms"]), "pulls": len(self._times["pull_s"]), "pages": self._pages,
            "changes": self._changes,
            **{name: round(median(times), 3) for name, times in self._times.items() if times},
        }))

    def _check(self) -> None:
        if self.is_ended:
            raise Ended

    def _grant(self) -> None:
        self._check()
        body = json.dumps({"channel": self._channel, "role": "read"})
        self._times["grant_ms"].append(self._administer("PUT", self._path, body) * 1000)
        self._is_granted = True

    def _revoke(self) -> None:
        self._times["revoke_ms"].append(self._administer("DELETE", f"{self._path}?channel={self._channel}") * 1000)
        self._is_granted = False

    def _administer(self, method: str, path: str, body: str | None = None) -> float:
        """Returns the seconds that the request took."""
        bearer = os.environ["SLUICE_GRANTING_OPERATOR_TOKEN"]
        headers = {"Authorization": f"Bearer {bearer}", "Content-Type": "application/json"}
        started = time.perf_counter()
        self._operations.request(method, path, body, headers)
        response = self._operations.getresponse()
        text = response.read()
        took = time.perf_counter() - started
        if not 200 <= response.status < 300:
            raise RuntimeError(f"{method} {path} was answered {response.status}: {text[:300]!r}")
        return took

    def _pull(self, *, removed: bool, expected: int) -> None:
        """Pulls to the end, and checks the number of the changes."""
        headers = {"Authorization": f"Bearer {os.environ['SLUICE_GRANTING_TOKEN']}"}
        started, changes = time.perf_counter(), 0
        while True:
            self._check()
            since = f"&since={self._cursor}" if self._cursor else ""
            self._gateway.request("GET", f"/v1/changes?limit={self._page}{since}", headers=headers)
            response = self._gateway.getresponse()
            body = response.read()
            found = _END.search(body)
            if response.status != 200 or not found:
                raise RuntimeError(f"a pull was answered {response.status}: {body[:300]!r}")
            count = body.count(b'"entity_type":')
            if body.count(b'"removed":true') != (count if removed else 0):
                raise RuntimeError(f"a page has unexpected changes: {body[:300]!r}")
            changes += count
            self._pages += 1
            self._cursor = found[1].decode()
            if found[2] == b"true":
                break
        self._changes += changes
        self._times["pull_s"].append(time.perf_counter() - started)
        if changes != expected:
            raise RuntimeError(f"a pull has {changes:,} changes of {expected:,}")


if __name__ == "__main__":
    yield_the_cores()
    granting = Granting(*sys.argv[2:])
    signal.signal(signal.SIGTERM, lambda *_: setattr(granting, "is_ended", True))
    try:
        granting.run(sys.argv[1])
    except Ended:
        granting.end()
