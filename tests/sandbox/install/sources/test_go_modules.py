"""Go modules: what a go.sum names, fetched with its digest and found by go without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from sandbox.base import Command, InstallFailed, Packages, SandboxUnavailable
from sandbox.install import folder_cache
from sandbox.install.download import DownloadPolicy, DownloadRefused
from sandbox.install.package_index import IndexAccess
from sandbox.install.packages import PackageStore
from sandbox.install.sources import go_modules
from sandbox.install.sources.fetch import Asked, Budget, SourcesUnavailable
from sandbox.install.sources.go_modules import Module
from sandbox.install.sources.upstreams import Upstreams
from sandbox.local import LocalSandboxes
from tests.sandbox.conftest import tarball
from tests.standins.sources import Sources, serving

# Digests as go 1.19 wrote them for this module.
MODULE = "example.com/Team/adding"
ADDS = {"adding.go": "package adding\n\nfunc Add(a, b int) int { return a + b }\n"}
SUM = (
    "example.com/Team/adding v1.2.0 h1:1jc3n4QKYuZVX1h9LfjYwnF1qFhbGnLPAtqt4pz/VWA=\n"
    "example.com/Team/adding v1.2.0/go.mod h1:C0xyZuBFdevdm07Igpr0btq+Ct83EdklIdIgjbQOOtw=\n"
)  # fmt: skip
FILES: Mapping[str, str] = {
    "go.mod": f"module example.com/top\n\ngo 1.17\n\nrequire {MODULE} v1.2.0\n",
    "top_test.go": f'package top\n\nimport (\n\t"testing"\n\n\t"{MODULE}"\n)\n\n'
    "func TestAdds(t *testing.T) {\n\tif adding.Add(2, 2) != 4 {\n\t\tt.Fatal()\n\t}\n}\n",
}


@pytest.fixture
def sources() -> Iterator[Sources]:
    with serving() as served:
        served.add_module(MODULE, "v1.2.0", ADDS)
        yield served


async def provide(text: str, sources: Sources, folder: Path) -> Path:
    entry = await go_modules.provide(go_modules.read_lock(text), sources.proxy, folder / "go-modules", Budget(DownloadPolicy()))
    folder_cache.release(entry)
    return entry.folder


async def test_what_a_go_sum_names_is_laid_out_as_a_proxy_once(sources: Sources, tmp_path: Path) -> None:
    folder = await provide(SUM, sources, tmp_path)
    place = folder / "example.com/!team/adding/@v"
    assert {path.name for path in place.iterdir()} == {"list", "v1.2.0.info", "v1.2.0.mod", "v1.2.0.zip"}
    assert (place / "list").read_text() == "v1.2.0\n"
    asked = len(sources.asked)
    assert await provide(SUM, sources, tmp_path) == folder
    assert len(sources.asked) == asked, "from the cache"


async def test_of_a_module_that_is_not_built_only_the_go_mod_is_fetched(sources: Sources, tmp_path: Path) -> None:
    folder = await provide(SUM.splitlines()[1], sources, tmp_path)
    assert sources.asked == ["/go/example.com/!team/adding/@v/v1.2.0.mod"]
    assert not list(folder.rglob("*.zip"))


@pytest.mark.parametrize("line", [0, 1])
async def test_another_content_than_the_go_sum_s_is_refused(sources: Sources, tmp_path: Path, line: int) -> None:
    lines = SUM.splitlines()
    lines[line] = f"{lines[line].partition(' h1:')[0]} h1:{'0' * 43}="
    with pytest.raises(InstallFailed, match="does not have the digest"):
        await provide("\n".join(lines), sources, tmp_path)


async def test_a_go_mod_has_a_smaller_limit_than_a_module(sources: Sources, tmp_path: Path) -> None:
    sources.pages["/go/example.com/!team/adding/@v/v1.2.0.mod"] = b" " * (go_modules.MOD_LIMIT + 1)
    with pytest.raises(DownloadRefused, match=r"v1\.2\.0\.mod is larger than 16 MiB"):
        await provide(SUM, sources, tmp_path)


def test_a_zip_with_a_huge_directory_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as archive:
        for number in range(100):
            archive.writestr(f"{number}", "")
    assert go_modules._digest_of_zip(tmp_path / "many.zip")
    monkeypatch.setattr(go_modules, "_DIRECTORY", 100 * 46)  # what the entries take without their names
    assert go_modules._digest_of_zip(tmp_path / "many.zip") == ""


async def test_no_digest_is_made_after_the_time_of_the_step(sources: Sources, tmp_path: Path) -> None:
    budget = Budget(DownloadPolicy(seconds=60.0))
    made: list[Path] = []

    def is_right(path: Path) -> bool:
        made.append(path)
        budget._until = 0.0
        return True

    asked = [
        Asked(f"{sources.proxy}/example.com/!team/adding/@v/list", tmp_path / f"{number}", is_right) for number in range(2)
    ]
    with pytest.raises(DownloadRefused, match="take more than 60 s"):
        await budget.fetch(asked, "the Go modules")
    assert len(made) == 1


async def test_a_proxy_that_lacks_a_module_is_named_with_what_to_do(sources: Sources, tmp_path: Path) -> None:
    sources.pages.clear()
    with pytest.raises(SourcesUnavailable, match="404") as lacks:
        await provide(SUM, sources, tmp_path)
    assert "SELFHEAL_GO_PROXY" in lacks.value.what_now


@pytest.mark.parametrize("line", ["../evil v1.0.0 h1:@", "a v1.0.0", "a ../v1 h1:@", "/a v1.0.0 h1:@", "a v1.0.0/../x h1:@"])
def test_a_line_that_names_no_module_is_refused(line: str) -> None:
    with pytest.raises(InstallFailed, match="names no module"):
        go_modules.read_lock(line.replace("@", "0" * 43 + "="))


def test_lines_of_one_version_belong_together() -> None:
    mod, content = "A" * 43 + "=", "B" * 43 + "="
    text = f"a.example/b v1.0.0 h1:{content}\na.example/b v1.0.0/go.mod h1:{mod}\n\nc.example/d v0.1.0/go.mod h1:{mod}\n"
    assert go_modules.read_lock(text) == (
        Module("a.example/b", "v1.0.0", mod, content),
        Module("c.example/d", "v0.1.0", mod, ""),
    )


@pytest.mark.optional(reason="needs go, which `make setup` does not install")
@pytest.mark.skipif(shutil.which("go") is None, reason="needs go")
async def test_go_builds_with_them_without_a_network(sources: Sources, tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    for name, text in FILES.items():
        (made / name).write_text(text)
    # go itself judges the proxy, and writes go.sum.
    own = {"GOPROXY": sources.proxy, "GOSUMDB": "off", "GOFLAGS": "-modcacherw", "GOMODCACHE": str(tmp_path / "modules")}
    own |= {"GOCACHE": str(tmp_path / "built")}
    tidy = subprocess.run(["go", "mod", "tidy"], cwd=made, env={**os.environ, **own}, capture_output=True, text=True)
    assert tidy.returncode == 0, tidy.stderr
    files = {path.name: path.read_bytes() for path in made.iterdir()}
    assert files["go.sum"].decode() == SUM
    store = PackageStore(tmp_path / "packages", IndexAccess((), frozenset()), upstreams=Upstreams("", sources.proxy))
    try:
        async with LocalSandboxes(tmp_path / "open", store).open("go") as sandbox:
            await sandbox.unpack(tarball(files))
            await sandbox.install(Packages(go_modules=(".",)))
            async with sandbox.candidate() as workspace:
                ended = await workspace.run(Command(("/usr/bin/env", "go", "test", "./..."), 120.0))
                assert ended.exit_code == 0, (ended.stdout + ended.stderr).decode()
    except SandboxUnavailable as missing:
        pytest.skip(f"needs bubblewrap: {missing}")
