"""Places: paths that a resumed run makes again, whatever happened to the lines of the script."""

from __future__ import annotations

import asyncio

from smithers.runtime.place import Place, Places


def test_things_of_one_name_in_one_place_are_told_apart_by_their_order() -> None:
    places = Places()
    assert [str(places.next("step", "a")) for _ in range(2)] == [
        '[["step","a",0]]',
        '[["step","a",1]]',
    ]
    assert str(places.next("step", "b")) == '[["step","b",0]]'
    assert str(places.next("phase", "a")) == '[["phase","a",0]]'


def test_a_place_counts_its_names_anew() -> None:
    places = Places()
    places.next("step", "a")
    with places.at(Place((("loop", "", 0, 3),))):
        inside = places.next("step", "a")
    assert str(inside) == '[["loop","",0,3],["step","a",0]]'
    assert inside.iteration == 3
    assert places.here == Place()
    assert Place().iteration == 0


async def test_tasks_stand_where_they_were_made() -> None:
    places = Places()

    async def where() -> Place:
        await asyncio.sleep(0)
        return places.here

    with places.at(Place((("branch", 1),))):
        task = asyncio.create_task(where())
    assert places.here == Place()
    assert await task == Place((("branch", 1),))


def test_the_innermost_loop_gives_the_iteration() -> None:
    outer = Place((("loop", "", 0, 1), ("phase", "p", 0), ("loop", "", 0, 5)))
    assert outer.iteration == 5
