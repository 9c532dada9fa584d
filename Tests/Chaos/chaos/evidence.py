"""The evidence after a run: three logs, the responses of the gateways, and the lanes' rows."""

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.cluster import Cluster
from harness.tokens import token

from .client import Client
from .mutations import Lane, Mutation

READERS = 16

IN_DOUBT = 10.0
"""Seconds after a break in which a gateway may find that its own first try was committed."""


@dataclass
class Request:
    """A request that the upstream received."""

    number: int
    at: float
    key: str
    organization: str
    user: str
    marker: str
    method: str
    path: str
    body: Any
    fault: str | None = None
    end: float = float("inf")
    """When the gateway had received its response or given up."""
    how: str = "never ended"


@dataclass
class Effect:
    """An effect at the upstream."""

    order: int
    at: float
    key: str
    marker: str
    organization: str
    user: str
    request: int
    id: int | str | None = None
    """The id of the created entity."""


@dataclass
class Answer:
    """A gateway's response to a push."""

    at: float
    status: int
    """0 without a response."""
    seconds: float
    waits: bool
    """Whether the push asked to wait for outcomes."""


@dataclass
class LaneView:
    """A user's data as the API returns it."""

    mutations: list[dict]
    """In lane order."""
    mappings: dict[str, dict]
    """By client id."""
    changes: list[dict]


@dataclass
class Message:
    """A message that a receiver got."""

    organization: str
    """The organization of the receiver."""
    id: str
    type: str
    sequence: int
    of: str
    """The organization that the message names."""
    data: dict


@dataclass
class Evidence:
    lanes: dict[int, tuple[str, str]]
    """Organization and user of each lane."""
    mutations: dict[str, Mutation] = field(default_factory=dict)
    """All pushed mutations, by marker."""
    made: dict[str, float] = field(default_factory=dict)
    """The time of each push, by marker."""
    taken: set[str] = field(default_factory=set)
    """Markers of the mutations that a gateway acknowledged."""
    requests: list[Request] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    views: dict[int, LaneView] = field(default_factory=dict)
    rows: dict[tuple[str, str], dict] = field(default_factory=dict)
    """The lanes' rows by organization and user, once all work should be done."""
    troubles: list[tuple[float, float]] = field(default_factory=list)
    """The intervals in which a gateway was stopped."""
    delays: list[tuple[float, float]] = field(default_factory=list)
    """The intervals in which the upstream read nothing, in order."""
    breaks: list[float] = field(default_factory=list)
    """The times at which the connections to the database broke."""
    answers: list[Answer] = field(default_factory=list)
    """Responses of the gateways to pushes."""
    thrown_away: int = 0
    """Outcomes that arrived after another gateway had claimed the lane."""
    colleagues: set[str] = field(default_factory=set)
    """Organizations with colleagues and a receiver."""
    events: dict[tuple[str, int], dict] = field(default_factory=dict)
    """The last event that colleagues sent about an article, by organization and id."""
    event_count: int = 0
    untaken: set[tuple[str, str]] = field(default_factory=set)
    """Organizations and ids of events that no gateway acknowledged."""
    messages: list[Message] = field(default_factory=list)
    is_told: bool = False
    """Whether receivers had the time to receive all messages."""
    complaints: list[str] = field(default_factory=list)
    """Violations that were observed during the run."""


def read_upstream(log: Path, evidence: Evidence) -> None:
    requests: dict[int, Request] = {}
    for entry in _lines(log):
        match entry.pop("is"):
            case "request":
                number = entry.pop("request")
                requests[number] = Request(number, **entry)
            case "effect": evidence.effects.append(Effect(**entry))
            case "end":
                request = requests[entry["request"]]
                request.end, request.how = entry["at"], entry["how"]
            case "delay": evidence.delays.append((entry["begin"], entry["at"]))
    evidence.requests = list(requests.values())


def read_load(log: Path, evidence: Evidence) -> None:
    for entry in _lines(log):
        match entry["is"]:
            case "mutation":
                mutation = Mutation(**entry["mutation"])
                evidence.mutations[mutation.marker] = mutation
                evidence.made[mutation.marker] = entry["at"]
            case "answer": evidence.answers.append(Answer(entry["at"], entry["status"], entry["seconds"], entry["waits"]))
            case "taken": evidence.taken.update(entry["markers"])
            case _: evidence.complaints.append(
                f"lane {entry['lane']}: {entry['what']}: {json.dumps(entry['answer'])[:2000]}"
            )


def read_trouble(log: Path, evidence: Evidence) -> None:
    stopped: dict[int, float] = {}
    for entry in _lines(log):
        match entry["is"]:
            case "pause": stopped[entry["gateway"]] = entry["at"]
            case "continue" | "start" if entry["gateway"] in stopped:
                evidence.troubles.append((stopped.pop(entry["gateway"]), entry["at"]))
            case "drop_connections" | "restart_database": evidence.breaks.append(entry["at"])
            case "complaint": evidence.complaints.append(entry["what"])


def read_colleague(log: Path, evidence: Evidence) -> None:
    if not log.exists():
        return
    for entry in _lines(log):
        at = entry.pop("at")
        match entry.pop("is"):
            case "begin": evidence.colleagues.update(entry["organizations"])
            case "event":
                for event in entry["events"]:
                    evidence.event_count += 1
                    evidence.untaken.add((entry["organization"], event["event_id"]))
                    # each event is its article's latest when it is created
                    key = entry["organization"], event["id"]
                    if event["version"] > evidence.events.get(key, {"version": 0})["version"]:
                        evidence.events[key] = event
            case "taken": evidence.untaken -= {(entry["organization"], known) for known in entry["ids"]}
            case "told": evidence.messages.append(Message(**entry))
            # the gateway's connection broke while it committed the batch, and it tried again
            case "found" if any(0 <= at - broken <= IN_DOUBT for broken in evidence.breaks): pass
            case "found" | "complaint": evidence.complaints.append(
                f"{entry['organization']}: {entry['what']}: {json.dumps(entry['answer'])[:2000]}"
            )


def read_gateway(log: Path, evidence: Evidence) -> None:
    evidence.thrown_away += log.read_text(errors="replace").count("Lease was lost")


def read_rows(cluster: Cluster, database: str, evidence: Evidence) -> None:
    text = cluster.query(database, "select coalesce(json_agg(l), '[]') from lanes l")
    evidence.rows = {(row["organization_id"], row["user_id"]): row for row in json.loads(text)}


async def ask(port: int, secret: str, lanes: list[Lane], evidence: Evidence) -> None:
    """Reads everything that users can read."""
    waiting = list(lanes)

    async def work() -> None:
        client = Client(timeout=30)
        while waiting:
            lane = waiting.pop()
            evidence.views[lane.number] = await _view(client, port, secret, lane, evidence)
        await client.close()

    await asyncio.gather(*(work() for _ in range(READERS)))


async def _view(client: Client, port: int, secret: str, lane: Lane, evidence: Evidence) -> LaneView:
    bearer = token(secret, lane.organization, lane.user)

    async def get(path: str) -> Any:
        status, answer = await client.request(port, "GET", path, bearer)
        if status == 403:
            # The gateway has no data of this user, because none of their pushes arrived.
            return {}
        if status != 200:
            evidence.complaints.append(f"lane {lane.number}: GET {path} was answered {status}: {answer}")
            return {}
        return answer

    mutations, path = [], "/v1/mutations?limit=1000"
    while path:
        page = await get(path)
        mutations += page.get("mutations", [])
        path = f"/v1/mutations?limit=1000&cursor={page['next']}" if page.get("next") else ""
    changes, path = [], "/v1/changes?limit=1000"
    while path:
        page = await get(path)
        changes += page.get("changes", [])
        path = f"/v1/changes?limit=1000&since={page['next']}" if not page.get("up_to_date", True) else ""
    made = [one["local_id"] for one in mutations if one["operation"] == "create"]
    mappings = {}
    for start in range(0, len(made), 1000):
        body = json.dumps({"client_ids": made[start : start + 1000]}).encode()
        status, answer = await client.request(port, "POST", "/v1/id-mappings/lookup", bearer, body)
        if status != 200:
            evidence.complaints.append(f"lane {lane.number}: a look-up was answered {status}: {answer}")
            continue
        mappings |= {mapping["client_id"]: mapping for mapping in answer["id_mappings"]}
    return LaneView(mutations, mappings, changes)


def _lines(log: Path) -> list[dict]:
    # The last line may be incomplete if its process was killed.
    return [json.loads(line) for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
