"""The expression language of GitHub Actions: the inside of `${{ … }}` and of `if:`, evaluated as GitHub does it.

Pure: it knows the language and the values it is given, not workflow files, nor where the values come from. Texts are hostile:
their length, nesting, results and the work they cause are bounded. What cannot be known outside GitHub is an `Unknown`, and a
result is one only where it depends on one.
"""

from agent.ci.expressions.errors import ExpressionError
from agent.ci.expressions.scope import Files, Scope, Status
from agent.ci.expressions.templates import condition, evaluate, render, value_of
from agent.ci.expressions.values import Unknown, Value

__all__ = ["ExpressionError", "Files", "Scope", "Status", "Unknown", "Value", "condition", "evaluate", "render", "value_of"]
