"""Tests the checker: takes the evidence of a faultless run, and falsifies it in one place for each test."""

import copy
from collections.abc import Callable

from .checker import Checker
from .colleague import STOCK
from .evidence import Effect, Evidence, LaneView, Message, Request
from .mutations import BROKEN, BUILT_IN, METHODS, REFUSED, Lane, Mutation, make_lanes, merged
from .stage import TIMEOUT

LANES = 6
MUTATIONS = 40


class _Ideal:
    """A gateway and an upstream that never fail, simulated without processes."""

    def __init__(self) -> None:
        self.now = 100.0
        self.evidence = Evidence({})
        self.ids: dict[str, int | str] = {}
        """Server ids by client id."""
        self.documents: dict[str, tuple[int, dict | None]] = {}

    def run(self, lanes: list[Lane]) -> Evidence:
        for lane in lanes:
            self.evidence.lanes[lane.number] = lane.organization, lane.user
            self.evidence.views[lane.number] = LaneView([], {}, [])
        for _ in range(MUTATIONS):
            for lane in lanes:
                device = lane.random.choice(lane.devices)
                mutation = lane.add(device, None)
                device.acknowledge([mutation])
                self._take(lane, mutation)
        for lane in lanes:
            self._show(lane)
        self._edit_elsewhere(lanes[0].organization)
        self._tell(lanes[0].organization)
        return self.evidence

    def _edit_elsewhere(self, organization: str) -> None:
        event = {"event_id": "1-1", "entity_type": STOCK, "id": 1, "version": 1, "operation": "upsert",
                 "document": {"count": 1}}
        self.evidence.colleagues.add(organization)
        self.evidence.events[organization, 1] = event
        for number, (of, _) in self.evidence.lanes.items():
            if of == organization:
                self.evidence.views[number].changes.append({
                    "entity_type": STOCK, "id": 1, "client_id": None, "version": 1, "deleted": False,
                    "document": event["document"],
                })

    def _tell(self, organization: str) -> None:
        """Messages about all failures and about each visible entity."""
        told: list[tuple[str, dict]] = []
        for number, (of, _) in self.evidence.lanes.items():
            if of != organization:
                continue
            view = self.evidence.views[number]
            told += [("mutation.failed", {"mutation_id": row["id"]}) for row in view.mutations if row["status"] == "failed"]
            told += [
                ("entity.changed", {"entity_type": one["entity_type"], "server_id": one["id"], "version": one["version"]})
                for one in view.changes
            ]
        self.evidence.is_told = True
        for number, (kind, data) in enumerate(told, 1):
            self.evidence.messages.append(Message(organization, f"message {number}", kind, number, organization, data))

    def _take(self, lane: Lane, mutation: Mutation) -> None:
        self.evidence.mutations[mutation.marker] = mutation
        self.evidence.taken.add(mutation.marker)
        row = {"id": mutation.id, "status": "succeeded", "error": None, "attempt_count": 0, "server_id": None,
               "operation": mutation.operation, "local_id": mutation.local_id}
        self.evidence.views[lane.number].mutations.append(row)
        if mutation.waits_for:
            row["status"] = "blocked"
        elif mutation.is_forwarded:
            self._send(lane, mutation, row)
        else:
            self._write(mutation)
        row["server_id"] = self.ids.get(mutation.local_id)

    def _send(self, lane: Lane, mutation: Mutation, row: dict) -> None:
        row["attempt_count"] = 1
        self.now += 1
        path = "/".join(mutation.segments(self.ids.get)).replace(" ", "%20")
        request = Request(
            len(self.evidence.requests) + 1, self.now, f"key-{mutation.marker}", lane.organization, lane.user,
            mutation.marker, METHODS[mutation.operation], path, mutation.body(self.ids.get), None, self.now + 0.5,
            "answered 200",
        )
        self.evidence.requests.append(request)
        if mutation.fate in (REFUSED, BROKEN):
            row["status"] = "failed"
            row["error"] = {"code": "upstream_rejected" if mutation.fate == REFUSED else "max_attempts_reached"}
            return
        given = None
        if mutation.operation == "create":
            given = self.ids[mutation.local_id] = f"an id {len(self.ids)}"
        self.evidence.effects.append(
            Effect(len(self.evidence.effects) + 1, self.now + 0.1, request.key, mutation.marker, lane.organization,
                   lane.user, request.number, given)
        )

    def _write(self, mutation: Mutation) -> None:
        self.ids.setdefault(mutation.local_id, f"a note {len(self.ids)}")
        version, document = self.documents.get(mutation.local_id, (0, None))
        match mutation.operation:
            case "update": document = merged(document, mutation.body(self.ids.get))
            case "delete": document = None
            case _: document = mutation.body(self.ids.get)
        self.documents[mutation.local_id] = version + 1, document

    def _show(self, lane: Lane) -> None:
        view = self.evidence.views[lane.number]
        own = [one for one in self.evidence.mutations.values() if one.lane == lane.number and one.takes_effect]
        deleted = {one.local_id for one in own if one.operation == "delete"}
        for one in own:
            if one.operation != "create":
                continue
            given = self.ids[one.local_id]
            version, document = self.documents.get(one.local_id, (1, None))
            view.mappings[one.local_id] = {"status": "resolved", "server_id": given}
            view.changes.append({
                "entity_type": one.entity_type, "id": given, "client_id": one.local_id, "version": version,
                "deleted": one.local_id in deleted, "document": document,
            })
        blocked = sum(not one.takes_effect for one in self.evidence.mutations.values() if one.lane == lane.number)
        self.evidence.rows[lane.organization, lane.user] = {
            "lease_owner": None, "in_flight_id": None, "halted_by": None, "ready_at": None, "queued_count": 0,
            "open_count": blocked,
        }


# Each function commits one violation.

def _double_effect(evidence: Evidence) -> None:
    evidence.effects.append(copy.copy(evidence.effects[0]))
    evidence.effects[-1].order = len(evidence.effects)


def _second_key(evidence: Evidence) -> None:
    again = copy.copy(evidence.requests[0])
    again.number, again.key = len(evidence.requests) + 1, "another key"
    evidence.requests.append(again)


def _one_key_for_two(evidence: Evidence) -> None:
    evidence.requests[1].key = evidence.requests[0].key


def _reordering(evidence: Evidence) -> None:
    lane = _lane_of(evidence, evidence.effects[0])
    first, second = [one for one in evidence.effects if _lane_of(evidence, one) == lane][:2]
    first.order, second.order = second.order, first.order


def _missing_effect(evidence: Evidence) -> None:
    evidence.effects.pop()


def _forgotten_mutation(evidence: Evidence) -> None:
    evidence.views[0].mutations.pop()


def _never_taken(evidence: Evidence) -> None:
    evidence.taken.remove(next(iter(evidence.mutations)))


def _wrong_outcome(evidence: Evidence) -> None:
    row = next(row for row in evidence.views[0].mutations if row["status"] == "succeeded")
    row["status"], row["error"] = "failed", {"code": "max_attempts_reached"}


def _client_id_in_payload(evidence: Evidence) -> None:
    request, mutation = _with_reference(evidence)
    request.body["contact_id"] = mutation.payload["contact_id"]


def _client_id_in_path(evidence: Evidence) -> None:
    request = next(one for one in evidence.requests if one.method == "PATCH")
    request.path = f"/contacts/{evidence.mutations[request.marker].local_id}"


def _before_its_dependency(evidence: Evidence) -> None:
    request, mutation = _with_reference(evidence)
    create = next(
        one for one in evidence.mutations.values()
        if one.local_id == mutation.payload["contact_id"].lower() and one.operation == "create"
    )
    effect = next(one for one in evidence.effects if one.marker == create.marker)
    effect.at = request.at + 1


def _another_tenants_id(evidence: Evidence) -> None:
    request, mutation = _with_reference(evidence)
    request.body["contact_id"] = next(
        effect.id for effect in evidence.effects
        if effect.id and evidence.mutations[effect.marker].lane != mutation.lane
    )


def _another_tenants_name(evidence: Evidence) -> None:
    request = evidence.requests[0]
    request.user = next(user for _, user in evidence.lanes.values() if user != request.user)


def _wrong_id_told(evidence: Evidence) -> None:
    next(row for row in evidence.views[0].mutations if row["status"] == "succeeded")["server_id"] = 666_666_666


def _wrong_mapping(evidence: Evidence) -> None:
    next(iter(evidence.views[0].mappings.values()))["server_id"] = 666_666_666


def _lost_update(evidence: Evidence) -> None:
    next(one for one in _changes(evidence) if one["entity_type"] == BUILT_IN)["version"] -= 1


def _wrong_document(evidence: Evidence) -> None:
    next(one for one in _changes(evidence) if one["entity_type"] == BUILT_IN)["document"] = {"text": "another"}


def _seen_by_others(evidence: Evidence) -> None:
    entity = next(one for one in evidence.views[0].changes if one["entity_type"] != BUILT_IN)
    evidence.views[1].changes.append(entity)


def _missing_in_feed(evidence: Evidence) -> None:
    changes = evidence.views[0].changes
    changes.remove(next(one for one in changes if one["entity_type"] != BUILT_IN))


def _uncounted_attempt(evidence: Evidence) -> None:
    evidence.views[0].mutations[0]["attempt_count"] = 0
    request = copy.copy(evidence.requests[0])
    request.number, request.at, request.end = len(evidence.requests) + 1, 1e6, 1e6
    evidence.requests.append(request)


def _two_at_a_time(evidence: Evidence) -> None:
    evidence.requests[0].end = evidence.requests[-1].end


def _lease_left(evidence: Evidence) -> None:
    evidence.rows[evidence.lanes[0]]["lease_owner"] = "somebody"


def _wrong_count(evidence: Evidence) -> None:
    evidence.rows[evidence.lanes[0]]["open_count"] += 1


def _untaken_event(evidence: Evidence) -> None:
    evidence.untaken.add((evidence.lanes[0][0], "1-1"))


def _older_article(evidence: Evidence) -> None:
    next(one for one in _changes(evidence) if one["entity_type"] == STOCK)["document"] = {"count": 0}


def _unheard(evidence: Evidence) -> None:
    evidence.messages.pop(0)


def _told_of_the_version_before(evidence: Evidence) -> None:
    next(one for one in evidence.messages if one.type == "entity.changed").data["version"] -= 1


def _unnumbered(evidence: Evidence) -> None:
    evidence.messages[0].sequence = 1_000


def _told_of_another(evidence: Evidence) -> None:
    evidence.messages[0].of = "another"


def _complaint(evidence: Evidence) -> None:
    evidence.complaints.append("a push was answered 418")


CRIMES: list[tuple[Callable[[Evidence], None], str]] = [
    (_double_effect, "once"), (_second_key, "once"), (_one_key_for_two, "once"), (_missing_effect, "once"),
    (_reordering, "order"), (_forgotten_mutation, "lost"), (_never_taken, "lost"), (_wrong_outcome, "outcome"),
    (_client_id_in_payload, "client ids"), (_client_id_in_path, "client ids"),
    (_before_its_dependency, "dependencies"), (_another_tenants_id, "requests"), (_another_tenants_name, "tenants"),
    (_wrong_id_told, "ids"), (_wrong_mapping, "ids"), (_lost_update, "built-in"), (_wrong_document, "built-in"),
    (_seen_by_others, "feeds"), (_missing_in_feed, "feeds"), (_uncounted_attempt, "attempts"),
    (_two_at_a_time, "one at a time"), (_lease_left, "lanes at rest"), (_wrong_count, "lanes at rest"),
    (_untaken_event, "from elsewhere"), (_older_article, "from elsewhere"), (_unheard, "told"),
    (_told_of_the_version_before, "told"), (_unnumbered, "told"), (_told_of_another, "told"), (_complaint, "as it ran"),
]


def run(lease: float) -> int:
    """The exit status."""
    ideal = _Ideal().run(make_lanes(1, LANES))
    failures = [f"false alarm: {one.rule}: {one.what}" for one in Checker(ideal, lease, TIMEOUT).violations()]
    for crime, rule in CRIMES:
        doctored = copy.deepcopy(ideal)
        crime(doctored)
        found = {violation.rule for violation in Checker(doctored, lease, TIMEOUT).violations()}
        if rule not in found:
            failures.append(f"{crime.__name__[1:].replace('_', ' ')}: '{rule}' was not found, but {sorted(found)}")
    failures += _excuses(copy.deepcopy(ideal), lease) + _delays(ideal, lease)
    for failure in failures:
        print(failure)
    print(f"{len(CRIMES)} crimes, " + (f"{len(failures)} of them not solved" if failures else "all solved"))
    return 1 if failures else 0


def _excuses(evidence: Evidence, lease: float) -> list[str]:
    """A stopped gateway may overlap with the gateway that claimed its lane, until it resumes and detects this."""
    _two_at_a_time(evidence)
    evidence.troubles.append((evidence.requests[0].at, evidence.requests[-1].at))
    checker = Checker(evidence, lease, TIMEOUT)
    found = checker.violations()
    return [] if not found and checker.overlaps.excused else ["an overlap with a stopped gateway is not excused"]


def _delays(ideal: Evidence, lease: float) -> list[str]:
    """A repetition of a request that was read late is legal, but only after the gateway's time-out."""
    failures = []
    for since_sending, is_legal in ((TIMEOUT + 0.01, True), (TIMEOUT - 0.01, False)):
        evidence = copy.deepcopy(ideal)
        first = evidence.requests[-1]
        again = copy.copy(first)
        again.number, again.at = first.number + 1, first.at + 0.4
        first.end = again.end = again.at + 1
        evidence.requests.append(again)
        # two delays in sequence
        sent = again.at - since_sending
        evidence.delays += [(sent, first.at - 0.2), (first.at - 0.2, first.at - 0.01)]
        checker = Checker(evidence, lease, TIMEOUT)
        found = [one.rule for one in checker.violations() if one.rule == "one at a time"]
        if (not found, checker.overlaps.late) != (is_legal, int(is_legal)):
            failures.append(f"a repetition {since_sending} s after a request that was read late: {found}")
    return failures


def _lane_of(evidence: Evidence, effect: Effect) -> int:
    return evidence.mutations[effect.marker].lane


def _changes(evidence: Evidence) -> list[dict]:
    """The lanes' own entities, filtered by whether they were changed."""
    return [change for view in evidence.views.values() for change in view.changes if change["document"]]


def _with_reference(evidence: Evidence) -> tuple[Request, Mutation]:
    """A request that names a forwarded entity created by another mutation."""
    made = {
        one.local_id for one in evidence.mutations.values() if one.operation == "create" and one.is_forwarded
    }
    for request in evidence.requests:
        mutation = evidence.mutations[request.marker]
        if mutation.payload and mutation.payload.get("contact_id", "").lower() in made - {mutation.local_id}:
            return request, mutation
    raise LookupError("no mutation names another's entity")
