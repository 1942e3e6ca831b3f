"""Random device selectors and devices: every function that the dialect has, mostly of the right types, sometimes not.

Driven by the table of functions itself, so a new overload takes part at once. A plain random generator and not Hypothesis: a pair
costs less than a millisecond, and a seed says everything that is needed to see it again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any, Final

from modelplane.plan.cel import compile_selector
from modelplane.plan.cel.registry import FUNCTIONS, Overload
from modelplane.plan.cel.types import (
    ANY,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    QUANTITY,
    SEMVER,
    STRING,
    TIMESTAMP,
    TYPE_NAMES,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
    parse_type,
)
from tests.kubernetes.unification import substitute, unify
from tests.kubernetes.words import DRIVERS, IDS, LITERALS, NUMBERS, QUANTITIES, RANGES, READ, STRINGS, VERSIONS

Scope = dict[str, Type]
IP, CIDR, URL = map(parse_type, ("IP", "CIDR", "URL"))
SCALARS: Final = (
    BOOL,
    INT,
    INT,
    STRING,
    STRING,
    DOUBLE,
    UINT,
    BYTES,
    DURATION,
    TIMESTAMP,
    QUANTITY,
    SEMVER,
    IP,
    CIDR,
    URL,
    ANY,
)
KEYS: Final = (STRING, STRING, INT, BOOL, UINT)
MADE_BY: Final = {"kubernetes.Quantity": "quantity", "kubernetes.Semver": "semver", "net.IP": "ip", "net.CIDR": "cidr",
                  "kubernetes.URL": "url", "duration": "duration", "timestamp": "timestamp"}  # fmt: skip
FOLDS: Final = {"bool": ("all", "exists", "exists_one", "existsOne"), "list": ("map", "filter", "transformList"),
                "map": ("transformMap", "transformMapEntry")}  # fmt: skip


@cache
def producers() -> dict[str, list[tuple[str, Overload]]]:
    """Overloads by the name of what they give; those of a type parameter give anything and are under ``""``."""
    compile_selector("true")  # fills the table
    found: dict[str, list[tuple[str, Overload]]] = defaultdict(list)
    for name, overloads in sorted(FUNCTIONS.items()):
        for overload in overloads:
            found["" if overload.result.is_param else overload.result.name].append((name, overload))
    return found


class Grammar:
    """Texts of one seed."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._variables = 0

    def selector(self) -> str:
        """One selector: mostly a boolean, now and then of another type or with a slip of the pen."""
        random = self.random
        self._variables = 0
        kind = BOOL if random.random() < 0.93 else random.choice((ANY, self._type(2)))
        text = self.expression(kind, random.choice((1, 2, 2, 3, 3, 4)), {})
        if random.random() < 0.04:
            text = self._slip(text)
        return text

    def _slip(self, text: str) -> str:
        at = self.random.randrange(len(text) + 1)
        return self.random.choice((
            text[:at] + text[at + 1 :],
            text[:at] + self.random.choice("\"'()[]{}.,?:!-+*/%<>=&|\\ \n\t@#$~`1aé_u") + text[at:],
            text[:at] + "// rest\n" + text[at:],
            text[:at],
        ))  # fmt: skip

    def _type(self, depth: int) -> Type:
        random = self.random
        if depth > 0 and random.random() < 0.3:
            inner = self._type(depth - 1)
            return random.choice(
                (list_of(inner), list_of(inner), map_of(random.choice(KEYS), inner), optional_of(inner))
            )
        return random.choice(SCALARS)

    # --- expressions ---------------------------------------------------------------------------------------------------

    def expression(self, wanted: Type, depth: int, scope: Scope) -> str:
        random = self.random
        if random.random() < 0.02:
            wanted = self._type(1)
        if wanted.is_dynamic:
            wanted = random.choice((ANY, ANY, INT, STRING, BOOL, DOUBLE)) if depth > 0 else ANY
        if depth <= 0 or random.random() < 0.12:
            return self.leaf(wanted, scope)
        roll = random.random()
        if roll < 0.06:
            condition, yes, no = (self.expression(t, depth - 1, scope) for t in (BOOL, wanted, wanted))
            return f"({condition} ? {yes} : {no})"
        if roll < 0.09:
            inner = self._type(1)
            name = self._variable()
            value = self.expression(inner, depth - 1, scope)
            return f"cel.bind({name}, {value}, {self.expression(wanted, depth - 1, scope | {name: inner})})"
        if roll < 0.12:
            return f"dyn({self.expression(wanted, depth - 1, scope)})"
        if roll < 0.30 and wanted.name in FOLDS:
            return self._fold(wanted, depth, scope)
        if roll < 0.36 and wanted == BOOL:
            return f"has({self._selection(depth, scope)})"
        if roll < 0.40 and wanted == BOOL:
            return f"{self._key()} in device.{random.choice(('attributes', 'capacity'))}{self._domain() if roll < 0.38 else ''}"
        if roll < 0.46 and wanted.name == "optional_type":
            return self._optional(wanted, depth, scope)
        return self._call(wanted, depth, scope)

    def leaf(self, wanted: Type, scope: Scope) -> str:
        random = self.random
        names = [name for name, kind in scope.items() if kind == wanted or kind.is_dynamic]
        if names and random.random() < 0.6:
            return random.choice(names)
        if wanted.is_dynamic:
            return self._attribute()
        if wanted == QUANTITY and random.random() < 0.5:
            return f"device.capacity{self._domain()}.{random.choice(IDS)}"
        if wanted == STRING and random.random() < 0.15:
            return "device.driver"
        if wanted.name in MADE_BY:
            return f"{MADE_BY[wanted.name]}({random.choice(READ[MADE_BY[wanted.name]])})"
        if wanted.name in LITERALS:
            return random.choice(LITERALS[wanted.name])
        if wanted.name == "list":
            return f"[{', '.join(self.leaf(wanted.params[0], scope) for _ in range(random.randrange(4)))}]"
        if wanted.name == "map":
            pairs = (
                f"{self.leaf(wanted.params[0], scope)}: {self.leaf(wanted.params[1], scope)}"
                for _ in range(random.randrange(3))
            )
            return "{" + ", ".join(pairs) + "}"
        if wanted.name == "optional_type":
            return random.choice(("optional.none()", f"optional.of({self.leaf(wanted.params[0], scope)})"))
        if wanted.name == "type":
            return random.choice((*TYPE_NAMES, "kubernetes.Quantity", "type(1)"))
        if wanted.name == "kubernetes.NamedFormat":
            return random.choice(
                ("format.dns1123Label()", "format.uuid()", 'format.named("date").value()', "format.qualifiedName()")
            )
        return random.choice(("null", "[]", "1"))

    def _key(self) -> str:
        return self.random.choice((f'"{self.random.choice(DRIVERS)}"', f'"{self.random.choice(IDS)}"'))

    def _domain(self) -> str:
        return f'["{self.random.choice(DRIVERS)}"]'

    def _attribute(self) -> str:
        name, random = self.random.choice(IDS), self.random
        field = random.choice((f".{name}", f".{name}", f'["{name}"]'))
        return f"device.attributes{self._domain()}{field}"

    def _selection(self, depth: int, scope: Scope) -> str:
        random = self.random
        name = random.choice(IDS)
        whole = random.choice((f"device.attributes{self._domain()}", f"device.capacity{self._domain()}"))
        if random.random() < 0.2:
            whole = self.expression(map_of(STRING, self._type(0)), depth - 1, scope)
        return f"{whole}.{name}"

    def _optional(self, wanted: Type, depth: int, scope: Scope) -> str:
        random = self.random
        inner = wanted.params[0]
        if random.random() < 0.4:
            name = random.choice(IDS)
            return random.choice((
                f"device.attributes{self._domain()}.?{name}",
                f'device.capacity[?"{random.choice(DRIVERS)}"].{name}',
                f'device.attributes[?"{random.choice(DRIVERS)}"][?"{name}"]',
            ))  # fmt: skip
        other = self._type(1)
        name = self._variable()
        macro, body = random.choice((("optMap", inner), ("optFlatMap", wanted)))
        value = self.expression(optional_of(other), depth - 1, scope)
        return f"{value}.{macro}({name}, {self.expression(body, depth - 1, scope | {name: other})})"

    def _variable(self) -> str:
        self._variables += 1
        return (
            f"v{self._variables}" if self.random.random() < 0.98 else self.random.choice(("device", "x.y", "in", "v1"))
        )

    # --- macros and calls ----------------------------------------------------------------------------------------------

    def _fold(self, wanted: Type, depth: int, scope: Scope) -> str:
        random = self.random
        macro = random.choice(FOLDS[wanted.name])
        element = wanted.params[0] if macro == "filter" else self._type(1)
        over: Type = (
            list_of(element) if random.random() < 0.8 or macro == "filter" else map_of(random.choice(KEYS), element)
        )
        two = macro.startswith("transform") or (wanted == BOOL and random.random() < 0.25)
        names = [self._variable() for _ in range(1 + two)]
        first = over.params[0] if over.name == "map" else INT
        kinds = [first, element] if two else [element if over.name == "list" else first]
        inside = scope | dict(zip(names, kinds, strict=True))
        body: Type = BOOL
        if macro in ("map", "transformList"):
            body = wanted.params[0]
        elif macro == "transformMap":
            body = wanted.params[1]
        elif macro == "transformMapEntry":
            body = map_of(*wanted.params)
        parts = [*names, self.expression(body, depth - 1, inside)]
        if macro.startswith(("map", "transform")) and random.random() < 0.3:
            parts.insert(-1, self.expression(BOOL, depth - 1, inside))
        source = (
            f"device.attributes{self._domain()}" if random.random() < 0.05 else self.expression(over, depth - 1, scope)
        )
        return f"{source}.{macro}({', '.join(parts)})"

    def _call(self, wanted: Type, depth: int, scope: Scope) -> str:
        random = self.random
        anything = producers()[""] if random.random() < 0.15 else []
        choices = anything or producers().get(wanted.name) or producers()[""]
        name, overload = random.choice(choices)
        bound: dict[str, Type] = {}
        unify(bound, overload.result, wanted)
        for param in overload.params:
            for letter in _letters(param):
                bound.setdefault(letter, random.choice(KEYS) if param.name == "map" else self._type(1))
        params = list(overload.params)
        if name == "includes" and random.random() < 0.5:
            params = params[:1]
        if random.random() < 0.01:
            params = [*params, random.choice(SCALARS)]
        arguments = [
            self._argument(name, position, substitute(bound, p), depth, scope) for position, p in enumerate(params)
        ]
        member = overload.member if random.random() < 0.99 else not overload.member
        return _written(name, arguments, member=member)

    def _argument(self, function: str, position: int, wanted: Type, depth: int, scope: Scope) -> str:
        """What a function reads from text is mostly text that it can read."""
        if function == "lists.range":
            return self.random.choice(RANGES)  # Kubernetes makes the list first and asks what it cost afterwards
        texts = READ.get(function)
        if texts and wanted == STRING and (position > 0 or function not in _SECOND) and self.random.random() < 0.75:
            return self.random.choice(texts)
        return self.expression(wanted, depth - 1, scope)


_SECOND: Final = frozenset(
    {"matches", "find", "findAll", "format", "validate"} | {name for name in READ if name.startswith("get")}
)
"""Functions whose receiver is any text, and whose arguments are of their own language."""


def _letters(param: Type) -> list[str]:
    return [param.name] if param.is_param else [letter for inner in param.params for letter in _letters(inner)]


def _written(name: str, arguments: list[str], *, member: bool) -> str:
    match name:
        case "_[_]" | "_[?_]":
            return f"{arguments[0]}[{'?' if '?' in name else ''}{arguments[1]}]"
        case "_?_:_":
            return f"({arguments[0]} ? {arguments[1]} : {arguments[2]})"
        case "!_" | "-_":
            return f"{name[0]}{arguments[0]}" if arguments[0][:1] not in "-!" else f"{name[0]}({arguments[0]})"
        case "@in":
            return f"({arguments[0]} in {arguments[1]})"
    if name.startswith("_"):
        sign = name.strip("_")
        return "(" + f" {sign} ".join(arguments) + ")"
    if member and arguments:
        receiver = arguments[0] if not arguments[0][:1].isdigit() and arguments[0][:1] != "-" else f"({arguments[0]})"
        return f"{receiver}.{name}({', '.join(arguments[1:])})"
    return f"{name}({', '.join(arguments)})"


# --- devices -----------------------------------------------------------------------------------------------------------


def device(random: Random) -> dict[str, Any]:
    """A device as a ResourceSlice has it. One in twenty has an attribute that cannot be read."""
    driver = random.choice(DRIVERS)

    def name() -> str:
        found = random.choice(IDS)
        domain = random.choice(DRIVERS) if random.random() < 0.3 else driver
        # Without its driver's domain: of two names for one attribute Kubernetes takes either.
        return found if domain == driver else f"{domain}/{found}"

    value: dict[str, Callable[[], Any]] = {
        "int": lambda: random.choice(NUMBERS),
        "bool": lambda: random.random() < 0.5,
        "string": lambda: random.choice(STRINGS),
        "version": lambda: random.choice(VERSIONS),
    }
    attributes: dict[str, Any] = {}
    for _ in range(random.randrange(7)):
        kind = random.choice(tuple(value))
        attributes[name()] = {kind: value[kind]()}
    if random.random() < 0.05:
        attributes[name()] = random.choice(({"version": "9.0"}, {"strings": ["a", "b"]}, {}))
    capacity = {name(): {"value": random.choice(QUANTITIES)} for _ in range(random.randrange(4))}
    return {"driver": driver, "attributes": attributes, "capacity": capacity}
