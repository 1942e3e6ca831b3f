"""Placing fleets of 100 to 10,000 clusters, against a straightforward planner that this file holds.

Figures are milliseconds of one core (process time, the best of some rounds), so that a busy machine does not change them much.
Building the snapshot and compiling the selectors are timed apart. The straightforward planner evaluates every selector for each
cluster, pool, device and replica with cel-python; it is measured on the first case, where it has to give the same placements, and
extrapolated beyond by the number of its evaluations.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import math
import resource
import sys
import time
from collections.abc import Callable, Sequence

import celpy
import msgspec

from benchmarks import replan, results
from modelplane.api.meta import Key
from modelplane.plan import Cluster, PlacementRequest, Pool, Replica, plan
from modelplane.plan.capacity import PoolCapacity, claims_of
from modelplane.plan.cel import compile_selector
from modelplane.plan.devices import Device, Request, signature
from modelplane.plan.fleet import Picture
from modelplane.plan.request import Engine, Member

GPU = "gpu.nvidia.com"
MODELS = ("Hopper", "Ampere", "Ada")
POOLS = 8
NODES = 2


def attributes(model: str) -> dict[str, dict[str, object]]:
    return {"architecture": {"string": model}, "cores": {"int": 132}}


def clusters(count: int, *, observed: bool = False) -> list[Cluster]:
    """Each with eight pools of two nodes of eight GPUs, in turn of three models."""
    devices = [Device("gpu", signature(GPU, attributes(model), {}, device_class=GPU), 8) for model in MODELS]
    whole = claims_of({GPU: 8})
    buckets = ((whole, NODES),) if observed else None
    capacity = PoolCapacity(NODES, 0, buckets, whole if observed else (), "2026-11-29T12:00:00Z" if observed else "")
    return [
        Cluster(
            name=f"cluster-{number:05}",
            gateway="10.0.0.1",
            pools=tuple(Pool(f"pool-{at}", capacity, (devices[(number + at) % 3],)) for at in range(POOLS)),
        )
        for number in range(count)
    ]


def selector(model: str) -> str:
    return f'device.driver == "{GPU}" && device.attributes["{GPU}"].architecture == "{model}"'


def ask(model: str) -> Request:
    return Request("gpu", 8, (compile_selector(selector(model)),))


def deployments(count: int, replicas: int) -> list[PlacementRequest]:
    return [
        PlacementRequest(
            key=Key("ml", f"model-{number:03}"),
            uid=f"uid-{number}",
            replicas=replicas,
            engines=(Engine("main", 1, (Member("Standalone", 1, (ask(MODELS[number % 3]),)),)),),
        )
        for number in range(count)
    ]


def gang(replicas: int) -> PlacementRequest:
    """Two engines: one of a leader and a worker, one that stands alone."""
    pair = Engine("prefill", 1, (Member("Leader", 1, (ask("Hopper"),)), Member("Worker", 1, (ask("Hopper"),))))
    alone = Engine("decode", 1, (Member("Standalone", 1, (ask("Ampere"),)),))
    return PlacementRequest(key=Key("ml", "gang"), uid="uid-gang", replicas=replicas, engines=(pair, alone))


def others(count: int, fleet: Sequence[Cluster]) -> list[Replica]:
    """Replicas of other deployments, a node each, spread over the fleet."""
    request = deployments(1, 1)[0]
    (one,) = plan(_picture(fleet[:1]).fleet, request).assumed()
    made = []
    for number in range(count):
        key = Key("other", f"replica-{number:05}")
        where = fleet[number % len(fleet)].name
        made.append(
            msgspec.structs.replace(one, key=key, deployment=f"d{number // 10}", cluster=where, index=0, assumed=False)
        )
    return made


def _picture(fleet: Sequence[Cluster], replicas: Sequence[Replica] = ()) -> Picture:
    picture = Picture()
    for cluster in fleet:
        picture.put(cluster)
    for replica in replicas:
        picture.show(replica)
    picture.build()
    return picture


def place(picture: Picture, requests: Sequence[PlacementRequest], *, explain: bool = False) -> int:
    """Plan and count every deployment, as the ledger does; how many replicas have a place."""
    placed = 0
    for request in requests:
        found = plan(picture.fleet, request, explain=explain)
        placed += found.placed
        for replica in found.assumed():
            picture.promise(replica)
    return placed


def best(rounds: int, prepare: Callable[[], Picture], work: Callable[[Picture], int]) -> tuple[float, float, int]:
    """Milliseconds of preparing and of working, and what came of it."""
    built, worked, outcome = math.inf, math.inf, 0
    for _ in range(rounds):
        gc.collect()
        began = time.process_time()
        picture = prepare()
        ready = time.process_time()
        # What is there before the question is no garbage of answering it.
        gc.freeze()
        start = time.process_time()
        outcome = work(picture)
        end = time.process_time()
        gc.unfreeze()
        built, worked = min(built, (ready - began) * 1e3), min(worked, (end - start) * 1e3)
        del picture
    return built, worked, outcome


# --- the straightforward planner --------------------------------------------------------------------------------------


def straightforward(fleet: Sequence[Cluster], text: str, replicas: int) -> list[str]:
    """For every replica, every selector on every device of every pool of every cluster; the emptiest cluster wins."""
    environment = celpy.Environment(runner_class=celpy.InterpretedRunner)
    program = environment.program(environment.compile(text))
    free = {(cluster.name, pool.name): pool.capacity.nodes for cluster in fleet for pool in cluster.pools}
    counts = {cluster.name: 0 for cluster in fleet}
    placed = []
    for _ in range(replicas):
        fitting: dict[str, str] = {}
        for cluster in fleet:
            for pool in cluster.pools:
                for device in pool.devices:
                    value = device.signature.bound.value
                    assert isinstance(value, dict)
                    domains = {name: dict(entries) for name, entries in value["attributes"].items()}
                    device_value = {"driver": value["driver"], "attributes": domains}
                    matches = bool(program.evaluate({"device": celpy.json_to_cel(device_value)}))
                    if matches and free[cluster.name, pool.name] > 0:
                        fitting.setdefault(cluster.name, pool.name)
        if not fitting:
            break
        name = min(fitting, key=lambda one: (counts[one], one))
        counts[name] += 1
        free[name, fitting[name]] -= 1
        placed.append(name)
    return placed


# --- cases ------------------------------------------------------------------------------------------------------------


def measure(large: bool) -> int:
    facts: dict[str, object] = {}
    series: dict[str, list[float]] = {}
    curve: list[tuple[int, float, float]] = []
    missed: list[str] = []

    def report(name: str, built: float, worked: float, placed: int, target: float = 0) -> None:
        verdict = f"  target {target:.0f} ms" if target else ""
        print(f"{name:<58} {worked:10.2f} ms  snapshot {built:8.2f} ms  placed {placed}{verdict}", flush=True)
        series[name] = [worked]
        facts[name] = {"ms": round(worked, 3), "snapshot ms": round(built, 3), "placed": placed}
        if target and worked > target:
            missed.append(f"{name}: {worked:.2f} ms, target {target:.0f}")

    def timed(
        rounds: int, fleet: list[Cluster], asked: list[PlacementRequest], explain: bool
    ) -> tuple[float, float, int]:
        return best(rounds, lambda: _picture(fleet), lambda picture: place(picture, asked, explain=explain))

    small = clusters(100)
    request = deployments(1, 10)[0]
    sizes = [(100, 1, 10, 2.0, 9), (1_000, 10, 100, 25.0, 5), (10_000, 100, 1_000, 1_500.0, 5)]
    for count, many, replicas, target, rounds in sizes if large else sizes[:2]:
        fleet, asked = clusters(count), deployments(many, replicas)
        name = f"{count:,} x {POOLS}, {many * replicas:,} replicas"
        found = timed(rounds, fleet, asked, explain=False)
        report(name, *found, target)
        told = timed(rounds, fleet, asked, explain=True)
        report(f"{name}, with verdicts", *told, 2 * target)
        facts[f"{name}: verdicts cost"] = round(told[1] / found[1], 2)
        if told[1] > 2 * found[1]:
            missed.append(f"{name}: verdicts cost {told[1] / found[1]:.2f} times, target 2")
        curve.append((count, found[1], told[1]))
    if large:
        facts["peak memory MB"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        print(f"{'peak memory of the process so far':<58} {facts['peak memory MB']:>10} MB  target 1000 MB")

    taken = others(5_000, clusters(1_000))
    thousand = clusters(1_000)
    report(
        "1,000 x 8, 10 replicas beside 5,000 others",
        *best(5, lambda: _picture(thousand, taken), lambda picture: place(picture, [request])),
    )
    report(
        "100 x 8, a gang with two engines, 10 replicas",
        *best(9, lambda: _picture(small), lambda p: place(p, [gang(10)])),
    )
    seen = clusters(1_000, observed=True)
    asked = deployments(10, 100)
    report(
        "1,000 x 8 observed, 1,000 replicas", *best(3, lambda: _picture(seen), lambda picture: place(picture, asked))
    )
    declared = facts["1,000 x 8, 1,000 replicas"]
    observed = facts["1,000 x 8 observed, 1,000 replicas"]
    assert isinstance(declared, dict)
    assert isinstance(observed, dict)
    facts["observed pools cost"] = round(observed["ms"] / declared["ms"], 2)
    report("a change of 1 of 1,000 clusters: plan anew what is there", *incremental(thousand))
    if large:
        median, longest, planned = asyncio.run(replan.measure())
        name = "a change of 1 of 1,000 clusters with 2,000 deployments, through the reconciler"
        again = f"{planned:g} of {replan.DEPLOYMENTS:,} deployments planned anew"
        print(f"{name}: {median:.2f} ms, at most {longest:.2f} ms, {again}")
        facts[name] = {
            "median ms": round(median, 2),
            "longest ms": round(longest, 2),
            "deployments planned anew": planned,
        }

    began = time.process_time()
    naive = straightforward(small, selector(MODELS[0]), 10)
    slow = (time.process_time() - began) * 1e3
    ours = [one.cluster for one in plan(_picture(small).fleet, request).placements]
    if sorted(naive) != sorted(ours):
        raise SystemExit(f"the straightforward planner places on {naive}, ours on {ours}")
    first = curve[0][1]
    print(f"{'straightforward planner, 100 x 8, 10 replicas':<58} {slow:10.2f} ms  {slow / first:,.0f} times ours")
    facts["straightforward, 100 x 8, 10 replicas"] = {"ms": round(slow, 1), "ratio": round(slow / first)}
    if slow < 1_000 * first:
        missed.append(f"ratio to the straightforward planner: {slow / first:,.0f}, target 1,000")
    for (count, mine, _), (_, many, replicas, _, _) in zip(curve[1:], sizes[1:], strict=False):
        guess = slow * (count * many * replicas) / (100 * 10)
        print(
            f"{f'straightforward, {count:,} x {POOLS}, extrapolated':<58} {guess:10.0f} ms  {guess / mine:,.0f} times ours"
        )
        facts[f"straightforward, {count:,} x {POOLS}, extrapolated"] = {
            "ms": round(guess),
            "ratio": round(guess / mine),
        }
    results.write("plan", "Placing on one core", "milliseconds", series, facts, picture=svg(curve))
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


def incremental(fleet: Sequence[Cluster]) -> tuple[float, float, int]:
    """2,000 deployments with a replica each; a cluster's figures change, and those that are there are planned again."""
    asked = deployments(2_000, 1)
    placed: dict[str, list[PlacementRequest]] = {}

    def prepare() -> Picture:
        placed.clear()
        picture = _picture(fleet)
        for request in asked:
            place(picture, [request])
        by_key = {request.key: request for request in asked}
        for cluster in fleet:
            there = [Key(one.key.namespace, one.deployment) for one in picture.fleet.on(cluster.name)]
            placed[cluster.name] = [by_key[key] for key in there]
        return picture

    def work(picture: Picture) -> int:
        name = min(name for name, there in placed.items() if there)
        changed = msgspec.structs.replace(picture.fleet.clusters[name], labels={"note": "changed"})
        picture.put(changed)
        return place(picture, placed[name])

    return best(2, prepare, work)


def svg(curve: Sequence[tuple[int, float, float]]) -> str:
    """Time against fleet size, both axes logarithmic."""
    width, height, left, bottom = 640, 360, 70, 310
    top = max(max(plain, told) for _, plain, told in curve)
    low = min(plain for _, plain, _ in curve)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(top))

    def x(count: float) -> float:
        return left + (width - left - 30) * (math.log10(count) - 2) / 2

    def y(ms: float) -> float:
        return bottom - (bottom - 50) * (math.log10(ms) - first) / (last - first)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        '<text x="10" y="20" font-size="14">Placing 10, 1,000 and 100,000 replicas (milliseconds of one core)</text>',
    ]
    for power in range(first, last + 1):
        parts.append(
            f'<line x1="{left}" x2="{width - 30}" y1="{y(10**power):.1f}" y2="{y(10**power):.1f}" stroke="#ddd"/>'
        )
        parts.append(
            f'<text x="{left - 8}" y="{y(10**power) + 4:.1f}" text-anchor="end" fill="#555">{10**power:g}</text>'
        )
    for count, _, _ in curve:
        parts.append(f'<text x="{x(count):.1f}" y="{bottom + 20}" text-anchor="middle">{count:,} clusters</text>')
    for at, (label, colour) in enumerate((("placements", "#2a6fb0"), ("with verdicts", "#b0582a"))):
        points = " ".join(f"{x(entry[0]):.1f},{y(entry[1 + at]):.1f}" for entry in curve)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{x(entry[0]):.1f}" cy="{y(entry[1 + at]):.1f}" r="4" fill="{colour}"/>' for entry in curve
        ]
        parts.append(f'<text x="{left + 10}" y="{60 + 16 * at}" fill="{colour}">{label}</text>')
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="Leave out the fleet of 10,000 clusters.")
    sys.exit(measure(large=not parser.parse_args().small))
