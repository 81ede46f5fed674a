"""The pages: what the service does, for people and, as JSON, for programs. They only read.

Everything that is shown comes from hostile sources (repositories, models, GitHub): `shown.py` makes it visible and bounded, and
the templates pass every text through it. Knows nothing of webhooks, queues or healing.
"""
