"""An agent that needs no model: a process of its own that reads this package's sources.

Run as `python -m smithers.demo.agent TASK`; prints what it found as one line of JSON.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PACKAGES = ("reactive_sqlite", "smithers")


def compile_sources() -> dict[str, Any]:
    """Compile every source file, and count files and lines."""
    files = lines = 0
    for path in _sources():
        text = path.read_text(encoding="utf-8")
        compile(text, str(path), "exec")
        files += 1
        lines += text.count("\n")
    return {"files": files, "lines": lines}


def review_sources() -> dict[str, Any]:
    """Count functions, and find the longest one and those without a word of documentation."""
    functions = undocumented = 0
    longest = (0, "")
    for path in _sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            functions += 1
            undocumented += not node.name.startswith("_") and ast.get_docstring(node) is None
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            longest = max(longest, (length, f"{path.name}:{node.name}"))
    return {"functions": functions, "undocumented": undocumented, "longest": longest[1]}


def digest_sources() -> dict[str, Any]:
    """Compute one digest over every source file."""
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(path.read_bytes())
    return {"sha256": digest.hexdigest()[:16]}


TASKS: dict[str, Callable[[], dict[str, Any]]] = {
    "compile": compile_sources,
    "digest": digest_sources,
    "review": review_sources,
}


def _sources() -> Iterator[Path]:
    for package in PACKAGES:
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise SystemExit(f"the package {package} is not here")
        yield from sorted(Path(spec.origin).parent.rglob("*.py"))


if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]]()))
