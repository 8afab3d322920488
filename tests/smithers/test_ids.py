"""Ids as text and as numbers."""

from __future__ import annotations

from typing import Any

import pytest

from smithers.errors import NotFound, TransitionNotFound
from smithers.ids import transition_id, transition_seq


def test_an_id_is_read_back_from_its_text_and_from_its_number() -> None:
    assert transition_id(12) == "t12"
    assert transition_seq("t12") == transition_seq(12) == 12


@pytest.mark.parametrize(
    "id", ["", "t", "t0", "t01", "12", "T1", "t1 ", "t\u0661", "x1", 0, -1, 2**63]
)
def test_what_no_transition_can_be_called_is_not_found(id: Any) -> None:
    with pytest.raises(TransitionNotFound) as caught:
        transition_seq(id)
    assert isinstance(caught.value, NotFound)
    assert caught.value.id == id
    assert repr(id) in str(caught.value)


@pytest.mark.parametrize("id", [None, True, 1.0, b"t1", ["t1"]])
def test_what_is_neither_text_nor_number_is_a_type_error(id: Any) -> None:
    with pytest.raises(TypeError, match="id is text like"):
        transition_seq(id)
