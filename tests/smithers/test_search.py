"""The words of what somebody types: found in any text, and harmless in any query."""

from __future__ import annotations

import random
import sys
import unicodedata
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smithers import SmithersDB, create_smithers_db
from smithers.memory.search import MAX_LETTERS, MAX_TEXT, MAX_WORDS, read_search


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ()),
        ("  \t\n", ()),
        ("?! -- '\" ()", ()),
        ("API endpoint", ("API", "endpoint")),
        ("it's", ("it", "s")),
        ("C++", ("C",)),
        ("gateway/run.py", ("gateway", "run", "py")),
        ("user@host", ("user", "host")),
        ("snake_case", ("snake", "case")),
        ('say "NEAR(a b)" OR * NOT ^x', ("say", "NEAR", "a", "b", "OR", "NOT", "x")),
        ("a\0b", ("a", "b")),
        ("lone \ud800 surrogate", ("lone", "surrogate")),
        ("again and again", ("again", "and")),
        ("東京の設定", ("東京の設定",)),
        ("हिन्दी भाषा", ("हिन्दी", "भाषा")),
        ("cafe\u0301", ("cafe\u0301",)),
        ("\u0301\u0302", ()),
        ("\u0301x", ("x",)),
        ("🚀 launch", ("launch",)),
        ("½ v2", ("½", "v2")),
    ],
)
def test_words_are_runs_of_letters_digits_and_marks(text: str, words: tuple[str, ...]) -> None:
    assert read_search(text).words == words


def test_each_word_may_begin_a_longer_one_but_a_letter_alone() -> None:
    assert read_search("C conf").by_words == '"C" "conf"*'


def test_what_the_index_of_pieces_cannot_find_is_looked_for_in_the_text() -> None:
    search = read_search("東京 設定画面 C Js")
    assert search.by_pieces == '"設定画面"'
    assert search.anywhere == ["%東京%"]
    assert search.at_starts == ["*[^a-z0-9]c[^a-z0-9]*", "*[^a-z0-9]js*"]


def test_a_text_of_any_length_is_cut_off() -> None:
    assert read_search("x" * (MAX_LETTERS + 1)).words == ("x" * MAX_LETTERS,)
    many = " ".join(f"w{number}" for number in range(MAX_WORDS + 1))
    assert len(read_search(many).words) == MAX_WORDS
    assert read_search(" " * MAX_TEXT + "word").words == ()


@given(st.text(alphabet=st.characters()))
def test_no_word_holds_anything_that_means_something_to_the_index(text: str) -> None:
    for word in read_search(text).words:
        assert word and word in text
        assert all(unicodedata.category(one)[0] in "LNM" or one >= "\ue000" for one in word)


# -- against the index itself ----------------------------------------------------------------------

EVERYDAY = {
    "quote": ("it's", "It's what users type"),
    "language": ("C++", "The parser is written in C++ and wrapped"),
    "path": ("gateway/run.py", "Start it by gateway/run.py --port 80"),
    "address": ("user@host", "ssh user@host, then restart"),
    "question": ("why?", "Nobody knows why the cache is off"),
    "version": ("v1.2.3-rc1", "Pinned to v1.2.3-rc1 since May"),
    "flag": ("--no-cache", "Build with --no-cache"),
    "operator": ("AND OR NOT", "Use AND, OR, NOT in capitals"),
    "percent": ("100%", "Coverage is at 100% now"),
    "german": ("straße", "Die Straße ist gesperrt"),
    "french": ("deja vu", "Un air de déjà vu"),
    "decomposed": ("résumé", "The re\u0301sume\u0301 template"),
    "vietnamese": ("pho bo", "Quán phở bò ngon nhất"),
    "greek": ("ΚΑΛΗΜΈΡΑ", "Λέμε καλημέρα το πρωί"),
    "russian": ("настройки", "Настройки лежат в базе"),
    "hebrew": ("שלום", "אומרים שלום בבוקר"),
    "arabic": ("مرحبا", "نقول مرحبا دائما"),
    "hindi": ("हिन्दी", "यह हिन्दी में है"),
    "georgian": ("გამარჯობა", "ვამბობთ გამარჯობა დილით"),
    "amharic": ("ሰላም", "ሁልጊዜ ሰላም እንላለን"),
    "korean": ("설정", "환경설정을 바꾼다"),
    "japanese": ("設定", "新しい設定を見る"),
    "one character": ("猫", "庭に猫がいる"),
    "kana": ("カメラ", "新型カメラの説明"),
    "chinese": ("数据库连接", "检查数据库连接是否正常"),
    "rare han": ("𠮷野家", "昼は𠮷野家に行く"),
    "thai": ("ข้าว", "วันนี้กินข้าวเที่ยงแล้ว"),
    "lao": ("ພາສາ", "ຂ້ອຍເວົ້າພາສາລາວ"),
    "khmer": ("ភាសា", "ខ្ញុំរៀនភាសាខ្មែរ"),
    "burmese": ("ဘာသာ", "မြန်မာဘာသာစကား"),
    "mixed": ("API", "新しいAPIを使う"),
    "two scripts": ("gateway 設定", "Gatewayの設定画面"),
    "two letters": ("js", "東京jsの会"),
    "one letter": ("C", "C言語の本"),
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmithersDB]:
    root = tmp_path_factory.mktemp("search")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMITHERS_HOME", str(root / "home"))
        with create_smithers_db(root / "workflow") as db:
            for key, (_, content) in EVERYDAY.items():
                db.memories.add_fact(key, content)
            yield db


@pytest.mark.parametrize("key", EVERYDAY)
def test_an_everyday_query_finds_its_row(filled: SmithersDB, key: str) -> None:
    found = [memory.key for memory in filled.memories.search(EVERYDAY[key][0])]
    assert key in found
    assert len(found) <= 3, "and hardly anything else"


def test_plain_letters_are_found_at_the_beginning_of_words_only(filled: SmithersDB) -> None:
    """Also in texts of scripts without spaces, whose keys have plain letters too."""
    assert [memory.key for memory in filled.memories.search("or")] == ["operator"]
    for query in ("orean", "apanese", "ateway", "i"):
        assert filled.memories.search(query) == [], query


def test_no_word_finds_nothing(filled: SmithersDB) -> None:
    for query in ("", " ", "?", "++", "'", '"', "*", "🚀", "\0", "\ud800", "\u0301"):
        assert filled.memories.search(query) == []
        assert filled.memories.observe_search(query)() == []


ALPHABETS = (
    "abc '\"",
    "\"'()*+-:^{}.,/\\@#%&|<>=~`!?;_ \t\n\0ab",
    "AND OR NOT NEAR(",
    "東京設定カメラ한국어ไทย ab\"'",
    "éü\u0301\u0345\u200d\u200bÀß İıẞ",
)


def test_three_thousand_fuzzed_queries_raise_nothing(filled: SmithersDB) -> None:
    search_fuzzed(filled, 3_000)


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_sixty_thousand_fuzzed_queries_raise_nothing(filled: SmithersDB) -> None:
    search_fuzzed(filled, 60_000)


def search_fuzzed(filled: SmithersDB, queries: int) -> None:
    rng = random.Random(queries)
    for number in range(queries):
        length = rng.randrange(1, 24)
        if number % 3:
            alphabet = ALPHABETS[number % len(ALPHABETS)]
            query = "".join(rng.choice(alphabet) for _ in range(length))
        else:
            query = "".join(chr(rng.randrange(sys.maxunicode + 1)) for _ in range(length))
        filled.memories.search(query, limit=3)


@pytest.mark.parametrize(
    "query",
    [
        "x" * 100_000,
        "猫" * 100_000,
        " ".join(f"word{number}" for number in range(10_000)),
        " ".join("猫" + chr(0x4E00 + number) for number in range(5_000)),
        '"' * 100_000,
        "a OR " * 10_000,
    ],
)
def test_a_query_of_any_length_is_answered(filled: SmithersDB, query: str) -> None:
    assert filled.memories.search(query) == []
