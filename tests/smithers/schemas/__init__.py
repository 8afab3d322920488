"""A file of every schema that was ever released, named by its version."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def fixtures() -> dict[int, Path]:
    """Return the files by the version of their schema."""
    return {int(file.stem): file for file in sorted(FOLDER.glob("*.sqlite"))}
