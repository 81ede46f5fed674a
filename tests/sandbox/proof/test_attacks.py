"""Attacks that must not take for held what they could not try, as they are run inside."""

from __future__ import annotations

import importlib
import io
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from sandbox.proof.prove import PACKAGE, attacks_bundle


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """A module of the attacks, by its name."""
    bundle = tmp_path / "proof.pyz"
    bundle.write_bytes(attacks_bundle())
    monkeypatch.syspath_prepend(str(bundle))
    yield lambda name: importlib.import_module(f"{PACKAGE}.{name}")
    for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
        del sys.modules[name]


@pytest.fixture
def network(inside: Callable[[str], ModuleType]) -> ModuleType:
    return inside("network")


@pytest.fixture
def silent(network: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """No way to any name server, and nobody on the own loopback."""
    monkeypatch.setattr(network, "NOBODYS", "255.255.255.255")  # refused without asking
    monkeypatch.setattr(network, "OWN_LOOPBACK", ())
    return network


def test_an_environment_that_cannot_be_read_is_protected(
    inside: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = inside("worker")

    def content(path: str) -> bytes:
        raise PermissionError(path)

    monkeypatch.setattr(worker, "content", content)
    assert worker.first_environment({"token": "t"}) == (True, "/proc/1/environ cannot be read")


def test_an_attack_that_breaks_says_so_and_the_others_still_run(
    inside: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = inside("__main__")
    monkeypatch.setattr(sys, "argv", ["proof.pyz"])
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"attacks": ["shared memory", "core dumps"]}'))
    main.main()
    broken, other = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert broken == {"attack": "shared memory", "broken": "KeyError: 'segment'"}
    assert other["held"] in (True, False)


def test_a_lookup_without_an_end_is_no_proof(silent: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(silent, "LOOKUP_SECONDS", 0.05)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [answered.wait(30)])
    held, _ = silent.name_service({"resolvers": []})
    answered.set()
    assert held is None


@pytest.mark.parametrize("answers", [True, False])
def test_whoever_takes_questions_for_names_is_found(network: ModuleType, answers: bool) -> None:
    """Also one that says nothing: it may have asked somebody."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)

        def serve() -> None:
            question, peer = server.recvfrom(512)
            if answers:
                server.sendto(question, peer)

        serving = threading.Thread(target=serve)
        serving.start()
        assert network.resolves("127.0.0.1", server.getsockname()[1])
        serving.join(10)
    assert not network.resolves("127.0.0.1", free_port())


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
