"""Which batches may go, when those that share a subject go one after the other (law S5)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.senders._in_order import InOrder

keys = st.lists(st.sampled_from("abcd"), max_size=3)


@given(st.lists(keys, max_size=20), st.data())
def test_s5_each_waits_for_just_those_before_it_that_share_a_key(
    offered: list[list[str]], data: st.DataObject
) -> None:
    order = InOrder[int]()
    unended: list[int] = []
    gone: list[int] = []
    fresh = list(range(len(offered)))

    def may_go(one: int) -> bool:
        before = [other for other in unended if other < one]
        return not any(set(offered[other]) & set(offered[one]) for other in before)

    while fresh or unended:
        running = [one for one in unended if one in gone]
        if fresh and (not running or data.draw(st.booleans())):
            one = fresh.pop(0)
            unended.append(one)
            went = order.offer(one, offered[one])
            assert went == may_go(one)
            gone += [one] * went
        else:
            one = data.draw(st.sampled_from(running))
            unended.remove(one)
            freed = order.ended(one)
            assert freed == [one for one in unended if may_go(one) and one not in gone]
            gone += freed
        assert len(order) == len(unended)
        assert order.waiting() == [one for one in unended if one not in gone]
    assert sorted(gone) == list(range(len(offered)))
    assert not order._lines
    assert not order._keys
    assert not order._numbers
    assert not order._behind
