"""Which project a database belongs to: repositories, their worktrees, folders; shared stores."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from smithers import CannotOpen
from smithers.memory.projects import project_of, shared_store, user_store
from tests.conftest import require_tool


def git(*arguments: str | Path, at: Path) -> None:
    command = [require_tool("git"), "-C", str(at), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*command, *map(str, arguments)], check=True, capture_output=True)


def project(directory: Path) -> Path:
    return Path(project_of(directory / "db.sqlite"))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    git("init", "-q", at=root)
    git("commit", "-q", "--allow-empty", "-m", "first", at=root)
    return root


def test_outside_of_a_repository_it_is_the_directory_of_the_database(tmp_path: Path) -> None:
    assert project(tmp_path / "one") == tmp_path / "one"
    assert project(tmp_path / "two") == tmp_path / "two"


def test_below_a_smithers_folder_it_is_the_directory_around_that(tmp_path: Path) -> None:
    assert project(tmp_path / ".smithers" / "one") == tmp_path
    assert project(tmp_path / ".smithers" / "deep" / "two") == tmp_path
    assert project(tmp_path / ".smithers") == tmp_path


def test_in_a_repository_it_is_its_root(repository: Path) -> None:
    assert project(repository) == repository
    assert project(repository / ".smithers" / "one") == repository
    assert project(repository / "src" / "deep" / ".smithers" / "one") == repository


def test_all_worktrees_are_the_project_of_the_main_one(repository: Path, tmp_path: Path) -> None:
    git("worktree", "add", "-q", tmp_path / "beside", at=repository)
    git("worktree", "add", "-q", repository / "inside", at=repository)
    assert project(tmp_path / "beside" / ".smithers" / "one") == repository
    assert project(repository / "inside") == repository


def test_worktrees_of_a_bare_repository_are_one_project(repository: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    git("clone", "-q", "--bare", repository, bare, at=tmp_path)
    git("worktree", "add", "-q", tmp_path / "one", at=bare)
    git("worktree", "add", "-q", "-b", "other", tmp_path / "two", at=bare)
    assert project(tmp_path / "one") == project(tmp_path / "two") == bare


def test_a_submodule_is_a_project_of_its_own(repository: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    git("init", "-q", at=outer)
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", repository, "sub", at=outer)
    assert project(outer / "sub" / "wf") == outer / "sub"
    assert project(outer / "wf") == outer


def test_a_repository_reached_through_a_link_is_the_same_project(
    repository: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(repository)
    assert project(link / ".smithers" / "one") == repository


def test_a_workspace_of_jj_is_the_project_of_the_main_one(tmp_path: Path) -> None:
    main, other = tmp_path / "main", tmp_path / "other"
    (main / ".jj" / "repo").mkdir(parents=True)
    (other / ".jj").mkdir(parents=True)
    (other / ".jj" / "repo").write_text("../../main/.jj/repo")
    assert project(main / "wf") == project(other / "wf") == main


@pytest.mark.parametrize("text", ["", "nonsense", "gitdir:", "gitdir: /nowhere\n", "\xff\xfe"])
def test_a_damaged_git_file_stops_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / ".git").write_text(text, encoding="latin-1")
    assert project(tmp_path / "wf") in (tmp_path, tmp_path / "wf")


def test_a_database_in_memory_belongs_to_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert project_of(None) == str(tmp_path)


def test_a_store_is_shared_by_the_databases_under_a_smithers_folder(tmp_path: Path) -> None:
    assert shared_store(tmp_path / "workflow") is None
    assert shared_store(tmp_path / ".smithers") is None
    assert shared_store(None) is None
    store = tmp_path / ".smithers" / "memories"
    assert shared_store(tmp_path / ".smithers" / "one") == store
    assert shared_store(tmp_path / ".smithers" / "deep" / "two") == store


def test_what_is_chosen_comes_before_what_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SMITHERS_MEMORY", "named")
    under = tmp_path / ".smithers" / "one"
    assert shared_store(under, tmp_path / "chosen") == tmp_path / "chosen"
    assert shared_store(under, "chosen") == tmp_path / "chosen"
    assert shared_store(under) == shared_store(None) == tmp_path / "named"
    monkeypatch.setenv("SMITHERS_MEMORY", "")
    assert shared_store(tmp_path / "workflow") is None


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(CannotOpen, match="no path"):
        shared_store(None, path)


def test_the_users_own_store_is_where_the_platform_keeps_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMITHERS_HOME", str(tmp_path / "mine"))
    assert user_store() == tmp_path / "mine"
    monkeypatch.delenv("SMITHERS_HOME")
    assert user_store().is_absolute() and user_store().name == "smithers"
