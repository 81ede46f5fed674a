"""A rung and a second opinion for Selfheal."""
