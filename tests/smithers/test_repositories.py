"""What git and jj say of the current commit, from repositories made by the tools themselves."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from smithers import RepositoryError
from smithers.repositories import Head, parse_jj, parse_numbers, read_head
from tests.smithers.repositories import ENVIRONMENT, Repository, lines


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", ENVIRONMENT["GIT_CONFIG_GLOBAL"])
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    return Repository(tmp_path / "repo")


def numbers(head: Head) -> tuple[int | None, int | None, int | None]:
    return head.files_changed, head.insertions, head.deletions


def test_the_first_commit_is_counted_against_nothing(repo: Repository) -> None:
    repo.write("a.txt", lines(3))
    repo.write("b/c.txt", lines(2))
    hash = repo.commit("feat: begin\n\nWith a body.\n")
    assert read_head(repo.place) == Head(
        vcs_type="git",
        hash=hash,
        change_id=None,
        message="feat: begin\n\nWith a body.",
        author="Ada <ada@example.org>",
        timestamp=datetime(2026, 1, 31, 12, tzinfo=UTC),
        files_changed=2,
        insertions=5,
        deletions=0,
    )


def test_a_commit_is_counted_against_its_parent(repo: Repository) -> None:
    repo.write("a.txt", lines(5))
    repo.commit()
    repo.write("a.txt", lines(2) + b"new\n")
    repo.commit()
    assert numbers(read_head(repo.place)) == (1, 1, 3)


def test_a_merge_is_counted_against_its_first_parent(repo: Repository) -> None:
    repo.write("a.txt", lines(1))
    repo.commit()
    repo.git("checkout", "-q", "-b", "side")
    repo.write("side.txt", lines(4))
    repo.commit()
    repo.git("checkout", "-q", "main")
    repo.write("main.txt", lines(7))
    repo.commit()
    repo.git("merge", "-q", "--no-ff", "-m", "merge side", "side")
    head = read_head(repo.place)
    assert head.message == "merge side"
    assert numbers(head) == (1, 4, 0), "what the merge brought, not what main had already"


def test_an_octopus_is_counted_against_its_first_parent(repo: Repository) -> None:
    repo.write("a.txt", lines(1))
    repo.commit()
    for name in ("one", "two"):
        repo.git("checkout", "-q", "-b", name, "main")
        repo.write(f"{name}.txt", lines(2))
        repo.commit()
    repo.git("checkout", "-q", "main")
    repo.write("main.txt", lines(9))
    repo.commit()
    repo.git("merge", "-q", "-m", "both", "one", "two")
    assert numbers(read_head(repo.place)) == (2, 4, 0)


def test_a_renamed_file_counts_once(repo: Repository) -> None:
    repo.write("old name.txt", lines(40))
    repo.write("stays.txt", lines(1))
    repo.commit()
    repo.git("mv", "old name.txt", "new\tname\n.txt")
    repo.write("new\tname\n.txt", lines(40) + b"one more\n")
    repo.write("stays.txt", lines(2))
    repo.commit()
    assert numbers(read_head(repo.place)) == (2, 2, 0)


def test_a_binary_file_counts_without_lines(repo: Repository) -> None:
    repo.write("image.png", bytes(range(256)))
    repo.write("a.txt", lines(2))
    repo.commit()
    assert numbers(read_head(repo.place)) == (2, 2, 0)


def test_an_empty_commit_changes_nothing(repo: Repository) -> None:
    repo.commit("first")
    assert numbers(read_head(repo.place)) == (0, 0, 0)


@pytest.mark.parametrize("message", ["", "\n\n", "\n \n"])
def test_an_empty_message_is_empty_text(repo: Repository, message: str) -> None:
    repo.write("a.txt", lines(1))
    repo.commit(message)
    assert read_head(repo.place).message.strip() == ""


def test_a_message_is_taken_as_it_is(repo: Repository) -> None:
    message = (
        "grüße: 日本語 🚀\r\n\n\x01 \x1b[31mred\x1b[0m %H %x00 $(id) `id` 'x' \"y\"\n\n  indented"
    )
    repo.commit(message)
    assert read_head(repo.place).message == message


def test_a_message_in_another_encoding_is_read(repo: Repository) -> None:
    repo.git("config", "i18n.commitEncoding", "ISO-8859-1")
    repo.commit("Grüße".encode("latin-1"))
    assert read_head(repo.place).message == "Grüße"


def test_the_encoding_in_which_git_prints_does_not_matter(repo: Repository) -> None:
    repo.git("config", "i18n.logOutputEncoding", "ISO-8859-1")
    repo.commit("Grüße")
    assert read_head(repo.place).message == "Grüße"


def test_bytes_that_are_no_utf_8_are_read_as_git_reads_them(repo: Repository) -> None:
    name = b"J\xf6rg".decode("utf-8", "surrogateescape")
    repo.commit(b"caf\xe9", GIT_AUTHOR_NAME=name)
    head = read_head(repo.place)
    assert (head.message, head.author) == ("café", "Jörg <ada@example.org>")


def test_bytes_that_are_no_text_are_replaced(repo: Repository) -> None:
    repo.commit("first")
    raw = repo.git("cat-file", "commit", "HEAD")
    raw = raw.replace(b"author Ada", b"author J\xf6rg").replace(b"\n\nfirst", b"\n\ncaf\xe9")
    raw = raw.replace(b"\n\n", b"\nencoding x-unheard-of\n\n", 1)
    hash = repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=raw).decode().strip()
    repo.git("update-ref", "HEAD", hash)
    head = read_head(repo.place)
    assert (head.message, head.author) == ("caf\ufffd", "J\ufffdrg <ada@example.org>")


@pytest.mark.parametrize("seconds", [b"99999999999999", b"18446744073709551614"])
def test_a_time_outside_the_calendar_is_an_error(repo: Repository, seconds: bytes) -> None:
    repo.commit("first")
    raw = repo.git("cat-file", "commit", "HEAD").replace(b"1769860800", seconds)
    options = ("hash-object", "-t", "commit", "-w", "--stdin", "--literally")
    repo.git("update-ref", "HEAD", repo.git(*options, stdin=raw).decode().strip())
    with pytest.raises(RepositoryError, match="cannot be read"):
        read_head(repo.place)


def test_file_names_that_are_no_text_are_counted(repo: Repository) -> None:
    repo.write(b"caf\xe9/\xff\xfe.txt", lines(3))
    repo.write(b' "quoted"\t.txt', lines(1))
    repo.commit()
    assert numbers(read_head(repo.place)) == (2, 4, 0)


@pytest.mark.parametrize(
    ("name", "email", "author"),
    [("Ada", "", "Ada"), ("日本", "a@b", "日本 <a@b>"), ("x", "<evil>\n", "x <evil>")],
)
def test_an_author_is_a_name_and_an_address(
    repo: Repository, name: str, email: str, author: str
) -> None:
    repo.commit("x", GIT_AUTHOR_NAME=name, GIT_AUTHOR_EMAIL=email)
    assert read_head(repo.place).author == author


def test_any_directory_in_the_repository_will_do(repo: Repository) -> None:
    repo.write("deep/er/a.txt", lines(1))
    hash = repo.commit()
    assert read_head(repo.place / "deep" / "er").hash == hash
    assert read_head(repo.place / ".git").hash == hash


def test_the_present_directory_is_the_default(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    hash = repo.commit()
    monkeypatch.chdir(repo.place)
    assert read_head().hash == hash


def test_a_bare_repository_has_a_current_commit(repo: Repository, tmp_path: Path) -> None:
    hash = repo.commit()
    bare = tmp_path / "bare.git"
    repo.git("clone", "-q", "--bare", str(repo.place), str(bare))
    assert read_head(bare).hash == hash


def test_a_worktree_has_its_own_current_commit(repo: Repository, tmp_path: Path) -> None:
    first = repo.commit("first")
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "tree"))
    tree = Repository(tmp_path / "tree", init=False)
    second = tree.commit("second")
    assert read_head(repo.place).hash == first
    assert read_head(tree.place).hash == second


def test_a_detached_head_is_the_current_commit(repo: Repository) -> None:
    first = repo.commit("first")
    repo.commit("second")
    repo.git("checkout", "-q", "--detach", first)
    assert read_head(repo.place).message == "first"


def test_branches_and_files_named_like_the_head_do_not_matter(repo: Repository) -> None:
    repo.write("HEAD", lines(1))
    hash = repo.commit("first")
    repo.write(hash, lines(1))
    hash = repo.commit("second")
    repo.git("branch", "heads/HEAD", "HEAD~1")
    assert read_head(repo.place).hash == hash


def test_a_submodule_counts_as_a_file(repo: Repository, tmp_path: Path) -> None:
    inner = Repository(tmp_path / "inner")
    inner.commit()
    repo.commit("first")
    allowed = ("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.place), "in")
    repo.git(*allowed)
    repo.git("config", "submodule.in.ignore", "all")
    repo.commit("second")
    assert read_head(repo.place).files_changed == 2, "the submodule and .gitmodules"


def test_the_boundary_of_a_shallow_clone_has_no_numbers(repo: Repository, tmp_path: Path) -> None:
    repo.write("a.txt", lines(500))
    repo.commit("first")
    repo.write("b.txt", lines(1))
    hash = repo.commit("second")
    repo.git("clone", "-q", "--depth=1", f"file://{repo.place}", str(tmp_path / "shallow"))
    head = read_head(tmp_path / "shallow")
    assert (head.hash, head.message) == (hash, "second")
    assert numbers(head) == (None, None, None), "501 lines would be those of the whole tree"


def test_configuration_for_people_changes_nothing(repo: Repository) -> None:
    repo.write(".gitattributes", b"*.txt diff=shout\n")
    repo.write("a.txt", lines(20))
    repo.commit("first")
    repo.git("mv", "a.txt", "b.txt")
    repo.commit("second")
    expected = read_head(repo.place)
    for name, value in {
        "color.ui": "always",
        "core.pager": "false",
        "diff.external": "false",
        "diff.noprefix": "true",
        "diff.renames": "false",
        "diff.shout.textconv": "false",
        "format.pretty": "raw",
        "log.date": "relative",
        "log.decorate": "full",
        "log.diffMerges": "combined",
        "log.follow": "true",
        "log.mailmap": "true",
        "log.showRoot": "false",
        "log.showSignature": "true",
        "core.quotePath": "true",
    }.items():
        repo.git("config", name, value)
    repo.write(".mailmap", b"Somebody Else <else@example.org> <ada@example.org>\n")
    assert read_head(repo.place) == expected
    assert numbers(expected) == (1, 0, 0)


@pytest.fixture
def spy(tmp_path: Path) -> Path:
    """A program that leaves a mark beside it when it is run, and fails."""
    program = tmp_path / "spy"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {tmp_path}/mark\nexit 1\n')
    program.chmod(0o755)
    return program


def test_no_program_that_a_repository_names_is_run(
    repo: Repository, spy: Path, tmp_path: Path
) -> None:
    repo.write(".gitattributes", b"* diff=spy filter=spy merge=spy\n")
    repo.write("a.txt", lines(1))
    repo.commit("first")
    repo.write("a.txt", lines(2))
    repo.commit("second")
    expected = read_head(repo.place)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for hook in ("post-index-change", "reference-transaction", "post-checkout", "pre-auto-gc"):
        (hooks / hook).symlink_to(spy)
    for name in (
        *("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.askPass"),
        *("core.gitProxy", "core.alternateRefsCommand", "credential.helper", "pager.log"),
        *("diff.external", "diff.spy.command", "diff.spy.textconv", "merge.spy.driver"),
        *("filter.spy.clean", "filter.spy.smudge", "filter.spy.process"),
        *("gpg.program", "gpg.ssh.program", "interactive.diffFilter", "uploadpack.packObjectsHook"),
    ):
        repo.git("config", name, str(spy))
    for name in ("rev-parse", "log", "diff-tree", "cat-file", "config"):
        repo.git("config", f"alias.{name}", f"!{spy}")
    repo.git("config", "core.hooksPath", str(hooks))
    repo.git("config", "log.showSignature", "true")
    repo.write("a.txt", lines(3))
    assert read_head(repo.place) == expected
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "ssh://example.invalid/x", "core.sshCommand": "{spy}"},
        {"url": "ext::{spy} %S", "protocol.ext.allow": "always"},
        {"url": "{origin}", "uploadpack": "{spy}"},
        {"url": "{origin}"},
    ],
)
def test_a_partial_clone_fetches_nothing_and_has_no_numbers(
    repo: Repository, spy: Path, tmp_path: Path, settings: dict[str, str]
) -> None:
    repo.write("a.txt", lines(1))
    repo.commit("first")
    repo.write("a.txt", lines(2))
    hash = repo.commit("second")
    repo.git("config", "uploadpack.allowFilter", "true")
    place = tmp_path / "partial"
    options = ("-q", "--no-checkout", "--filter=blob:none")
    repo.git("clone", *options, f"file://{repo.place}", str(place))
    partial = Repository(place, init=False)
    for name, value in settings.items():
        key = name if "." in name else f"remote.origin.{name}"
        partial.git("config", key, value.format(spy=spy, origin=f"file://{repo.place}"))
    head = read_head(place)
    assert (head.hash, head.message, numbers(head)) == (hash, "second", (None, None, None))
    assert not (tmp_path / "mark").exists()


def test_the_variables_of_a_hook_do_not_lead_elsewhere(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Repository(tmp_path / "other")
    other.commit("other")
    hash = repo.commit("here")
    for name, value in {
        "GIT_DIR": str(other.place / ".git"),
        "GIT_WORK_TREE": str(other.place),
        "GIT_INDEX_FILE": str(other.place / ".git" / "index"),
        "GIT_OBJECT_DIRECTORY": str(other.place / ".git" / "objects"),
        "GIT_EXTERNAL_DIFF": "false",
        "GIT_TRACE": "1",
        "GIT_PAGER": "false",
    }.items():
        monkeypatch.setenv(name, value)
    assert read_head(repo.place).hash == hash


def test_asking_changes_nothing(repo: Repository) -> None:
    repo.write("a.txt", lines(1))
    repo.commit()
    repo.write("a.txt", lines(2))

    def files() -> dict[Path, tuple[int, bytes]]:
        found = [path for path in repo.place.rglob("*") if path.is_file()]
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in found}

    before = files()
    read_head(repo.place)
    assert files() == before


# -- what cannot be read ---------------------------------------------------------------------------


def test_a_repository_without_a_commit_is_an_error(repo: Repository) -> None:
    with pytest.raises(RepositoryError, match="there is no commit yet") as caught:
        read_head(repo.place)
    assert caught.value.repo == str(repo.place)
    assert caught.value.reason == "there is no commit yet"


def test_no_repository_is_an_error(repo: Repository, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(RepositoryError, match="not a git repository"):
        read_head(tmp_path / "plain")


@pytest.mark.parametrize("missing", ["nowhere", "repo/file.txt"])
def test_no_directory_is_an_error(repo: Repository, tmp_path: Path, missing: str) -> None:
    repo.write("file.txt", b"")
    repo.commit()
    with pytest.raises(RepositoryError, match="no such directory"):
        read_head(tmp_path / missing)


@pytest.mark.parametrize("path", ["-C", "--help", "$(id)", "; id", "a\0b", ""])
def test_a_path_is_never_a_command(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(RepositoryError):
        read_head(path)


def test_a_missing_git_is_an_error(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit()
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(RepositoryError, match="git is not installed"):
        read_head(repo.place)


def test_a_git_that_does_not_answer_is_an_error(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = tmp_path / "bin" / "git"
    silent.parent.mkdir()
    silent.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    silent.chmod(0o755)
    monkeypatch.setenv("PATH", f"{silent.parent}:{ENVIRONMENT['PATH']}")
    monkeypatch.setattr("smithers.repositories.TIMEOUT", 0.2)
    with pytest.raises(RepositoryError, match="git did not answer"):
        read_head(repo.place)


def test_a_broken_repository_is_an_error(repo: Repository) -> None:
    hash = repo.commit()
    damaged = repo.place / ".git" / "objects" / hash[:2] / hash[2:]
    damaged.chmod(0o644)
    damaged.write_bytes(b"broken")
    with pytest.raises(RepositoryError, match="git: "):
        read_head(repo.place)


# -- what is printed -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "counted"),
    [
        (b"", (0, 0, 0)),
        (b"1\t2\ta.txt\0", (1, 1, 2)),
        (b"-\t-\timage.png\x003\t0\tb\0", (2, 3, 0)),
        (b"1\t0\t\0old\0new\x005\t5\tc\0", (2, 6, 5)),
        (b"1\t0\ta\tb\tc\0", (1, 1, 0)),
        (b"0\t0\t\x001\t1\told\x002\t2\tnew\x009\t9\tz\0", (2, 9, 9)),
    ],
)
def test_numbers_are_read_whatever_the_names_of_files(
    printed: bytes, counted: tuple[int, int, int]
) -> None:
    assert parse_numbers(printed) == counted


WORKING = '["c1","zw","Ada","ada@x",1769860800,false,{empty},{parents},{files},4,1,{text}]\n'
PARENT = '["c0","yk","","",1769860700,false,false,1,2,7,0,"feat: \\"add\\"\\n\\nbody\\n"]\n'
ROOT = '["000","zzz","","",0,true,true,0,0,0,0,""]\n'


def working(*, empty: str = "false", parents: int = 1, files: int = 3, text: str = '""') -> str:
    return WORKING.format(empty=empty, parents=parents, files=files, text=text)


def test_in_jj_the_working_copy_is_the_current_commit() -> None:
    head = parse_jj(working(text='"wip\\n"') + PARENT)
    assert head == Head(
        vcs_type="jj",
        hash="c1",
        change_id="zw",
        message="wip",
        author="Ada <ada@x>",
        timestamp=datetime(2026, 1, 31, 12, tzinfo=UTC),
        files_changed=3,
        insertions=4,
        deletions=1,
    )


def test_in_jj_a_working_copy_without_anything_stands_for_its_parent() -> None:
    head = parse_jj(working(empty="true") + PARENT)
    assert head is not None
    assert (head.hash, head.change_id) == ("c0", "yk")
    assert (head.message, head.author) == ('feat: "add"\n\nbody', None)


@pytest.mark.parametrize(
    "printed",
    [
        working(empty="true", text='"described"') + PARENT,
        working(empty="false") + PARENT,
        working(empty="true", parents=2) + PARENT + PARENT,
    ],
)
def test_in_jj_a_working_copy_with_anything_stands_for_itself(printed: str) -> None:
    head = parse_jj(printed)
    assert head is not None and head.hash == "c1"


def test_in_jj_the_root_is_no_commit() -> None:
    assert parse_jj(working(empty="true") + ROOT) is None


def test_a_repository_of_jj_needs_jj(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "native" / ".jj").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(RepositoryError, match="jj is not installed"):
        read_head(tmp_path / "native")


@pytest.mark.skipif(shutil.which("jj") is not None, reason="jj is installed and would be asked")
def test_without_jj_a_repository_of_both_is_asked_of_git(repo: Repository) -> None:
    hash = repo.commit()
    (repo.place / ".jj").mkdir()
    (repo.place / "below").mkdir()
    assert read_head(repo.place / "below").hash == hash


@pytest.mark.skipif(shutil.which("jj") is None, reason="jj is not installed here")
def test_jj_itself_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config.toml"
    config.write_text('user.name = "Ada"\nuser.email = "ada@example.org"\n', encoding="utf-8")
    monkeypatch.setenv("JJ_CONFIG", str(config))
    place = tmp_path / "repo"

    def jj(*words: str) -> None:
        subprocess.run(("jj", *words), cwd=place, check=True, capture_output=True, timeout=60)

    place.mkdir()
    jj("git", "init", ".")
    with pytest.raises(RepositoryError, match="there is no commit yet"):
        read_head(place)
    (place / "a.txt").write_bytes(lines(3))
    jj("describe", "-m", "feat: begin")
    described = read_head(place)
    assert (described.vcs_type, described.message) == ("jj", "feat: begin")
    assert described.author == "Ada <ada@example.org>"
    assert numbers(described) == (1, 3, 0)
    jj("new")
    assert read_head(place) == described, "the new working copy has nothing to show"
