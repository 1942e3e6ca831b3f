"""What verbs print, and how a command ends when nobody can take it: one line, or none, and never a traceback.

Whatever a verb prints goes through `say`, so that a full disk is told apart from a fault in the work itself. A reader that has gone
away, as `head` does, is no fault: the command ends quietly, with the status of a process that SIGPIPE ended.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import sys
import traceback
from collections.abc import Iterator
from typing import Any, Final

import click

INTERRUPTED: Final = 130
"""128 and SIGINT."""
BROKEN_PIPE: Final = 141
"""128 and SIGPIPE: what a shell gives for a process that wrote to a closed pipe."""


class Unwritten(click.ClickException):
    """What there was to say could not be written."""

    def __init__(self, error: OSError) -> None:
        why = error.strerror or str(error)
        super().__init__(f"the output cannot be written: {why}")
        self.quiet = error.errno == errno.EPIPE
        self.exit_code = BROKEN_PIPE if self.quiet else 1  # type: ignore[misc]  # click reads it from the instance

    def show(self, file: Any = None) -> None:
        _let_go()
        if not self.quiet:
            super().show(file)


def say(text: str = "", *, nl: bool = True, err: bool = False) -> None:
    """Print. Raises Unwritten."""
    if (sys.stderr if err else sys.stdout) is None:
        # Closed before the command began, which click takes for a wish to be silent.
        raise Unwritten(OSError(errno.EBADF, os.strerror(errno.EBADF)))
    with telling():
        try:
            click.echo(text, nl=nl, err=err)
        except UnicodeEncodeError:
            click.echo(re.sub(r"[^\x00-\x7f]", _escaped, text), nl=nl, err=err)


def say_json(document: object, *, indent: int | None = None) -> None:
    """Print a document for programs. Raises Unwritten."""
    say(json.dumps(document, ensure_ascii=False, indent=indent))


@contextlib.contextmanager
def telling() -> Iterator[None]:
    """Around what click itself prints, such as help: the same end as for `say`. Any other failure of the system, such as of a
    socket, is said in its own words."""
    try:
        yield
    except OSError as error:
        if _printing(error):
            raise Unwritten(error) from error
        raise click.ClickException(str(error) or type(error).__name__) from error


def _printing(error: OSError) -> bool:
    """Whether it came from a write to standard output or error, all of which are click's."""
    return any(frame.f_code is click.echo.__code__ for frame, _ in traceback.walk_tb(error.__traceback__))


def _escaped(found: re.Match[str]) -> str:
    """A character that the output's encoding lacks, as JSON writes it."""
    return json.dumps(found[0])[1:-1]


def _let_go() -> None:
    """What is still in the buffer can go nowhere; left there, the interpreter would try once more at its end and complain."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, sys.stdout.fileno())
        finally:
            os.close(nowhere)
