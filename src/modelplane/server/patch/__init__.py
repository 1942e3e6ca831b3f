"""The three patch dialects of the Kubernetes API as pure functions; apply is in ``fieldmanager``.

All take the current object and a decoded body and give a new object; the input is never changed. They raise
``BadBody`` (400) when the patch itself is malformed and ``PatchRefused`` (422) when it does not fit the object.
"""

from modelplane.server.patch.json_patch import json_patch
from modelplane.server.patch.merge import merge_patch
from modelplane.server.patch.strategic import strategic_merge

__all__ = ["json_patch", "merge_patch", "strategic_merge"]
