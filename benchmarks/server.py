"""The embedded API server against etcd and kube-apiserver, in one run: writes, watch fan-out, a long list, start-up, memory.

Both are durable (a finished sync of the disk lies before each answer), speak TLS, authorise by RBAC, validate, and keep managed
fields. The load is a Go program (`server_load`); the servers take turns, so that never both are loaded. Clients get what a server
offers: where it speaks HTTP/2 as well, each measure is taken over both versions, and the better one counts for it.
"""

from __future__ import annotations

import argparse
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import modelplane.api
from benchmarks import results
from benchmarks.server_subjects import TOKEN, Embedded, Kubernetes, Subject, cpu_seconds, memory_mb, settle

CRDS: Final = Path(modelplane.api.__file__).parent / "crds"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KIND: Final = "/apis/modelplane.ai/v1alpha1/modelservices"
OBJECTS: Final = 10_000
PAGE: Final = Path(__file__).parents[1] / "docs" / "embedded-server.md"


@dataclass(frozen=True)
class Line:
    """One line of the table. ``target`` is by how much ours has to be better."""

    title: str
    unit: str
    more_is_better: bool = False
    target: float = 1.0

    def ratio(self, ours: float, theirs: float) -> float:
        return ours / theirs if self.more_is_better else theirs / ours


LINES: Final = {
    "creates": Line("durable creates, 64 clients", "per second", True, 3.0),
    "applies": Line("durable applies of a custom kind, 64 clients", "per second", True, 3.0),
    "create p50": Line("create, 64 clients, p50", "ms"),
    "create p99": Line("create, 64 clients, p99", "ms"),
    "fan-out p50": Line("from a write to the last of 100 watchers, p50", "ms"),
    "fan-out p99": Line("from a write to the last of 100 watchers, p99", "ms"),
    "list": Line("list of 10,000 objects, p50", "ms"),
    "start": Line("start to ready, new directory", "s"),
    "memory at rest": Line("memory after start", "MB"),
    "memory": Line("memory after the load", "MB"),
    "cpu": Line("CPU time of a create", "µs"),
}


@dataclass
class Session:
    """What one run measured: for each line and server every value, by version of HTTP where that was a choice."""

    load: Path
    values: dict[tuple[str, str], dict[str, list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )

    def run(self, subject: Subject, mode: str, **options: object) -> Any:
        """One mode of the load program. Raises SystemExit with its words when it fails."""
        arguments = [f"-{name}={value}" for name, value in options.items()]
        command = [str(self.load), f"-mode={mode}", f"-server={subject.url}", f"-token={TOKEN}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{subject.name}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def note(self, line: str, subject: Subject, value: float, protocol: str = "") -> None:
        self.values[line, subject.name][protocol].append(value)

    def figure(self, line: str, subject: Subject) -> tuple[float, str, list[float]]:
        """The median of the version of HTTP that is better for the server, that version, and the values."""
        choices = [(statistics.median(seen), name, seen) for name, seen in self.values[line, subject.name].items()]
        return max(choices) if LINES[line].more_is_better else min(choices)


def start(session: Session, subject: Subject) -> None:
    """Start in a new directory; the time to ready, and the memory then."""
    began = time.monotonic()
    subject.start()
    session.run(subject, "ready")
    session.note("start", subject, time.monotonic() - began)
    time.sleep(2)
    session.note("memory at rest", subject, memory_mb(subject))


def post(subject: Subject, path: str, body: bytes, type_: str = "application/json") -> None:
    _ask(subject, urllib.request.Request(subject.url + path, body, {"Content-Type": type_}))


def _ask(subject: Subject, request: urllib.request.Request) -> None:
    request.add_header("Authorization", f"Bearer {TOKEN}")
    with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=subject.authority)) as answer:
        answer.read()


def install(subject: Subject) -> None:
    """The project's definitions, which the embedded server brings along; return when they are served."""
    for path in sorted(CRDS.glob("*.yaml")):
        post(subject, DEFINITIONS, path.read_bytes(), "application/yaml")
    deadline = time.monotonic() + 60
    while True:
        try:
            return _ask(subject, urllib.request.Request(subject.url + KIND))
        except urllib.error.HTTPError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def measure(session: Session, subject: Subject, number: int, scale: float) -> None:
    """One turn of one server: every measure, over every version of HTTP that it speaks."""
    for protocol in subject.protocols:
        namespace = f"load-{number}-{protocol}"
        post(subject, "/api/v1/namespaces", json.dumps({"metadata": {"name": namespace}}).encode())

        def run(mode: str, count: float, *, where: str = namespace, protocol: str = protocol, **options: object) -> Any:
            settle()
            chosen = {"authority": subject.authority, "http2": str(protocol == "http2").lower(), "namespace": where}
            return session.run(subject, mode, count=max(int(count), 3), **chosen, **options)

        before = cpu_seconds(subject)
        made = run("create", OBJECTS * scale)
        used = cpu_seconds(subject) - before
        session.note("creates", subject, made["per_second"], protocol)
        session.note("create p50", subject, made["latency"]["p50_ms"], protocol)
        session.note("create p99", subject, made["latency"]["p99_ms"], protocol)
        session.note("cpu", subject, used / made["count"] * 1e6, protocol)
        session.note("applies", subject, run("apply", 3_000 * scale)["per_second"], protocol)
        listed = run("list", 10 * scale)
        if listed["objects"] != made["count"]:
            raise SystemExit(f"{subject.name} lists {listed['objects']} of {made['count']} objects")
        session.note("list", subject, listed["latency"]["p50_ms"], protocol)
        seen = run("watch", 300 * scale, prefix="seen", clients=100)
        session.note("fan-out p50", subject, seen["last_from_write"]["p50_ms"], protocol)
        session.note("fan-out p99", subject, seen["last_from_write"]["p99_ms"], protocol)
        print(
            f"turn {number}, {subject.name}, {protocol}: {made['per_second']:,.0f} creates/s, "
            f"{used / made['count'] * 1e6:,.0f} µs of CPU each; list {listed['latency']['p50_ms']:.0f} ms; "
            f"fan-out {seen['last_from_write']['p50_ms']:.1f} ms",
            flush=True,
        )


def report(session: Session, ours: Subject, theirs: Subject) -> int:
    """Print the table, write the results; 1 when a target is missed."""
    facts: dict[str, object] = {}
    rows: list[tuple[str, float]] = []
    table = [f"| what | {ours.name} | {theirs.name} | times better |", "| --- | --- | --- | --- |"]
    missed: list[str] = []
    print(f"\n{'':<46} {ours.name:>12} {theirs.name:>22} {'ratio':>7}")
    for name, line in LINES.items():
        mine, _, my_values = session.figure(name, ours)
        other, protocol, other_values = session.figure(name, theirs)
        ratio = line.ratio(mine, other)
        print(f"{line.title + ' (' + line.unit + ')':<46} {mine:12,.1f} {other:16,.1f} {protocol:>5} {ratio:7.2f}")
        facts[line.title] = {
            "unit": line.unit,
            ours.name: round(mine, 2),
            theirs.name: round(other, 2),
            **({"protocol of " + theirs.name: protocol} if protocol else {}),
            "times better": round(ratio, 2),
            "values": {ours.name: _rounded(my_values), theirs.name: _rounded(other_values)},
        }
        rows.append((line.title, ratio))
        table.append(f"| {line.title} | {_figure(mine)} {line.unit} | {_figure(other)} {line.unit} | {ratio:.1f} |")
        if ratio < line.target:
            missed.append(f"{line.title}: {ratio:.2f} times better, target {line.target:g}")
    results.write("server", "Embedded server and etcd + kube-apiserver", "see each", {}, facts, picture=svg(rows))
    publish("\n".join(table))
    for each in missed:
        print(f"missed: {each}")
    return 1 if missed else 0


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def publish(table: str) -> None:
    """Put the table into the page of the embedded server, so that it always says what was last measured."""
    start, end = "<!-- make bench-server -->\n", "\n<!-- end of make bench-server -->"
    before, _, rest = PAGE.read_text().partition(start)
    PAGE.write_text(before + start + table + end + rest.partition(end)[2])


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, 2) for value in values]


def svg(rows: Sequence[tuple[str, float]]) -> str:
    """How many times better each line is, as bars from one."""
    width, left, row = 720, 300, 26
    top = max(ratio for _, ratio in rows)
    scale = (width - left - 70) / top
    height = 50 + row * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        '<text x="10" y="20" font-size="14">Embedded server: times better than etcd + kube-apiserver</text>',
    ]
    for index, (title, ratio) in enumerate(rows):
        y = 40 + index * row
        parts.append(f'<text x="10" y="{y + 12}">{title}</text>')
        parts.append(f'<rect x="{left}" y="{y}" width="{ratio * scale:.1f}" height="16" fill="#2a6fb0"/>')
        parts.append(f'<text x="{left + ratio * scale + 6:.1f}" y="{y + 12}">{ratio:.1f}</text>')
    parts.append(
        f'<line x1="{left + scale:.1f}" x2="{left + scale:.1f}" y1="34" y2="{44 + row * len(rows)}" stroke="#b0582a"/>'
    )
    return "\n".join([*parts, "</svg>\n"])


def main(binaries: Path, load: Path, turns: int, scale: float, only: str) -> int:
    session = Session(load)
    with tempfile.TemporaryDirectory(prefix="modelplane-bench-server-") as root:
        makers: Mapping[str, Callable[[str], Subject]] = {
            "embedded": lambda turn: Embedded(Path(root) / f"embedded-{turn}"),
            "kubernetes": lambda turn: Kubernetes(Path(root) / f"kubernetes-{turn}", binaries),
        }
        seen: dict[str, Subject] = {}
        for turn in range(turns):
            for name in sorted(makers, reverse=turn % 2 == 1):
                if only and name != only:
                    continue
                subject = seen[name] = makers[name](str(turn))
                try:
                    start(session, subject)
                    if name == "kubernetes":
                        install(subject)
                    measure(session, subject, turn, scale)
                    session.note("memory", subject, memory_mb(subject))
                finally:
                    subject.stop()
        return 0 if only else report(session, seen["embedded"], seen["kubernetes"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubernetes", type=Path, required=True, help="Folder of etcd and kube-apiserver.")
    parser.add_argument("--load", type=Path, required=True, help="The built server_load.")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="Share of the full load.")
    parser.add_argument("--only", default="", choices=("", "embedded", "kubernetes"))
    given = parser.parse_args()
    sys.exit(main(given.kubernetes, given.load, given.turns, given.scale, given.only))
