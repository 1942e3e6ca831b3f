"""The event loop of our processes: uvloop where it is installed, since much of their work is TLS, and it does that in a third of
the time; asyncio's own elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run until the work ends, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(work)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the loop; None for asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None

    class Loop(uvloop.Loop):
        """A connection that is made from a socket and fails leaves the socket without a descriptor.

        uvloop takes the descriptor over and closes it, but where the peer resets the connection in the moment in which it is made
        the socket is not told, closes the same number again when it is collected, and with that a connection of somebody
        else who has got that number meanwhile (one more case of https://github.com/MagicStack/uvloop/issues/738; a
        kube-apiserver that dies under some twenty watches is enough).
        """

        async def create_connection(self, *args: Any, sock: Any = None, **options: Any) -> Any:
            try:
                made: Any = await super().create_connection(*args, sock=sock, **options)
            except BaseException:
                if sock is not None:
                    sock.detach()
                raise
            if sock is not None and made[0].is_closing():
                sock.detach()
            return made

    return Loop
