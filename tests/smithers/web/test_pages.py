"""The pages of the live view in a real browser, while another process writes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from smithers import SmithersDB, Transition
from tests.conftest import require_tool
from tests.smithers.remote import remote
from tests.smithers.web.chromium import Chromium, View, viewing

SCRIPT_KEY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
PAGES = ("overview", "state", "memories", "vcs", "triggers", "approvals", "sql")


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    browser, driver = require_tool("chromium"), require_tool("chromedriver")
    opened = Chromium(tmp_path_factory.mktemp("profile"), browser, driver)
    yield opened
    opened.quit()


@pytest.fixture
def quiet(chromium: Chromium) -> Iterator[Chromium]:
    """The browser, which must not have had to complain of anything. To be asked for after the view:
    what the end of that breaks is no fault of the page."""
    chromium.complaints()
    yield chromium
    complaints = chromium.complaints()
    chromium.open("about:blank")
    assert not complaints


@pytest.fixture
def view(db: SmithersDB, path: Path) -> Iterator[View]:
    with viewing(path, "--allow-write") as opened:
        yield opened


@pytest.fixture
def reading_view(db: SmithersDB, path: Path) -> Iterator[View]:
    with viewing(path) as opened:
        yield opened


def test_the_overview_follows_executions_and_what_runs_below_them(
    view: View, quiet: Chromium, db: SmithersDB, path: Path
) -> None:
    quiet.visit(view)
    quiet.shows("No execution yet.", "smithers run workflow.py")
    with remote(path) as other:
        other(
            "kept.update(e=db.execution.start('feature', 'feature.py'), p=db.phases.start('build'))"
        )
        other("kept.update(s=db.steps.start('compile'), a=db.agents.start('Do it.', model='opus'))")
        quiet.shows("feature", "running", "(alive)", "build", "compile", "opus")
        tree = quiet.script(
            "return [...document.querySelectorAll('.tree .kind')].map("
            "(one) => [one.textContent, [...document.querySelectorAll('.tree ul')]"
            ".filter((list) => list.contains(one)).length])"
        )
        assert tree == [["phase", 1], ["step", 2], ["agent", 3]], "each below what it belongs to"
        usage = "{'input': 1200, 'output': 300, 'cost_usd': 0.42}"
        other(f"db.agents.complete(kept['a'], 'done', tokens={usage})")
        quiet.shows("1,500", "$0.42")
        other.kill()
        quiet.shows("dead")
        found = db.executions.list()[0]
        title = quiet.script("return document.querySelector('tr time').title")
        assert title.endswith(" UTC") and str(found.started_at)[:19] in title


def test_what_has_ended_by_a_clock_that_was_set_back_took_no_negative_time(
    view: View, quiet: Chromium, db: SmithersDB
) -> None:
    execution = db.execution.start("feature")
    db.phases.complete(db.phases.start("build"))
    back = "strftime('%Y-%m-%dT%H:%M:%f000Z', started_at, '-1 day')"
    db.query(f"UPDATE phases SET completed_at = {back}", write=True)
    quiet.visit(view, f"execution/{execution}")
    quiet.wait(lambda: len(quiet.find(".gantt .bar")) == 1)
    label = quiet.script("return document.querySelector('.gantt .bar').getAttribute('aria-label')")
    assert label == "phase build, completed, 0 ms"


def test_an_execution_shows_when_what_ran_and_what_it_said(
    view: View, quiet: Chromium, db: SmithersDB
) -> None:
    execution = db.execution.start("feature", "feature.py")
    phase, step = db.phases.start("build"), db.steps.start("compile")
    agent = db.agents.start("Do it all.", model="opus")
    call = db.tools.start(agent, "Bash", {"command": "make"})
    quiet.visit(view, f"execution/{execution}")
    quiet.wait(lambda: len(quiet.find(".gantt .bar")) == 3)
    quiet.script("document.querySelector('.gantt .agent').dispatchEvent(new Event('click'))")
    quiet.shows("Text so far", "none yet")
    for text in ("I look", "I look at\n<b>it</b>"):
        db.agents.progress(agent, output=text)
        quiet.wait(partial(_says, quiet, text))
    whole = "\n".join(f"line {n}" for n in range(3000))
    db.tools.complete(call, whole, summary="built")
    quiet.press(".virtual button", "Bash")
    quiet.shows("built", "command", "make")
    assert whole in quiet.script("return document.querySelector('.detail').textContent")
    db.agents.complete(agent, "Done.")
    db.steps.fail(step, "it broke")
    quiet.script("document.querySelector('.gantt .step').dispatchEvent(new Event('click'))")
    quiet.shows("it broke", "failed")
    db.phases.complete(phase)
    db.execution.complete(execution, {"tests": 12})
    quiet.shows("completed", "Result", "tests: 12")
    quiet.page(view, "execution/nobody")
    quiet.shows("There is no such execution")


def test_the_state_follows_commits_and_shows_text_as_text(
    view: View, quiet: Chromium, db: SmithersDB, path: Path
) -> None:
    quiet.visit(view, "state")
    quiet.shows("No key is set.")
    with remote(path) as other:
        other("db.state.set_many({'phase': 'plan', 'config': {'deep': [1, {'more': None}]}})")
        quiet.shows("phase", '"plan"', "config", "deep")
        quiet.script("for (const row of document.querySelectorAll('tr')) row.dataset.old = 1")
        other("db.state.set('phase', 'review', trigger='tests_passed')")
        quiet.shows('"review"')
        flashing = quiet.texts("tr.flash:not([data-old])")
        assert [row.split()[0] for row in flashing] == ["phase"], "only what has changed"
        other(f"db.state.set({SCRIPT_KEY!r}, {SCRIPT_KEY!r})")
        quiet.shows(SCRIPT_KEY)
    assert quiet.dialog() is None
    assert not quiet.find("main script, main img")
    db.state.set("long", "x" * 30_000)
    quiet.shows("30,002 characters")


def test_the_history_of_a_key_tells_trigger_and_cause(
    view: View, quiet: Chromium, db: SmithersDB
) -> None:
    execution = db.execution.start("feature", "feature.py")
    db.state.set("phase", "plan", trigger="began")
    for number in range(150):
        db.state.set("phase", number)
    quiet.visit(view, "state/phase")
    quiet.shows("149")
    assert len(quiet.find("tbody tr")) == 100
    quiet.press("button", "Older ones")
    quiet.shows("began", f"execution {execution[-8:]}")
    assert len(quiet.find("tbody tr")) == 151
    db.state.set("phase", "review", trigger="tests_passed")
    quiet.shows("tests_passed")
    db.state.delete("phase")
    quiet.shows("deleted")
    assert len(quiet.find("tbody tr")) == 153


def test_the_slider_shows_the_state_as_it_was_and_restores_it(
    view: View, quiet: Chromium, db: SmithersDB
) -> None:
    db.state.set_many({"phase": "plan", "old": 1}, trigger="began")
    db.state.set("phase", "review")
    db.state.delete("old")
    db.state.set("new", [1, 2])
    quiet.visit(view, "state")
    quiet.shows('"review"', "new")
    _move_to(quiet, 2)
    quiet.shows("after change 2 of 5", "began", "not set then", "not set now", "was another")
    marked = {row.split("\n")[0] for row in quiet.texts("tr.past:not(.same) th")}
    assert marked == {"phase", "old", "new"}
    quiet.press("button", "Restore to here…")
    quiet.shows("3 keys change", within="dialog")
    assert db.state.get("phase") == "review", "nothing is changed before it is confirmed"
    db.state.set("phase", "merged")
    quiet.press("dialog button", "Restore")
    quiet.shows("changed meanwhile", within="dialog")
    quiet.press("dialog button", "Cancel")
    quiet.press("button", "Restore to here…")
    quiet.shows('"merged"', within="dialog")
    quiet.press("dialog button", "Restore")
    quiet.wait(lambda: db.state.get_all() == {"phase": "plan", "old": 1})
    quiet.shows('"plan"', "old")
    quiet.wait(lambda: quiet.text("#moment-text") == "now")
    # The refused order is one that the browser writes down, too.
    assert all("409" in complaint for complaint in quiet.complaints())


def test_memories_are_found_as_one_types(view: View, quiet: Chromium, db: SmithersDB) -> None:
    quiet.visit(view, "memories")
    quiet.shows("No memories yet.")
    db.memories.add("fact", "build", "make test needs sqlite3")
    db.memories.add("learning", "c++", "it's <b>not</b> C")
    quiet.shows("make test needs sqlite3", "it's <b>not</b> C")
    quiet.type("#query", "sqlite3")
    quiet.lacks("it's")
    quiet.shows("make test needs")
    db.memories.add("fact", "shell", "the sqlite3 program is there")
    quiet.shows("the sqlite3 program is there")
    quiet.type("#query", " nothing-of-the-kind")
    quiet.shows("Nothing is found.")


def test_commits_snapshots_and_reviews_are_followed(
    view: View, quiet: Chromium, db: SmithersDB
) -> None:
    quiet.visit(view, "vcs")
    quiet.shows("Nothing is logged yet.")
    db.vcs.log_commit(hash="abcdef0123456789", message="Add <b>dark</b> mode", insertions=1200)
    quiet.shows("abcdef0123", "Add <b>dark</b> mode", "+1,200")
    db.vcs.log_snapshot(snapshot_id="s1", description="Before refactoring")
    db.vcs.log_review(
        review_id="r1", target="abcdef", approved=False, summary="Needs tests", blocking=True
    )
    quiet.shows("Before refactoring", "Needs tests", "blocking")
    db.vcs.resolve_review("r1")
    quiet.shows("resolved")


def test_triggers_show_what_they_set_aside_and_retry_it(
    view: View, quiet: Chromium, db: SmithersDB
) -> None:
    quiet.visit(view, "triggers")
    quiet.shows("No trigger is registered.")
    handled: list[Any] = []

    def deploy(transition: Transition) -> None:
        handled.append(transition.value)
        if len(handled) == 1:
            raise RuntimeError("no such host")

    db.triggers.on("phase", name="deploy", retries=0)(deploy)
    db.state.set("phase", "review")
    db.triggers.deliver()
    quiet.shows("deploy", "key phase", "Set aside", "no such host", '"review"')
    quiet.press("button", "Retry")
    quiet.wait(lambda: bool(db.triggers.deliver()))
    assert handled == ["review", "review"]
    quiet.wait(lambda: "no such host" not in quiet.text("tbody"))


def test_an_approval_releases_a_run_that_waits(
    view: View, quiet: Chromium, path: Path, tmp_path: Path
) -> None:
    script = tmp_path / "deploy.py"
    script.write_text(
        "async def main(run):\n"
        "    gate = await run.human('deploy', 'Deploy <i>now</i>?', timeout=60)\n"
        "    await run.db.state.set('answer', [gate.approved, gate.comment])\n"
    )
    quiet.visit(view, "approvals")
    quiet.shows("Nobody waits for an answer.")
    command = [sys.executable, "-m", "smithers", "run", str(script), "--path", str(path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as run:
        quiet.shows("Deploy <i>now</i>?")
        assert quiet.text("#nav .badge") == "1", "it is told on every page"
        quiet.type(".gate input", "go ahead")
        quiet.press("button", "Approve")
        assert run.wait(30) == 0
    quiet.shows("approved", "go ahead")
    quiet.page(view, "state")
    quiet.shows("answer", "true", '"go ahead"')


def test_an_answer_to_sql_is_live_and_read_only(
    view: View, quiet: Chromium, db: SmithersDB
) -> None:
    db.state.set("phase", "plan")
    quiet.visit(view, "sql")
    quiet.type("#sql", "SELECT key, value FROM state")
    quiet.press("button", "Run")
    quiet.shows("1 row", "phase", '"plan"')
    db.state.set("count", 12)
    quiet.shows("2 rows", "count", "12")
    for sql, says in (
        ("DELETE FROM state", "only"),
        ("SELECT nowhere FROM state", "no such column"),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 900) SELECT i FROM n",
         "900 rows"),
    ):  # fmt: skip
        quiet.page(view, f"sql/{quote(sql, safe='')}")
        quiet.shows(says, within="section")
    assert len(quiet.find(".virtual .sql-row")) < 100, "only rows in sight are in the page"
    assert db.state.get_all() == {"phase": "plan", "count": 12}


def test_without_leave_to_write_nothing_can_be_pressed(
    reading_view: View, quiet: Chromium, db: SmithersDB
) -> None:
    execution = db.execution.start("feature", "feature.py")
    db.approvals.request(execution, "deploy", "Deploy?")
    db.state.set("phase", "plan")
    db.state.set("phase", "review")
    quiet.visit(reading_view, "approvals")
    quiet.shows("This page only reads.", "smithers db approve deploy")
    assert [one.is_enabled() for one in quiet.find(".gate button")] == [False, False]
    quiet.page(reading_view, f"execution/{execution}")
    quiet.shows("Cancel…")
    assert not any(one.is_enabled() for one in quiet.find("button.danger"))
    quiet.page(reading_view, "state")
    quiet.shows('"review"')
    _move_to(quiet, 1)
    quiet.shows("after change 1 of 2")
    assert not any(one.is_enabled() for one in quiet.find("button.danger"))
    answer = quiet.script(
        "return fetch('/api/restore', {method: 'POST', body: '{\"seq\": 1, \"now\": 2}', "
        "headers: {'Content-Type': 'application/json'}}).then((answer) => answer.status)"
    )
    assert answer == 403
    assert db.state.get("phase") == "review"
    assert all("403" in complaint for complaint in quiet.complaints())


def test_a_cancel_from_the_page_is_asked_for_and_confirmed(
    view: View, quiet: Chromium, db: SmithersDB
) -> None:
    execution = db.execution.start("feature", "feature.py")
    quiet.visit(view, f"execution/{execution}")
    quiet.press("button", "Cancel…")
    quiet.accept()
    quiet.shows("Cancel asked for", "from the live view")
    found = db.execution.get(execution)
    assert found is not None and found.cancel_requested_at is not None


def test_a_database_that_goes_away_is_told_and_comes_back(
    chromium: Chromium, view: View, db: SmithersDB, path: Path, tmp_path: Path
) -> None:
    db.state.set("phase", "plan")
    chromium.visit(view, "state")
    chromium.shows('"plan"')
    db.close()
    path.rename(tmp_path / "away")
    chromium.shows("The database is not there", within="#banner")
    (tmp_path / "away").rename(path)
    chromium.wait(lambda: chromium.text("#banner") == "")
    with remote(path) as other:
        other("db.state.set('phase', 'review')")
        chromium.shows('"review"')


def test_a_page_goes_on_when_the_server_was_started_anew(
    chromium: Chromium, db: SmithersDB, path: Path
) -> None:
    with viewing(path) as first:
        chromium.visit(first, "state")
        db.state.set("phase", "plan")
        chromium.shows('"plan"')
        assert first.end() == 0, "Ctrl-C ends it, also with open pages"
    chromium.shows("connection lost", within="#link")
    db.state.set("phase", "review")
    with viewing(path, "--port", first.port) as second:
        chromium.shows("started anew", within="#banner")
        visited = chromium.script(
            "return fetch(arguments[0]).then((answer) => answer.status)", second.url
        )
        assert visited == 200, "as in another tab"
        chromium.shows('"review"')
        chromium.wait(lambda: chromium.text("#link") == "live")
        assert chromium.text("#banner") == ""
        db.state.set("phase", "merged")
        chromium.shows('"merged"')


def test_every_page_is_labelled_fits_a_telephone_and_has_two_colours(
    view: View, quiet: Chromium, db: SmithersDB
) -> None:
    db.execution.start("a-name-without-any-place-to-break-it-" * 4, "feature.py")
    db.state.set("config", {"text": "word " * 200, "unbroken": "x" * 500})
    db.memories.add("fact", "k" * 100, "y" * 300)
    quiet.visit(view)
    quiet.shows("a-name")
    try:
        grounds: set[str] = set()
        for scheme in ("light", "dark"):
            quiet.prefer(scheme)
            grounds.add(quiet.script("return getComputedStyle(document.body).backgroundColor"))
        assert len(grounds) == 2
        quiet.set_size(400, 800)
        for page in PAGES:
            quiet.page(view, page)
            quiet.wait(lambda: bool(quiet.find("main h1")))
            quiet.wait(partial(_is_current, quiet, page))
            assert quiet.script(_WIDER) <= 0, f"{page} is wider than a telephone"
            assert quiet.script(_UNLABELLED) == [], page
        assert quiet.script("return document.activeElement.id") == "main", "a new page is told"
    finally:
        quiet.reset_size()
        quiet.prefer("light")


_CURRENT = "return document.querySelector('nav a[aria-current]').getAttribute('href')"
_WIDER = "return document.documentElement.scrollWidth - innerWidth"
_UNLABELLED = """
return [...document.querySelectorAll('input, textarea, button, [role=button], [role=list]')]
    .filter((one) => !one.labels?.length && !one.textContent.trim()
        && !one.getAttribute('aria-label')).map((one) => one.outerHTML)
"""


def test_the_keyboard_reaches_every_page(view: View, quiet: Chromium) -> None:
    tab, enter = "\ue004", "\ue007"
    quiet.visit(view)
    quiet.script("document.activeElement.blur()")
    seen: list[str] = []
    for _ in range(1 + len(PAGES)):
        quiet.key(tab)
        seen.append(quiet.script("return document.activeElement.getAttribute('href')"))
    assert seen == ["#main", *(f"#/{page}" for page in PAGES)]
    quiet.key(enter)
    quiet.shows("SQL", within="h1")


@pytest.mark.soak
@pytest.mark.timeout(180)
def test_ten_thousand_transitions_and_a_thousand_calls_stay_light(
    view: View, quiet: Chromium, db: SmithersDB
) -> None:
    changes = 20
    execution = db.execution.start("feature", "feature.py")
    agent = db.agents.start("Do it.", model="opus")
    with db.transaction():
        for number in range(10_000):
            db.state.set(f"key {number % 300}", number)
        for number in range(1_000):
            db.tools.complete(db.tools.start(agent, "Bash", {"n": number}), "done")
    quiet.visit(view, f"execution/{execution}")
    quiet.shows("1,000")
    assert len(quiet.find(".virtual .call")) < 100, "only calls in sight are in the page"
    costs: dict[str, list[float]] = {}
    for page in (f"execution/{execution}", "state"):
        quiet.page(view, page)
        quiet.shows("feature" if page != "state" else "key 299")
        quiet.script("performance.clearMeasures()")
        for number in range(changes):
            with db.transaction():
                db.state.set("key 7", f"change {number}")
                db.tools.start(agent, f"Tool{number}", {})
            quiet.shows(f"change {number}" if page == "state" else f"Tool{number}")
        measured: list[float] = quiet.script(
            "return performance.getEntriesByName('smithers-change').map((one) => one.duration)"
        )
        assert len(measured) >= changes, "each change is shown"
        costs[page.partition("/")[0]] = sorted(measured)
    for page, sorted_costs in costs.items():
        print(
            f"\n{page}: scripting for one commit, median {sorted_costs[len(sorted_costs) // 2]:.1f}"
            f" ms, worst {sorted_costs[-1]:.1f} ms of {len(sorted_costs)}"
        )


def _says(chromium: Chromium, text: str) -> bool:
    return chromium.text(".output") == text


def _is_current(chromium: Chromium, page: str) -> bool:
    return bool(chromium.script(_CURRENT) == f"#/{page}")


def _move_to(chromium: Chromium, seq: int) -> None:
    """Drag the slider to a change."""
    chromium.wait(lambda: bool(chromium.find("#moment:enabled")))
    chromium.script(
        "const slider = document.getElementById('moment'); slider.value = arguments[0];"
        "slider.dispatchEvent(new Event('input'))",
        seq,
    )
