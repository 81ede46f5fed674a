"""What a patch can never do, judged before it runs."""

Finding = tuple[str, str]  # rule, sentence
