"""Tables for people."""

from .allocations import Allocations
from .channels import FirstPulls, Granting, Pages
from .deep_lane import Deep
from .delivery import Delivery
from .device_ids import Pulls
from .drain import Drain
from .figures import Figure
from .forwarding import Forward, Quiet
from .neighbours import Neighbour
from .overload import Overload
from .phone import Phone
from .runs import Run


def run_line(run: Run) -> str:
    """The measurements of one run, as it ends."""
    parts = [f"  {run.figure:<23}{run.mutations_per_second:>9,.0f} mutations/s {run.pushes_per_second:>9,.0f} pushes/s"]
    if run.p99_ms is None:
        parts.append(f"mean {run.p50_ms:>6.1f} ms                ")
    else:
        parts.append(f"p50 {run.p50_ms:>7.1f} ms, p99 {run.p99_ms:>7.1f} ms")
    shares = [f"Postgres {run.cpu_postgres:,.0f}", f"client {run.cpu_client:,.0f}"]
    if run.cpu_gateway is not None:
        shares.insert(0, f"server {run.cpu_gateway:,.0f}")
    parts.append(f"CPU µs/push: {', '.join(shares)}; others {run.cpu_others:.0%}")
    parts.append(f"WAL {run.wal_per_mutation:,.0f} B/mutation")
    if run.groups:
        parts.append(f"{run.groups.statements:.1f}/{run.groups.round_trips:.2f}/{run.groups.pushes:.1f} "
                     "statements/round trips/pushes a group")
    if run.checkpoint:
        parts.append("checkpoint")
    if run.client_share is not None and run.client_share > 0.7:
        parts.append(f"LOAD GENERATOR AT {run.client_share:.0%} OF A CORE")
    if run.errors:
        parts.append(f"{run.errors} ERRORS: {run.extra.get('complaint', '')[:300]}")
    return " | ".join(parts)


def allocations_line(one: Allocations) -> str:
    return f"  {one.figure:<13} {one.per_mutation:,.2f} allocations a mutation, {one.per_push:,.1f} a push"


def forward_line(run: Forward) -> str:
    shares = [
        f"{name} {value:,.0f}"
        for name, value in (("gateway", run.cpu_gateway), ("Postgres", run.cpu_postgres), ("nginx", run.cpu_upstream),
                            ("client", run.cpu_client)) if value
    ]
    errors = f" | {run.errors} ERRORS" if run.errors else ""
    return (f"  {run.figure:<13}{run.per_second:>9,.0f} a second | CPU µs each: {', '.join(shares)}; "
            f"others {run.cpu_others:.0%}{errors}")


def drain_line(run: Drain) -> str:
    fails = ", one route fails" if run.fails else ""
    return f"  drain {run.mode:<13}{run.edits:>6,} edits, {run.delay_ms:,} ms{fails}: {run.text}"


def overload_line(run: Overload) -> str:
    client = f" | LOAD GENERATOR AT {run.client_share:.0%} OF A CORE" if run.client_share > 0.7 else ""
    failed = f" | {run.failed:.1%} OTHER ERRORS" if run.failed else ""
    return (f"  overload {run.factor:>4g} ×  offered {run.offered:>9,.0f}/s, goodput {run.goodput:>9,.0f}/s | "
            f"p50 {run.p50_ms:>8.1f} ms, p99 {run.p99_ms:>8.1f} ms | 503 {run.refused:.1%}, not sent {run.missed:.1%}"
            f"{client}{failed}")


def quiet_line(run: Quiet) -> str:
    return f"  quiet {run.figure:<8} p50 {run.p50_ms:>6.1f} ms, p99 {run.p99_ms:>6.1f} ms | {run.pushes} pushes"


def delivery_line(run: Delivery) -> str:
    return f"  {run.figure}: " + ", ".join(f"{name} {value:,.1f}" for name, value in run.values.items())


def phone_line(run: Phone) -> str:
    values = ", ".join(f"{name} {value:,.1f}" for name, value in run.values.items())
    return f"  phone {run.figure}: {values}; others {run.cpu_others:.0%}"


def deep_line(run: Deep) -> str:
    return f"  deep-lane {run.figure:<8} {run.deep_ms:>6.2f} ms, empty {run.empty_ms:>6.2f} ms | {run.pushes} pushes"


def pulls_line(run: Pulls) -> str:
    return (f"  median of {run.pages} pages: feed {run.plain_ms:.2f} ms, {run.plain_bytes / 1000:,.0f} kB; "
            f"ids known {run.known_ms:.2f} ms, {run.device_bytes / 1000:,.0f} kB; ids assigned {run.first_ms:.2f} ms")


def channel_line(run: Pages | FirstPulls | Granting) -> str:
    match run:
        case Pages():
            return (f"  {run.pages} pages of {run.changes:.0f} changes, {run.bytes / 1000:,.0f} kB: "
                    f"p50 {run.own_ms:.2f} ms, p99 {run.own_p99_ms:.2f} ms; without channels {run.plain_ms:.2f} and "
                    f"{run.plain_p99_ms:.2f} ms")
        case FirstPulls():
            return (f"  {run.entities:,} entities: {run.own_seconds:.2f} s, {run.own_pages} pages; without channels "
                    f"{run.plain_seconds:.2f} s, {run.plain_pages} pages")
        case Granting():
            works = [f"{work} {run.p50_ms[work]:.1f}, {run.p99_ms[work]:.1f} ms" for work in run.p99_ms]
            return f"  p50 and p99 of pushes: {'; '.join(works)} | the other process: {run.work_output}"


def neighbour_line(run: Neighbour) -> str:
    errors = f" | {run.errors} ERRORS" if run.errors else ""
    return (f"  {run.scenario:<10} {run.kind:<10} p50 {run.alone_p50:>6.1f} → {run.loaded_p50:>6.1f} ms, "
            f"p99 {run.alone_p99:>6.1f} → {run.loaded_p99:>6.1f} ms ({run.ratio:.1f}) | {run.pushes} pushes, "
            f"peak {run.peak_mb:.0f} MB; the other process: {run.extra['output']}{errors}")


def table(figures: list[Figure]) -> str:
    rows = [("figure", "gateway", "against", "ratio", "range", "bar", "met")]
    for figure in figures:
        rows.append((
            figure.name, figure.value, figure.against,
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
            "" if figure.spread is None else f"{figure.spread[0]:.2f}–{figure.spread[1]:.2f}",
            figure.bar, {True: "yes", False: "NO", None: ""}[figure.met],
        ))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
