"""What somebody types to search for, as the words that full-text indexes are asked for."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

# What comes after is not looked for: a text of any length costs no more than this.
MAX_TEXT = 10_000
MAX_WORDS = 100
MAX_LETTERS = 100
# An index by pieces of three characters finds no less.
PIECE = 3
_NO_LETTER = "[^a-z0-9]"


@dataclass(frozen=True, slots=True)
class Search:
    """The words of a search, all of which must occur, in any order.

    A word is a run of letters, digits and their marks, so nothing in it means anything to SQLite.

    Attributes:
        words: each once, in the order of the text.
    """

    words: tuple[str, ...]

    @property
    def by_words(self) -> str:
        """The query of an index of words: each word may be the beginning of a longer one.

        A letter alone is none: `C++` is not everything that begins with c.
        """
        return " ".join(f'"{word}"*' if len(word) > 1 else f'"{word}"' for word in self.words)

    @property
    def by_pieces(self) -> str:
        """The query of an index of pieces, for the words that are long enough; maybe empty."""
        return " ".join(f'"{word}"' for word in self.words if len(word) >= PIECE)

    @property
    def at_starts(self) -> list[str]:
        """What GLOB is to find in a text in lower case, between spaces: the words of plain letters.

        They begin words there, also right after a character of another script.
        """
        return [
            f"*{_NO_LETTER}{word.lower()}{'' if len(word) > 1 else _NO_LETTER}*"
            for word in self.words
            if word.isascii()
        ]

    @property
    def anywhere(self) -> list[str]:
        """What LIKE is to find: other words, at any place, that an index of pieces cannot find."""
        return [f"%{word}%" for word in self.words if not word.isascii() and len(word) < PIECE]


def read_search(text: str) -> Search:
    """Find the words of any text.

    Of a very long one only the beginning counts: `MAX_TEXT` characters, `MAX_WORDS` words of
    `MAX_LETTERS` characters.

    >>> read_search("it's gateway/run.py, why?").words
    ('it', 's', 'gateway', 'run', 'py', 'why')
    """
    words: dict[str, None] = {}
    for run in "".join(map(_letter_or_space, text[:MAX_TEXT])).split():
        word = _from_first_letter(run)[:MAX_LETTERS]
        if word:
            words[word] = None
        if len(words) == MAX_WORDS:
            break
    return Search(tuple(words))


def _letter_or_space(one: str) -> str:
    # Letters, numbers, marks and private use: what the index of words takes for parts of words.
    kind = unicodedata.category(one)
    return one if kind[0] in "LNM" or kind == "Co" else " "


def _from_first_letter(run: str) -> str:
    # Marks alone would be the beginning of every word.
    start = 0
    while start < len(run) and unicodedata.category(run[start])[0] == "M":
        start += 1
    return run[start:]
