"""The second oracle: what speaks against a repair that is green and proven. Only `agent/nodes/challenge.py` asks it."""
