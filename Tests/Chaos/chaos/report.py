"""The summary of a run, as text."""

import json
from collections import Counter
from dataclasses import asdict, is_dataclass
from typing import Any

from .checker import Checker, Violation
from .evidence import Evidence
from .upstream import FAULTS

# The number of violations shown for each rule. The others are counted.
SHOWN = 3


def summary(evidence: Evidence, checker: Checker, faults: dict[str, int]) -> str:
    mutations = evidence.mutations.values()
    taken = Counter(mutation.operation for mutation in mutations)
    ends = Counter(request.fault for request in evidence.requests)
    attempts = len(evidence.requests) / max(1, len({request.marker for request in evidence.requests}))
    effects = len(evidence.effects)
    lines = [
        f"{len(evidence.taken):,} mutations accepted of {len(evidence.lanes):,} lanes: {_listed(taken)}; "
        f"{sum(not one.takes_effect for one in mutations):,} of them meant to fail or to wait for one that does",
        f"{len(evidence.requests):,} requests reached the upstream, {attempts:.2f} a mutation; {effects:,} effects",
        f"the upstream misbehaved: {_listed({name: ends[name] for name in FAULTS})}",
        f"faults: {_listed(faults)}",
        f"{evidence.event_count:,} events came from elsewhere; webhooks sent {len(evidence.messages):,} messages about "
        f"{len({one.id for one in evidence.messages}):,} things",
        f"{evidence.thrown_away:,} outcomes arrived after another gateway had claimed the lane, and were discarded",
        f"requests of one lane at the same time: {checker.overlaps.excused} while a stopped gateway had lost the lane, "
        f"{checker.overlaps.late} after a time-out for a request that the upstream read late, "
        f"{checker.overlaps.unexcused} otherwise",
    ]
    return "\n".join(lines)


def violations(found: list[Violation]) -> str:
    """Each rule with a few of its violations and their evidence."""
    lines: list[str] = []
    for rule, count in Counter(one.rule for one in found).items():
        lines.append(f"\n{count} × {rule}")
        for one in [one for one in found if one.rule == rule][:SHOWN]:
            lines.append(f"  - {one.what}")
            lines += [f"      {_shown(item)}" for item in one.evidence[:12]]
    return "\n".join(lines)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items())


def _shown(item: Any) -> str:
    plain = asdict(item) if is_dataclass(item) and not isinstance(item, type) else item
    return json.dumps(plain, default=str, ensure_ascii=False)[:3000]
