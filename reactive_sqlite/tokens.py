"""SQL text as SQLite's own tokenizer splits it, or nothing where that is not beyond doubt."""

from __future__ import annotations

import re
from dataclasses import dataclass

# A word holds any character beyond ASCII, as in SQLite: also those that other parsers call spaces.
TOKEN = re.compile(
    r"""
      (?P<space>[ \t\n\f\r]+ | --[^\n]* | /\*(?:.*?\*/|.*))
    | (?P<blob>[xX]'[^']*')
    | (?P<string>'(?:[^']|'')*')
    | (?P<name>"(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\])
    | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<variable>\?[0-9]* | [:@$][A-Za-z0-9_$\x80-\U0010ffff]+)
    | (?P<word>[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*)
    | (?P<operator>->>|->|\|\||<=|<>|<<|>=|>>|==|!=|[(),.;+\-*/%=<>&|~])
    """,
    re.VERBOSE | re.DOTALL,
)
# SQLite reads these on as part of the number, the parameter or the blob, or as an error.
GLUED = re.compile(r"[A-Za-z0-9_$\x80-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Token:
    """One token: its kind (a group of `TOKEN`), and its text without quotes and escapes."""

    kind: str
    text: str

    def is_name(self) -> bool:
        """Whether it may name a table or column: a word or a quoted name, not a text."""
        return self.kind in {"word", "name"}

    def keyword(self) -> str:
        """The token as a keyword or operator, in capitals; empty for anything quoted."""
        return (
            self.text.upper() if self.kind in {"word", "operator"} and self.text.isascii() else ""
        )


def tokenize(sql: str) -> list[Token] | None:
    """Return the tokens of `sql` without comments and closing semicolons, or None when in doubt."""
    tokens: list[Token] = []
    position = 0
    while position < len(sql):
        match = TOKEN.match(sql, position)
        if match is None:
            return None
        kind, text, position = str(match.lastgroup), match.group(), match.end()
        if kind in {"number", "variable", "blob"} and GLUED.match(sql, position):
            return None
        if kind == "variable" and sql.startswith(("(", "::"), position):
            return None
        if kind in {"string", "name"}:
            quote = text[-1]
            text = text[1:-1] if quote == "]" else text[1:-1].replace(quote * 2, quote)
        if kind != "space":
            tokens.append(Token(kind, text))
    while tokens and tokens[-1].keyword() == ";":
        tokens.pop()
    return tokens
