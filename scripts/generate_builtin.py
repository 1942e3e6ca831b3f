"""Write src/modelplane/server/builtin/definitions.zip: the OpenAPI definitions of the built-in kinds that we serve.

    python scripts/generate_builtin.py DEFINITIONS.json

DEFINITIONS.json is ``_definitions.json`` of the newest version in the package kubernetes-validate (1.37), installed
somewhere for the purpose; the project does not depend on it. The definitions are Kubernetes' own, Apache-2.0.
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

from modelplane.server.builtin.kinds import KINDS, SUBRESOURCE_KINDS, definition_name

OUTPUT = Path(__file__).parent.parent / "src/modelplane/server/builtin/definitions.zip"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
MORE = (META + "DeleteOptions", META + "Status", META + "ListMeta", META + "ObjectMeta")
KNOWN_TYPES = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": "string", "format": "int-or-string"},
    EXTENSIONS + "JSON": {},
    EXTENSIONS + "JSONSchemaPropsOrArray": {},
    EXTENSIONS + "JSONSchemaPropsOrBool": {},
    EXTENSIONS + "JSONSchemaPropsOrStringArray": {},
}
"""Definitions that JSON Schema says in a way of its own."""
KEY_DEFAULTS = (
    ("io.k8s.api.core.v1.ContainerPort", "protocol", "TCP"),
    ("io.k8s.api.core.v1.ServicePort", "protocol", "TCP"),
)
"""Defaults of list-map keys: without them two spellings of one port would be two items."""


def clean(value: object) -> object:
    """Without "or null", which Go's decoder means everywhere, and with bare names as references."""
    if isinstance(value, list):
        return [clean(item) for item in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for key, item in value.items():
        if key == "type" and isinstance(item, list):
            out[key] = next(name for name in item if name != "null")
        elif key == "$ref" and isinstance(item, str):
            out[key] = item.rpartition("/")[2]
        elif key == "enum" and isinstance(item, list):
            out[key] = [choice for choice in item if choice is not None]
        else:
            out[key] = clean(item)
    return out


def refs(value: object) -> set[str]:
    if isinstance(value, list):
        return set().union(*(refs(item) for item in value))
    if not isinstance(value, dict):
        return set()
    found = set().union(*(refs(item) for key, item in value.items() if key != "$ref"), set())
    return found | {value["$ref"]} if isinstance(value.get("$ref"), str) else found


def main() -> None:
    source = json.loads(Path(sys.argv[1]).read_text())["$defs"]
    definitions = {name: clean(definition) for name, definition in source.items()}
    for name, definition in KNOWN_TYPES.items():
        described = {"description": source[name]["description"]} if "description" in source.get(name, {}) else {}
        definitions[name] = described | definition
    for name, field, value in KEY_DEFAULTS:
        definitions[name]["properties"][field]["default"] = value
    for definition in definitions.values():
        for field in ("apiVersion", "kind"):
            if "x-kubernetes-group-version-kind" in definition:
                definition["properties"].get(field, {}).pop("enum", None)
    # A property of JSONSchemaProps is called $ref: it is no reference, and its value there is a schema.
    roots = [definition_name(gvk) for gvk in (*(kind.gvk for kind in KINDS), *SUBRESOURCE_KINDS)]
    roots += [name + "List" for name in roots if name + "List" in definitions]
    waiting, wanted = [*roots, *MORE], set()
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted.add(name)
            waiting.extend(refs(definitions[name]))
    with zipfile.ZipFile(OUTPUT, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(wanted):
            text = json.dumps(definitions[name], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, text)
    print(f"{OUTPUT.name}: {len(wanted)} definitions, {OUTPUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
