"""Checks from the evidence that each mutation took effect once, in order, with the right ids. Reports each violation.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .colleague import STOCK
from .evidence import Effect, Evidence, LaneView, Message, Request
from .mutations import BROKEN, BUILT_IN, COLLECTIONS, METHODS, Mutation, merged, path_segments
from .upstream import TICK

# When this process or the upstream is slow, it notices an abandoned connection a little later.
TOLERANCE = 0.25


@dataclass
class Violation:
    rule: str
    what: str
    evidence: list[Any] = field(default_factory=list)


@dataclass
class Overlaps:
    """Requests of one lane that overlap in time."""

    excused: int = 0
    """While the gateway of the earlier request was stopped, or before its lease had expired."""
    late: int = 0
    """After the gateway's time-out for the earlier request, which the upstream read late."""
    unexcused: int = 0


class Checker:
    """A single check of all the evidence."""

    def __init__(self, evidence: Evidence, lease: float, timeout: float, order: str = "lane") -> None:
        self._evidence, self._lease, self._timeout, self._order = evidence, lease, timeout, order
        self.overlaps = Overlaps()
        self._by_lane: dict[int, list[Mutation]] = defaultdict(list)
        for mutation in evidence.mutations.values():
            self._by_lane[mutation.lane].append(mutation)
        self._rows: dict[str, dict] = {}
        """The API's entry for each mutation, by marker."""
        self._positions: dict[str, int] = {}
        """A mutation's place in its lane, by marker."""
        by_id = {mutation.id: mutation.marker for mutation in evidence.mutations.values()}
        for view in evidence.views.values():
            for position, row in enumerate(view.mutations):
                if marker := by_id.get(row["id"]):
                    self._rows[marker], self._positions[marker] = row, position
        self._requests: dict[str, list[Request]] = defaultdict(list)
        for request in evidence.requests:
            self._requests[request.marker].append(request)
        self._effects: dict[str, list[Effect]] = defaultdict(list)
        for effect in evidence.effects:
            self._effects[effect.marker].append(effect)
        self._server_ids: dict[int, dict[str, int | str]] = defaultdict(dict)
        """Server ids by lane and client id, as assigned by the upstream or by the built-in store."""
        for mutation in evidence.mutations.values():
            if mutation.operation == "create" and (given := self._given(mutation)) is not None:
                self._server_ids[mutation.lane][mutation.local_id] = given

    def _given(self, mutation: Mutation) -> int | str | None:
        if not mutation.is_forwarded:
            return self._rows.get(mutation.marker, {}).get("server_id")
        effects = self._effects.get(mutation.marker)
        return effects[0].id if effects else None

    def violations(self) -> list[Violation]:
        found = [Violation("as it ran", complaint) for complaint in self._evidence.complaints]
        for rule in (self._nothing_lost, self._once, self._in_order, self._requests_as_meant, self._ids,
                     self._built_in, self._feeds, self._attempts, self._one_at_a_time, self._lanes_at_rest,
                     self._from_elsewhere, self._told):
            found += rule()
        return found

    # The outcome of each mutation

    def _nothing_lost(self) -> Iterator[Violation]:
        """Every mutation has its intended outcome."""
        for mutation in self._evidence.mutations.values():
            row = self._rows.get(mutation.marker)
            if mutation.marker not in self._evidence.taken:
                yield Violation("lost", f"{mutation.marker} was never accepted", [mutation.as_json()])
            if row is None:
                yield Violation("lost", f"{mutation.marker} was accepted, and is missing", [mutation.as_json()])
                continue
            outcome = row["status"], (row["error"] or {}).get("code")
            if outcome != _meant(mutation):
                what = f"{mutation.marker} is {outcome}, not {_meant(mutation)}"
                yield Violation("outcome", what, [row, *self._requests[mutation.marker]])

    def _once(self) -> Iterator[Violation]:
        """Each effect has its own key. Mutations that must have no effect have no effect."""
        owners: dict[str, str] = {}
        for mutation in self._evidence.mutations.values():
            requests, effects = self._requests[mutation.marker], self._effects[mutation.marker]
            expected = 1 if mutation.is_forwarded and mutation.takes_effect else 0
            if len(effects) != expected:
                what = f"{mutation.marker} took effect {len(effects)} times, not {expected}"
                yield Violation("once", what, [*effects, *requests])
            keys = {request.key for request in requests}
            if len(keys) > 1:
                yield Violation("once", f"{mutation.marker} was sent under {len(keys)} keys", requests)
            for key in keys:
                if owners.setdefault(key, mutation.marker) != mutation.marker:
                    what = f"{mutation.marker} and {owners[key]} were sent under one key, {key}"
                    yield Violation("once", what, requests)
            if requests and (not mutation.is_forwarded or mutation.waits_for):
                yield Violation("once", f"{mutation.marker} was sent, though it never should be", requests)

    def _in_order(self) -> Iterator[Violation]:
        """The effects of a lane, or of an entity, occur in the order of their positions."""
        latest: dict[tuple, Effect] = {}
        for effect in sorted(self._evidence.effects, key=lambda one: one.order):
            mutation = self._evidence.mutations.get(effect.marker)
            if mutation is None or effect.marker not in self._positions:
                yield Violation("order", f"an effect of {effect.marker}, which was never pushed", [effect])
                continue
            before = latest.get(self._queue(mutation))
            if before and self._positions[before.marker] > self._positions[effect.marker]:
                what = f"{effect.marker} took effect after {before.marker}, which comes later in its lane"
                evidence = [before, effect, *self._requests[before.marker], *self._requests[effect.marker]]
                yield Violation("order", what, evidence)
            latest[self._queue(mutation)] = effect

    def _queue(self, mutation: Mutation) -> tuple:
        """What runs one at a time and in order: a lane, or with the order of dependencies an entity of it."""
        if self._order == "lane":
            return (mutation.lane,)
        return mutation.lane, mutation.entity_type, mutation.local_id

    # Requests that the upstream received

    def _requests_as_meant(self) -> Iterator[Violation]:
        """Each request matches its mutation, with the upstream's ids, and is sent after its dependencies."""
        made = {effect.request: effect for effect in self._evidence.effects}
        known: dict[int, dict[str, int | str]] = defaultdict(dict)
        for mutation in self._evidence.mutations.values():
            # The built-in store assigns ids before other mutations need them.
            if mutation.operation == "create" and not mutation.is_forwarded:
                if mutation.local_id in self._server_ids[mutation.lane]:
                    known[mutation.lane][mutation.local_id] = self._server_ids[mutation.lane][mutation.local_id]
        for event in sorted([*self._evidence.requests, *self._evidence.effects], key=_moment):
            mutation = self._evidence.mutations.get(event.marker)
            if mutation is None:
                yield Violation("requests", f"a request of {event.marker}, which was never pushed", [event])
            elif isinstance(event, Effect):
                if mutation.operation == "create" and event.id is not None:
                    known[mutation.lane].setdefault(mutation.local_id, event.id)
            else:
                yield from self._request_as_meant(event, mutation, known[mutation.lane], made)

    def _request_as_meant(
        self, request: Request, mutation: Mutation, known: dict[str, int | str], made: dict[int, Effect]
    ) -> Iterator[Violation]:
        marker = mutation.marker
        if (request.organization, request.user) != self._evidence.lanes[mutation.lane]:
            yield Violation("tenants", f"{marker} was sent for another user", [request, mutation.as_json()])
        if effect := made.get(request.number):
            if (effect.marker, effect.key) != (marker, request.key):
                yield Violation("tenants", f"{marker} took effect as {effect.marker}", [request, effect])
        method, segments, body = METHODS[mutation.operation], mutation.segments(known.get), mutation.body(known.get)
        if request.method == method and path_segments(request.path) == segments and request.body == body:
            return
        own = {one.local_id for one in self._by_lane[mutation.lane]}
        leaked = {name for name in _texts([path_segments(request.path), request.body]) if name.lower() in own}
        later = self._server_ids[mutation.lane].get
        if any(name.lower() not in known for name in leaked) or request.body == mutation.body(later) != body:
            rule, what = "dependencies", f"{marker} was sent before its dependency"
        elif leaked:
            rule, what = "client ids", f"{marker} was sent with client ids: {sorted(leaked)}"
        else:
            rule, what = "requests", f"{marker} was sent with other content"
        yield Violation(rule, what, [request, {"method": method, "path": segments, "body": body}, mutation.as_json()])

    def _attempts(self) -> Iterator[Violation]:
        """Every request that was sent was counted as an attempt."""
        for marker, requests in self._requests.items():
            counted = self._rows.get(marker, {}).get("attempt_count")
            if counted is not None and len(requests) > counted:
                what = f"{marker} was sent {len(requests)} times, and counts {counted} attempts"
                yield Violation("attempts", what, requests)

    def _one_at_a_time(self) -> Iterator[Violation]:
        """No two requests of a lane overlap, unless the earlier one's gateway was stopped and lost its lease.

        A gateway gives a request up after a time-out. An upstream that is busy may read the request only then.

        With the order of dependencies this holds for the requests of an entity.
        """
        last: dict[tuple, Request] = {}
        for request in sorted(self._evidence.requests, key=lambda one: one.number):
            mutation = self._evidence.mutations.get(request.marker)
            if mutation is None:
                continue
            before = last.get(self._queue(mutation))
            if before and before.end > request.at + (0 if before.how.startswith("answered") else TOLERANCE):
                if self._is_excused(before, request):
                    self.overlaps.excused += 1
                elif self._was_given_up(before, request.at):
                    self.overlaps.late += 1
                else:
                    self.overlaps.unexcused += 1
                    early = before.end - request.at
                    what = f"{request.marker} was sent {early:.3f} s before the end of {before.marker}"
                    yield Violation("one at a time", what, [before, request, {"stopped": self._evidence.troubles}])
            if not before or request.end > before.end:
                last[self._queue(mutation)] = request

    def _is_excused(self, before: Request, request: Request) -> bool:
        return any(
            start <= before.end and request.at <= end + self._lease for start, end in self._evidence.troubles
        )

    def _was_given_up(self, request: Request, at: float) -> bool:
        """Whether the upstream read the request late, so that its time-out may have been over at a time.

        The upstream reads a request at once, except in a delay or directly after it.
        """
        arrival = request.at
        for begin, end in reversed(self._evidence.delays):
            if begin <= arrival <= end + TICK:
                arrival = begin
        return arrival < request.at and arrival + self._timeout <= at

    # Responses to users

    def _ids(self) -> Iterator[Violation]:
        """Users receive the ids that the upstream assigned, and only those of entities that they created."""
        for mutation in self._evidence.mutations.values():
            view = self._evidence.views.get(mutation.lane)
            if view is None or not mutation.takes_effect:
                continue
            given = self._server_ids[mutation.lane].get(mutation.local_id)
            row = self._rows.get(mutation.marker, {})
            if row.get("server_id") != given:
                what = f"{mutation.marker} is listed with the server id {row.get('server_id')!r}, not {given!r}"
                yield Violation("ids", what, [row, *self._effects[mutation.marker], *self._requests[mutation.marker]])
            if mutation.operation == "create":
                mapping = view.mappings.get(mutation.local_id, {})
                if (mapping.get("status"), mapping.get("server_id")) != ("resolved", given):
                    what = f"{mutation.local_id} is mapped wrongly; it is {given!r}"
                    yield Violation("ids", what, [mapping, row, *self._effects[mutation.marker]])

    def _built_in(self) -> Iterator[Violation]:
        """Entities of the built-in store have the version and the document that result from their lane's history."""
        for number, view in self._evidence.views.items():
            shown = {change["id"]: change for change in view.changes if change["entity_type"] == BUILT_IN}
            for client_id, (version, document) in self._notes(number, view).items():
                change = shown.get(self._server_ids[number].get(client_id), {})
                found = change.get("version"), change.get("document"), change.get("client_id")
                if found != (version, document, client_id):
                    what = f"the note {client_id} does not match its writes: version {version}, {document}"
                    yield Violation("built-in", what, [change])

    def _notes(self, lane: int, view: LaneView) -> dict[str, tuple[int, Any]]:
        by_id = {one.id: one for one in self._by_lane[lane]}
        resolve = self._server_ids[lane].get
        notes: dict[str, tuple[int, Any]] = {}
        for row in view.mutations:
            mutation = by_id.get(row["id"])
            if mutation is None or mutation.is_forwarded or not mutation.takes_effect:
                continue
            version, document = notes.get(mutation.local_id, (0, None))
            match mutation.operation:
                case "update": document = merged(document, mutation.body(resolve))
                case "delete": document = None
                case _: document = mutation.body(resolve)
            notes[mutation.local_id] = version + 1, document
        return notes

    def _feeds(self) -> Iterator[Violation]:
        """Forwarded entities are visible to their own user only, and all of them are."""
        for number, view in self._evidence.views.items():
            own = [one for one in self._by_lane[number] if one.takes_effect and one.is_forwarded]
            deleted = {one.local_id for one in own if one.operation == "delete"}
            expected = {
                (one.entity_type, self._server_ids[number].get(one.local_id)): one.local_id in deleted
                for one in own if one.operation == "create"
            }
            shown = {
                (change["entity_type"], change["id"]): change["deleted"]
                for change in view.changes if change["entity_type"] in COLLECTIONS
            }
            for entity in sorted(expected.keys() | shown.keys(), key=str):
                if expected.get(entity) != shown.get(entity):
                    what = (f"lane {number}'s feed shows {entity} with deleted = {shown.get(entity)}, "
                            f"not {expected.get(entity)}")
                    yield Violation("feeds", what)

    def _from_elsewhere(self) -> Iterator[Violation]:
        """Every event was accepted, and all users of its organization see the latest state of each article."""
        for organization, known in sorted(self._evidence.untaken):
            yield Violation("from elsewhere", f"the event {known} of {organization} was never accepted")
        last: dict[str, dict[int, tuple]] = defaultdict(dict)
        for (organization, article), event in self._evidence.events.items():
            last[organization][article] = event["operation"] == "delete", event.get("document")
        for number, view in self._evidence.views.items():
            shown = {change["id"]: (change["deleted"], change["document"])
                     for change in view.changes if change["entity_type"] == STOCK}
            # users who have not pushed see no entities
            expected = last[self._evidence.lanes[number][0]] if view.changes else {}
            for article in sorted(expected.keys() | shown.keys()):
                if expected.get(article) != shown.get(article):
                    what = f"lane {number} sees {shown.get(article)} of article {article}, not {expected.get(article)}"
                    yield Violation("from elsewhere", what)

    def _told(self) -> Iterator[Violation]:
        """Receivers get messages about all failures and the final state of all entities, numbered without gaps."""
        heard: dict[str, list[Message]] = defaultdict(list)
        for message in self._evidence.messages:
            heard[message.organization].append(message)
            if message.of != message.organization:
                yield Violation("told", f"{message.organization} received a message of another organization", [message])
        for organization in sorted(self._evidence.colleagues):
            pairs = {(message.sequence, message.id) for message in heard[organization]}
            numbers = {number for number, _ in pairs}
            if not len(pairs) == len(numbers) == len({known for _, known in pairs}):
                yield Violation("told", f"{organization}: two messages have one number, or one has two")
            if self._evidence.is_told and numbers != set(range(1, len(numbers) + 1)):
                missing = set(range(1, max(numbers) + 1)) - numbers
                yield Violation("told", f"{organization}: numbers are missing", sorted(missing)[:20])
        if self._evidence.is_told:
            for number, view in self._evidence.views.items():
                organization = self._evidence.lanes[number][0]
                if organization in self._evidence.colleagues:
                    yield from self._told_of(view, organization, heard[organization])

    def _told_of(self, view: LaneView, organization: str, heard: list[Message]) -> Iterator[Violation]:
        failed = {message.data["mutation_id"] for message in heard if message.type == "mutation.failed"}
        for row in view.mutations:
            if (row["status"] == "failed") != (row["id"] in failed):
                yield Violation("told", f"{row['id']} is {row['status']}; reported as failed: {row['id'] in failed}")
        versions: dict[tuple, int] = {}
        for message in heard:
            if message.type == "entity.changed":
                entity = message.data["entity_type"], message.data["server_id"]
                versions[entity] = max(message.data["version"], versions.get(entity, 0))
        for change in view.changes:
            version = versions.get((change["entity_type"], change["id"]))
            if version != change["version"]:
                yield Violation("told", f"{organization} received version {version} of an entity", [change])

    def _lanes_at_rest(self) -> Iterator[Violation]:
        """No mutation is leased, in flight or queued. Only failed mutations and their dependents are open."""
        for number, owner in self._evidence.lanes.items():
            row = self._evidence.rows.get(owner)
            if row is None:
                continue
            open_count = sum(not one.takes_effect for one in self._by_lane[number])
            expected = {"lease_owner": None, "in_flight_id": None, "halted_by": None, "ready_at": None,
                        "queued_count": 0, "open_count": open_count}
            found = {name: row[name] for name in expected}
            if found != expected:
                yield Violation("lanes at rest", f"lane {number} is {found}, not {expected}", [row])


def _meant(mutation: Mutation) -> tuple[str, str | None]:
    """The status and the error code."""
    if mutation.waits_for:
        return "blocked", None
    if mutation.takes_effect:
        return "succeeded", None
    return "failed", "max_attempts_reached" if mutation.fate == BROKEN else "upstream_rejected"


def _moment(event: Request | Effect) -> tuple[float, int]:
    # An effect is logged after its request, perhaps with the same timestamp.
    return event.at, 1 if isinstance(event, Effect) else 0


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for member in value.values() for text in _texts(member)]
    if isinstance(value, list):
        return [text for element in value for text in _texts(element)]
    return [value] if isinstance(value, str) else []
