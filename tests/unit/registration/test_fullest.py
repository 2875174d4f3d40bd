"""The entity that holds the most, compared with looking at all of them."""

from __future__ import annotations

import random

from dispatcher.registration._model.fullest import Fullest


def test_r5_it_is_the_one_that_looking_at_all_of_them_finds() -> None:
    chance, fullest = random.Random(5), Fullest()
    held: dict[str, tuple[int, int]] = {}
    for number in range(20_000):
        name = f"e{chance.randrange(40)}"
        amount = chance.randrange(6)
        born = held[name][1] if name in held else number
        fullest.put(name, amount, born)
        held[name] = (amount, born)
        if not amount:
            del held[name]
        if held and number % 7 == 0:
            most = max(one for one, _ in held.values())
            oldest = min((born, one) for one, (much, born) in held.items() if much == most)[1]
            sender = f"e{chance.randrange(45)}"
            own = held.get(sender, (0, 0))[0] == most
            assert fullest.victim(sender) == (sender if own else oldest)
