"""`python -m modelplane.local.engines`: one mock engine in the foreground, or the zygote that forks them."""

from __future__ import annotations

import argparse
import os
import sys

if "ssl" not in sys.modules:
    sys.modules["ssl"] = None  # type: ignore[assignment]  # asyncio does without it: 6 MB less in every engine


def main() -> None:
    from .engine import listen
    from .settings import ANNOTATIONS, PREFIX, Settings, read_annotations, served_name
    from .zygote import main as zygote
    from .zygote import serve

    listing = "\n".join(f"  {PREFIX}{name}\n      {meaning}" for name, (_, _, meaning) in ANNOTATIONS.items())
    parser = argparse.ArgumentParser(
        prog="modelplane.local.engines",
        description="A mock inference engine: OpenAI, Anthropic and vLLM dialects.",
        epilog=f"behaviour, as --set NAME=VALUE or as pod annotations:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--zygote", action="store_true", help="fork engines on request from standard input")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--pod-name", default=os.environ.get("POD_NAME") or "engine")
    parser.add_argument("--served-model-name", default="")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="one behaviour, see below")
    options, rest = parser.parse_known_args()
    if options.zygote:
        zygote()
        return
    asked = {PREFIX + name: value for name, _, value in (entry.partition("=") for entry in options.set)}
    behaviour, complaints = read_annotations(asked)
    if complaints:
        parser.error("; ".join(complaints))
    named = ["--served-model-name", options.served_model_name] if options.served_model_name else []
    model, given = served_name([*named, *rest], os.environ)
    try:
        listener = listen(options.host, options.port)
    except OSError as error:
        parser.error(f"cannot listen on {options.host}:{options.port}: {error.strerror or error}")
    settings = Settings(
        host=options.host,
        port=listener.getsockname()[1],
        pod=options.pod_name,
        model=model,
        model_given=given,
        behaviour=behaviour,
    )
    sys.exit(serve(settings, listener, None))


main()
