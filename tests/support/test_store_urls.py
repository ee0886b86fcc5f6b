"""Texts that name stores: what each means, and what is refused without showing a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import ValidationError
from orchestrator.support.store_urls import (
    DynamoUrl,
    MemoryUrl,
    PostgresUrl,
    SqliteUrl,
    parse_store,
    resolve_store,
)

SECRET = "canary-p4ssword"


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("memory:", MemoryUrl()),
        ("s.sqlite", SqliteUrl(Path("s.sqlite"))),
        ("a:b/s.sqlite", SqliteUrl(Path("a:b/s.sqlite"))),
        (":memory:", SqliteUrl(Path(":memory:"))),
        (Path("memory:"), SqliteUrl(Path("memory:"))),
        ("sqlite:///state.sqlite", SqliteUrl(Path("state.sqlite"))),
        ("sqlite:////var/a%20b.sqlite", SqliteUrl(Path("/var/a b.sqlite"))),
        ("dynamodb://Sessions", DynamoUrl("Sessions")),
        (
            "dynamodb://t.1?region=eu-central-1&endpoint_url=http%3A%2F%2F127.0.0.1%3A8000&ttl_days=9",
            DynamoUrl("t.1", "eu-central-1", "http://127.0.0.1:8000", None, 9),
        ),
    ],
)
def test_what_a_name_means(name: str | Path, url: object) -> None:
    assert parse_store(name) == url


def test_a_url_of_postgresql_keeps_its_password_to_itself() -> None:
    url = parse_store(f"postgres://ann:{SECRET}@db.example:5433/agents?pool_size=3&sslmode=require")
    assert isinstance(url, PostgresUrl)
    assert url.conninfo == f"postgresql://ann:{SECRET}@db.example:5433/agents?sslmode=require"
    assert (url.display_name, url.pool_size) == (
        "postgresql://ann:[redacted]@db.example:5433/agents",
        3,
    )
    assert url.secrets == (SECRET,)
    assert SECRET not in repr(url)


def test_the_password_may_be_a_parameter() -> None:
    url = parse_store(f"postgresql:///agents?host=/run/pg&user=ann&password={SECRET}")
    assert isinstance(url, PostgresUrl)
    assert (url.display_name, url.secrets) == ("postgresql:///agents", (SECRET,))


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("ann@a:5432,b:5433/d", "ann@a:5432,b:5433/d"),
        ("ann:p%40%2Fw@[::1]:5432/d", "ann:[redacted]@[::1]:5432/d"),
        ("/d?host=%2Frun%2Fpg&user=ann%40corp", "/d"),
    ],
)
def test_every_form_of_libpq_is_read(given: str, shown: str) -> None:
    url = parse_store(f"postgresql://{given}")
    assert isinstance(url, PostgresUrl)
    assert (url.conninfo, url.display_name) == (
        f"postgresql://{given}",
        f"postgresql://{shown}",
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("redis://h/0", "no stores of the kind 'redis'"),
        (f"mysql://ann:{SECRET}@h/d", "no stores of the kind 'mysql'"),
        ("memory:x", "write memory:"),
        ("sqlite:state.sqlite", "sqlite:///state.sqlite"),
        ("sqlite://state.sqlite", "sqlite:///state.sqlite"),
        ("sqlite:///s.sqlite?mode=ro", "no parameters"),
        ("dynamodb://a/b", "named by its table"),
        (f"dynamodb://ann:{SECRET}@table", "named by its table"),
        ("dynamodb://table?regoin=eu-central-1", "'regoin'; it has region, endpoint_url"),
        ("dynamodb://table?region=EU%0A", "no name of a region"),
        ("dynamodb://table?region=a&region=b", "'region' of a 'dynamodb' URL once"),
        (f"dynamodb://table?endpoint_url=http://a:{SECRET}@h", "without a name and a password"),
        ("dynamodb://table?ttl_days=0", "ttl_days must be a whole number from 1 to 3650"),
        (f"postgresql://ann:{SECRET}@[::1/d", "percent-encode"),
        (f"postgresql://ann:{SECRET}/x@h/d", "percent-encode"),
        (f"postgresql://ann:x/{SECRET}@h/d", "percent-encode"),
        (f"postgresql://ann:{SECRET}#x@h/d", "percent-encode"),
        (f"postgresql://ann:x#{SECRET}@h/d", "percent-encode"),
        (f"postgresql://ann:{SECRET}?x=y@h/d", "percent-encode"),
        (f"postgresql://ann:x@{SECRET}/y@h/d", "percent-encode"),
        (f"postgresql://ann:x@{SECRET}?y=z@h/d", "percent-encode"),
        (f"postgresql://ann:x@{SECRET}@h/d", "percent-encode"),
        (f"postgresql://ann:x:{SECRET}@h/d", "percent-encode"),
        (f"postgresql://ann:{SECRET}%2@h/d", "percent-encode"),
        (f"postgresql://ann:{SECRET}/d", "percent-encode"),
        (f"postgresql://ann:{SECRET} x@h/d", "percent-encode"),
        (f"postgresql:host=h password={SECRET}", "write postgresql://user:password@host"),
        (f"postgres:/ann:{SECRET}@h/d", "write postgresql://user:password@host"),
        (f"postgresql://ann:{SECRET}@h/d?pool_size=many", "pool_size must be"),
        ("postgresql://h/" + "x" * 5000, "too long"),
        ("postgresql://h/d\n", "control characters"),
    ],
)
def test_what_is_refused_and_how_it_should_be(name: str, words: str) -> None:
    with pytest.raises(ValidationError) as raised:
        parse_store(name)
    assert words in str(raised.value)
    assert SECRET not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_path_is_made_absolute_and_a_url_stays(tmp_path: Path) -> None:
    assert resolve_store("s.sqlite", tmp_path) == tmp_path.resolve() / "s.sqlite"
    assert resolve_store("sqlite:///s.sqlite", tmp_path) == tmp_path.resolve() / "s.sqlite"
    assert resolve_store("dynamodb://table") == "dynamodb://table"
    assert resolve_store(":memory:") == ":memory:"
