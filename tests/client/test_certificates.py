"""Until when a certificate is good: read of those that are over, too."""

from __future__ import annotations

import contextlib
import ssl
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasefs.client.certificates import SOON_S, file_good_until_s, good_until_s, soon_over
from leasefs.testing.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path


def _as_openssl_says(path: str) -> float:
    said = subprocess.run(
        ["openssl", "x509", "-noout", "-enddate", "-in", path],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(ssl.cert_time_to_seconds(said.stdout.strip().removeprefix("notAfter=")))


@pytest.mark.parametrize("days", [-400.0, 0.5, 13.0, 400.0, 365.25 * 60])  # the last beyond 2049
def test_it_is_what_openssl_says(tmp_path: Path, days: float) -> None:
    leaf = Authority(str(tmp_path)).leaf(days=days)
    assert file_good_until_s(leaf.certificate) == _as_openssl_says(leaf.certificate)


def test_of_a_chain_it_is_the_first_to_end(tmp_path: Path) -> None:
    authority = Authority(str(tmp_path))
    short, long = authority.leaf(label="short", days=3), authority.leaf(label="long", days=900)
    chain = tmp_path / "chain.pem"
    with open(long.certificate) as first, open(short.certificate) as second:
        chain.write_text("leaf\n" + first.read() + "and between\n" + second.read())
    assert file_good_until_s(str(chain)) == file_good_until_s(short.certificate)


def test_the_key_may_stand_in_the_same_file(tmp_path: Path) -> None:
    leaf = Authority(str(tmp_path)).leaf(days=3)
    whole = tmp_path / "whole.pem"
    with open(leaf.key) as key, open(leaf.certificate) as certificate:
        whole.write_text(key.read() + certificate.read())
    assert file_good_until_s(str(whole)) == file_good_until_s(leaf.certificate)


@pytest.mark.parametrize(
    "content", ["", "nothing", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"]
)
def test_what_holds_none_is_told(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.pem"
    path.write_text(content)
    with pytest.raises(ValueError, match="certificate"):
        file_good_until_s(str(path))


@given(st.data())
def test_bytes_of_any_kind_do_no_harm(data: st.DataObject) -> None:
    with contextlib.suppress(ValueError):
        good_until_s(data.draw(st.binary(max_size=64)))


@given(at=st.integers(0, 400), cut=st.integers(0, 900), byte=st.integers(0, 255))
def test_a_broken_one_does_no_harm(der: bytes, at: int, cut: int, byte: int) -> None:
    broken = bytearray(der[: len(der) - cut])
    if at < len(broken):
        broken[at] = byte
    with contextlib.suppress(ValueError):
        good_until_s(bytes(broken))


@pytest.fixture(scope="module")
def der(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    leaf = Authority(str(tmp_path_factory.mktemp("der"))).leaf()
    with open(leaf.certificate) as file:
        return ssl.PEM_cert_to_DER_cert(file.read())


def test_what_is_soon_over_is_said_in_time() -> None:
    until_s = 1_800_000_000.0
    assert not soon_over(until_s, until_s - SOON_S - 1)
    assert soon_over(until_s, until_s - SOON_S) == "expires on 2027-01-15 08:00 UTC"
    assert soon_over(until_s, until_s) == "has expired on 2027-01-15 08:00 UTC"
