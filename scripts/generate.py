"""Write everything that is generated from the types of `modelplane.api`, or say what is not current.

    python scripts/generate.py            writes the files
    python scripts/generate.py --check    changes nothing; exits 1 and names the files that differ

The same types give the same bytes: no time, no version, no order that depends on the run.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import yaml

from modelplane.api.definitions import composite_resource_definition, custom_resource_definition
from modelplane.api.editor import json_schema
from modelplane.api.kinds import AGENT_DEFINITIONS, DEFINITIONS
from modelplane.api.meta import Object
from modelplane.api.reference import index, page
from modelplane.api.roles import cluster_roles
from modelplane.api.sources import describe

ROOT = Path(__file__).resolve().parents[1]
API = ROOT / "src" / "modelplane" / "api"
CRDS = API / "crds"
FOREIGN = API / "foreign"
BUNDLE = API / "bundle" / "crds.json"
XRDS = API / "xrds"
ROLES = API / "roles"
EDITORS = ROOT / "schemas"
PAGES = ROOT / "docs" / "reference"
EXAMPLES = ROOT / "examples"
CHART = ROOT / "charts" / "modelplane" / "templates" / "generated"
RULES = ROOT / "src" / "modelplane" / "operator" / "rbac.yaml"
HEADER = "# Generated from the types in modelplane.api by `make generate`; do not edit.\n"
ANNOTATIONS = """\
  {{- with .Values.serviceAccount.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
"""
MARK = "<!-- Generated from the types in modelplane.api by `make generate`; do not edit. -->\n\n"


class _Dumper(yaml.SafeDumper):
    """Indents lists below their key and never writes aliases."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        return True


def to_yaml(*documents: Object) -> str:
    """YAML with keys in the order in which they were made."""
    return HEADER + "---\n".join(
        yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True) for document in documents
    )


def files() -> dict[Path, str]:
    """Every generated file with its content.

    The bundle holds the same definitions, and those of other projects, as one JSON array: the embedded server and
    `modelplane check` read it at every start, and YAML would take a hundred times as long.
    """
    made = {}
    bundle = []
    for definition in DEFINITIONS:
        resource = definition.resource
        document = custom_resource_definition(definition, describe)
        made[CRDS / f"{resource.gvk.group}_{resource.plural}.yaml"] = to_yaml(document)
        bundle.append(document)
    for path in sorted(FOREIGN.glob("*.yaml")):
        bundle.extend(yaml.safe_load_all(path.read_text("utf-8")))
    lines = ",\n".join(json.dumps(document, ensure_ascii=False, separators=(",", ":")) for document in bundle)
    for definition in DEFINITIONS:
        if definition not in AGENT_DEFINITIONS:
            name = f"{definition.resource.gvk.group}_{definition.resource.plural}.yaml"
            made[XRDS / name] = to_yaml(composite_resource_definition(definition, describe))
        kind = definition.resource.gvk.kind
        text = json.dumps(json_schema(definition, describe), ensure_ascii=False, indent=1)
        made[EDITORS / f"{kind.lower()}_{definition.resource.gvk.version}.json"] = f"{text}\n"
        made[PAGES / f"{kind.lower()}.md"] = MARK + page(definition, describe, example(kind))
    made[PAGES / "README.md"] = MARK + index(DEFINITIONS, describe)
    made[ROLES / "roles.yaml"] = to_yaml(*cluster_roles(DEFINITIONS))
    made[BUNDLE] = f"[\n{lines}\n]\n"
    return made | chart(made)


def chart(made: dict[Path, str]) -> dict[Path, str]:
    """The definitions and the operator's rights as templates of the Helm chart.

    Templates and not the folder `crds`, which Helm installs once and never upgrades. The policy keeps them, and everything that
    people wrote with them, when the release is removed. All take the labels that are asked for, and the account annotations.
    """
    account, rest = labelled(literal(RULES.read_text("utf-8"))).split("\n---\n", 1)
    templates = {CHART / "rbac.yaml": f"{account}\n{ANNOTATIONS}---\n{rest}"}
    for path, text in made.items():
        if path.parent == CRDS:
            document = yaml.safe_load(text)
            document["metadata"].setdefault("annotations", {})["helm.sh/resource-policy"] = "keep"
            body = labelled(literal(to_yaml(document)))
            templates[CHART / path.name] = f"{{{{- if .Values.crds.install }}}}\n{body}{{{{- end }}}}\n"
    return templates


def literal(text: str) -> str:
    """Text that a Helm template gives back as it is."""
    return text.replace("{{", '{{ "{{" }}')


def labelled(text: str) -> str:
    """Manifests of a template with the labels that are asked for on every object."""
    return re.sub(r"^(metadata:\n  name: .+)$", r'\1{{ include "modelplane.common" . }}', text, flags=re.MULTILINE)


def example(kind: str) -> str:
    """The manifest that stands on a kind's page: the first one of the kind in the project's examples, with its comment."""
    for path in sorted(EXAMPLES.rglob("*.yaml"), key=lambda path: ("two-regions" in path.parts, path)):
        documents = path.read_text("utf-8").split("\n---\n")
        found = [document for document in documents if f"\nkind: {kind}\n" in f"\n{document}"]
        if found:
            return found[0]
    raise SystemExit(f"there is no example of kind {kind} below {EXAMPLES.relative_to(ROOT)}; add one")


def stale(made: dict[Path, str]) -> list[Path]:
    """Files that are missing, differ, or should not be there any more."""
    differing = [path for path, content in made.items() if not path.exists() or path.read_text("utf-8") != content]
    owned = {path.parent for path in made}
    left_over = [path for folder in owned for path in folder.glob("*") if path.is_file() and path not in made]
    return sorted([*differing, *left_over])


def main() -> int:
    made = files()
    if "--check" in sys.argv[1:]:
        differing = stale(made)
        for path in differing:
            print(f"{path.relative_to(ROOT)} is not what the types say; run `make generate` and commit the result")
        return 1 if differing else 0
    for path in stale(made):
        if path in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made[path], "utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
        else:
            path.unlink()
            print(f"removed {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
