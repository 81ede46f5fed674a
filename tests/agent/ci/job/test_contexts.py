"""What a step sees of the run: the same values by its variables and by its expressions."""

import pytest

from agent.ci.expressions import Unknown, value_of
from agent.ci.job.contexts import Run, build_scope, default_variables, unknown_variables

KNOWN = Run("CI", "tests", "c0ffee", "main", "me/shop", root="/repo", id="42", attempt="2")


def test_variables_have_the_values_of_the_contexts() -> None:
    scope = build_scope(KNOWN)
    for name, value in default_variables(KNOWN).items():
        context, _, key = name.lower().partition("_")
        if context in ("github", "runner") and key != "actions":
            assert value_of(f"${{{{ {context}.{key} }}}}", scope) == value, name
    told = default_variables(KNOWN)
    assert (told["GITHUB_SHA"], told["GITHUB_REF"], told["GITHUB_REF_NAME"]) == ("c0ffee", "refs/heads/main", "main")
    assert (told["GITHUB_REPOSITORY"], told["GITHUB_REPOSITORY_OWNER"], told["GITHUB_RUN_ID"]) == ("me/shop", "me", "42")
    assert told["RUNNER_TOOL_CACHE"]


def test_what_is_not_known_is_not_set_and_not_made_up() -> None:
    pull = Run(sha="c0ffee", branch="topic", event="pull_request")
    told = default_variables(pull)
    assert not {"GITHUB_REF", "GITHUB_REF_NAME", "GITHUB_BASE_REF", "GITHUB_RUN_ID", "GITHUB_ACTOR"} & told.keys()
    assert told["GITHUB_HEAD_REF"] == "topic"
    assert isinstance(value_of("${{ github.ref }}", build_scope(pull)), Unknown)
    assert unknown_variables("echo $GITHUB_REF ${GITHUB_SHA} $GITHUB_OUTPUT $MY_GITHUB_ACTOR", told) == ["GITHUB_REF"]


@pytest.mark.parametrize(
    ("api", "server", "graphql"),
    [
        ("https://api.github.com", "https://github.com", "https://api.github.com/graphql"),
        ("https://github.corp/api/v3", "https://github.corp", "https://github.corp/api/graphql"),
        ("https://api.octo.ghe.com", "https://octo.ghe.com", "https://api.octo.ghe.com/graphql"),
    ],
)
def test_a_step_sees_the_server_of_its_run(api: str, server: str, graphql: str) -> None:
    told = default_variables(Run(api_url=api))
    assert (told["GITHUB_SERVER_URL"], told["GITHUB_API_URL"], told["GITHUB_GRAPHQL_URL"]) == (server, api, graphql)
