"""What a patch can never do, judged before it runs."""

Finding = tuple[str, str]  # rule, sentence
EVALUATED = "evaluated"  # the rule about text that is run as code; a policy can turn its refusal into a question
