"""What went wrong, as the text that a record keeps."""

from __future__ import annotations

import traceback


def error_text(error: object) -> str:
    """Write an exception as "Type: message" and its traceback below; text stays as it is.

    Raises TypeError for anything else. What UTF-8 cannot write, and NUL, is escaped.
    """
    if isinstance(error, BaseException):
        return writable(_described(error))
    if isinstance(error, str):
        return writable(error)
    raise TypeError(f"an error is an exception or a str, not {type(error).__name__}")


def writable(text: object) -> str:
    """Escape what UTF-8 cannot write, and NUL; what is no text is written as `str` does."""
    plain = text if type(text) is str else str(text)
    return plain.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def error_line(error: BaseException) -> str:
    """Write an exception as one line: "Type: message", cut where the message has a line break."""
    return writable(_headline(error)).splitlines()[0]


def _headline(error: BaseException) -> str:
    name = type(error).__qualname__
    try:
        message = str(error)
    except Exception as broken:
        message = f"(its message cannot be read: {type(broken).__name__})"
    return f"{name}: {message}" if message else name


def _described(error: BaseException) -> str:
    head = _headline(error)
    if error.__traceback__ is None and error.__cause__ is None and error.__context__ is None:
        return head
    return f"{head}\n{''.join(traceback.format_exception(error)).rstrip()}"
