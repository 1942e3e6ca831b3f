"""Record what a real kube-apiserver makes of the ordinary objects of test_checks.py, by server-side dry runs.

    python -m tests.schema.created.record KUBECONFIG

It makes a namespace for the purpose and deletes it again. The recording at hand is of kube-apiserver 1.36.3.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.schema.test_checks import OTHERS, SPECS, made

NAMESPACE = "modelplane-recording"
OUTPUT = Path(__file__).parent / "recorded.json"
GENERATED = ("uid", "creationTimestamp", "resourceVersion", "generation", "namespace")
CLUSTER = ("PriorityClass", "StorageClass")
UNFIT = ("v1/Pod", "batch/v1/Job", "autoscaling/v2/HorizontalPodAutoscaler")
"""Kinds that admission or the registry completes with things that are not defaults."""


def main() -> None:
    kubectl = ["kubectl", "--kubeconfig", sys.argv[1]]
    subprocess.run([*kubectl, "create", "namespace", NAMESPACE], check=True)
    try:
        recorded: dict[str, Any] = {}
        for what in [*SPECS, *OTHERS]:
            if what in UNFIT:
                continue
            obj = made(what)
            obj["metadata"] = {"name": "a"} if obj["kind"] in CLUSTER else {"name": "a", "namespace": NAMESPACE}
            flags = ["--dry-run=server", "-o", "json", "--show-managed-fields", "--field-manager=creator"]
            done = subprocess.run(
                [*kubectl, "create", *flags, "-f", "-"],
                input=json.dumps(obj),
                capture_output=True,
                text=True,
                check=True,
            )
            answer = json.loads(done.stdout)
            fields = answer["metadata"].pop("managedFields")[0]["fieldsV1"]
            for name in GENERATED:
                answer["metadata"].pop(name, None)
            recorded[what] = {"object": answer, "fields": fields}
        OUTPUT.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
    finally:
        subprocess.run([*kubectl, "delete", "namespace", NAMESPACE, "--wait=false"], check=True)


if __name__ == "__main__":
    main()
