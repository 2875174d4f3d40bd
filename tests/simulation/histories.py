"""Directed histories: one for each rule of time and certainty. Each returns the fullest window.

Random storms find few of these mistakes; here each rule is needed.
"""

from __future__ import annotations

from dataclasses import replace

from limiters.leases._ledger import Ledger
from limiters.leases._messages import Kind
from tests.simulation.stage import ENDLESS, Stage


def late_copy_after_a_flush() -> float:
    """An old copy of a request claims what another instance holds by now."""
    h = Stage(lease=5)
    a = h.server(vouches=True)
    x, y = h.player(), h.player(0)
    h.go(x, a, 0)
    h.run(0, 4.99, {y: a})
    late = x.send(4.99)  # lost
    y.backlog = ENDLESS
    h.run(5, 8.6, {y: a})  # y holds everything
    a.flush()
    x.hear(a.sync(late, 8.601), 8.601, 4.99)
    h.run(8.602, 9.9, {}, [x, y])
    return h.worst()


def late_claim_after_a_second_flush() -> float:
    """A claim with the nonce of an earlier uncertainty."""
    h = Stage(period=0.2, lease=5)
    a = h.server(vouches=True)
    x, y = h.player(), h.player()
    h.go(x, a, 0)
    a.flush()
    h.go(y, a, 0.001)  # uncertain until 5.207
    x.hear(a.sync(x.send(4.98), 4.98), 4.98)  # challenged
    late = x.send(4.99)  # the claim is lost; x would hold until 9.98
    h.run(5.22, 5.8, {y: a})
    a.flush()
    x.hear(a.sync(late, 5.801), 5.801, 4.99)
    h.run(5.802, 9.9, {}, [x, y])
    return h.worst()


def part_given_up_on_the_way() -> float:
    """A part was released in a request that was ended: the claim contains the rest."""
    h = Stage(lease=5)
    a, b, base = h.server(), h.server(), h.server(vouches=True)
    x = h.player(0)
    h.go(x, base, 0)
    x.backlog = ENDLESS
    h.go(x, base, 0.01)
    x.backlog = 0
    h.go(x, a, 1.0)
    x.backlog = ENDLESS
    x.spend(1.3)
    x.backlog = 0
    h.give_up_part(x, b, 1.4)
    x.backlog = ENDLESS
    h.go(x, a, 1.45)
    h.run(1.45, 2.2, {}, [x])
    return h.worst()


def part_given_up_waits_a_period() -> float:
    """An amount that a claim no longer contains was spent a moment ago."""
    h = Stage(lease=2)
    a, a2, b = h.server(vouches=True), h.server(), h.server()
    x, y = h.player(), h.player()
    h.go(x, a, 0)
    x.backlog = 0
    h.go(x, a2, 1.0)  # uncertain until 4.006
    h.go(y, a2, 1.001)
    h.run(1.5, 4.0, {x: a2})
    x.backlog = ENDLESS
    x.spend(3.99)
    x.backlog = 0
    h.give_up_part(x, b, 3.995)
    h.go(x, a2, 3.996)
    h.go(y, a2, 4.01)
    h.run(4.01, 4.9, {}, [y])
    return h.worst()


def part_given_up_astray() -> float:
    """A claim gives up a part, at a server that was certain all the time."""
    h = Stage(lease=5)
    a, b = h.server(vouches=True), h.server()
    x = h.player()
    h.go(x, a, 0)
    h.go(x, a, 0.4)
    x.backlog = 0
    h.give_up_part(x, b, 0.5)
    x.backlog = ENDLESS
    h.go(x, a, 0.55)
    return h.worst()


def back_after_a_gap() -> float:
    """Another server was in charge for a while, and renewed the leases."""
    h = Stage()
    a = h.server(vouches=True)
    x, y, z = h.player(), h.player(0), h.player()
    h.go(x, a, 0)
    h.go(y, a, 0)
    h.run(0.4, 1.901, {y: a}, [x])
    b = h.copy(a)
    h.run(1.91, 3.5, {x: b}, step=0.01)
    h.interval = 0.05
    h.run(3.55, 6.0, {z: a}, [x])  # x is cut off from a
    return h.worst()


def told_of_another_server() -> float:
    """An instance names another server, which was in charge in between."""
    h = Stage()
    a, b = h.server(vouches=True), h.server(vouches=True)
    x, y, z = h.player(), h.player(0), h.player()
    h.go(z, a, 0)
    h.run(8.0, 9.0, {x: b})
    h.go(y, b, 8.6)
    h.go(y, a, 9.1)
    h.run(9.101, 10.9, {z: a}, [x])  # x is cut off
    return h.worst()


def deleted_while_held() -> float:
    """The holder spends at the end of its lease; its spending counts for a period."""
    h = Stage(period=3)
    a = h.server(vouches=True)
    x, y = h.player(), h.player()
    x.share.answered(a.sync(x.send(0), 0), 0, 0)
    a.delete(0.1)
    x.spend(1.99)
    h.run(2.05, 9.0, {y: a})
    return h.worst()


def deleted_while_uncertain() -> float:
    """Leases that another server gave out may still be out."""
    h = Stage()
    a, b = h.server(vouches=True), h.server(vouches=True)
    x, y, z = h.player(), h.player(0), h.player()
    h.go(z, a, 0)
    h.log.clear()
    h.run(8.0, 9.0, {x: b})
    h.go(y, b, 8.6)
    h.go(y, a, 9.1)
    a.delete(9.11)
    h.run(10.2, 10.8, {z: a}, [x])
    return h.worst()


def deleted_after_a_claim() -> float:
    """A claim made while uncertain is held for a lease, whatever the operator deletes."""
    h = Stage(lease=3)
    a = h.server(vouches=True)
    x, z = h.player(), h.player()
    h.go(x, a, 0)
    a.flush()
    h.go(z, a, 0.01)  # uncertain until 4.016
    for at in (1.0, 2.0, 3.0, 3.9):
        h.go(x, a, at)
    a.delete(3.95)
    h.run(4.1, 6.8, {z: a}, [x])
    return h.worst()


def permit_after_failover() -> float:
    """No server has a record of a permit after a failover, so it must end with the leases."""
    h = Stage(lease=0.2, interval=0.05)
    a, b = h.server(), h.server()
    x, y = h.player(0), h.player()
    for number in range(24):  # both are known before anything is granted
        h.go(y, a, number * 0.05)
    x.oversized = 100.0
    h.go(x, a, 1.19)
    reply = a.sync(x.send(1.21), 1.21)
    assert reply.permit
    x.share.answered(reply, 1.21, 1.21)
    h.run(1.22, 3.5, {y: b})
    x.spend(3.3)
    return h.worst()


def registry_too_young() -> float:
    """Another limit wrote the registry after everything was lost."""
    h = Stage()
    a = h.server(vouches=True)
    x, y, other = h.player(), h.player(), h.player()
    h.go(x, a, 0)
    a.flush()
    a.coordinator.name = "other"
    h.go(other, a, 0.01)
    a.coordinator.name, a.coordinator.limit = "limit", None
    h.log = [one for one in h.log if one[1] != other.name]
    h.run(0.02, 1.5, {y: a}, [x])
    return h.worst()


def registry_of_another_server() -> float:
    """The replica had the registry, and not yet the limit."""
    h = Stage()
    a = h.server(vouches=True)
    x, y = h.player(), h.player()
    b = h.copy(a)
    h.go(x, a, 0)
    h.run(0.02, 1.5, {y: b}, [x])
    return h.worst()


def shorter_terms_first() -> float:
    """The first to come to an empty server has a shorter lease than those who hold something."""
    h = Stage(lease=5)
    a, b = h.server(vouches=True), h.server()
    x, y = h.player(), h.player()
    h.run(0, 4.5, {x: a, y: a})
    z = h.player(terms=replace(h.terms, lease=500))
    h.go(z, b, 4.51)
    h.run(4.6, 9.3, {x: b, z: b}, [y])
    return h.worst()


def older_terms_after_a_failover() -> float:
    """The operator's last change was lost with the server; the instances bring it back."""
    h = Stage()
    a, b = h.server(vouches=True), h.server()
    x = h.player()
    h.go(x, a, 0)
    a.set_terms(0.01, capacity=80)
    h.go(x, a, 0.02)
    old = a.snapshot()
    a.set_terms(0.5, capacity=20)
    h.go(x, a, 0.6)
    b.load(old)
    h.go(x, b, 0.7)
    assert b.coordinator.limit is not None
    return b.coordinator.limit.terms.capacity / 20


def older_state_in_place() -> float:
    """One server process got an older state: an instance holds more than that state contains."""
    h = Stage()
    a = h.server(vouches=True)
    w, x, y, z = h.player(0), h.player(), h.player(), h.player()
    h.go(w, a, 0)
    old = a.snapshot()
    h.go(x, a, 0.01)
    h.go(y, a, 0.02)
    h.run(0.5, 2.0, {x: a, y: a})
    a.load(old)
    h.go(x, a, 2.1)
    h.run(2.101, 3.4, {z: a}, [x, y])
    return h.worst()


def evicted_from_memory() -> float:
    """The limit alone was lost: the registry names it."""
    h = Stage()
    a = h.server(vouches=True)
    x, y = h.player(), h.player()
    h.go(x, a, 0)
    a.lose_limit()
    h.run(0.02, 1.5, {y: a}, [x])
    return h.worst()


def flushed() -> float:
    """All is lost, and a newcomer comes first."""
    h = Stage()
    a = h.server(vouches=True)
    x, y = h.player(), h.player()
    h.go(x, a, 0)
    a.flush()
    h.run(0.02, 1.9, {y: a}, [x])
    return h.worst()


def handed_over_after_spending() -> float:
    """One spends all, and hands half of it over."""
    h = Stage()
    a = h.server(vouches=True)
    x, y = h.player(), h.player()
    h.go(x, a, 0)
    h.run(0.05, 3.0, {x: a, y: a})
    return h.worst()


def silent_holder() -> float:
    """One spends at the end of its lease; its successor comes when it is given up."""
    h = Stage()
    a = h.server(vouches=True)
    x, y = h.player(0), h.player(0)
    h.go(x, a, 0)
    x.backlog = ENDLESS
    h.go(x, a, 0.06)
    x.backlog = 0
    h.run(0.1, 2.0, {y: a})
    x.backlog = y.backlog = ENDLESS
    x.spend(2.05)
    h.run(2.05, 6.0, {y: a}, [x])
    return h.worst()


def permits_in_turn() -> float:
    """Two with operations of the whole limit."""
    h = Stage()
    a = h.server(vouches=True)
    x, y = h.player(0), h.player(0)
    for number in range(60):
        for player in (x, y):
            player.oversized = 100.0
            h.go(player, a, number * 0.05)
    return h.worst()


def refused_with_longer_terms() -> float:
    """One with other terms holds everything when all is lost; newcomers bring theirs."""
    h = Stage()
    a = h.server(vouches=True)
    b = h.server(vouches=True)
    x = h.player(terms=replace(h.terms, lease=4000))
    z = h.player(0)
    h.go(x, a, 0)
    h.go(z, b, 0)
    z.backlog = ENDLESS
    a.flush()
    h.default_span = 5.006
    a.coordinator.default_span = 5006
    for number in range(40):
        now = 0.01 + number * 0.25
        h.go(z, a, now)
        if now < 4.9:  # cut off later
            x.hear(a.sync(x.send(now), now), now)
        h.run(now, now + 0.25, {}, [x, z])
    return h.worst()


def repeated_after_it_was_given_up() -> float:
    """A copy of an old request arrives when its sender was given up; what it is granted takes
    history along."""
    h = Stage()
    a = h.server(vouches=True)
    x, y, z = h.player(0), h.player(0), h.player(0)
    h.go(y, a, 0)
    x.backlog = 50
    late = x.send(0.01)
    a.sync(late, 0.01)  # the reply is lost; given up at 4.016
    h.run(0.5, 3.9, {y: a})
    y.backlog = ENDLESS
    y.share.look_again()
    h.go(y, a, 3.95)
    h.go(y, a, 4.0)
    a.sync(y.share.leave(4.01), 4.01)
    a.sync(late, 4.02)
    z.backlog = ENDLESS
    h.run(4.03, 4.9, {z: a})
    return h.worst()


def clock_set_forward() -> float:
    """The clock of the server is set forward by an hour; the holder cannot be reached."""
    h = Stage()
    a = h.server(vouches=True)
    x, y = h.player(), h.player(0)
    h.go(x, a, 0)
    h.run(0.4, 0.9, {y: a}, [x])
    x.backlog = 0
    y.backlog = ENDLESS
    a.step(3600)
    for number in range(20):
        now = 0.9 + number * 0.02
        y.share.look_again()
        h.go(y, a, now)
    x.backlog = ENDLESS
    h.run(1.3, 1.9, {y: a}, [x])
    return h.worst()


def time_goes_on_after_a_step() -> float:
    """After a step that was not believed, the coordinator's time goes on: returned is how much of
    the true time it missed."""
    h = Stage()
    a = h.server(vouches=True)
    x = h.player()
    h.run(0, 5, {x: a})
    a.step(3600)
    h.go(x, a, 5.0)
    before = h.go(x, a, 5.5).now
    h.run(6, 16, {x: a})
    after = h.go(x, a, 16.0).now
    return 1 + abs(10.5 - (after - before) / 1000)


def slewed_clock() -> float:
    """The clock of the server runs three percent too fast for a while: returned is by how much of
    a span more than allowed the coordinator's time gains."""
    h = Stage(lease=10)
    a = h.server(vouches=True)
    x = h.player()
    h.run(0, 5, {x: a})
    gained = []
    for number in range(100):
        now = 5 + number * 0.5
        sent = x.send(now)
        a.step(0.015)
        reply = a.sync(sent, now)
        while x.hear(reply, now + 0.001, now) is Kind.RETRY:
            reply = a.sync(x.send(now), now)
        gained.append((reply.now / 1000) - now)
    span = 22  # requests
    most = max(late - early for early, late in zip(gained, gained[span:], strict=False))
    return 1 + max(0.0, most - 0.1)


def entry_that_moves_often() -> float:
    """An entry is handed over again and again: it must expire all the same. Returned is how much
    later it does, in periods."""
    h = Stage(period=10, lease=40, interval=0.05)
    a = h.server(vouches=True)
    x, y = h.player(), h.player(0)
    h.go(x, a, 0)
    x.backlog = 0
    holder, other = x, y
    now = 0.05
    while now < 10.2:
        holder.backlog, other.backlog = 0.0, ENDLESS
        h.go(other, a, now)
        holder.keep(0)
        h.go(holder, a, now + 0.02)
        h.go(other, a, now + 0.04)
        holder, other = other, holder
        now += 0.06
    assert a.coordinator.limit is not None
    left = holder.share.ledger.spent(now) + other.share.ledger.spent(now)
    first = sum(cost for at, _, cost in h.log if at < 5)
    again = sum(cost for at, _, cost in h.log if at >= 5)
    pool = a.coordinator.limit.bounds[0].ledger.total(a.clock(now) - h.terms.counts)
    return 1 + max(0.0, left + pool - again - 1e-6 * first) / h.capacity


def corrected_after_a_hand_over() -> float:
    """A permit was used earlier than it was stamped, after a part of the pool was handed over:
    what counts in the pool must not be more than the pool is worth."""
    h = Stage()
    a = h.server()
    x, y, z = h.player(0), h.player(), h.player()
    for number in range(7):  # all are known before anything is granted
        for player in (y, z):
            h.go(player, a, number * 0.5)
    x.oversized = 95.0
    h.go(x, a, 3.005)
    assert h.go(x, a, 3.1).permit
    h.go(y, a, 3.12)
    h.go(x, a, 3.2)
    limit = a.coordinator.limit
    assert limit is not None
    [bound] = limit.bounds
    counted = bound.ledger.total(limit.now - h.terms.counts)
    return counted / (bound.pool * bound.worth(limit.now))


def lowered_and_handed_over() -> float:
    """Three ledgers, a lowered capacity, and parts that move: y spends its half of 2,000; x its
    half of 200, 50 ms after the capacity was lowered; y's half goes to x, a part of all to z; when
    y's entry has expired, both spend what they may."""
    return max(_lowered_and_handed_over(part) for part in (0.25, 0.5, 0.75))


def _lowered_and_handed_over(part: float) -> float:
    x, y, z = Ledger(), Ledger(), Ledger()
    log: list[tuple[int, float]] = []

    def spend(ledger: Ledger, at: int, worth: float) -> None:
        room = worth - ledger.total(at - 1006)
        if room > 0:
            ledger.add(at, room)
            log.append((at, room))

    spend(y, 900, 1000)
    spend(x, 1000, 100)
    x.merge(y.split(1.0).entries)
    z.merge(x.split(part).entries)
    spend(x, 1907, (1 - part) * 200)
    spend(z, 1907, part * 200)
    return sum(cost for at, cost in log if 950 < at <= 1950) / 200
