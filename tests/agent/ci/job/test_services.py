"""What a job's `services:` come to."""

import pytest

from agent.ci.job.services import read_services
from agent.contract.verdicts import Service

POSTGRES = {"image": "postgres:16-alpine", "env": {"POSTGRES_PASSWORD": "secret", "POSTGRES_DB": None}, "ports": ["5432:5432"]}


def test_a_service_is_known_by_its_image_and_listens_where_the_steps_look_for_it() -> None:
    wanted = read_services({"db": POSTGRES, "cache": {"image": "redis", "ports": ["6380:6379/tcp"]}})
    assert wanted.services == (
        Service("postgresql", 5432, "db", "postgres:16-alpine", {"POSTGRES_PASSWORD": "secret", "POSTGRES_DB": ""}),
        Service("redis", 6380, "cache", "redis"),
    )
    assert (wanted.refusals, wanted.notes, wanted.sentence) == ({}, (), "")
    assert wanted.ports == {"db": {"ports": {"5432": "5432"}}, "cache": {"ports": {"6379": "6380"}}}


@pytest.mark.parametrize(
    ("image", "kind"),
    [
        ("docker.io/library/postgres:16@sha256:00ff", "postgresql"),
        ("localhost:5000/postgres", "postgresql"),
        ("postgis/postgis:15-3.3", "postgresql"),
        ("pgvector/pgvector:pg16", "postgresql"),
        ("bitnami/postgresql", "postgresql"),
        ("mysql:8.0", "mysql"),
        ("mariadb:10.11", "mysql"),
        ("valkey/valkey:8", "redis"),
        ("public.ecr.aws/docker/library/redis:7", "redis"),
    ],
)
def test_images_that_a_server_here_can_stand_for(image: str, kind: str) -> None:
    assert [service.kind for service in read_services({"it": image}).services] == [kind]


def test_other_images_are_refused_by_name() -> None:
    wanted = read_services({"db": POSTGRES, "search": {"image": "elasticsearch:8.1"}, "stack": "redis/redis-stack-server"})
    assert list(wanted.refusals) == ["search", "stack"]
    assert wanted.sentence == (
        "The job needs services that the sandbox does not have: search (elasticsearch:8.1 is not supported), "
        "stack (redis/redis-stack-server is not supported)."
    )


def test_what_differs_from_the_image_is_told() -> None:
    asked = {
        "image": "postgis/postgis:15-3.3",
        "ports": ["5432:5432", "5433:5432"],
        "volumes": ["./sql:/docker-entrypoint-initdb.d"],
    }
    assert read_services({"db": asked, "cache": "acme/redis"}).notes == (
        "service db: only its port 5432 is reachable, on port 5432",
        "service db: the extension PostGIS of postgis/postgis:15-3.3 may be missing",
        "service db: its volumes are ignored",
        "service cache: the workflow maps no ports for it; it listens on 6379",
        "service cache: acme/redis is treated as a plain redis",
    )


def test_ports_that_github_would_choose_differ() -> None:
    wanted = read_services({"one": {"image": "redis", "ports": [6379]}, "two": {"image": "redis", "ports": ["6379"]}})
    assert len({service.port for service in wanted.services}) == 2
    assert wanted.ports["two"]["ports"] == {"6379": str(wanted.services[1].port)}


def test_in_a_container_s_job_a_service_has_its_own_port() -> None:
    wanted = read_services({"db": {**POSTGRES, "ports": ["9999:5432"]}}, in_container=True)
    assert [(service.host, service.port) for service in wanted.services] == [("db", 5432)]


def test_two_services_on_one_port_are_not_both_had() -> None:
    wanted = read_services({"one": {"image": "redis", "ports": ["1:6379"]}, "two": {"image": "mysql", "ports": ["1:3306"]}})
    assert wanted.refusals == {"two": "another service uses port 1"}


@pytest.mark.parametrize("ports", [["0:6379"], ["70000:6379"], ["6000-6010:6379"], [{"a": 1}], "x", ["53:53/udp"]])
def test_ports_that_are_none_are_refused(ports: object) -> None:
    assert "its ports cannot be read" in read_services({"cache": {"image": "redis", "ports": ports}}).sentence


def test_variables_and_passwords_may_stand_on_the_command_line() -> None:
    asked = {
        "image": "redis",
        "options": "--health-cmd 'redis-cli ping' -e A=1 --env=B=2",
        "command": "redis-server --requirepass pw",
    }
    assert read_services({"cache": asked}).services[0].env == {"A": "1", "B": "2", "REDIS_PASSWORD": "pw"}
    bitnami = {"image": "bitnami/postgresql", "env": {"POSTGRESQL_USERNAME": "me"}}
    assert read_services({"db": bitnami}).services[0].env == {"POSTGRES_USER": "me"}


@pytest.mark.parametrize("mapping", [None, {}, {"cache": {"image": ""}}, {"cache": None}])
def test_nothing_wanted_is_nothing_told(mapping: object) -> None:
    assert read_services(mapping) == read_services({})


@pytest.mark.parametrize("mapping", ["redis", [1], {str(n): "redis" for n in range(30)}])
def test_what_is_no_mapping_or_too_much_is_refused(mapping: object) -> None:
    assert read_services(mapping).sentence


def test_hostile_values_do_no_harm() -> None:
    asked = {"image": "redis\n\x1b[31m", "env": [1], "options": "'", "ports": None, 3: object()}
    assert read_services({"a\nb": asked, 5: {"image": ["redis"]}}).services[0].name == "a"
