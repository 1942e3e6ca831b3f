"""Random schemas with rules that mostly compile, made from the table of functions: each call is asked for by the type it gives.

A few places are wrong on purpose, so that refusals are compared as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

from modelplane.plan.cel.registry import FUNCTIONS, Overload
from modelplane.plan.cel.types import BOOL, INT, STRING, Type, list_of, map_of
from modelplane.server.schema.declared import Declared, declared

_UNSPOKEN: Final = frozenset({"includes", "@sortByAssociatedKeys", "_&&_", "_||_"})
_BINARY: Final = {f"_{symbol}_": symbol for symbol in ("+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=")}
_LITERALS: Final = {
    "bool": ("true", "false"),
    "int": ("0", "1", "7", "-3", "100"),
    "uint": ("0u", "3u"),
    "double": ("0.5", "2.0"),
    "string": ("''", "'a'", "'[a-z]+(x|y)*'", "'a longer text, longer than a rule has'", "'ü'"),
    "bytes": ("b''", "b'abc'"),
    "duration": ("duration('1h')",),
    "timestamp": ("timestamp('2020-01-01T00:00:00Z')",),
    "kubernetes.Quantity": ("quantity('1Gi')",),
    "kubernetes.Semver": ("semver('1.2.3')",),
    "kubernetes.URL": ("url('http://a/')",),
    "net.IP": ("ip('1.2.3.4')",),
    "net.CIDR": ("cidr('10.0.0.0/8')",),
    "kubernetes.NamedFormat": ("format.dns1123Label()",),
    "null": ("null",),
    "type": ("int", "type(1)", "string"),
    "dyn": ("dyn(1)", "self.any", "'a'"),
}
_SCALARS: Final = ("bool", "int", "double", "string", "string", "uint", "bytes")


def schema(random: Random, depth: int = 3) -> dict[str, Any]:
    """A place: an object, a list, a map or a scalar, with limits or without."""
    kind = random.choice(
        ("object", "object", "array", "array", "map", "text", "text", "scalar") if depth else ("text", "scalar")
    )
    limit = random.choice((None, 0, 1, 5, 64, 2000))
    match kind:
        case "object":
            names = random.sample(("a", "b", "c", "x-y", "in", "d.e", "f__g", "9h"), random.randint(1, 4))
            made: dict[str, Any] = {"type": "object", "properties": {name: schema(random, depth - 1) for name in names}}
            if random.random() < 0.4:
                made["required"] = random.sample(names, random.randint(1, len(names)))
            if random.random() < 0.1:
                made["x-kubernetes-embedded-resource"] = True
            return made
        case "array":
            return {"type": "array", "items": schema(random, depth - 1)} | (
                {} if limit is None else {"maxItems": limit}
            )
        case "map":
            values = schema(random, depth - 1)
            return {"type": "object", "additionalProperties": values} | (
                {} if limit is None else {"maxProperties": limit}
            )
        case "text":
            extra: dict[str, Any] = random.choice(
                (
                    {},
                    {"enum": ["a", "bü"]},
                    {"format": "byte"},
                    {"format": "date-time"},
                    {"format": "duration"},
                    {"format": "date"},
                    {},
                )
            )
            return {"type": "string"} | extra | ({} if limit is None else {"maxLength": limit})
    return random.choice(
        (
            {"type": "integer"},
            {"type": "number"},
            {"type": "boolean"},
            {"type": "integer", "default": 3},
            {"x-kubernetes-int-or-string": True},
            {"x-kubernetes-preserve-unknown-fields": True},
        )
    )


class Grammar:
    """Rules over one schema."""

    def __init__(self, random: Random, root: dict[str, Any]) -> None:
        self.random = random
        found = declared(root, root=True)
        assert found is not None
        self.places = list(_places(found, "self", found.named("self"), 4))
        self.scope: list[tuple[str, Type]] = []
        self.overloads = [
            (name, overload) for name, overloads in FUNCTIONS.items() if name not in _UNSPOKEN for overload in overloads
        ]

    def rule(self, wanted: Type = BOOL) -> str:
        return self.value(wanted, self.random.randint(1, 5))

    def value(self, wanted: Type, depth: int) -> str:
        if self.random.random() < 0.004:
            return self.random.choice(("self.nothing", "nothing", "1.nothing()", "cel.bind(x, 1, x)", "self"))
        choices = [self.plain, self.place]
        if depth > 0:
            choices += [self.call, self.call, self.call, self.macro, self.other]
        for _ in range(6):
            found = self.random.choice(choices)(wanted, depth - 1)
            if found is not None:
                return found
        return self.plain(wanted, 0)

    def plain(self, wanted: Type, depth: int) -> str:
        name = wanted.name
        if name == "list":
            items = [
                self.value(wanted.params[0], depth - 1) for _ in range(self.random.randint(0, 3) if depth > 0 else 1)
            ]
            return f"[{', '.join(items)}]"
        if name == "map":
            pairs = [
                f"{self.value(wanted.params[0], depth - 1)}: {self.value(wanted.params[1], depth - 1)}"
                for _ in range(self.random.randint(0, 2) if depth > 0 else 1)
            ]
            return f"{{{', '.join(pairs)}}}"
        if name == "optional_type":
            return f"optional.of({self.value(wanted.params[0], depth - 1)})"
        return self.random.choice(_LITERALS.get(name, ("null",)))

    def place(self, wanted: Type, depth: int) -> str | None:
        fitting = [text for text, found in [*self.places, *self.scope * 3] if _fits(wanted, found, {})]
        return self.random.choice(fitting) if fitting else None

    def call(self, wanted: Type, depth: int) -> str | None:
        fitting = []
        for name, overload in self.overloads:
            letters: dict[str, Type] = {}
            if _fits(overload.result, wanted, letters):
                fitting.append((name, overload, letters))
        if not fitting:
            return None
        name = self.random.choice(sorted({name for name, _, _ in fitting}))
        _, overload, letters = self.random.choice([one for one in fitting if one[0] == name])
        return self.written(name, overload, [self.value(self.filled(p, letters), depth) for p in overload.params])

    def filled(self, found: Type, letters: dict[str, Type]) -> Type:
        if found.is_param:
            return letters.setdefault(found.name, self.any())
        if found.is_dynamic:
            return self.any()
        return Type(found.name, tuple(self.filled(param, letters) for param in found.params))

    def any(self) -> Type:
        places = [found for _, found in self.places if found.fields is None]
        if places and self.random.random() < 0.5:
            return self.random.choice(places)
        scalar = Type(self.random.choice(_SCALARS))
        return self.random.choice((scalar, scalar, scalar, list_of(scalar), map_of(STRING, scalar)))

    def written(self, name: str, overload: Overload, args: list[str]) -> str:
        if name in _BINARY:
            return f"({args[0]} {_BINARY[name]} {args[1]})"
        match name:
            case "_?_:_":
                return f"({args[0]} ? {args[1]} : {args[2]})"
            case "_[_]":
                return f"{args[0]}[{args[1]}]"
            case "_[?_]":
                return f"{args[0]}[?{args[1]}]"
            case "@in":
                return f"({args[0]} in {args[1]})"
            case "!_" | "-_":
                return f"{name[0]}({args[0]})"
        if overload.member:
            return f"{args[0]}.{name}({', '.join(args[1:])})"
        return f"{name}({', '.join(args)})"

    def macro(self, wanted: Type, depth: int) -> str | None:
        over = self.random.choice((list_of(self.any()), map_of(STRING, self.any())))
        ranged = [(text, found) for text, found in self.places if found.name in ("list", "map")]
        text, over = (
            self.random.choice(ranged) if ranged and self.random.random() < 0.7 else (self.value(over, depth), over)
        )
        first, second = f"v{len(self.scope)}", f"w{len(self.scope)}"
        key, item = (INT, over.params[0]) if over.name == "list" else over.params
        single = [(first, item if over.name == "list" else key)]
        double = [(first, key), (second, item)]
        match wanted.name:
            case "bool":
                names = self.random.choice((single, double))
                macro = self.random.choice(
                    ("all", "exists", "exists_one", "existsOne") if len(names) == 2 else ("all", "exists", "exists_one")
                )
                return f"{text}.{macro}({self.named(names)}, {self.under(names, BOOL, depth)})"
            case "list":
                macro = self.random.choice(("map", "filter", "transformList", "sortBy", "keep"))
                if macro in ("filter", "sortBy"):
                    if wanted.params[0] != single[0][1]:
                        return None
                    body = BOOL if macro == "filter" else Type(self.random.choice(_SCALARS))
                    return f"{text}.{macro}({first}, {self.under(single, body, depth)})"
                names = single if macro in ("map", "keep") else double
                tests = f"{self.under(names, BOOL, depth)}, " if macro == "keep" or self.random.random() < 0.2 else ""
                name = "map" if macro == "keep" else macro
                return f"{text}.{name}({self.named(names)}, {tests}{self.under(names, wanted.params[0], depth)})"
            case "map":
                macro = self.random.choice(("transformMap", "transformMapEntry"))
                body = wanted if macro == "transformMapEntry" else wanted.params[1]
                return f"{text}.{macro}({self.named(double)}, {self.under(double, body, depth)})"
            case "optional_type":
                inner = self.any()
                macro = self.random.choice(("optMap", "optFlatMap"))
                body = wanted if macro == "optFlatMap" else wanted.params[0]
                from_ = self.value(Type("optional_type", (inner,)), depth)
                return f"{from_}.{macro}({first}, {self.under([(first, inner)], body, depth)})"
        return None

    def named(self, names: list[tuple[str, Type]]) -> str:
        return ", ".join(name for name, _ in names)

    def under(self, names: list[tuple[str, Type]], wanted: Type, depth: int) -> str:
        added = [*names, *(place for name, found in names for place in _typed_places(name, found))]
        self.scope += added
        made = self.value(wanted, depth)
        del self.scope[len(self.scope) - len(added) :]
        return made

    def other(self, wanted: Type, depth: int) -> str | None:
        if wanted.name == "bool":
            operator = self.random.choice(("&&", "||"))
            tests = [text for text, _ in self.places if "." in text and not text.endswith("]")]
            if tests and self.random.random() < 0.3:
                return f"has({self.random.choice(tests)})"
            parts = [self.value(BOOL, depth) for _ in range(self.random.randint(2, 4))]
            return f"({f' {operator} '.join(parts)})"
        if wanted.name == "optional_type":
            tests = [t for t, found in self.places if "." in t and not t.endswith("]") and found == wanted.params[0]]
            if tests:
                return ".?".join(self.random.choice(tests).rsplit(".", 1))
        return None


def _fits(pattern: Type, found: Type, letters: dict[str, Type]) -> bool:
    if pattern.is_param:
        return letters.setdefault(pattern.name, found) == found
    if found.is_param:
        return True
    if pattern.is_dynamic or pattern.name != found.name or len(pattern.params) != len(found.params):
        return pattern.is_dynamic and found.is_dynamic
    return all(_fits(one, other, letters) for one, other in zip(pattern.params, found.params, strict=True))


def _places(at: Declared, text: str, found: Type, depth: int) -> Iterator[tuple[str, Type]]:
    yield text, found
    yield from _typed_places(text, found, depth)


def _typed_places(text: str, found: Type, depth: int = 2) -> Iterator[tuple[str, Type]]:
    """What lies under a value of this type, and how it is reached."""
    below: list[tuple[str, Type]] = []
    if found.fields is not None:
        below = [(f"{text}.{name}", inner) for name, inner in found.fields.items()]
    elif found.name == "list":
        below = [(f"{text}[0]", found.params[0])]
    elif found.name == "map":
        below = [(f"{text}['a']", found.params[1]), (f"{text}.a", found.params[1])]
    for inner_text, inner in below:
        yield inner_text, inner
        if depth > 1:
            yield from _typed_places(inner_text, inner, depth - 1)
