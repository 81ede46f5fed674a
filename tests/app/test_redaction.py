"""Secrets never survive, ordinary text does."""

import base64
from urllib.parse import quote

import pytest

from app.redaction import no_plain_words, redact
from tests.app.tokens import SECRETS


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
def test_known_shapes_are_hidden_wherever_they_stand(secret: str) -> None:
    for text in (secret, f"E   AssertionError: got {secret!s}", f"x='{secret}'", f"[{secret}]"):
        assert secret not in redact(text)
        assert "[redacted]" in redact(text)


@pytest.mark.parametrize("before", ["\x1b[32m", "\x1b[m", "%20", "%0A", "%3d", r"\n", r"\r\n", r"\t", "MY_", "2", "é"])
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
def test_no_boundary_of_a_word_is_needed_before_a_known_shape(secret: str, before: str) -> None:
    assert secret not in redact(f"got {before}{secret} there")


@pytest.mark.parametrize("kind", ["github", "github new installation", "github fine grained", "aws", "slack", "jwt"])
def test_what_cannot_be_mistaken_is_hidden_also_within_a_word(kind: str) -> None:
    assert SECRETS[kind] not in redact(f"prefix{SECRETS[kind]}")


@pytest.mark.parametrize(
    "piece",
    [
        *("ghp_", "ghs_1", "eyJ", "eyJ-", "-eyJ", "eyJaaaaaaaa.", "AKIA", "AKIAa", "SG.", "SG.aaaaaaaaaaaaaaaa.", "v1.", "sk-"),
        *("-----BEGIN ", "-----BEGIN A PRIVATE KEY-----END ", "hooks.slack.com/services/"),
    ],
)
def test_hostile_text_of_megabytes_is_read_but_once(piece: str) -> None:
    """A search from each place to the end would take hours, as it did with the fifth."""
    redact(piece * (2_000_000 // len(piece)))


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("password=hunter2", "hunter2"),
        ("DB_PASSWORD: s3cr3t-value", "s3cr3t-value"),
        ('{"token": "abc123def"}', "abc123def"),
        ("api_key = 'zzz-yyy-xxx'", "zzz-yyy-xxx"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI"),
        ("Authorization: Bearer abcdefghijklmnop", "abcdefghijklmnop"),
        ("postgres://app:pa55word@db/main", "pa55word"),
        ("token => deadbeef99", "deadbeef99"),
    ],
)
def test_values_that_are_named_as_secrets_are_hidden(text: str, hidden: str) -> None:
    assert hidden not in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "tests/test_token.py::TestToken::test_expired[a-1]",
        "assert token == other",
        "AssertionError: assert 3 == 4",
        "password = None",
        "https://example.org/a:b@c",
        "the secret is out",
        "test_two_highs_and_two_lows_of_a_day, task-test-integration-one, risk-assessment-of-the-whole-thing",
        "linuxapp-deployment-one, ERR_MSG.SomethingQuiteLongHere.AnotherLongThing, eyJustAWord",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text) == text


def test_exact_secrets_are_hidden_in_every_form_they_may_take() -> None:
    secret = "pa/ss wörd&long"
    for form in (secret, quote(secret, safe=""), secret.encode().hex(), base64.b64encode(secret.encode()).decode()):
        assert form not in redact(f"before {form} after", [secret])
    assert redact("ordinary", ["", "or"]) == "ordinary"  # too short to be told from words


def test_redacting_twice_changes_nothing_more() -> None:
    text = " ".join([*SECRETS.values(), "password=hunter2", "postgres://app:pa55word@db/main"])
    assert redact(redact(text)) == redact(text)


def test_the_shortest_of_them_are_hidden_too() -> None:
    """Shorter texts are not searched at all."""
    assert redact("xoxb-" + "a1" * 4) == redact("xapp-" + "a1" * 4) == "[redacted]"
    assert redact("hunter", ["hunter", "a much longer secret"]) == "[redacted]"
    assert redact("pwd=abcd") == "pwd=[redacted]"


def test_a_plain_word_is_no_secret_of_code_but_a_long_one_is() -> None:
    assert no_plain_words(("postgres", "p0stgres", "correcthorsebatterystaple")) == ("p0stgres", "correcthorsebatterystaple")
