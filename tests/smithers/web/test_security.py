"""Each way in is tried: by another name, from another page, without the token, as a form."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from smithers import SmithersDB
from smithers.web.security import POLICY
from smithers.web.server import LiveView, Options, is_loopback, listening, names_of
from tests.smithers.web.browser import Browser, browsing, serving

PATHS = ("/", "/static/app.js", "/events?topic=state", "/api/commits", "/api/value?key=phase")
ORDERS = ("restore", "approve", "deny", "retry", "cancel")
WRITING = (
    "DELETE FROM state",
    "UPDATE state SET value = '2'",
    "INSERT INTO state (key, value) VALUES ('a', '1') RETURNING *",
    "WITH a AS (SELECT 1) INSERT INTO state (key, value) SELECT 'a', '1' FROM a",
    "CREATE TABLE t (a)",
    "CREATE TEMP TABLE t (a)",
    "DROP TABLE state",
    "ATTACH 'evil.db' AS evil",
    "VACUUM INTO 'evil.db'",
    "PRAGMA user_version = 7",
    "PRAGMA query_only = OFF",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA writable_schema = ON",
    "BEGIN IMMEDIATE",
    "SELECT load_extension('evil')",
    "SELECT 1; DELETE FROM state",
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
    "SELECT length(hex(zeroblob(500000000)))",
)


@pytest.fixture
async def writing(db: SmithersDB, path: Path) -> AsyncIterator[Browser]:
    """A browser at a view that may change something."""
    async with serving(path, allow_write=True) as view, browsing(view) as opened:
        yield opened


@pytest.fixture
async def stranger(browser: Browser) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody without the cookie."""
    async with httpx.AsyncClient(base_url=browser.base, timeout=20) as client:
        yield client


async def test_nothing_is_shown_without_the_token(stranger: httpx.AsyncClient) -> None:
    for address in PATHS:
        answer = await stranger.get(address)
        assert answer.status_code == 401, address
        assert "printed" in answer.text


async def test_a_wrong_token_gives_no_cookie(stranger: httpx.AsyncClient) -> None:
    for token in ("", "wrong", "é", "0" * 43):
        answer = await stranger.get("/", params={"token": token})
        assert answer.status_code == 401, token
        assert "set-cookie" not in answer.headers


async def test_a_wrong_cookie_is_no_cookie(stranger: httpx.AsyncClient, browser: Browser) -> None:
    (name,) = browser.client.cookies
    for text in (f"{name}=wrong", f"{name}=", "=;;=\x01", f"other={browser.url.split('=')[1]}"):
        answer = await stranger.get("/", headers={"Cookie": text})
        assert answer.status_code == 401, text


async def test_a_name_of_somebody_else_that_leads_here_is_not_served(browser: Browser) -> None:
    for address in (*PATHS, "/?token=wrong", browser.url.removeprefix(browser.base)):
        for host in ("evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1"):
            answer = await browser.get(address, headers={"Host": host})
            assert answer.status_code == 421, (address, host)
            assert "set-cookie" not in answer.headers


async def test_the_names_of_this_machine_are_served(browser: Browser) -> None:
    port = browser.base.rpartition(":")[2]
    for host in (f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"):
        assert (await browser.get("/", headers={"Host": host})).status_code == 200, host


async def test_pages_of_other_origins_get_nothing_in_spite_of_the_cookie(
    browser: Browser,
) -> None:
    for address in PATHS:
        for origin in ("http://evil.example", "null", "https://127.0.0.1"):
            answer = await browser.get(address, headers={"Origin": origin})
            assert answer.status_code == 403, (address, origin)
            assert "access-control-allow-origin" not in answer.headers


async def test_what_a_browser_says_is_asked_by_another_site_is_refused(browser: Browser) -> None:
    for address in PATHS:
        for site in ("cross-site", "same-site"):
            answer = await browser.get(address, headers={"Sec-Fetch-Site": site})
            assert answer.status_code == 403, (address, site)


async def test_a_link_on_another_site_with_the_token_leads_to_the_view(
    stranger: httpx.AsyncClient, browser: Browser
) -> None:
    answer = await stranger.get(browser.url, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 200
    assert answer.headers["refresh"] == "0; url=/", "a redirection would go without the cookie"
    assert (await stranger.get("/")).status_code == 200


async def test_every_answer_says_what_browsers_may_do_with_it(browser: Browser) -> None:
    for path in ("/", "/static/app.js", "/api/commits", "/nothing", "/api/value"):
        answer = await browser.get(path)
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
    assert "unsafe" not in POLICY


async def test_nothing_is_written_unless_that_was_allowed(view: LiveView, browser: Browser) -> None:
    (cookie,) = browser.client.cookies.values()
    for name in ORDERS:
        for token in ("", cookie, view.write_token):
            answer = await browser.post(f"/api/{name}", {}, **{"X-Smithers-Token": token})
            assert answer.status_code == 403, name


async def test_a_form_of_another_page_is_refused(writing: Browser) -> None:
    form: dict[str, Any] = {"data": {"id": "t1"}}
    plain: dict[str, Any] = {
        "content": json.dumps({"seq": 1, "now": 1}),
        "headers": {"Content-Type": "text/plain"},
    }
    evil: dict[str, Any] = {
        "json": {"seq": 1, "now": 1},
        "headers": {"Origin": "http://evil.example", "X-Smithers-Token": writing.token},
    }
    for name in ORDERS:
        for sent, status in ((form, 415), (plain, 415), (evil, 403)):
            answer = await writing.client.post(f"{writing.base}/api/{name}", **sent)
            assert answer.status_code == status, (name, sent)


async def test_an_order_needs_the_token_of_the_page(writing: Browser, db: SmithersDB) -> None:
    db.state.set("phase", "one")
    second = db.state.set("phase", "two")
    body = {"seq": 1, "now": second.seq}
    (cookie,) = writing.client.cookies.values()
    for token in ("", "wrong", cookie):
        answer = await writing.post("/api/restore", body, **{"X-Smithers-Token": token})
        assert answer.status_code == 403
    assert db.state.get("phase") == "two"
    assert (await writing.post("/api/restore", body)).status_code == 200
    assert db.state.get("phase") == "one"


async def test_an_order_that_is_too_long_is_refused(writing: Browser) -> None:
    assert (await writing.post("/api/deny", {"id": "x" * 70_000})).status_code == 413

    async def parts() -> AsyncIterator[bytes]:
        yield b"{}"

    answer = await writing.client.post(
        writing.base + "/api/deny",
        content=parts(),
        headers={"Content-Type": "application/json", "X-Smithers-Token": writing.token},
    )
    assert answer.status_code == 413, "one that does not say how long it is"


async def test_other_methods_are_refused(browser: Browser) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        answer = await browser.client.request(method, browser.base + "/api/restore")
        assert answer.status_code == 405, method


async def test_no_path_leads_out_of_the_pages(browser: Browser) -> None:
    (cookie,) = browser.client.cookies.items()
    port = int(browser.base.rpartition(":")[2])
    for address in (
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static/..%5capp.py",
        "/static//etc/passwd",
        "/static/%00",
        "/static/../../../../../../etc/passwd",
        "/../../etc/passwd",
        "/static/",
        "/static/static/../index.html",
    ):
        # By hand: a client would tidy the path up.
        request = f"GET {address} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        request += f"Cookie: {'='.join(cookie)}\r\nConnection: close\r\n\r\n"
        answer = await _raw(port, request)
        assert answer.startswith(b"HTTP/1.1 404"), (address, answer[:200])
        assert b"root:" not in answer


async def test_a_script_in_a_key_or_a_name_is_text_in_json(
    browser: Browser, db: SmithersDB
) -> None:
    evil = "</script><script>alert(1)</script>\n\ndata: evil"
    db.state.set(evil, evil)
    db.execution.start(evil)
    async with browser.events("state", "overview") as events:
        (shown,) = await events.topic("state")
        assert (shown["key"], shown["value"]) == (evil, evil)
        (execution,) = await events.topic("overview")
        assert execution["name"] == evil
    answer = await browser.get("/api/value", params={"key": evil})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["value"] == evil


async def test_json_that_another_program_has_spread_over_lines_stays_one_event(
    browser: Browser, db: SmithersDB
) -> None:
    db.query("INSERT INTO state (key, value) VALUES (?, ?)", ["k", '{"a":\r\n\n 1}'], write=True)
    async with browser.events("state") as events:
        (shown,) = await events.topic("state")
    assert shown["value"] == {"a": 1}


# One function call, which takes seconds.
UNINTERRUPTIBLE = "SELECT instr(hex(zeroblob(300000)), hex(zeroblob(150000)) || '1')"


async def test_sql_that_writes_or_never_ends_is_refused(
    browser: Browser, db: SmithersDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("smithers.storage.questions.MOST_SECONDS", 0.2)
    db.state.set("phase", 1)
    for sql in WRITING:
        answer = await browser.get("/api/sql", params={"q": sql})
        assert answer.status_code == 400, (sql, answer.text)
    async with browser.events(*(f"sql:{sql}" for sql in WRITING)) as events:
        for _ in WRITING:
            assert (await events.next("value", "failed")).kind == "failed"
    assert db.state.get_all() == {"phase": 1}
    assert db.query("PRAGMA user_version") != [{"user_version": 7}]
    assert not (tmp_path / "evil.db").exists()


async def test_sql_that_nothing_can_interrupt_keeps_no_page_waiting(
    browser: Browser, db: SmithersDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smithers.web.asking.PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr("smithers.web.asking.MOST_UNDER_WAY", 1)
    answer = await browser.get("/api/sql", params={"q": UNINTERRUPTIBLE})
    assert (answer.status_code, answer.json()) == (400, {"error": "it took more than 2 s"})
    answer = await browser.get("/api/sql", params={"q": "SELECT 1"})
    assert answer.status_code == 409, "and there are never more than some"
    assert "too many questions" in answer.text
    for _ in range(500):
        answer = await browser.get("/api/sql", params={"q": "SELECT 1"})
        if answer.status_code != 409:
            break
        await asyncio.sleep(0.05)
    assert answer.json()["rows"] == [[1]]


def test_only_this_machine_is_listened_to() -> None:
    with listening(Options(path=Path()).host, 0) as opened:
        assert opened.getsockname()[0] == "127.0.0.1"
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")
    assert names_of("192.0.2.7", 80)[0] == "192.0.2.7:80"
    for everywhere in ("0.0.0.0", "::", ""):
        with pytest.raises(ValueError, match="name the one"):
            listening(everywhere, 0)


async def _raw(port: int, request: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, family=socket.AF_INET)
    writer.write(request.encode("latin-1"))
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer
