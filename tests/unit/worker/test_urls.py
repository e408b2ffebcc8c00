"""URLs as JavaScript writes them."""

from __future__ import annotations

import pytest

from wrangler_compat.worker.url import normalised


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://t.com", "https://t.com/"),
        ("https://t.com?a=1", "https://t.com/?a=1"),
        (" HTTP://T.com:80/A\n", "http://t.com/A"),
        ("https://t.com:8443/a/../b/./c/..", "https://t.com:8443/b/"),
        ("https://t.com/../%2E%2e/a//b/", "https://t.com/a//b/"),
        ("https://u:p@t.com/", "https://u:p@t.com/"),
        ("http://[::1]:8787/x", "http://[::1]:8787/x"),
        (
            "https://t.com/a b/é?q=ü x&r='#f g",
            "https://t.com/a%20b/%C3%A9?q=%C3%BC%20x&r=%27#f%20g",
        ),
        ("https://t.com/a%2Fb%20c?d=%C3%A9", "https://t.com/a%2Fb%20c?d=%C3%A9"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("data:text/plain,x", "data:text/plain,x"),
    ],
)
def test_a_url_is_written_as_javascript_writes_it(url: str, expected: str) -> None:
    assert normalised(url) == expected
    assert normalised(expected) == expected


@pytest.mark.parametrize(
    "url", ["", "/x", "t.com", "https://", "http://a:b/", "http://a b/", "//t.com/"]
)
def test_what_is_no_absolute_url_is_refused(url: str) -> None:
    with pytest.raises(TypeError) as caught:
        normalised(url)
    assert str(caught.value) == f"Invalid URL: {url}"
