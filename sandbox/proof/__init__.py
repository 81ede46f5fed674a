"""Proves, on this very machine, what a sandbox says of itself: canaries outside, attacks inside, a finding for each.

The same attacks are run in every kind of sandbox, through its own protocol: nothing here knows how one is made.
"""
