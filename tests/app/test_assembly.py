"""Settings that cannot become parts are refused at the start, by name."""

from __future__ import annotations

import pytest

from app.assembly import github_of, sandboxes_of
from app.settings import SettingsError, load


def test_what_is_no_private_key_is_refused_before_anything_starts() -> None:
    settings = load(github_app_id=1, github_private_key="garbage")
    with pytest.raises(SettingsError, match=r"SELFHEAL_GITHUB_PRIVATE_KEY: .* PEM"):
        github_of(settings)


def test_a_missing_app_id_is_named() -> None:
    with pytest.raises(SettingsError, match="SELFHEAL_GITHUB_APP_ID"):
        github_of(load())


async def test_a_sandbox_without_isolation_needs_a_word_of_trust() -> None:
    with pytest.raises(SettingsError, match=r"SELFHEAL_SANDBOX: .*SELFHEAL_TRUST_CODE"):
        await sandboxes_of(load(sandbox="process"))
