"""`FormData`, `File` and `Blob`: read from a body, filled and sent."""

from __future__ import annotations

from typing import Any

import pytest

from wrangler_compat.worker.blob import Blob, File
from wrangler_compat.worker.form import FormData
from wrangler_compat.worker.http import Request, Response


async def test_a_url_encoded_form_is_read() -> None:
    request = Request(
        "http://x/",
        method="POST",
        headers={"content-type": "application/x-www-form-urlencoded"},
        body="a=1&b=x+y&a=2&empty=",
    )
    form = await request.form_data()
    expected = [("a", "1"), ("b", "x y"), ("a", "2"), ("empty", "")]
    assert list(form.items()) == expected
    assert list(form) == list(form.keys()) == [name for name, _ in expected]
    assert list(form.values()) == [value for _, value in expected]
    assert (len(form), form["a"]) == (4, "1")
    assert form["absent"] is None
    assert form.get("absent") is None
    assert "absent" not in form
    assert form.get_all("a") == ["1", "2"]
    assert form.get_all("absent") == []


async def test_a_multipart_form_is_read_with_its_files() -> None:
    body = (
        '--sep\r\ncontent-disposition: form-data; name="note"\r\n\r\nhé\r\n'
        '--sep\r\ncontent-disposition: form-data; name="photo"; filename="p.bin"\r\n'
        "content-type: image/png\r\n\r\n\x00\n\r\n--sep--\r\n"
    ).encode()
    headers = {"content-type": "multipart/form-data; boundary=sep"}
    form = await Request("http://x/", method="POST", headers=headers, body=body).form_data()
    assert list(form) == ["note", "photo"]
    assert form["note"] == "hé"
    photo = form["photo"]
    assert isinstance(photo, File)
    assert (photo.name, photo.content_type, photo.size) == ("p.bin", "image/png", 2)
    assert photo.type == "image/png"
    assert await photo.bytes() == b"\x00\n"
    assert await photo.text() == "\x00\n"


async def test_a_body_that_is_no_form_is_refused() -> None:
    with pytest.raises(TypeError, match="'text/plain;charset=UTF-8'"):
        await Request("http://x/", method="POST", body="x").form_data()


@pytest.mark.parametrize(
    ("content_type", "body", "problem"),
    [
        ("multipart/form-data", "--x--", "names no boundary"),
        ("multipart/form-data; boundary=x", "--x\r\na: b\r\n\r\n1\r\n--x--", "has no name"),
        ("multipart/form-data; boundary=x", "--x\r\n", "has no name"),
        ("multipart/form-data; boundary=x", "", "ends before its last boundary"),
    ],
)
async def test_a_multipart_body_that_is_broken_is_refused(
    content_type: str, body: str, problem: str
) -> None:
    headers = {"content-type": content_type}
    request = Request("http://x/", method="POST", headers=headers, body=body)
    with pytest.raises(TypeError, match=problem):
        await request.form_data()


def test_a_form_is_filled_as_a_dictionary_and_by_append() -> None:
    form = FormData({"key": "foobar"})
    form.append("key", "another")
    form.append("n", 5)
    assert list(form.items()) == [("key", "foobar"), ("key", "another"), ("n", "5")]
    form["new"] = "x"
    form["key"] = "only"
    assert list(form.items()) == [("key", "only"), ("n", "5"), ("new", "x")]
    del form["n"]
    form.delete("absent")
    assert dict(form) == {"key": "only", "new": "x"}
    assert list(FormData(form).items()) == list(form.items())


def test_what_is_no_field_or_no_form_is_refused() -> None:
    form: Any = FormData()
    with pytest.raises(TypeError, match="'a' is a text, a number or a blob, not list"):
        form["a"] = ["1", "2"]
    not_a_form: Any = "a=1"
    with pytest.raises(TypeError, match="a dict or an instance of FormData"):
        FormData(not_a_form)


EVERY_BYTE = bytes(range(256)) + b"\r\n--x\r\n\n\r"


def response_of(form: FormData) -> Response:
    return Response(form)


def request_of(form: FormData) -> Request:
    return Request("http://x/", method="POST", body=form)


@pytest.mark.parametrize("message", [response_of, request_of])
async def test_a_form_is_sent_as_multipart_and_read_back(message: Any) -> None:
    form = FormData({'na"me\n': "vàlue\r\n", "é": ""})
    form.append("file", File(EVERY_BYTE, "ü.eml", "message/rfc822"))
    form.append("file", Blob(b"1", "image/png"), "two.png")
    form.append("blob", Blob("3"))
    sent = message(form)
    assert sent.headers["content-type"].startswith("multipart/form-data; boundary=----form-")
    read = await sent.form_data()
    assert list(read) == ['na"me\n', "é", "file", "file", "blob"]
    assert (read['na"me\n'], read["é"]) == ("vàlue\r\n", "")
    files = [read["file"], read.get_all("file")[1], read["blob"]]
    assert [(each.name, each.content_type) for each in files] == [
        ("ü.eml", "message/rfc822"),
        ("two.png", "image/png"),
        ("blob", "application/octet-stream"),
    ]
    assert [await each.bytes() for each in files] == [EVERY_BYTE, b"1", b"3"]


async def test_a_blob_is_made_of_parts_and_cut() -> None:
    blob = Blob(["hé", b"llo", Blob("!")], "Text/Plain")
    assert (blob.content_type, blob.size, await blob.text()) == ("text/plain", 7, "héllo!")
    assert await blob.slice(-4, -1, "a/b").text() == "llo"
    assert Blob(blob).content_type == "text/plain"
    assert Blob([blob]).content_type == ""
    parts: Any = [1]
    with pytest.raises(TypeError, match="Don't know how to handle int"):
        Blob(parts)


async def test_a_file_is_a_blob_with_a_name() -> None:
    file = File("my file", filename="t.txt", content_type="text/plain", last_modified=7)
    assert (file.name, file.content_type, file.last_modified) == ("t.txt", "text/plain", 7)
    assert (File(file, "other").last_modified, File(file, "other").content_type) == (
        7,
        "text/plain",
    )
    assert await file.slice(0, 2).bytes() == b"my"


async def test_a_blob_as_a_body_brings_its_content_type() -> None:
    response = Response(Blob("x", "a/b"))
    assert (response.headers["content-type"], await response.text()) == ("a/b", "x")
    assert Response(Blob(b"x")).headers["content-type"] is None
