"""A rung, a second opinion, a metric, a benchmark and a provider for Selfheal."""
