"""Group weights to one integer per endpoint, exactly.

Every endpoint of a group gets the same integer, and the groups' sums stand to each other as the weights that were asked
for. The trade: numbers grow with the least common multiple of the group sizes; only where the largest passes Gateway API's
ceiling is anything rounded, and a live endpoint never gets 0, which would mean "no traffic".
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, lcm
from typing import Final

CEILING: Final = 1_000_000
"""The largest weight that Gateway API admits on one backendRef."""


def spread(groups: Sequence[tuple[int, int]]) -> list[int]:
    """``groups`` is (weight, number of ready endpoints) in order; gives the weight of an endpoint of each group.

    A group without endpoints, or with weight 0, gets 0: its share goes to the others.
    """
    live = [(weight, count) for weight, count in groups if weight > 0 and count > 0]
    if not live:
        return [0] * len(groups)
    multiple = lcm(*(count for _, count in live))
    exact = [weight * (multiple // count) if weight > 0 and count > 0 else 0 for weight, count in groups]
    divisor = gcd(*exact)
    shares = [share // divisor for share in exact]
    largest = max(shares)
    if largest <= CEILING:
        return shares
    return [max(1, (2 * share * CEILING + largest) // (2 * largest)) if share else 0 for share in shares]
