"""The command line starts without importing what it does not need."""

from __future__ import annotations

import subprocess
import sys


def test_help_lists_the_verbs_and_imports_no_client() -> None:
    code = (
        "import sys; from modelplane.cli import main; "
        "main(['--help'], standalone_mode=False); print('aiohttp' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "drain" in out
    assert out.strip().endswith("False"), "help must not pay for the HTTP client"
