"""How the operator writes its log: lines for people, or one JSON object a line for a collector."""

from __future__ import annotations

import json
import logging
import sys
import time

TEXT = "%(asctime)s %(levelname).1s %(name)s %(message)s"


class Json(logging.Formatter):
    """time (UTC), level, logger, message, and error with the traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def configure(level: str, form: str) -> None:
    """To standard error; ``form`` is ``text`` or ``json``."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Json() if form == "json" else logging.Formatter(TEXT))
    logging.basicConfig(level=level.upper(), handlers=[handler])
