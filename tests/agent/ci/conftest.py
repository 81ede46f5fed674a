import pytest

from tests.judges.node import Judge, judge_or_skip


@pytest.fixture(scope="session")
def judge() -> Judge:
    """GitHub's own packages as judges of our reading of workflows."""
    return judge_or_skip("actions")
