"""Imports every library, which is how each registers its functions; done once, when the first expression is compiled."""

from modelplane.plan.cel.functions import (
    conversions,
    formats,
    lists,
    network,
    operators,
    regexes,
    strings,
    times,
    versions,
)

LIBRARIES = (conversions, formats, lists, network, operators, regexes, strings, times, versions)
