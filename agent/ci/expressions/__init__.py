"""The expression language of GitHub Actions: the inside of `${{ … }}` and of `if:`, evaluated as GitHub does it.

Pure: knows the language and the given values, not workflow files. Input is hostile, so its length, nesting, results and work
are bounded. A value that only GitHub knows is an `Unknown`; a result is `Unknown` only if it depends on one.
"""

from agent.ci.expressions.evaluation import condition, evaluate, render, value_of
from agent.ci.expressions.values import ExpressionError, Files, Scope, Status, Unknown, Value

__all__ = ["ExpressionError", "Files", "Scope", "Status", "Unknown", "Value", "condition", "evaluate", "render", "value_of"]
