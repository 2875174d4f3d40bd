"""Directed histories of costs that are known after the call. Each returns the fullest window, by
true costs: what was estimated is an upper bound, unless a history says otherwise."""

from __future__ import annotations

from collections.abc import Callable

from limiters._budgets.permit import PermitBudget
from limiters._budgets.spend import Spend
from limiters._budgets.window import WindowLedger
from limiters.leases._bounds import terms_of_limits
from limiters.leases._format import UNITS
from limiters.leases._messages import Reply, altered
from limiters.limits import Limits, Rate
from limiters.testing import SimulatedServer
from tests.simulation.stage import ENDLESS, Player, Stage


def _begin(player: Player, payer: WindowLedger | PermitBudget, cost: float, now: float) -> Spend:
    """A call begins that is estimated to cost so much."""
    payment = payer.payment(cost, now)
    payment.enter()
    return payment.spend


def _end(player: Player, call: Spend, actual: float, now: float, *, began: float) -> None:
    """It has ended, and has cost so much."""
    assert call.settle(actual)
    call.ended(now)
    player.stage.log.append((began, player.name, actual))


def _permit(player: Player, server: SimulatedServer, cost: float, now: float) -> None:
    """It is granted a permit."""
    player.share.want(cost, cost, now)
    reply = _say(player, server, now)
    assert reply.permit
    player.share.answered(reply, now, now)
    player.share.want(0.0, 0.0, now)


def _take_all(player: Player, server: SimulatedServer, now: float) -> None:
    """It is granted everything, and spends nothing yet."""
    player.share.want(ENDLESS, 0.0, now)
    player.share.answered(server.sync(player.share.compose(now), now), now, now)
    player.share.want(0.0, 0.0, now)
    assert player.share.units == UNITS


def _say(player: Player, server: SimulatedServer, now: float) -> Reply:
    """It says what it has to say, and its reply is lost. It needs no share."""
    return server.sync(altered(player.share.compose(now), need=0.0), now)


def _tell(player: Player, server: SimulatedServer, now: float) -> None:
    """Say it, and let the instance receive the reply."""
    player.share.answered(_say(player, server, now), now, now)


def refund_of_what_was_handed_over() -> float:
    """Two calls, of which one costs nothing in the end, after a half of the ledger went to another
    instance: the half of its cost that went along is not given back."""
    h = Stage()
    server = h.server(vouches=True)
    x, y = h.player(0), h.player(0)
    _take_all(x, server, 0)
    first = _begin(x, x.share.ledger, 50.0, 0.0)
    second = _begin(x, x.share.ledger, 50.0, 0.1)
    _end(x, second, 50.0, 0.15, began=0.1)
    x.keep(x.share.units // 2)
    _tell(x, server, 0.2)
    y.backlog = ENDLESS
    h.go(y, server, 0.2)
    assert x.share.units == y.share.units == UNITS // 2
    _end(x, first, 0.0, 0.3, began=0.0)
    for now in (0.31, 1.02, 1.04, 1.06, 1.09):
        for player in (x, y):
            player.backlog = ENDLESS
            player.spend(now)
    return h.worst()


def refund_that_is_sent_again() -> float:
    """A permit that cost less is refunded; the reply is lost, and the request is sent again."""
    h = Stage()
    server = h.server(vouches=True)
    x, y = h.player(0), h.player(0)
    _permit(x, server, 90.0, 0.0)
    call = _begin(x, x.share.permit, 90.0, 0.01)
    _tell(x, server, 0.1)
    _end(x, call, 10.0, 0.2, began=0.01)
    _say(x, server, 0.21)
    _tell(x, server, 0.25)
    _tell(x, server, 0.3)
    return _what_a_newcomer_finds(h, y, server)


def debt_of_a_permit() -> float:
    """A permit whose call costs more than was estimated: what it costs is no less than the limit
    has left by then."""
    h = Stage()
    server = h.server(vouches=True)
    x, y = h.player(0), h.player(0)
    _permit(x, server, 40.0, 0.0)
    call = _begin(x, x.share.permit, 40.0, 0.01)
    _tell(x, server, 0.1)
    _end(x, call, 90.0, 0.2, began=0.01)
    _tell(x, server, 0.25)
    return _what_a_newcomer_finds(h, y, server)


def debt_of_what_was_handed_over() -> float:
    """A call costs more than was estimated, after all of the ledger went to others."""
    h = Stage()
    server = h.server(vouches=True)
    x, y = h.player(0), h.player(0)
    _take_all(x, server, 0)
    call = _begin(x, x.share.ledger, 40.0, 0.0)
    x.keep(0)
    x.share.want(0.0, 0.0, 0.1)
    _tell(x, server, 0.1)
    assert not x.share.units
    _end(x, call, 90.0, 0.2, began=0.0)
    _tell(x, server, 0.25)
    return _what_a_newcomer_finds(h, y, server)


def debt_of_what_nobody_estimated() -> float:
    """A call that was estimated to cost nothing costs something, where its instance holds
    nothing."""
    h = Stage()
    server = h.server(vouches=True)
    x, y = h.player(0), h.player(0)
    _tell(x, server, 0.0)
    assert not x.share.units
    call = _begin(x, x.share.ledger, 0.0, 0.01)
    _end(x, call, 90.0, 0.2, began=0.01)
    _tell(x, server, 0.25)
    return _what_a_newcomer_finds(h, y, server)


def _what_a_newcomer_finds(h: Stage, player: Player, server: SimulatedServer) -> float:
    """The fullest window after it has spent what it may."""
    player.backlog = ENDLESS
    h.go(player, server, 0.4)
    h.go(player, server, 0.45)
    player.spend(0.5)
    return h.worst()


def debt_when_the_lease_ends() -> float:
    """Calls cost more than was estimated, all that is held; then it is cut off until its lease has
    ended, and comes back within the period."""
    h = Stage(period=5.0)
    server = h.server(vouches=True)
    x = h.player(0)
    _take_all(x, server, 0)
    calls = [_begin(x, x.share.ledger, 10.0, 0.1) for _ in range(4)]
    for call in calls:
        _end(x, call, 25.0, 0.5, began=0.1)
    x.share.settle(2.5)
    x.backlog = ENDLESS
    h.go(x, server, 2.6)
    h.go(x, server, 3.2)
    x.spend(3.3)
    return h.worst()


def stamp_of_a_repeated_answer() -> float:
    """The answer to the report of a permit is lost, and repeated later: a refund that took the
    later time for that of the report would be taken from another permit."""
    h = Stage()
    server = h.server(vouches=True)
    x, y, z = h.player(0), h.player(0), h.player(0)
    _permit(x, server, 50.0, 0.0)
    call = _begin(x, x.share.permit, 50.0, 0.01)
    _say(x, server, 0.1)
    _permit(y, server, 50.0, 0.15)
    other = _begin(y, y.share.permit, 50.0, 0.245)
    _tell(y, server, 0.3)
    _end(y, other, 50.0, 0.32, began=0.245)
    _tell(x, server, 0.34)
    _end(x, call, 0.0, 0.4, began=0.01)
    _tell(x, server, 0.45)
    z.backlog = ENDLESS
    for now in (1.1, 1.15, 1.2):
        h.go(z, server, now)
        z.spend(now)
    return h.worst()


def running_calls_stay() -> float:
    """Costs count from the end of calls. While one instance has begun all that it may, another one
    comes and wants its half; then all calls end together."""
    h = Stage()
    limits = Limits(tokens=Rate(h.capacity, per=1.0, counts="end", max_operation_time=1.0))
    h.terms = terms_of_limits(limits, 10.0, 2_000)
    server = h.server(vouches=True)
    x, y = h.player(0), h.player(0)
    _take_all(x, server, 0)
    calls = [(x, _begin(x, x.share.ledger, 10.0, 0.1)) for _ in range(9)]
    x.keep(x.share.units // 2)
    _tell(x, server, 0.2)
    y.share.want(ENDLESS, 0.0, 0.2)
    y.share.answered(server.sync(y.share.compose(0.2), 0.2), 0.2, 0.2)
    room = y.share.settle(0.3) - y.share.ledger.spent(0.3)
    calls += [(y, _begin(y, y.share.ledger, 10.0, 0.3)) for _ in range(int(room / 10.0))]
    for player, call in calls:
        _end(player, call, 10.0, 0.5, began=0.5)
    return h.worst()


HISTORIES: tuple[Callable[[], float], ...] = (
    refund_of_what_was_handed_over,
    refund_that_is_sent_again,
    debt_of_a_permit,
    debt_of_what_was_handed_over,
    debt_of_what_nobody_estimated,
    debt_when_the_lease_ends,
    stamp_of_a_repeated_answer,
    running_calls_stay,
)
