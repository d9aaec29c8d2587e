"""Roots of projections on simplices with caps or a norm ball as in print: bisection and breakpoint search."""

from __future__ import annotations

from ucm.numerics._jit import READ, f8, i8, jit

__all__ = ["bisected", "bisected_ball", "by_breakpoints"]


@jit(f8(READ, f8, f8))
def bisected(v, cap, mass):
    """The theta with `sum clip(v - theta, 0, cap) = mass` by Algorithm 2 of Ito, Takeda and Toh (2015), to
    the last bit.

    The updates of the open set U are exchanged in print: where the sum is too small theta falls, and what
    was at its cap stays there; where it is too large theta grows, and what was 0 stays 0. The bracket is
    `[min v - cap, max v]`, in which the root always lies.
    """
    U = v.copy()
    size = U.size
    at_cap = 0
    low, high = v.min() - cap, v.max()
    theta = 0.5 * (low + high)
    while low < theta < high:
        total, full = cap * at_cap, 0
        for i in range(size):
            d = U[i] - theta
            if d >= cap:
                full += 1
            elif d > 0.0:
                total += d
        total += cap * full
        kept = 0
        if total < mass:
            at_cap += full
            high = theta
            for i in range(size):
                if U[i] - theta < cap:
                    U[kept] = U[i]
                    kept += 1
        elif total > mass:
            low = theta
            for i in range(size):
                if U[i] >= theta:
                    U[kept] = U[i]
                    kept += 1
        else:
            return theta
        size = kept
        theta = 0.5 * (low + high)
    return theta


@jit(f8(READ, f8, f8, i8))
def by_breakpoints(v, cap, mass, seed):
    """The same root by breakpoint search with random pivots: Kiwiel (2008), Algorithm 3.1.

    The sum is linear between the breakpoints `v_i` and `v_i - cap`. A pivot is drawn from those inside of
    the bracket, which ends there or begins there; entries without a breakpoint inside are settled.
    """
    U = v.copy()
    size = U.size
    at_cap, linear, slope = 0, 0.0, 0
    low, high = v.min() - cap, v.max()
    state = seed + 12345
    while size > 0:
        state = (1103515245 * state + 12345) % 2147483648
        u = U[state % size]
        pivot = u if low < u < high else u - cap
        total = cap * at_cap + linear - slope * pivot
        for i in range(size):
            total += min(max(U[i] - pivot, 0.0), cap)
        if total < mass:
            high = pivot
        elif total > mass:
            low = pivot
        else:
            return pivot
        kept = 0
        for i in range(size):
            u = U[i]
            if low < u < high or low < u - cap < high:
                U[kept] = u
                kept += 1
            elif u - cap >= high:
                at_cap += 1
            elif u >= high:
                linear += u
                slope += 1
        size = kept
    return (linear + cap * at_cap - mass) / slope if slope > 0 else low


@jit(f8(READ, f8, f8))
def bisected_ball(v, radius, mass):
    """The theta with `s sum max(v - theta, 0) = mass`, `s = min(1, radius / ||max(v - theta, 0)||_2)`, by
    Algorithm 3 of Ito, Takeda and Toh (2015), to the last bit.

    Its bracket misses the root near the least radius: here the lower end goes down until the sum is large
    enough. What is 0 at the lower end stays 0.
    """
    U = v.copy()
    size = U.size
    high = v.max()
    reach = high - v.min() + mass
    most = 1e15 * (reach + abs(high))
    low, searching = high - reach, True
    theta = low
    while searching or low < theta < high:
        total, square = 0.0, 0.0
        for i in range(size):
            d = U[i] - theta
            if d > 0.0:
                total += d
                square += d * d
        if square > radius * radius:
            total *= radius / square**0.5
        if searching:
            if total < mass and reach < most:
                reach *= 2.0
                low = theta = high - reach
                continue
            searching = False
        elif total < mass:
            high = theta
        elif total > mass:
            low = theta
            kept = 0
            for i in range(size):
                if U[i] >= theta:
                    U[kept] = U[i]
                    kept += 1
            size = kept
        else:
            return theta
        theta = 0.5 * (low + high)
    return theta
