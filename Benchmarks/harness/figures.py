"""The measurements, and the ratios that they must reach."""

from dataclasses import dataclass
from statistics import median

from . import device_ids
from .allocations import Allocations
from .channels import WORKS, Channels
from .deep_lane import Deep
from .delivery import Delivery
from .device_ids import Pulls
from .forwarding import Forward, Quiet
from .keeping import Keeping
from .neighbours import SCENARIOS, Neighbour
from .phone import DELAY, Phone
from .runs import Load, Run

PUSHES = {
    "push-1": Load(mutations=1, connections=64),
    "push-10": Load(mutations=10, connections=32),
    "push-50": Load(mutations=50, connections=32),
    "push-100": Load(mutations=100, connections=32),
}
REPLAYS = {
    "replay-1": Load(mutations=1, connections=64, mode="replay"),
    "replay-50": Load(mutations=50, connections=32, mode="replay", pool=1000),
}
# A push to a type with device ids, and the push to a mapped type with which it is compared.
DEVICE_PUSHES = {
    "device-push-50": (device_ids.PUSH, "push-50"),
    "device-push-50 related": (device_ids.RELATED_PUSH, "push-50 related"),
}
MAPPED_RELATED = {"push-50 related": device_ids.MAPPED_RELATED_PUSH}
# The pushes whose allocations are counted.
ALLOCATING = ["push-1", "push-50"]
MEMORY = Load(mutations=50, connections=1000)
# The loads that --against can compare.
LOADS = PUSHES | REPLAYS
# The figures that are measured without --only.
USUAL = [*PUSHES, *REPLAYS, "memory", "allocations", "forward", "quiet", "listeners", "feed", "retention",
         "device-push-50", "device-pull", "deep-lane", "noisy-neighbour", "floor", "phone"]
ALL = [*USUAL, "growth", "channels", "drain", "overload"]
# The figures for which --against compares two binaries.
COMPARED = [*LOADS, "forward"]

# The rate of pushes is at least this factor of the ceiling with as many mutations in a call.
PUSH_BARS = {"push-1": 2.5, "push-50": 0.8}
# The rate of repeated pushes is at least this factor of the rate of new pushes of the same size.
REPLAY_BAR = 2.0
# The gateway's CPU, as a share of Postgres's for the same pushes.
CPU_BAR = 0.25
# The rate of forwarded mutations is at least this factor of the bare client's requests, or this many a second.
FORWARD_BAR, FORWARD_RATE_BAR = 0.5, 10_000
# A quiet organization's p99 latency while another one is busy or has an unavailable upstream, divided by that of an
# idle gateway.
QUIET_BAR = 2.0
# The highest memory of the gateway, in 10^6 bytes.
MEMORY_BAR = 150.0
# Heap allocations of the gateway per mutation, 5 % above those of 2026-11-26. The allocations of a push of one mutation
# vary by some 5 % with the number of pushes in a group.
ALLOCATION_BARS = {"push-1": 178.0, "push-50": 31.5}
# Milliseconds until the last of an organization's listeners is notified of a push.
HINT_BAR = 1000.0
# Pulls of a feed's last tenth, divided by those of its first.
FEED_BAR = 0.8
# p99 of pushes while retention runs, divided by that without.
RETENTION_BAR = 1.5
# p99 of an organization's pushes while another causes its worst load, divided by that without.
NEIGHBOUR_BAR = 2.0
# The cost of a push with device ids, and of a page in a device's own ids, divided by that without them.
DEVICE_BAR = 1.5
# The cost of a push into a lane with thousands of open mutations, divided by that of a push into an empty lane.
DEEP_BAR = 2.0
# Microseconds that enqueueing adds to an insert, in a separate transaction.
ENQUEUE_BAR = 150.0
# Entities per second of a phone's first pull of everything.
FIRST_PULL_RATE = 10_000.0
# The phone's memory during that pull, in 10^6 bytes.
FIRST_PULL_BAR = 60.0
# The longest delay of a phone's main thread while the phone synchronizes, in milliseconds. It is a fourth of the
# network's round trip; to wait for an answer would take a whole round trip.
MAIN_BAR = DELAY * 1000 / 2
# The cost of a page for a user with ten channels, and of a first pull of a tenth of an organization, divided by that in
# an organization without channels that has only the visible entities.
CHANNEL_PAGE_BAR, CHANNEL_FIRST_PULL_BAR = 1.5, 1.3
# The cost of a push into a type with two channels for each entity, divided by that of a push into a type without.
CHANNEL_PUSH_BAR = 1.4
# p99 of pushes of other users while a large channel is granted and revoked, divided by that without.
GRANT_BAR = 1.2
# Pushes and pulls of a database that has grown, divided by those of a fresh one.
GROWTH_BAR = 0.9


@dataclass
class Figure:
    """A line of the report."""

    name: str
    value: str
    against: str
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    bar: str = ""
    met: bool | None = None


def push_of(replay: str) -> str:
    """The new pushes with which a repeated push, or a push of device ids, is compared."""
    return replay.replace("replay", "push").removeprefix("device-")


def compare(rounds: list[dict[str, Run]], peak: float | None) -> list[Figure]:
    """The figures of all rounds: medians of ratios, each of values from one round."""
    figures = []
    measured = [name for name in ALL if any(name in runs for runs in rounds)]
    for name in measured:
        if name in PUSHES:
            figures.append(_push(name, rounds))
        elif name in REPLAYS:
            figures.append(_replay(name, rounds))
    for name in measured:
        if name in PUSHES:
            figures += [_cpu(name, rounds), *_per_cpu(name, rounds)]
    for name, (_, mapped) in DEVICE_PUSHES.items():
        if pairs := [(runs[name], runs[mapped]) for runs in rounds if name in runs and mapped in runs]:
            figures += _device_push(name, pairs)
    if peak is not None:
        figures.append(
            Figure("memory", f"{peak:.0f} MB peak", f"{MEMORY.connections:,} connections",
                   bar=f"≤ {MEMORY_BAR:.0f} MB", met=peak <= MEMORY_BAR)
        )
    return figures


def _push(name: str, rounds: list[dict[str, Run]]) -> Figure:
    ceiling = f"ceiling-{PUSHES[name].mutations}"
    pairs = [(runs[name], runs[ceiling]) for runs in rounds if name in runs and ceiling in runs]
    figure = Figure(name, _rate([runs[name] for runs in rounds if name in runs]), "")
    if pairs:
        figure.against = f"{_rate([other for _, other in pairs])} ceiling"
        _ratios(figure, pairs)
        if bar := PUSH_BARS.get(name):
            figure.bar, figure.met = f"≥ {bar}", figure.ratio >= bar
    return figure


def _replay(name: str, rounds: list[dict[str, Run]]) -> Figure:
    pairs = [(runs[name], runs[push_of(name)]) for runs in rounds if name in runs and push_of(name) in runs]
    figure = Figure(name, _rate([own for own, _ in pairs]), f"{_rate([new for _, new in pairs])} new")
    _ratios(figure, pairs)
    figure.bar, figure.met = f"≥ {REPLAY_BAR}", figure.ratio >= REPLAY_BAR
    return figure


def _device_push(name: str, pairs: list[tuple[Run, Run]]) -> list[Figure]:
    """The cost of a push divided by that of a push to a mapped type, in time and in the CPU of all processes."""
    costs = [mapped.mutations_per_second / own.mutations_per_second for own, mapped in pairs]
    work = [_all_cpu(own) / _all_cpu(mapped) for own, mapped in pairs]
    own, mapped = (median(_all_cpu(pair[side]) for pair in pairs) for side in (0, 1))
    return [
        Figure(name, _rate([own for own, _ in pairs]), f"{_rate([mapped for _, mapped in pairs])} mapped",
               median(costs), (min(costs), max(costs)), f"≤ {DEVICE_BAR}", median(costs) <= DEVICE_BAR),
        Figure(f"work {name}", f"{own:,.0f} µs/push", f"{mapped:,.0f} µs/push mapped", median(work),
               (min(work), max(work))),
    ]


def _cpu(name: str, rounds: list[dict[str, Run]]) -> Figure:
    runs = [one[name] for one in rounds if name in one]
    shares = [run.cpu_gateway / run.cpu_postgres for run in runs]
    share = median(shares)
    return Figure(
        f"cpu {name}", f"{median(run.cpu_gateway for run in runs):,.0f} µs/push",
        f"{median(run.cpu_postgres for run in runs):,.0f} µs/push Postgres", share, (min(shares), max(shares)),
        f"≤ {CPU_BAR}", share <= CPU_BAR,
    )


def _per_cpu(name: str, rounds: list[dict[str, Run]]) -> list[Figure]:
    """The result of a second of CPU of all processes. It equals the ratio of rates if no process waits, and is less
    affected by other load on the machine."""
    ceiling = f"ceiling-{PUSHES[name].mutations}"
    pairs = [(_all_cpu(runs[name]), _all_cpu(runs[ceiling])) for runs in rounds if name in runs and ceiling in runs]
    if not pairs:
        return []
    ratios = [other / own for own, other in pairs]
    return [
        Figure(
            f"work {name}", f"{median(own for own, _ in pairs):,.0f} µs/push",
            f"{median(other for _, other in pairs):,.0f} µs/call ceiling", median(ratios), (min(ratios), max(ratios)),
        )
    ]


def _all_cpu(run: Run) -> float:
    return run.cpu_postgres + run.cpu_client + (run.cpu_gateway or 0)


def _ratios(figure: Figure, pairs: list[tuple[Run, Run]]) -> None:
    ratios = [own.mutations_per_second / other.mutations_per_second for own, other in pairs]
    figure.ratio, figure.spread = median(ratios), (min(ratios), max(ratios))


def _rate(runs: list[Run]) -> str:
    return f"{median(run.mutations_per_second for run in runs):,.0f} mutations/s"


def compare_allocations(runs: list[Allocations]) -> list[Figure]:
    """The heap allocations per mutation. Changes of the code affect them, but a slower machine hardly does."""
    figures = []
    for name in ALLOCATING:
        own = [one for one in runs if one.figure == name]
        if not own:
            continue
        each, push = median(one.per_mutation for one in own), median(one.per_push for one in own)
        figures.append(Figure(
            f"allocations {name}", f"{each:,.1f} a mutation", f"{push:,.0f} a push", None,
            bar=f"≤ {ALLOCATION_BARS[name]:,.1f}", met=each <= ALLOCATION_BARS[name],
        ))
    return figures


def compare_forwarding(rounds: list[dict[str, Forward]]) -> list[Figure]:
    """Forwarded mutations a second, divided by the HTTP client library alone in the same round."""
    if not rounds:
        return []
    figures = []
    for name in ("forward", "forward live"):
        rate = median(one[name].per_second for one in rounds)
        ratios = [one[name].per_second / one["client"].per_second for one in rounds]
        client = median(one["client"].per_second for one in rounds)
        figure = Figure(name, f"{rate:,.0f} mutations/s", f"{client:,.0f} requests/s bare client", median(ratios),
                        (min(ratios), max(ratios)))
        if name == "forward":
            figure.bar = f"≥ {FORWARD_BAR}, or ≥ {FORWARD_RATE_BAR:,}/s"
            figure.met = figure.ratio >= FORWARD_BAR or rate >= FORWARD_RATE_BAR
        figures.append(figure)
    shares = [one["forward"].cpu_gateway / one["forward"].cpu_postgres for one in rounds]
    own, other = (median(getattr(one["forward"], name) for one in rounds) for name in ("cpu_gateway", "cpu_postgres"))
    figures.append(
        Figure("cpu forward", f"{own:,.0f} µs/mutation", f"{other:,.0f} µs/mutation Postgres", median(shares),
               (min(shares), max(shares)))
    )
    return figures


def compare_quiet(rounds: list[dict[str, Quiet]]) -> list[Figure]:
    """A quiet organization's latency while others are busy, divided by that of an idle gateway in the same round."""
    figures = []
    for name, others in (("backlog", "another's backlog"), ("dead", "another's dead upstream")):
        pairs = [(one[name], one["idle"]) for one in rounds if name in one]
        if not pairs:
            continue
        for percentile in ("p50_ms", "p99_ms"):
            own, idle = (median(getattr(pair[side], percentile) for pair in pairs) for side in (0, 1))
            ratios = [getattr(busy, percentile) / getattr(calm, percentile) for busy, calm in pairs]
            figure = Figure(f"quiet {name} {percentile[:3]}", f"{own:,.1f} ms with {others}", f"{idle:,.1f} ms idle",
                            median(ratios), (min(ratios), max(ratios)))
            if percentile == "p99_ms":
                figure.bar, figure.met = f"≤ {QUIET_BAR}", figure.ratio <= QUIET_BAR
            figures.append(figure)
    return figures


def compare_deliveries(runs: list[Delivery]) -> list[Figure]:
    """The figures of delivery runs."""
    figures = []
    for run in runs:
        values = run.values
        if run.figure == "listeners":
            resident, last = values["resident_mb"], values["last_hint_ms"]
            figures += [
                Figure("listeners", f"{resident:.0f} MB", f"{values['listeners']:,.0f} listeners, nothing happens",
                       bar=f"≤ {MEMORY_BAR:.0f} MB", met=resident <= MEMORY_BAR),
                Figure("cpu listeners", f"{values['gateway_cpu_percent']:.1f} % of a core",
                       f"{values['postgres_cpu_percent']:.1f} %, PostgreSQL"),
                Figure("hint", f"{last:.0f} ms to the last", f"{values['first_hint_ms']:.0f} ms to the first",
                       bar=f"≤ {HINT_BAR:.0f} ms", met=last <= HINT_BAR),
            ]
        else:
            ratio = values["last_tenth_per_second"] / values["first_tenth_per_second"]
            figures.append(Figure(
                "feed", f"{values['last_tenth_per_second']:,.0f} entities/s, last tenth",
                f"{values['first_tenth_per_second']:,.0f}, first tenth", ratio, bar=f"≥ {FEED_BAR}",
                met=ratio >= FEED_BAR,
            ))
    return figures


def compare_keeping(run: Keeping | None) -> list[Figure]:
    """Pushes while retention runs."""
    if run is None or not run.during:
        return []
    during, without = (median(one.p99_ms for one in side) for side in (run.during, run.without))
    rates = [median(one.mutations_per_second for one in side) for side in (run.during, run.without)]
    alone = f", {run.alone_per_second:,.0f}/s alone" if run.alone_per_second else ""
    return [
        Figure("retention p99", f"{during:,.1f} ms with it", f"{without:,.1f} ms without", run.ratio,
               (min(one.p99_ms for one in run.during) / without, max(one.p99_ms for one in run.during) / without),
               f"≤ {RETENTION_BAR}", run.ratio <= RETENTION_BAR),
        Figure("retention rate", f"{rates[0]:,.0f} mutations/s with it", f"{rates[1]:,.0f}/s without",
               rates[0] / rates[1]),
        Figure("retention", f"{run.rows:,} rows in {run.seconds:,.0f} s", f"{run.rows_per_second:,.0f} rows/s{alone}"),
    ]


def compare_device_pulls(rounds: list[Pulls]) -> list[Figure]:
    """Pages in a device's own ids, divided by those of the plain feed, read in the same round."""
    if not rounds:
        return []
    plain = f"{median(one.plain_ms for one in rounds):.2f} ms a page of the feed"
    figures = []
    for name, what in (("known", "its ids known"), ("first", "ids assigned")):
        ratios = [getattr(one, f"{name}_ms") / one.plain_ms for one in rounds]
        own = median(getattr(one, f"{name}_ms") for one in rounds)
        figures.append(Figure(f"device-pull {name}", f"{own:.2f} ms a page, {what}", plain, median(ratios),
                              (min(ratios), max(ratios))))
    known = figures[0]
    known.bar, known.met = f"≤ {DEVICE_BAR}", known.ratio <= DEVICE_BAR
    return figures


def compare_deep_lanes(rounds: list[list[Deep]]) -> list[Figure]:
    """Pushes into deep lanes, divided by those into empty ones, in turns."""
    figures = []
    names = {"away": "upstream away", "conflict": "behind a conflict", "kept": "kept, not analyzed"}
    for name, what in names.items():
        runs = [run for one in rounds for run in one if run.figure == name]
        if not runs:
            continue
        ratios = [run.deep_ms / run.empty_ms for run in runs]
        deep, empty = (median(getattr(run, side) for run in runs) for side in ("deep_ms", "empty_ms"))
        figures.append(Figure(f"deep-lane {name}", f"{deep:.2f} ms behind {runs[0].open:,}, {what}",
                              f"{empty:.2f} ms, empty", median(ratios), (min(ratios), max(ratios)),
                              f"≤ {DEEP_BAR}", median(ratios) <= DEEP_BAR))
    return figures


def compare_channels(run: Channels | None) -> list[Figure]:
    """Pulls and pushes of types with channels, divided by those without, in the same round."""
    if run is None:
        return []
    figures = []
    for name, own, plain in (("median", "own_ms", "plain_ms"), ("p99", "own_p99_ms", "plain_p99_ms")):
        pairs = [(getattr(one, own), getattr(one, plain)) for one in run.pages]
        figures.append(_costs(f"channels page {name}", pairs, "ms a page, ten channels", "ms, only what is visible",
                              CHANNEL_PAGE_BAR))
    pairs = [(one.own_seconds, one.plain_seconds) for one in run.first_pulls]
    figures.append(_costs("channels first pull", pairs, f"s, {run.area:,} of {run.rows:,}", f"s, {run.area:,} of them",
                          CHANNEL_FIRST_PULL_BAR))
    if run.pushes:
        pairs = [(1000 / own.pushes_per_second, 1000 / plain.pushes_per_second) for own, plain in run.pushes]
        figures.append(_costs("channels push-50", pairs, "ms a push, two channels each", "ms, without channels",
                              CHANNEL_PUSH_BAR))
        pairs = [(_all_cpu(own) / 1000, _all_cpu(plain) / 1000) for own, plain in run.pushes]
        figures.append(_costs("work channels push-50", pairs, "ms of CPU a push", "ms, without channels", None))
    for work, what in WORKS.items():
        pairs = [(one.p99_ms[work], one.p99_ms["alone"]) for one in run.grantings]
        figures.append(_costs(f"channels {work} p99", pairs, f"ms, {what}", "ms before",
                              None if work == "pull" else GRANT_BAR))
    return figures


def _costs(name: str, pairs: list[tuple[float, float]], own: str, other: str, bar: float | None) -> Figure:
    """The median of the ratios of two costs, lower is better."""
    ratios = [one / two for one, two in pairs]
    values = [median(pair[side] for pair in pairs) for side in (0, 1)]
    figure = Figure(name, f"{values[0]:,.2f} {own}", f"{values[1]:,.2f} {other}", median(ratios),
                    (min(ratios), max(ratios)))
    if bar is not None:
        figure.bar, figure.met = f"≤ {bar}", figure.ratio <= bar
    return figure


def compare_phones(runs: list[Phone]) -> list[Figure]:
    """The costs of the phone's library, compared with an app without it."""
    figures: list[Figure] = []
    for run in runs:
        match run.figure:
            case "writes": figures += _phone_writes(run.values)
            case "edits": figures.append(_phone_edits(run.values))
            case "main": figures.append(_phone_main(run.values))
            case "first-pull": figures += _phone_first_pull(run.values)
    return figures


def _phone_writes(values: dict[str, float]) -> list[Figure]:
    figures = []
    for size, what in ((1, "alone"), (10, "by ten"), (100, "by a hundred")):
        name = f"enqueue_by_{size}"
        figures.append(Figure(
            f"phone enqueue {what}", f"{values[f'{name}_microseconds']:,.0f} µs in addition to the insert",
            f"{values[f'insert_by_{size}_microseconds']:,.0f} µs, the insert alone; "
            f"{values[f'enqueue_floor_by_{size}_microseconds']:,.0f} for the same rows without the library",
            values[f"{name}_ratio"],
            (values[f"{name}_lowest_ratio"], values[f"{name}_highest_ratio"]),
        ))
    alone = figures[0]
    alone.bar, alone.met = f"≤ {ENQUEUE_BAR:.0f} µs", values["enqueue_by_1_microseconds"] <= ENQUEUE_BAR
    count, seconds = values["drained_mutations"], values["drain_seconds"]
    figures.append(Figure("phone drain", f"{count:,.0f} mutations in {seconds:.1f} s, {count / seconds:,.0f}/s",
                          f"{values['drain_own_cpu_seconds']:.1f} s of the phone's CPU"))
    return figures


def _phone_edits(values: dict[str, float]) -> Figure:
    return Figure(
        "phone pull under edits", f"{values['pull_under_edits_milliseconds']:,.0f} ms, 1,000 changes, 1,000 edits",
        f"{values['pull_without_edits_milliseconds']:,.0f} ms without edits", values["pull_ratio"],
        (values["pull_lowest_ratio"], values["pull_highest_ratio"]),
    )


def _phone_main(values: dict[str, float]) -> Figure:
    longest, idle = (values[f"main_{side}_longest_milliseconds"] for side in ("synchronizing", "idle"))
    return Figure(
        "phone main thread", f"{longest:.0f} ms at most, round trips of {2 * DELAY:g} s", f"{idle:.0f} ms, nothing to do",
        bar=f"≤ {MAIN_BAR:.0f} ms", met=longest <= MAIN_BAR,
    )


def _phone_first_pull(values: dict[str, float]) -> list[Figure]:
    rows, peak = values["first_pull_rows"], values["first_pull_peak_megabytes"]
    return [
        Figure("phone first pull", f"{rows / values['first_pull_seconds']:,.0f} entities/s", f"{rows:,.0f} of them",
               bar=f"≥ {FIRST_PULL_RATE:,.0f}/s", met=rows / values["first_pull_seconds"] >= FIRST_PULL_RATE),
        Figure("phone memory", f"{peak:.0f} MB peak", f"{values['first_pull_megabytes_before']:.0f} MB before the pull",
               bar=f"≤ {FIRST_PULL_BAR:.0f} MB", met=peak <= FIRST_PULL_BAR),
    ]


def compare_neighbours(runs: list[Neighbour]) -> list[Figure]:
    """An organization's pushes during a noisy one's worst load, divided by those alone a moment before."""
    return [
        Figure(f"{run.scenario}, {run.kind}", f"p99 {run.loaded_p99:.1f} ms with {SCENARIOS[run.scenario]}",
               f"{run.alone_p99:.1f} ms alone", run.ratio, bar=f"≤ {NEIGHBOUR_BAR}", met=run.ratio <= NEIGHBOUR_BAR)
        for run in runs
    ]
