"""The CEL engine behind x-kubernetes-validations: the project's own compiler, handed to the schemas."""

from __future__ import annotations

from collections.abc import Mapping

from modelplane.server.schema.node import Node
from modelplane.server.schema.rules import Evaluate


class CelEngine:
    """Compiles rules over JSON values; ``self`` and ``oldSelf`` are dynamic."""

    def compile(self, expression: str, node: Node) -> Evaluate:
        """Raises ValueError with the compiler's words."""
        from modelplane.plan.cel.program import Program
        from modelplane.plan.cel.rules import unescaped
        from modelplane.plan.cel.syntax import CelError
        from modelplane.plan.cel.types import DYN

        try:
            program = Program(expression, {"self": DYN, "oldSelf": DYN}, rename=unescaped)
        except CelError as error:
            raise ValueError(f"compilation failed: {error}") from None

        def evaluate(variables: Mapping[str, object]) -> object:
            return program.run([variables.get("self"), variables.get("oldSelf")])

        return evaluate
