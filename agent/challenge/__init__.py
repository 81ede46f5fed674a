"""The second oracle: looks for evidence against a proven repair. Used by `agent/nodes/challenge.py` only."""
