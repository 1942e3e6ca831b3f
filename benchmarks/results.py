"""Results of benchmarks: a small JSON and an SVG made by the same command, both committed."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).parent / "results"


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank: the smallest value that at least ``share`` of all are not above."""
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * share // 1))
    return ordered[int(rank) - 1]


def write(
    name: str,
    title: str,
    unit: str,
    series: Mapping[str, Sequence[float]],
    facts: Mapping[str, object],
    *,
    picture: str = "",
) -> Path:
    """Write ``name``.json and ``name``.svg (``picture`` where the benchmark draws its own); the path of the JSON."""
    HERE.mkdir(parents=True, exist_ok=True)
    document = {
        "title": title,
        "unit": unit,
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        **facts,
        "series": {key: [round(value, 4) for value in values] for key, values in series.items()},
    }
    path = HERE / f"{name}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    (HERE / f"{name}.svg").write_text(picture or _svg(title, unit, series))
    return path


def _svg(title: str, unit: str, series: Mapping[str, Sequence[float]]) -> str:
    """One dot a value, one row a series, on a common axis from zero."""
    width, left, row = 720, 170, 34
    top = max((value for values in series.values() for value in values), default=1.0) * 1.05 or 1.0
    height = 60 + row * len(series)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="10" y="20" font-size="14">{title} ({unit})</text>',
    ]
    for index, (label, values) in enumerate(series.items()):
        y = 48 + index * row
        parts.append(f'<text x="10" y="{y + 4}">{label}</text>')
        parts.append(f'<line x1="{left}" x2="{width - 20}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        for value in values:
            x = left + (width - left - 20) * value / top
            parts.append(f'<circle cx="{x:.1f}" cy="{y}" r="4" fill="#2a6fb0" fill-opacity="0.5"/>')
    axis = height - 8
    for step in range(6):
        x = left + (width - left - 20) * step / 5
        parts.append(f'<text x="{x:.1f}" y="{axis}" text-anchor="middle" fill="#555">{top * step / 5:.2f}</text>')
    return "\n".join([*parts, "</svg>\n"])
