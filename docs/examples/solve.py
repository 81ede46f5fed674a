"""Write a function from a specification. `python solve.py scripted` uses the built-in script instead of a model."""

import sys

from agent import solve_sync

found = solve_sync(
    "Merge overlapping or touching intervals of integers; the result is sorted by start.",
    name="merge_intervals",
    model=sys.argv[1] if len(sys.argv) > 1 else None,
)
print(found.code if found.solved else f"Not solved: {found.reason}")
print(f"{len(found.iterations)} answers were judged; the first one {'passed' if found.first_passed else 'was healed'}.")
