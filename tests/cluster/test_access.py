"""What a crawl on Ray makes for itself: a secret, a certificate, the address it is reached at."""

from __future__ import annotations

from pathlib import Path

import pytest

from irlcrawl.cluster import access, tcp
from irlcrawl.config.keys import Cluster, ConfigError


def test_what_is_not_given_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    keys = access.filled(Cluster(ray="127.0.0.1:6379"), tmp_path)
    place, secret, tls = tcp.check(keys)
    assert place == ("127.0.0.1", access.PORT) and tls is not None and len(secret) == 64
    assert {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "cluster").iterdir()} == dict.fromkeys(
        ("secret", "cert.pem", "key.pem"), 0o600
    )
    assert access.filled(Cluster(ray="127.0.0.1:6379"), tmp_path) == keys and tcp.check(keys)[1] == secret
    tcp.client_tls(keys.tls_cert)


def test_what_is_given_stays(tmp_path: Path) -> None:
    given = Cluster(ray="127.0.0.1:6379", listen="10.0.0.1:1", token_file="a", tls_cert="b", tls_key="c")
    assert access.filled(given, tmp_path) == given and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("listen", "reached"),
    [("10.0.0.1:7117", "10.0.0.1:7117"), ("0.0.0.0:7117", "127.0.0.1:7117"), ("a.test:7", "a.test:7")],
)
def test_machines_reach_a_crawl_that_listens_everywhere_where_it_asks_ray(listen: str, reached: str) -> None:
    assert access.reached_at(Cluster(ray="127.0.0.1:6379", listen=listen)) == reached


def test_crawls_of_one_name_are_told_apart(tmp_path: Path) -> None:
    made = set()
    for number in range(2):
        job = tmp_path / str(number) / "my crawl"
        job.mkdir(parents=True)
        made.add(access.crawl_id(job, access.filled(Cluster(ray="127.0.0.1:1"), job)))
    assert len(made) == 2 and all(name.startswith("my_crawl-") for name in made)


def test_an_address_without_a_port_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="takes HOST:PORT"):
        access.filled(Cluster(ray="auto"), tmp_path)
