"""Reference pages: what a kind is for, every field, rule, column, condition and reason, from the types alone.

Pure text from the generated schema; a page never says more or less than the API server enforces.
"""

from __future__ import annotations

from collections.abc import Iterator

from modelplane.api.definitions import columns_of
from modelplane.api.meta import Object
from modelplane.api.schema import Describe, root_schema
from modelplane.api.shape import Definition, Owner, Vocabulary

_OWNERS = {
    Owner.PLATFORM: "Written by platform teams.",
    Owner.DEVELOPER: "Written by the teams that have models served.",
    Owner.COMPOSED: "Composed by the control plane; read it, do not write it.",
}


def page(definition: Definition, describe: Describe, example: str) -> str:
    """The page of one kind in Markdown; ``example`` is a YAML manifest."""
    schema = root_schema(definition, describe)
    gvk, resource = definition.resource.gvk, definition.resource
    parts = [
        f"# {gvk.kind}",
        f"{describe(definition.type, None)} {_OWNERS[definition.owner]}",
        "\n".join(
            [
                f"- apiVersion `{gvk.api_version}`, plural `{resource.plural}`"
                + "".join(f", short name `{name}`" for name in definition.short_names),
                f"- {'Namespaced' if resource.namespaced else 'Cluster-scoped'}",
                f"- Categories: {', '.join(f'`{name}`' for name in definition.categories)}",
                f"- Subresources: `status`{', `scale`' if definition.scale else ''}",
            ]
        ),
        f"## Example\n\n```yaml\n{example.strip()}\n```",
        "## Spec\n\n" + _table(schema["properties"]["spec"], "spec"),
    ]
    rules = list(_rules(schema["properties"]["spec"], "spec"))
    if rules:
        parts.append("## Rules\n\nThe API server refuses an object that breaks one of these.\n\n" + "\n".join(rules))
    parts.append("## Status\n\n" + _table(schema["properties"]["status"], "status"))
    if definition.conditions and definition.reasons:
        parts.append("## Conditions\n\n" + _words(definition.conditions, describe, "Type"))
        parts.append("## Reasons\n\n" + _words(definition.reasons, describe, "Reason"))
    columns = [
        f"| {column.name} | `{column.path.replace('|', chr(92) + '|')}` | {'`-o wide`' if column.priority else 'always'} |"
        for column in columns_of(definition)
    ]
    parts.append("## Columns\n\n| Column | Path | Shown |\n|---|---|---|\n" + "\n".join(columns))
    return "\n\n".join(parts) + "\n"


def index(definitions: tuple[Definition, ...], describe: Describe) -> str:
    """The page that lists all kinds by who writes them."""
    parts = [
        "# API reference",
        "Every field, rule and condition of every kind. Generated from the types in `modelplane.api`.",
        "`modelplane check FILE...` judges manifests without an API server and in its words. Editors that know the YAML "
        "language server complete and check a file that begins with a line such as "
        "`# yaml-language-server: $schema=../schemas/modeldeployment_v1alpha1.json`.",
    ]
    for owner in Owner:
        rows = [
            f"| [{d.resource.gvk.kind}]({d.resource.gvk.kind.lower()}.md) | `{d.resource.gvk.group}` | {describe(d.type, None)} |"
            for d in definitions
            if d.owner is owner
        ]
        parts.append(
            f"## {_OWNERS[owner].rstrip('.')}\n\n| Kind | Group | What it is |\n|---|---|---|\n" + "\n".join(rows)
        )
    return "\n\n".join(parts) + "\n"


def _words(vocabulary: Vocabulary, describe: Describe, title: str) -> str:
    rows = [f"| `{member.value}` | {describe(vocabulary, member.name)} |" for member in vocabulary]
    return f"| {title} | Meaning |\n|---|---|\n" + "\n".join(rows)


def _table(schema: Object, root: str) -> str:
    rows = [row for row in _rows(schema, root) if "status.conditions[]" not in row]
    return "| Field | Type | Default | Bounds | Meaning |\n|---|---|---|---|---|\n" + "\n".join(rows)


def _rows(schema: Object, path: str) -> Iterator[str]:
    required = schema.get("required", ())
    for name, inner in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        mark = " (required)" if name in required else ""
        default = f"`{_literal(inner['default'])}`" if "default" in inner else ""
        meaning = inner.get("description", "").replace("|", "\\|")
        yield f"| `{where}`{mark} | {_type(inner)} | {default} | {_bounds(inner)} | {meaning} |"
        yield from _below(inner, where)


def _below(schema: Object, where: str) -> Iterator[str]:
    """Rows of fields inside a field, through lists and maps."""
    if "items" in schema:
        yield from _below(schema["items"], f"{where}[]")
    elif isinstance(schema.get("additionalProperties"), dict):
        yield from _below(schema["additionalProperties"], f"{where}{{}}")
    else:
        yield from _rows(schema, where)


def _type(schema: Object) -> str:
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_type(schema['additionalProperties'])}"
    return str(schema["type"])


def _literal(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "{}" if value == {} else str(value)


_RANGES = (
    ("minLength", "maxLength", "characters"),
    ("minItems", "maxItems", "entries"),
    ("minProperties", "maxProperties", "keys"),
    ("minimum", "maximum", ""),
)


def _range(schema: Object) -> Iterator[str]:
    for least_key, most_key, unit in _RANGES:
        least, most = schema.get(least_key), schema.get(most_key)
        if least is not None and most is not None:
            yield f"{least} to {most} {unit}".rstrip() if least != most else f"exactly {least} {unit}".rstrip()
        elif least is not None:
            yield f"{least} {unit} or more".replace("  ", " ")
        elif most is not None:
            yield f"at most {most} {unit}".rstrip()


def _bounds(schema: Object) -> str:
    said = []
    if "enum" in schema:
        said.append("one of " + ", ".join(f"`{value}`" for value in schema["enum"]))
    said += _range(schema)
    if "format" in schema:
        said.append(schema["format"])
    if "pattern" in schema:
        said.append(f"pattern `{schema['pattern'].replace('|', chr(92) + '|')}`")
    if schema.get("x-kubernetes-list-type") == "map":
        said.append("unique by " + " and ".join(f"`{key}`" for key in schema["x-kubernetes-list-map-keys"]))
    if schema.get("x-kubernetes-list-type") == "atomic":
        said.append("replaced as a whole")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict) and (inner := _bounds(schema[key])):
            said.append(f"each: {inner}")
    return "; ".join(said)


def _rules(schema: Object, path: str) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield f"- `{path}{rule.get('fieldPath', '')}`: {rule['message']}"
    for name, inner in schema.get("properties", {}).items():
        yield from _rules(inner, f"{path}.{name}")
    for key, step in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), dict):
            yield from _rules(schema[key], path + step)
