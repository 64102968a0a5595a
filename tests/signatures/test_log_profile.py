"""The log profile: lines of one log statement share a key, lines of two do not."""

from collections import defaultdict

import pytest

from memory.signatures import error_signature, log_signature

STATEMENTS = {
    "accepted": ["Accepted connection from 10.0.0.1:51234", "Accepted connection from 192.0.2.7:40001"],
    "closed": ["session closed for user root", "session closed for user www-data"],
    "job": ["job 17 finished in 32 ms", "job 99812 finished in 1.5 seconds"],
    "block": ["Received block blk_38865049064139660 of size 67108864", "Received block blk_-12345678901 of size 91"],
    "block sent": ["Sent block blk_38865049064139660 of size 67108864"],
    "config": ["loaded config path=/etc/app/a.toml retries=3", "loaded config path=C:\\app\\b.toml retries=12"],
    "request": ['10.0.0.1 "GET /v2/54fadb41 HTTP/1.1" status: 200', '10.0.0.9 "GET /v1/x HTTP/1.1" status: 404'],
    "mac": ["lease for 00:11:43:e3:ba:c3 via eth1 expired", "lease for aa:bb:43:e3:ba:00 via eth0 expired"],
    "sync": ["clock set at Sun Jul 3 10:05:25 2005", "clock set at Fri Jun 17 07:07:00 2005"],
    "url": ["fetched https://example.org/a?b=1 for tenant=acme", "fetched http://example.net/ for tenant=other"],
    "lights on": ["setLightsOn(true)"],
    "lights off": ["setLightsOn(false)"],
}  # fmt: skip


@pytest.mark.parametrize("name", STATEMENTS)
def test_lines_of_one_statement_share_a_key(name: str) -> None:
    assert len({log_signature(line) for line in STATEMENTS[name]}) == 1


def test_lines_of_two_statements_never_share_a_key() -> None:
    names = defaultdict(set)
    for name, lines in STATEMENTS.items():
        for line in lines:
            names[log_signature(line)].add(name)
    assert [found for found in names.values() if len(found) > 1] == []


def test_the_two_profiles_never_share_a_key() -> None:
    assert log_signature("disk full") != error_signature("disk full")
