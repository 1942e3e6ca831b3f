"""Write src/modelplane/server/builtin/messages.zip: the protobuf field numbers of the built-in kinds that we serve.

    python scripts/generate_protobuf.py MODULES

MODULES is the folder ``k8s.io`` of a Go module cache with ``api@v0.36.3`` and ``apimachinery@v0.36.3`` in it
(``go mod download k8s.io/api@v0.36.3 k8s.io/apimachinery@v0.36.3``). Struct tags there say, of each field, its number,
its JSON name, and whether it is left out when it is empty. The numbers are Kubernetes' own, Apache-2.0.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path

from modelplane.server.builtin.kinds import KINDS, SUBRESOURCE_KINDS

OUTPUT = Path(__file__).parent.parent / "src/modelplane/server/builtin/messages.zip"
META = "apimachinery/pkg/apis/meta/v1"
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"^type (\w+) ((?:\[\]|map\[)?[\w.\]]+)$", re.MULTILINE)
FIELD = re.compile(r"^\s+(?:(\w+)\s+)?(\*?(?:\[\]|map\[[\w.]+\])?\*?(?:\[\])?[\w.]+)\s+`([^`]*)`", re.MULTILINE)
IMPORT = re.compile(r'^\s+(?:(\w+) )?"k8s\.io/(api|apimachinery)/([\w./]+)"', re.MULTILINE)
SPECIAL = {
    f"{META}.Time": "time",
    f"{META}.MicroTime": "microtime",
    f"{META}.FieldsV1": "raw",
    "apimachinery/pkg/api/resource.Quantity": "quantity",
    "apimachinery/pkg/util/intstr.IntOrString": "intorstring",
    "apimachinery/pkg/runtime.RawExtension": "raw",
}
SCALARS = {
    "string": "string", "bool": "bool", "int32": "int", "int64": "int", "int": "int", "uint32": "int", "uint64": "int",
    "byte": "byte", "float64": "double", "float32": "float",
}  # fmt: skip
STRINGS = {"apimachinery/pkg/types.UID", "apimachinery/pkg/types.NodeName"}


class Package:
    """The declarations of one Go package."""

    def __init__(self, modules: Path, name: str) -> None:
        module, _, path = name.partition("/")
        folder = next(modules.glob(f"{module}@*")) / path
        self.name = name
        self.structs: dict[str, str] = {}
        self.named: dict[str, str] = {}
        self.imports: dict[str, str] = {}
        for file in sorted(folder.glob("*types.go")):
            text = re.sub(r"^\s*//.*$", "", file.read_text(), flags=re.MULTILINE)
            self.structs |= dict(STRUCT.findall(text))
            self.named |= dict(NAMED.findall(text))
            for alias, imported, below in IMPORT.findall(text):
                self.imports[alias or below.rpartition("/")[2]] = f"{imported}/{below}"


class Reader:
    def __init__(self, modules: Path) -> None:
        self.modules = modules
        self.packages: dict[str, Package] = {}
        self.messages: dict[str, list[object]] = {}

    def package(self, name: str) -> Package:
        if name not in self.packages:
            self.packages[name] = Package(self.modules, name)
        return self.packages[name]

    def message(self, full: str) -> None:
        """Collect a struct and all that it reaches."""
        if full in self.messages:
            return
        package, _, name = full.rpartition(".")
        here = self.package(package)
        rows = self.messages[full] = []
        for _, type_, tags in FIELD.findall(here.structs[name]):
            number = re.search(r'protobuf:"\w+,(\d+),', tags)
            if number is None:
                continue
            spelled = re.search(r'json:"([^"]*)"', tags)
            json_name, _, options = (spelled.group(1) if spelled else "").partition(",")
            row = {"n": int(number.group(1)), "name": json_name, **self.kind(here, type_)}
            if "inline" in options:
                row["inline"] = True
            if "omitempty" in options or "omitzero" in options:
                row["omit"] = True
            rows.append(row)

    def kind(self, here: Package, type_: str) -> dict[str, object]:
        """What a Go type is on the wire: a kind, ``of`` a message, repeated, a map, or a pointer."""
        if type_.startswith("*"):
            return {**self.kind(here, type_[1:]), "pointer": True}
        if type_ == "[]byte":
            return {"kind": "bytes"}
        if type_.startswith("[]"):
            return {**self.kind(here, type_[2:]), "repeated": True}
        if type_.startswith("map["):
            return {"kind": "map", "value": self.kind(here, type_.partition("]")[2])}
        if type_ in SCALARS:
            return {"kind": SCALARS[type_]}
        alias, dot, name = type_.rpartition(".")
        full = f"{here.imports[alias] if dot else here.name}.{name}"
        if full in SPECIAL:
            return {"kind": SPECIAL[full]}
        if full in STRINGS:
            return {"kind": "string"}
        owner = self.package(full.rpartition(".")[0])
        if name in owner.named:
            target = owner.named[name]
            if target.startswith(("[]", "map[")) and target not in ("[]byte",):
                inner = self.kind(owner, target)
                # A named list is a message with the list as its only field; a named map is a plain map.
                return {"kind": "items", "value": inner} if target.startswith("[]") else inner
            return self.kind(owner, target)
        self.message(full)
        return {"kind": "message", "of": full}


def main() -> None:
    reader = Reader(Path(sys.argv[1]))
    roots = {}
    for gvk in (*(kind.gvk for kind in KINDS), *SUBRESOURCE_KINDS):
        if gvk.group != "apiextensions.k8s.io":
            roots[f"{gvk.api_version} {gvk.kind}"] = (
                f"api/{gvk.group.partition('.')[0] or 'core'}/{gvk.version}.{gvk.kind}"
            )
    roots["DeleteOptions"] = f"{META}.DeleteOptions"
    for full in roots.values():
        reader.message(full)
    with zipfile.ZipFile(OUTPUT, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in [("roots", roots), *sorted(reader.messages.items())]:
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, json.dumps(content, sort_keys=True, separators=(",", ":")))
    print(f"{OUTPUT.name}: {len(reader.messages)} messages, {OUTPUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
