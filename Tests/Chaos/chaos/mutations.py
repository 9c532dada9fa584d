"""The mutations that lanes push, and the requests that the upstream must receive for them."""

import random
import uuid
from dataclasses import asdict, dataclass, field
from typing import Any, Callable
from urllib.parse import unquote

# Paths for creates of forwarded types. The other type is stored in the built-in store.
COLLECTIONS = {"contact": "contacts", "activity": "activities", "expense": "expenses"}
BUILT_IN = "note"
METHODS = {"create": "POST", "update": "PATCH", "replace": "PUT", "delete": "DELETE"}
CREATED_AT = "2026-01-15T08:00:00.000Z"

# The upstream's fixed response to a mutation: success, permanent rejection, or failure of each attempt.
TAKEN, REFUSED, BROKEN = "taken", "refused", "broken"

Resolve = Callable[[str], "int | str | None"]


@dataclass
class Mutation:
    """An entry in a lane's outbox."""

    lane: int
    marker: str
    id: str
    key: str
    device: str
    sequence: int
    operation: str
    entity_type: str
    local_id: str
    endpoint: str | None
    payload: dict | None
    fate: str = TAKEN
    max_attempts: int = 100
    dependencies: list[str] = field(default_factory=list)
    waits_for: str | None = None
    """The marker of a mutation that never succeeds and therefore blocks this one permanently."""

    @property
    def is_forwarded(self) -> bool:
        return self.entity_type != BUILT_IN

    @property
    def takes_effect(self) -> bool:
        return self.fate == TAKEN and self.waits_for is None

    def on_the_wire(self) -> dict:
        wire: dict[str, Any] = {
            "id": self.id, "idempotency_key": self.key, "sequence_number": self.sequence,
            "operation": self.operation, "entity_type": self.entity_type, "local_id": self.local_id,
            "max_attempts": self.max_attempts, "created_at": CREATED_AT,
        }
        if self.payload is not None:
            wire["payload"] = self.payload
        if self.dependencies:
            wire["dependency_ids"] = self.dependencies
        if self.is_forwarded:
            # two of the headers that every organization forwards carry the mutation's marker and the intended response
            wire |= {"endpoint": self.endpoint, "headers": {"content-language": self.marker, "prefer": self.fate}}
        return wire

    def as_json(self) -> dict:
        return asdict(self)

    def segments(self, resolve: Resolve) -> list[str]:
        """The decoded path that the upstream must receive."""
        assert self.endpoint
        own = self.endpoint.replace("{local_id}", self.local_id)
        return [str(_or_itself(resolve, segment)) for segment in own.split("/")]

    def body(self, resolve: Resolve) -> Any:
        """The payload with server ids instead of client ids."""
        return rewritten(self.payload, resolve)


def rewritten(value: Any, resolve: Resolve) -> Any:
    if isinstance(value, dict):
        return {name: rewritten(member, resolve) for name, member in value.items()}
    if isinstance(value, list):
        return [rewritten(element, resolve) for element in value]
    return _or_itself(resolve, value) if isinstance(value, str) else value


def merged(document: Any, patch: Any) -> Any:
    """Applies a merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def path_segments(path: str) -> list[str]:
    return [unquote(segment) for segment in path.split("/")]


def _or_itself(resolve: Resolve, text: str) -> int | str:
    found = resolve(text.lower())
    return text if found is None else found


@dataclass
class _Entity:
    """An entity that a device created, as the device stores it."""

    entity_type: str
    client_id: str
    device: "Device"
    create: Mutation
    is_acknowledged: bool = False

    @property
    def is_doomed(self) -> bool:
        return not self.create.takes_effect


class Device:
    """An installation: it has a sequence counter and an outbox."""

    def __init__(self, lane: "Lane", number: int) -> None:
        self.lane = lane
        self.id = lane.make_uuid()
        self.number = number
        self.sequence = 0
        self.acknowledged = 0
        """The highest sequence number that a gateway acknowledged."""
        self.outbox: list[Mutation] = []
        self.sent: list[Mutation] = []
        """A few acknowledged mutations, to be repeated."""
        self.is_busy = False

    def acknowledge(self, mutations: list[Mutation]) -> None:
        self.acknowledged = max(self.acknowledged, mutations[-1].sequence)
        done = {mutation.id for mutation in mutations}
        self.outbox = [mutation for mutation in self.outbox if mutation.id not in done]
        self.sent = (self.sent + mutations)[-20:]
        self.lane.acknowledge(done)


class Lane:
    """A user in an organization, and the user's actions. The same seed produces the same user, but references to
    entities of another device depend on the acknowledgements so far."""

    def __init__(self, seed: int, number: int, organization: int, user: int) -> None:
        self.number = number
        self.random = random.Random(f"{seed}/lane/{number}")
        self.organization = f"00000000-0000-4000-8000-{organization:012d}"
        self.user = f"00000000-0000-4000-9000-{user:012d}"
        self.devices = [Device(self, index) for index in range(2 if self.random.random() < 0.2 else 1)]
        self._entities: list[_Entity] = []
        self._unacknowledged: dict[str, _Entity] = {}
        self._count = 0

    def make_uuid(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def acknowledge(self, ids: set[str]) -> None:
        for entity_id in ids & self._unacknowledged.keys():
            self._unacknowledged.pop(entity_id).is_acknowledged = True

    def add(self, device: Device, stranger: str | None) -> Mutation:
        """The user's next action on a device.

        `stranger` is a client id of another user. For this user it is ordinary data.
        """
        own = [entity for entity in self._entities if entity.device is device]
        choice = self.random.random()
        if own and choice < 0.10:
            deletable = [entity for entity in own if entity.entity_type != "contact" and not entity.is_doomed]
            if deletable:
                return self._delete(device, self.random.choice(deletable))
        if own and choice < 0.55:
            return self._change(device, self.random.choice(own), stranger)
        return self._create(device, stranger)

    # Actions

    def _create(self, device: Device, stranger: str | None) -> Mutation:
        parents = [one for one in self._usable(device) if one.entity_type == "contact"]
        kinds = ["contact", "contact", BUILT_IN] + (["activity", "activity", "expense"] if parents else [])
        kind = self.random.choice(kinds)
        client_id = self.make_uuid()
        endpoint = None
        if kind in COLLECTIONS:
            endpoint = f"/{COLLECTIONS[kind]}"
            if kind == "activity":
                endpoint = f"/contacts/{self._spelled(self.random.choice(parents).client_id)}{endpoint}"
        mutation = self._mutation(device, "create", kind, client_id, endpoint, self._payload(device, stranger))
        if kind == "contact" and self.random.random() < 0.03:
            mutation.fate = self.random.choice([REFUSED, BROKEN])
            if mutation.fate == BROKEN:
                mutation.max_attempts = self.random.randint(1, 3)
        entity = _Entity(kind, client_id, device, mutation)
        self._entities.append(entity)
        self._unacknowledged[mutation.id] = entity
        return mutation

    def _change(self, device: Device, entity: _Entity, stranger: str | None) -> Mutation:
        operation = "replace" if self.random.random() < 0.25 else "update"
        mutation = self._mutation(
            device, operation, entity.entity_type, entity.client_id, self._place(entity),
            self._payload(device, stranger),
        )
        if entity.is_doomed:
            mutation.waits_for = entity.create.marker
            # One waiting mutation is enough to check that the lane continues without it.
            self._entities.remove(entity)
        return mutation

    def _delete(self, device: Device, entity: _Entity) -> Mutation:
        self._entities.remove(entity)
        return self._mutation(device, "delete", entity.entity_type, entity.client_id, self._place(entity), None)

    def _place(self, entity: _Entity) -> str | None:
        if entity.entity_type == BUILT_IN:
            return None
        name = "{local_id}" if self.random.random() < 0.5 else self._spelled(entity.client_id)
        return f"/{COLLECTIONS[entity.entity_type]}/{name}"

    def _mutation(
        self, device: Device, operation: str, kind: str, client_id: str, endpoint: str | None, payload: dict | None
    ) -> Mutation:
        self._count += 1
        device.sequence += self.random.choice([1, 1, 1, 5])
        marker = f"{self.number}-{self._count}"
        if payload is not None:
            payload["marker"] = marker
        mutation = Mutation(
            self.number, marker, self.make_uuid(), self.make_uuid(), device.id, device.sequence, operation, kind,
            client_id, endpoint, payload,
        )
        if self.random.random() < 0.1:
            mutation.dependencies = [
                self.random.choice([entity.client_id, entity.create.id])
                for entity in self._some(device, 2) if entity.client_id != client_id
            ]
        device.outbox.append(mutation)
        return mutation

    def _payload(self, device: Device, stranger: str | None) -> dict:
        """References in each place where a client id is allowed, next to ids that are unknown to the gateway."""
        payload: dict[str, Any] = {"text": "x" * self.random.randint(0, 60), "amount": self.random.randint(0, 999)}
        names = [self._spelled(entity.client_id) for entity in self._some(device, 3)]
        if names:
            payload["contact_id"] = names[0]
            payload["all"] = names
            payload["nested"] = {"deep": [{"id": names[-1]}, {"id": None, "level": [names]}]}
        if self.random.random() < 0.3:
            payload["data"] = self.make_uuid()
        if stranger and self.random.random() < 0.3:
            payload["stranger"] = stranger
        return payload

    def _usable(self, device: Device) -> list[_Entity]:
        """Entities that a mutation of the device may reference: its own, and those that other devices are known to have
        pushed."""
        return [
            entity for entity in self._entities
            if not entity.is_doomed and (entity.device is device or entity.is_acknowledged)
        ]

    def _some(self, device: Device, most: int) -> list[_Entity]:
        usable = self._usable(device)
        return self.random.sample(usable, min(len(usable), self.random.randint(0, most)))

    def _spelled(self, client_id: str) -> str:
        """iOS writes UUIDs in upper case."""
        return client_id.upper() if self.random.random() < 0.2 else client_id


def make_lanes(seed: int, count: int) -> list[Lane]:
    """Distributes users over organizations, a few in each."""
    organizations = organization_count(count)
    return [Lane(seed, number, number % organizations + 1, number + 1) for number in range(count)]


def organization_count(lanes: int) -> int:
    return max(2, min(200, lanes // 5))
