"""Proves on this machine what a sandbox promises, with canaries outside, attacks inside, and a finding for each attack.

The same attacks run in every kind of sandbox, only through the sandbox protocol.
"""
