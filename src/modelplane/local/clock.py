"""Time as the API writes it."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def stamp(moment: datetime | None = None) -> str:
    """RFC 3339 in whole seconds, as metav1.Time."""
    return (moment or now()).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp(moment: datetime | None = None) -> str:
    """RFC 3339 in microseconds, as metav1.MicroTime (Leases)."""
    return (moment or now()).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def read(text: str | None) -> datetime | None:
    return None if not text else datetime.fromisoformat(text.replace("Z", "+00:00"))


def since(text: str | None, at: datetime | None = None) -> float:
    """Seconds from a written time until now; infinite when there is none."""
    moment = read(text)
    return float("inf") if moment is None else ((at or now()) - moment).total_seconds()
