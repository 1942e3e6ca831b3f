"""`python -m modelplane`: the command, for processes that start one another without relying on PATH."""

from modelplane.cli import main

main(prog_name="modelplane")
