"""Proves on this machine what a sandbox promises: canaries outside, attacks inside, a finding for each.

The same attacks run in every kind of sandbox, through the sandbox protocol alone.
"""
