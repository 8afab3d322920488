"""Which project a database belongs to, and where memories are kept that several databases share.

A project is the root of the main working copy: all worktrees of one git repository, and all
workspaces of one of jj, are the same project.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from smithers.files import opened_path

# The folder in which workflows keep their databases, each in a directory of its own.
WORKFLOWS = ".smithers"
SHARED = "memories"
STORE_VARIABLE = "SMITHERS_MEMORY"
HOME_VARIABLE = "SMITHERS_HOME"


def project_of(file: Path | None) -> str:
    """Name the project of a database file, that of the current directory for one in memory.

    It is the root of the repository around the file, without one the directory that holds
    `.smithers/`, and outside of such a folder the file's own directory.
    """
    directory = _absolute(Path.cwd() if file is None else file.parent)
    for place in (directory, *directory.parents):
        root = _git_root(place) or _jj_root(place)
        if root is not None:
            return os.path.realpath(root)
    workflows = _workflows((directory, *directory.parents))
    return os.path.realpath(directory if workflows is None else workflows.parent)


def shared_store(
    directory: Path | None, chosen: str | os.PathLike[str] | None = None
) -> Path | None:
    """Tell the directory in which the project's memories are, None for the database itself.

    That is what was chosen, else what SMITHERS_MEMORY names, else `.smithers/memories` for a
    database that is a directory under a `.smithers/`, and this is it. Raises CannotOpen for what
    is no path.
    """
    if chosen is not None:
        return _absolute(_path(chosen, "memory_path"))
    named = os.environ.get(STORE_VARIABLE)
    if named:
        return _absolute(_path(named, STORE_VARIABLE))
    workflows = None if directory is None else _workflows(_absolute(directory).parents)
    return None if workflows is None else workflows / SHARED


def user_store() -> Path:
    """Tell the directory of the user's own memories: SMITHERS_HOME, else the platform's place."""
    named = os.environ.get(HOME_VARIABLE)
    if named:
        return _absolute(_path(named, HOME_VARIABLE))
    from platformdirs import user_data_path

    return user_data_path("smithers", appauthor=False)


def _workflows(places: Iterable[Path]) -> Path | None:
    """Return the first `.smithers/` of some places."""
    return next((place for place in places if place.name == WORKFLOWS), None)


def _git_root(place: Path) -> Path | None:
    mark = place / ".git"
    if mark.is_dir():
        return place
    named = _first_line(mark)
    if named is None or not named.startswith("gitdir:"):
        return None
    private = place / named.removeprefix("gitdir:").strip()
    # Only the directory of a linked worktree says where that of the repository is.
    common = _first_line(private / "commondir")
    if common is None:
        return place
    repository = private / common
    # A bare repository has no main worktree: it stands for the project itself.
    resolved = Path(os.path.realpath(repository))
    return resolved.parent if resolved.name == ".git" else resolved


def _jj_root(place: Path) -> Path | None:
    mark = place / ".jj" / "repo"
    if mark.is_dir():
        return place
    # In a further workspace it names the `.jj/repo` of the main one.
    named = _first_line(mark)
    return None if named is None else Path(os.path.realpath(mark.parent / named)).parent.parent


def _first_line(file: Path) -> str | None:
    try:
        return os.fsdecode(file.read_bytes()).partition("\n")[0].strip("\r")
    except OSError:
        # No such file, or one that this user may not read: then it says nothing to us.
        return None


def _path(given: str | os.PathLike[str], name: str) -> Path:
    return Path(opened_path(given, name))


def _absolute(path: Path) -> Path:
    # Not resolved: a `.smithers` that is a link elsewhere still belongs where it stands.
    return Path(os.path.abspath(path))
