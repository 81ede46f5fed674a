"""What is read out of a repository's own words before anything is downloaded outside."""

from __future__ import annotations

import pytest

from sandbox.base import InstallFailed
from sandbox.install.python import requirements


def reader(files: dict[str, str]) -> requirements.Read:
    async def read(path: str) -> bytes:
        if path not in files:
            raise FileNotFoundError(path)
        return files[path].encode()

    return read


@pytest.mark.parametrize(
    "line",
    [
        "-e .",
        "--index-url https://evil.invalid/simple",
        "--extra-index-url=https://evil.invalid",
        "git+https://evil.invalid/x.git",
        "name @ git+https://evil.invalid/x.git",
        "name @ file:///etc/passwd",
        "name @ https://evil.invalid/name.tar.gz",
        "./local",
        "../local[extra]",
        "/etc/passwd",
        "https://evil.invalid/x.whl",
        "file:///x",
        "${HOME}/x",
        "name; python_version != '${SELFHEAL_MODEL_API_KEY}'",
        "name[${TOKEN}]",
        "--config-settings x",
        "",
        "# comment",
        f"a; {'(' * 5000}python_version < '3'{')' * 5000}",
        "a b c",
        *(f"a; python_version != 'x{end}-e /tmp #'" for end in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"),
    ],
)
def test_only_names_pass(line: str) -> None:
    assert requirements.plain(line) is None


def test_names_keep_versions_extras_and_markers_but_not_hashes() -> None:
    line = "Name[a,b]>=1,<2 ; python_version >= '3.8' --hash=sha256:00 --hash=sha256:11 # why"
    assert requirements.plain(line) == 'Name[a,b]<2,>=1; python_version >= "3.8"'


async def test_included_files_are_followed_inside_the_repository_only() -> None:
    files = {
        "requirements/dev.txt": "-r base.txt\n--requirement=../more.txt\n-c pins.txt\n"
        "-r ../../../etc/passwd\n-r /etc/hosts\npytest\n",
        "requirements/base.txt": "one \\\n  >=1 \\\n --hash=sha256:00\n-r dev.txt\n",
        "requirements/pins.txt": "one==1.5\n",
        "more.txt": "two\n",
        "c.txt": "three<3\n",
    }
    found = await requirements.from_files(("requirements/dev.txt",), ("c.txt", "missing.txt"), reader(files))
    assert sorted(found.requirements) == ["one>=1", "pytest", "two"]
    assert sorted(found.constraints) == ["one==1.5", "three<3"]


async def test_hashes_are_kept_apart_from_the_names() -> None:
    text = "one==1 --hash=sha256:0a \\\n --hash=sha512:ff # --hash=sha256:77\ntwo\n"
    found = await requirements.from_files(("r.txt",), (), reader({"r.txt": text}))
    assert found.requirements == ("one==1", "two")
    assert found.hashes == (("one==1", "--hash=sha256:0a --hash=sha512:ff"),)
    assert not found.partial


@pytest.mark.parametrize("line", ["-e .", "./local", "name @ file:///x", "--pre", "a --hash=sha256:$X", "-r gone.txt", "${X}"])
async def test_what_only_the_installer_inside_may_read_is_told(line: str) -> None:
    whole = reader({"r.txt": "# comment\n\none\n-c c.txt\n", "c.txt": "one<2\n"})
    assert not (await requirements.from_files(("r.txt",), (), whole)).partial
    assert (await requirements.from_files(("r.txt",), (), reader({"r.txt": f"one\n{line}\n"}))).partial
    assert requirements.named((line,)).partial


async def test_static_needs_of_a_project_and_its_builder() -> None:
    files = {
        "pyproject.toml": "[project]\ndependencies=['a', 'b @ file:///x']\n[project.optional-dependencies]\ntest=['c']\ndoc=['d']\n",
        "sub/pyproject.toml": "[build-system]\nrequires=['hatchling>=1']\nbuild-backend='hatchling.build'\n",
    }
    assert await requirements.from_project(".[test]", reader(files)) == (("a", "c"), ("setuptools", "wheel", "wheel"))
    assert await requirements.from_project("sub", reader(files)) == ((), ("hatchling>=1", "editables"))
    assert await requirements.from_project("nowhere", reader(files)) == ((), ("setuptools", "wheel", "wheel"))


async def test_groups_include_groups_once() -> None:
    toml = "[dependency-groups]\na=['x', {include-group='b'}]\nb=['y', {include-group='a'}, 7]\n"
    assert (await requirements.from_groups(("a", "none"), reader({"pyproject.toml": toml}))).requirements == ("x", "y")


@pytest.mark.parametrize(
    "toml", ["[[[", "project = 3", "[project]\ndependencies = 'a'", "\udcff".encode("utf-8", "replace").decode()]
)
async def test_a_broken_pyproject_names_nothing(toml: str) -> None:
    assert (await requirements.from_project(".", reader({"pyproject.toml": toml})))[0] == ()


@pytest.mark.parametrize("toml", [f"a = {'[' * 5000}", f"{'a.' * 5000}b = {'[' * 5000}", f"a = {'{a=' * 5000}"])
async def test_a_pyproject_that_nests_without_end_is_refused_with_a_sentence(toml: str) -> None:
    with pytest.raises(InstallFailed, match=r"pyproject\.toml .* nested too deeply"):
        await requirements.from_project(".", reader({"pyproject.toml": toml}))
    with pytest.raises(InstallFailed, match=r"pyproject\.toml .* nested too deeply"):
        await requirements.from_groups(("dev",), reader({"pyproject.toml": toml}))


async def test_a_number_too_long_names_nothing() -> None:
    assert (
        await requirements.from_groups(("dev",), reader({"pyproject.toml": f"a = {'1' * 5000}"}))
        == requirements.RequirementLines()
    )
