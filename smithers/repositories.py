"""What a repository says of its current commit, asked of git or jj itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reactive_sqlite.opening import path_text
from smithers.errors import RepositoryError

# Seconds for one answer; a merge of a large tree takes git less than one.
TIMEOUT = 30.0

# A hook of git runs with the variables of its repository set, which need not be the one asked for;
# others change what is printed. These only say where git finds itself and its configuration.
_KEPT = frozenset(
    {
        *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM", "GIT_EXEC_PATH"),
        *("GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM"),
    }
)
# The configuration of a repository may name programs, and whoever made it may be anybody: those of
# the file system monitor and of hooks are not run, and nothing is fetched, which would run others.
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
_NOTHING_RUNS = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
# Git says so of a clone that leaves files at its origin until they are asked for.
_PARTIAL = r"^(extensions\.partialclone|remote\..*\.promisor)$"
# The message stands last: it is the only part that may hold anything.
_GIT_FORMAT = "%x00".join(("%P", "%ct", "%an", "%ae", "%B"))
_GIT_LOG = (
    *("log", "-1", "--no-patch", "--no-color", "--no-show-signature", "--encoding=UTF-8"),
    f"--format={_GIT_FORMAT}",
)
_GIT_NUMBERS = (
    *("diff-tree", "-r", "--root", "-z", "-M", "--numstat", "--no-commit-id"),
    *("--no-ext-diff", "--no-textconv", "--ignore-submodules=none"),
)
# One JSON array a line, so that no text of the commit can end it.
_JJ_PARTS = (
    "stringify(commit_id).escape_json()",
    "stringify(change_id).escape_json()",
    "author.name().escape_json()",
    "stringify(author.email()).escape_json()",
    'committer.timestamp().utc().format("%s")',
    'if(root, "true", "false")',
    'if(empty, "true", "false")',
    "parents.len()",
    "self.diff().files().len()",
    "self.diff().stat().total_added()",
    "self.diff().stat().total_removed()",
    "description.escape_json()",
)
_JJ_TEMPLATE = f'"[" ++ separate(",", {", ".join(_JJ_PARTS)}) ++ "]\\n"'
_JJ_LOG = (
    # Asking changes nothing: without this jj would first take a snapshot of the working copy.
    *("log", "--ignore-working-copy", "--no-pager", "--color=never", "--no-graph"),
    *("--revisions=@ | parents(@)", f"--template={_JJ_TEMPLATE}"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The current commit of a repository.

    Attributes:
        vcs_type: `git` or `jj`.
        hash: its id, in full.
        change_id: jj's id of the change, which stays when the commit is rewritten.
        message: the whole message, without line ends behind it.
        author: `Name <email>`, as far as they are there.
        timestamp: when it was committed.
        files_changed: against the first parent (in jj against all of them, merged), a renamed
            file counts once; None where the parent is not there, in a shallow or partial clone.
        insertions: lines, not counting binary files.
        deletions: lines, not counting binary files.
    """

    vcs_type: str
    hash: str
    change_id: str | None
    message: str
    author: str | None
    timestamp: datetime
    files_changed: int | None
    insertions: int | None
    deletions: int | None


def read_head(repo: str | os.PathLike[str] = ".") -> Head:
    """Read the current commit of the repository that a directory lies in; nothing is changed.

    In jj that is the working-copy commit, or its parent while that one is empty and has no
    description. A repository that both know is asked of jj, if that is installed.

    Raises RepositoryError: no repository, no commit yet, git or jj missing, silent or failing.
    """
    try:
        place = Path(path_text(repo, "repo"))
    except ValueError as error:
        raise RepositoryError(os.fspath(repo), "this is no path") from error
    if not os.path.isdir(place):
        raise RepositoryError(str(place), "there is no such directory")
    return _jj_head(place) if _speaks_jj(place) else _git_head(place)


def parse_git(hash: str, shown: bytes, numbers: bytes | None) -> Head:
    """Read what git printed of a commit: its parts, and how many lines of each file changed."""
    _, seconds, name, email, message = (
        part.decode("utf-8", "replace") for part in shown.split(b"\0", 4)
    )
    counted = (None, None, None) if numbers is None else parse_numbers(numbers)
    return Head(
        vcs_type="git",
        hash=hash,
        change_id=None,
        message=message.rstrip("\n"),
        author=_author(name, email),
        timestamp=datetime.fromtimestamp(int(seconds), UTC),
        files_changed=counted[0],
        insertions=counted[1],
        deletions=counted[2],
    )


def parse_numbers(numbers: bytes) -> tuple[int, int, int]:
    """Count files, insertions and deletions of `--numstat -z`.

    A file is `1 TAB 2 TAB path NUL`, with a dash for each number of a binary one; a renamed one
    is `1 TAB 2 TAB NUL old NUL new NUL`.
    """
    fields = iter(numbers.split(b"\0")[:-1])
    files = insertions = deletions = 0
    for field in fields:
        added, removed, path = field.split(b"\t", 2)
        if not path:
            next(fields)
            next(fields)
        files += 1
        insertions += 0 if added == b"-" else int(added)
        deletions += 0 if removed == b"-" else int(removed)
    return files, insertions, deletions


def parse_jj(printed: str) -> Head | None:
    """Read what jj printed of the working-copy commit and its parents, in this order.

    Returns None where nothing has been committed.
    """
    commits: list[list[Any]] = [json.loads(line) for line in printed.splitlines()]
    *_, root, empty, parents, _, _, _, description = commits[0]
    if empty and not description and parents == 1:
        commits = commits[1:]
    hash, change, name, email, seconds, root, _, _, files, added, removed, message = commits[0]
    if root:
        return None
    return Head(
        vcs_type="jj",
        hash=hash,
        change_id=change,
        message=message.rstrip("\n"),
        author=_author(name, email),
        timestamp=datetime.fromtimestamp(seconds, UTC),
        files_changed=files,
        insertions=added,
        deletions=removed,
    )


def _author(name: str, email: str) -> str | None:
    return " ".join(part for part in (name, f"<{email}>" if email else "") if part) or None


def _speaks_jj(place: Path) -> bool:
    for folder in (place.absolute(), *place.absolute().parents):
        git = (folder / ".git").exists()
        if (folder / ".jj").is_dir():
            return not git or shutil.which("jj") is not None
        if git:
            return False
    return False


def _git_head(place: Path) -> Head:
    found = _run(place, *_GIT, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    hash = found.stdout.decode("ascii", "replace").strip()
    if found.returncode == 1 and not found.stderr:
        raise RepositoryError(str(place), "there is no commit yet")
    _check(place, found)
    shown = _answer(place, *_GIT, *_GIT_LOG, hash, "--")
    parents = shown.partition(b"\0")[0].decode("ascii").split()
    numbers: bytes | None = None
    if parents:
        numbers = _git_numbers(place, parents[0], hash)
    elif not _has_parents(_answer(place, *_GIT, "cat-file", "commit", hash)):
        numbers = _git_numbers(place, hash)
    try:
        return parse_git(hash, shown, numbers)
    except (ValueError, OverflowError, OSError) as error:
        raise RepositoryError(str(place), f"commit {hash} cannot be read: {error}") from error


def _git_numbers(place: Path, *commits: str) -> bytes | None:
    """Ask how many lines changed; None where a partial clone would have to fetch the files."""
    done = _run(place, *_GIT, *_GIT_NUMBERS, *commits, "--")
    if done.returncode and not _run(place, *_GIT, "config", "--get-regexp", _PARTIAL).returncode:
        return None
    return _check(place, done)


def _has_parents(commit: bytes) -> bool:
    """Tell whether a commit names parents; a shallow clone shows none at its boundary."""
    header = commit.partition(b"\n\n")[0]
    return any(line.startswith(b"parent ") for line in header.splitlines())


def _jj_head(place: Path) -> Head:
    printed = _answer(place, "jj", *_JJ_LOG)
    try:
        head = parse_jj(printed.decode("utf-8", "replace"))
    except (ValueError, LookupError, OverflowError, OSError) as error:
        raise RepositoryError(str(place), f"what jj says cannot be read: {error}") from error
    if head is None:
        raise RepositoryError(str(place), "there is no commit yet")
    return head


def _answer(place: Path, *command: str) -> bytes:
    return _check(place, _run(place, *command))


def _check(place: Path, done: subprocess.CompletedProcess[bytes]) -> bytes:
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        tool = Path(done.args[0]).name
        said = lines[0] if lines else f"it ended with {done.returncode}"
        raise RepositoryError(str(place), f"{tool}: {said}")
    return done.stdout


def _run(place: Path, tool: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    # Found here, so that no directory that is asked about can supply it.
    program = shutil.which(tool)
    if program is None:
        raise RepositoryError(str(place), f"{tool} is not installed")
    try:
        return subprocess.run(
            (program, *words),
            cwd=place,
            env=_environment(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired as error:
        reason = f"{tool} did not answer within {TIMEOUT:.0f} s"
        raise RepositoryError(str(place), reason) from error
    except OSError as error:
        raise RepositoryError(str(place), f"{tool}: {error.strerror}") from error


def _environment(around: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in around.items()
        if not name.startswith("GIT_") or name in _KEPT
    }
    return {
        **(kept | _NOTHING_RUNS),
        **{"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"},
    }
