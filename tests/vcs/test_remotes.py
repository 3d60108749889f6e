from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasefs.vcs.errors import BadRemoteUrl
from leasefs.vcs.remotes import local_name, normalise_remote_url


@pytest.mark.parametrize(
    "url",
    [
        "git@github.com:o/r.git",
        "github.com:o/r",
        "git@github.com:/o/r.git/",
        "[git@github.com:22]:o/r.git",
        "https://github.com/o/r",
        "https://github.com/o/r.git",
        "https://github.com/o/r/",
        "https://GitHub.COM./o/r.git/",
        "https://user:p%40ss@github.com:443/o//r.git",
        "http://github.com/o/r",
        "ssh://git@github.com/o/r.git",
        "ssh://git@github.com:2222/o/r.git",
        "ssh://git@ssh.github.com:443/o/r.git",
        "git+ssh://git@github.com/o/r",
        "git://github.com/o/r.git",
        "SSH://github.com/%6f/r",
    ],
)
def test_every_spelling_of_one_repository_meets(url: str) -> None:
    assert normalise_remote_url(url) == "github.com/o/r"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://gitlab.example/group/sub/Project.git", "gitlab.example/group/sub/Project"),
        ("ssh://git@[2001:DB8::1]:22/r.git", "[2001:db8::1]/r"),
        ("git@[::1]:r.git", "[::1]/r"),
        ("[::1]:r.git", "[::1]/r"),
        ("ssh://host/~me/r.git", "host/~me/r"),
        ("/srv/git/r.git", "path:/srv/git/r"),
        ("/srv/git/r/.git", "path:/srv/git/r"),
        ("file:///srv/git/r%20s.git/", "path:/srv/git/r s"),
        ("/srv/a:b", "path:/srv/a:b"),
        ("/srv/git/./x/../r", "path:/srv/git/r"),
        ("//[::", "path:/[::"),
        ("../r.git", "../r.git"),
        ("ext::ssh -i key host %S r", "ext::ssh -i key host %S r"),
    ],
)
def test_forms(url: str, name: str) -> None:
    assert normalise_remote_url(url) == name


def test_different_repositories_stay_apart() -> None:
    urls = [
        "git@h:a/b",
        "git@h:a/c",
        "git@g:a/b",
        "git@h:A/b",
        "/a/b",
        "https://h/a/b/c",
        "h:a/b.git.git",
    ]
    assert len({normalise_remote_url(url) for url in urls}) == len(urls)


@pytest.mark.parametrize(
    "url", ["", "https:///o/r", "https://h/a%0ab", "h:a\nb", "https://h/\x7f", "h:" + "a" * 3000]
)
def test_what_names_nothing_is_refused(url: str) -> None:
    with pytest.raises(BadRemoteUrl):
        normalise_remote_url(url)


@given(st.text(max_size=60))
def test_any_text_gives_a_name_or_the_typed_error(url: str) -> None:
    try:
        name = normalise_remote_url(url)
    except BadRemoteUrl:
        return
    assert name
    assert not any(ord(mark) < 32 for mark in name)


@given(st.from_regex(r"[a-z]{1,5}(/[a-z]{1,5}){1,3}", fullmatch=True))
def test_a_path_and_a_clone_made_from_it_meet(path: str) -> None:
    assert (
        normalise_remote_url(f"/{path}.git")
        == normalise_remote_url(f"file:///{path}")
        == local_name("/" + path)
    )
