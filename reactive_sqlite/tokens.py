"""SQL text as SQLite's own tokenizer splits it, or nothing where that is not beyond doubt."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

# Before a statement's first word: white space, comments, empty statements.
_LEADING = re.compile(r"(?:[ \t\n\f\r;\ufeff]+|--[^\n]*|/\*.*?(?:\*/|\Z))*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]*")


# A letter, digit, _ or $, or anything beyond ASCII; without the digits and $. Said by what it is
# not, which takes a hundredth of the time to compile.
_IN_NAME = r"[^\x00-#%-/:-@\[-^`{-\x7f]"
_BEGINS_NAME = r"[^\x00-@\[-^`{-\x7f]"

# SQLite reads these on as part of the number, the parameter or the blob, or as an error.
GLUED = re.compile(_IN_NAME)


@dataclass(frozen=True, slots=True)
class Token:
    """One token: its kind (a group of the pattern), and its text without quotes and escapes."""

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
    token = _token()
    tokens: list[Token] = []
    position = 0
    while position < len(sql):
        match = token.match(sql, position)
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


def first_keyword(sql: str) -> str:
    """Return the statement's first word in capitals, "" when it has none."""
    start = _LEADING.match(sql)
    word = _WORD.match(sql, start.end() if start is not None else 0)
    return word.group().upper() if word is not None else ""


@cache
def _token() -> re.Pattern[str]:
    """The pattern of one token; compiled when first needed, which takes its time."""
    # A word holds any character beyond ASCII, as in SQLite: also those that other parsers call
    # spaces.
    return re.compile(
        rf"""
          (?P<space>[ \t\n\f\r]+ | --[^\n]* | /\*(?:.*?\*/|.*))
        | (?P<blob>[xX]'[^']*')
        | (?P<string>'(?:[^']|'')*')
        | (?P<name>"(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\])
        | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
        | (?P<variable>\?[0-9]* | [:@$]{_IN_NAME}+)
        | (?P<word>{_BEGINS_NAME}{_IN_NAME}*)
        | (?P<operator>->>|->|\|\||<=|<>|<<|>=|>>|==|!=|[(),.;+\-*/%=<>&|~])
        """,
        re.VERBOSE | re.DOTALL,
    )
