"""Which rows of one table a query can see at all, proved from its text.

Two readers have to agree. An exact tokenizer of SQLite's own lexical rules finds `column = value`
standing alone between `WHERE`, `AND`, brackets and the clause's end; a real SQL parser (sqlglot)
says that this comparison is a top-level conjunct of the only `WHERE` of the only `SELECT`. Neither
is enough: the parser drops a unary plus and knows nothing of SQLite's parameter numbers, and tokens
know nothing of precedence. Whatever is in doubt proves nothing; a missing pin only costs re-runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from reactive_sqlite.tokens import Token, tokenize

if TYPE_CHECKING:
    from sqlglot import exp

LARGEST_PARAMETER = 32_766
LARGEST_INTEGER = 2**63 - 1
LONGEST_NUMBER = 32

# With exactly one SELECT, and none of these, nothing but the table after FROM can be read.
FORBIDDEN = frozenset(
    {"WITH", "VALUES", "UNION", "INTERSECT", "EXCEPT", "JOIN", "EXISTS", "INDEXED", "RETURNING"}
)
BEFORE_A_CONJUNCT = frozenset({"WHERE", "AND", "("})
AFTER_A_CONJUNCT = frozenset({"AND", ")", ";", "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT"})
BEFORE_A_BRACKET = frozenset(
    {"WHERE", "AND", "OR", "NOT", "IN", "IS", "BETWEEN", "LIKE", "GLOB", "ESCAPE", "CASE", "WHEN"}
    | {"THEN", "ELSE", "BY", "HAVING", "DISTINCT", "FROM", "AS", "OVER", "FILTER"}
)
# SQLite may evaluate a condition on rows that another condition rules out. If it can raise there,
# a row outside the pins decides whether the query fails: so only what never raises is let through.
NEVER_RAISING = frozenset(
    {"AVG", "CAST", "CHAR", "COALESCE", "COUNT", "DATE", "DATETIME", "GROUP_CONCAT", "HEX"}
    | {"IFNULL", "IIF", "INSTR", "JSON_VALID", "JULIANDAY", "LENGTH", "LOWER", "LTRIM", "MAX"}
    | {"MIN", "NULLIF", "QUOTE", "ROUND", "RTRIM", "STRFTIME", "SUBSTR", "SUBSTRING", "SUM"}
    | {"TIME", "TOTAL", "TRIM", "TYPEOF", "UNICODE", "UNIXEPOCH", "UPPER"}
)
MAY_RAISE = frozenset({"->", "->>", "MATCH", "REGEXP"})


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that stands in the SQL text, exactly as SQLite reads it."""

    value: int | float | str

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return "'" + self.value.replace("'", "''") + "'"
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value that is bound later: a position counted from 0, or a name without its prefix.

    Names are meant for parameters given as a mapping, positions for a sequence. Where the two do
    not fit, the pin cannot be resolved and must be dropped.
    """

    key: int | str

    def __str__(self) -> str:
        return f"?{self.key + 1}" if isinstance(self.key, int) else f":{self.key}"


@dataclass(frozen=True, slots=True)
class Shape:
    """The one table a query reads, and what each row it can see must be equal to.

    Names are spelled as in the query. `schema` is None where the query names none.
    """

    table: str
    schema: str | None
    equalities: tuple[tuple[str, Literal | Parameter], ...]

    def __str__(self) -> str:
        table = self.table if self.schema is None else f"{self.schema}.{self.table}"
        return f"{table}[{', '.join(f'{column}={value}' for column, value in self.equalities)}]"


@lru_cache(maxsize=2048)
def prove(sql: str) -> Shape | None:
    """Return the table and the equalities that no row outside can get round, or None when in doubt.

    Rows of the table that fail any of the equalities cannot change the answer, nor whether there is
    one. What the text cannot say is the caller's to check: that the table is an ordinary one (no
    view, no virtual table, no generated column that may raise), that the columns exist (else
    `"name"` may be a text and `name` an alias), and how the column's affinity and collation
    compare. The first query that may succeed imports sqlglot (0.1 s).

        >>> str(prove("select name from users where id = ? and active = 1"))
        'users[id=?1, active=1]'
    """
    tokens = tokenize(sql)
    source = _source(tokens) if tokens else None
    if tokens is None or source is None:
        return None
    found = list(_comparisons(tokens, source))
    if not found or _may_raise(tokens[source.where :]):
        return None
    conjuncts = _conjuncts(_rendered(tokens, found), source)
    proved = [
        (each.column, each.value)
        for index, each in enumerate(found)
        if conjuncts.get(index) == each.column
    ]
    return Shape(source.table, source.schema, tuple(proved)) if proved else None


@dataclass(frozen=True, slots=True)
class _Source:
    table: str
    schema: str | None
    qualifier: str  # what a column of the table may be qualified by
    where: int  # the token WHERE


@dataclass(frozen=True, slots=True)
class _Comparison:
    column: str
    value: Literal | Parameter
    start: int  # the tokens of the value, from start to before end
    end: int


def _source(tokens: list[Token]) -> _Source | None:
    words = [token.keyword() for token in tokens]
    if words[0] != "SELECT" or any(words.count(word) != 1 for word in ("SELECT", "FROM", "WHERE")):
        return None
    if ";" in words or not FORBIDDEN.isdisjoint(words):
        return None
    if any(word == "IN" and following != "(" for word, following in pairwise(words)):
        return None  # `x IN other_table` reads that table
    start, where = words.index("FROM"), words.index("WHERE")
    if _depth(words[:start]) != 0 or _depth(words[:where]) != 0:
        return None
    clause = tokens[start + 1 : where]
    schema = None
    if len(clause) > 2 and clause[1].keyword() == "." and clause[0].is_name():
        schema, clause = clause[0].text, clause[2:]
    if len(clause) == 3 and clause[1].keyword() == "AS":
        del clause[1]
    if len(clause) not in {1, 2} or not all(token.is_name() for token in clause):
        return None
    return _Source(clause[0].text, schema, clause[-1].text, where)


def _depth(words: Sequence[str]) -> int:
    return words.count("(") - words.count(")")


def _comparisons(tokens: list[Token], source: _Source) -> Iterator[_Comparison]:
    """Every `column = value` and `value = column` after WHERE that stands alone."""
    parameters = _parameters(tokens)
    for equals in range(source.where + 2, len(tokens) - 1):
        if tokens[equals].keyword() not in {"=", "=="}:
            continue
        left, right = _operand_start(tokens, equals), _operand_end(tokens, equals)
        if tokens[left - 1].keyword() not in BEFORE_A_CONJUNCT:
            continue
        if right < len(tokens) and tokens[right].keyword() not in AFTER_A_CONJUNCT:
            continue
        for column_span, value_span in (
            ((left, equals), (equals + 1, right)),
            ((equals + 1, right), (left, equals)),
        ):
            column = _column(tokens[slice(*column_span)], source)
            value = _value(tokens[slice(*value_span)], parameters.get(value_span[0]))
            if column is not None and value is not None:
                yield _Comparison(column, value, *value_span)


def _operand_start(tokens: list[Token], equals: int) -> int:
    start = equals - 1
    if tokens[start - 1].keyword() == ".":
        start -= 2
    elif tokens[start].kind == "number" and tokens[start - 1].keyword() == "-":
        start -= 1
    return start


def _operand_end(tokens: list[Token], equals: int) -> int:
    end = equals + 2
    if tokens[end - 1].keyword() == "-":
        end += 1
    elif end < len(tokens) and tokens[end].keyword() == ".":
        end += 2
    return end


def _column(operand: list[Token], source: _Source) -> str | None:
    if len(operand) == 3 and operand[1].keyword() == "." and operand[0].is_name():
        if _folded(operand[0].text) != _folded(source.qualifier):
            return None
        del operand[:2]
    return operand[0].text if len(operand) == 1 and operand[0].is_name() else None


def _folded(name: str) -> str:
    # SQLite folds ASCII letters only: the Kelvin sign is no k.
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


def _value(operand: list[Token], parameter: Parameter | None) -> Literal | Parameter | None:
    if not operand:
        return None
    token = operand[-1]
    negative = len(operand) == 2 and operand[0].keyword() == "-" and token.kind == "number"
    if len(operand) != 1 and not negative:
        return None
    if token.kind == "string":
        return Literal(token.text)
    if token.kind == "number":
        number = _number(token.text)
        return None if number is None else Literal(-number if negative else number)
    return parameter


def _number(text: str) -> int | float | None:
    if len(text) > LONGEST_NUMBER or len(text.lower().partition("e")[2]) > 3:
        return None
    if text.isdigit():
        return number if (number := int(text)) <= LARGEST_INTEGER else None
    # SQLite's own conversion is off by a bit for some decimals: only exact ones are beyond doubt.
    exact = Decimal(text)
    if len(exact.as_tuple().digits) > 15 or not -22 <= exact.adjusted() <= 22:
        return None
    return float(exact) if Decimal(float(exact)) == exact else None


def _parameters(tokens: list[Token]) -> dict[int, Parameter]:
    """Each parameter's token and key, by SQLite's numbering; none when both kinds are mixed."""
    variables = [
        (index, token.text) for index, token in enumerate(tokens) if token.kind == "variable"
    ]
    if all(text[0] != "?" for _, text in variables):
        return {index: Parameter(text[1:]) for index, text in variables}
    parameters: dict[int, Parameter] = {}
    largest = 0
    for index, text in variables:
        if text[0] != "?" or len(text) > LONGEST_NUMBER:
            return {}
        number = int(text[1:]) if text[1:] else largest + 1
        if not 1 <= number <= LARGEST_PARAMETER:
            return {}
        largest = max(largest, number)
        parameters[index] = Parameter(number - 1)
    return parameters


def _may_raise(condition: list[Token]) -> bool:
    """Whether a condition may raise for a row; ORDER BY and LIMIT only see rows that match."""
    depth = 0
    for token, following in zip(condition, [*condition[1:], Token("end", "")], strict=True):
        word = token.keyword()
        depth += (word == "(") - (word == ")")
        if depth == 0 and word in {"ORDER", "LIMIT"}:
            return False
        if word in MAY_RAISE:
            return True
        if (
            following.keyword() == "("
            and token.is_name()
            and word not in BEFORE_A_BRACKET | NEVER_RAISING
        ):
            return True
    return False


def _rendered(tokens: list[Token], found: list[_Comparison]) -> str:
    """The query in the plainest spelling, each compared value as a placeholder with its number."""
    pieces = [_spelled(token) for token in tokens]
    for index, comparison in enumerate(found):
        pieces[comparison.start] = f":pin{index}"
        pieces[comparison.start + 1 : comparison.end] = [""] * (
            comparison.end - comparison.start - 1
        )
    return " ".join(pieces)


def _spelled(token: Token) -> str:
    if token.kind == "name" or (token.kind == "word" and not token.text.isascii()):
        return '"' + token.text.replace('"', '""') + '"'
    # What these hold cannot matter here, and must not trip a parser with other quoting rules.
    return {"string": "'text'", "blob": "x'00'", "variable": ":other"}.get(token.kind, token.text)


def _conjuncts(sql: str, source: _Source) -> dict[int, str]:
    """The column that each numbered placeholder is equal to in a top-level conjunct of WHERE."""
    # Heavy, and needed by few programs.
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        statements = sqlglot.parse(sql, dialect="sqlite")
    except (SqlglotError, RecursionError):
        return {}  # what the parser cannot read is not proved
    select = statements[0] if len(statements) == 1 else None
    if not isinstance(select, exp.Select) or not _reads_one_table(select, source):
        return {}
    where = select.args.get("where")
    found: dict[int, str] = {}
    for conjunct in _flattened(where.this) if isinstance(where, exp.Where) else ():
        if isinstance(conjunct, exp.EQ):
            for one, other in ((conjunct.left, conjunct.right), (conjunct.right, conjunct.left)):
                if isinstance(one, exp.Column) and isinstance(other, exp.Placeholder):
                    name = str(other.this)
                    if name.startswith("pin") and _folded(one.table) in {
                        "",
                        _folded(source.qualifier),
                    }:
                        found[int(name[3:])] = one.name
    return found


def _reads_one_table(select: exp.Select, source: _Source) -> bool:
    from sqlglot import exp

    tables = list(select.find_all(exp.Table))
    others = select.find_all(
        exp.Subquery, exp.SetOperation, exp.Join, exp.CTE, exp.UDTF, exp.Select
    )
    if len(tables) != 1 or any(other is not select for other in others):
        return False
    table = tables[0]
    used = {key for key, value in table.args.items() if value}
    return (
        isinstance(table.this, exp.Identifier)
        and isinstance(table.parent, exp.From)
        and table.parent.parent is select
        and used <= {"this", "db", "alias"}
        and (table.name, table.db or None) == (source.table, source.schema)
        and (table.alias or table.name) == source.qualifier
    )


def _flattened(condition: object) -> Iterator[object]:
    from sqlglot import exp

    # A stack, not recursion: a generated condition may have thousands of conjuncts.
    waiting = [condition]
    while waiting:
        each = waiting.pop()
        if isinstance(each, exp.And):
            waiting += [each.right, each.left]
        elif isinstance(each, exp.Paren):
            waiting.append(each.this)
        else:
            yield each
