"""Server-side apply and the tracking of who set which field: structured merge and ``metadata.managedFields``.

``apply`` answers an apply patch that ``judge`` passed, ``track_update`` follows every other write; both are pure.
``unchanged`` tells a write that changes nothing but times, which is then not stored.
"""

from modelplane.server.fieldmanager.apply import apply, judge, track_update, unchanged
from modelplane.server.fieldmanager.fieldset import FieldSet

__all__ = ["FieldSet", "apply", "judge", "track_update", "unchanged"]
