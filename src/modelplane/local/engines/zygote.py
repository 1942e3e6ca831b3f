"""A small process that has everything imported and forks engines on request: an engine starts in milliseconds, and
the pages of the interpreter are shared between all of them.

One JSON line in per engine to start, JSON lines out: `{"id", "pid"}` when its socket listens, `{"id", "error"}` when it
cannot, and `{"exited", "status"}` when it ends. The zygote binds before it forks, so whoever reads the answer may connect
at once. Engines lead their own sessions: they outlive the zygote, which ends with its standard input.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import selectors
import signal
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

from .engine import Engine, listen
from .settings import Settings


def main() -> None:
    """Serve requests from standard input until it ends."""
    gc.disable()
    gc.collect()
    gc.freeze()
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    selector.register(wake_read, selectors.EVENT_READ)
    buffer = b""
    while True:
        for key, _ in selector.select():
            data = os.read(key.fd, 65536)
            if key.fd == wake_read:
                _reap()
            elif not data:
                return
            else:
                *lines, buffer = (buffer + data).split(b"\n")
                for line in lines:
                    _start(json.loads(line), selector, (wake_read, wake_write))


def _reap() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _say({"exited": pid, "status": os.waitstatus_to_exitcode(status)})


def _start(request: dict[str, Any], selector: selectors.BaseSelector, pipes: tuple[int, int]) -> None:
    try:
        settings = Settings.from_json(request["settings"])
        listener = listen(settings.host, settings.port)
    except OSError as error:
        _say({"id": request["id"], "error": f"cannot listen: {error.strerror or error}"})
        return
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        selector.close()
        for descriptor in pipes:
            os.close(descriptor)
        _become(settings, listener, request)
    listener.close()
    _say({"id": request["id"], "pid": pid})


def _become(settings: Settings, listener: socket.socket, request: dict[str, Any]) -> NoReturn:
    """Turn this fork into an engine; never returns into the zygote's loop."""
    code = 1
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        for descriptor in (null, log):
            os.close(descriptor)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        code = serve(settings, listener, Path(request["settings_file"]))
    except BaseException as error:
        os.write(2, f"mock engine failed: {error!r}\n".encode())
    finally:
        os._exit(code)


def serve(settings: Settings, listener: socket.socket, settings_file: Path | None) -> int:
    """Run one engine on this thread; the exit code."""

    async def run() -> None:
        reload = None if settings_file is None else lambda: Settings.from_json(json.loads(settings_file.read_bytes()))
        await Engine(settings, reload).run(listener)

    gc.enable()
    asyncio.run(run())
    return 0


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
