"""The seven lines of a ledger: formula, inputs, amount, and the amount had nothing been stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from twintrack.job.records import Costs
from twintrack.pilot.ledger.machine_time import LineTime, MachineTime, TimedLine
from twintrack.pilot.ledger.price_book import PriceBook, Priced
from twintrack.pilot.ledger.records import Input, Line, LineName
from twintrack.quantity import Provenance, Quantity, combine, total

__all__ = ["DAYS_PER_MONTH", "Facts", "Lines", "make_lines"]

DAYS_PER_MONTH = 30.4375
"""A year of 365.25 days over 12."""
_BYTES: Mapping[str, float] = {"GB": 1e9, "GiB": 2.0**30}
_Function = Callable[..., float]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a run tells beside its time.

    Args:
        machines: how many of the machine, unit ``machines``.
        checkpoint_bytes: of the checkpoints that are kept; unknown where nothing tells of any.
        cache_bytes: of the compiled programs that are kept, where the run says; ``None`` where it compiles none.
        transferred_bytes: moved over a network that charges for it, where the run says.
        abandoned: machine seconds of each abandoned run, by its name.
    """

    machines: Quantity
    checkpoint_bytes: Quantity
    cache_bytes: Quantity | None
    transferred_bytes: Quantity | None
    abandoned: tuple[Input, ...]


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines, and which of them are not in the total."""

    lines: tuple[Line, ...]
    left_out: tuple[LineName, ...]
    stale: tuple[str, ...]


def make_lines(time: MachineTime, facts: Facts, price: Priced, book: PriceBook, costs: Costs) -> Lines:
    """Book a run.

    Args:
        time: machine time by line.
        facts: what else the run tells.
        price: of the machine, per hour.
        book: of the other prices.
        costs: of the job.
    """
    maker = _Maker(time, facts, price, book, costs)
    found = [
        maker.reserved(),
        maker.machine_line("compilation"),
        maker.storage(),
        maker.transfer(),
        maker.machine_line("resume"),
        maker.abandoned(),
        maker.operating(),
    ]
    return Lines(tuple(found), tuple(maker.left_out), tuple(dict.fromkeys(maker.stale)))


class _Maker:
    def __init__(self, time: MachineTime, facts: Facts, price: Priced, book: PriceBook, costs: Costs) -> None:
        self.time, self.facts, self.price, self.book, self.costs = time, facts, price, book, costs
        self.currency = book.currency
        self.machines = Input("machines", facts.machines)
        self.left_out: list[LineName] = []
        self.stale: list[str] = [*price.stale]

    def machine_line(self, name: TimedLine) -> Line:
        """Machine time at the machine's price."""
        own = self.time.lines[name]
        return self._line(name, own.seconds, own.without_faults, own.note, recorded=own.recorded)

    def abandoned(self) -> Line:
        """Runs that never finished; the stops of this run change nothing about them."""
        none = Input("abandoned runs", Quantity.measured(0, "s", "no abandoned run was named"))
        seconds = self.facts.abandoned or (none,)
        return self._line("abandoned trials", seconds, seconds, "")

    def reserved(self) -> Line:
        """Training, evaluation and saving; and, where hours are reserved, those that nothing used."""
        own = self.time.lines["reserved resource"]
        hours = self.costs.reserved_hours
        if hours is None:
            return self._line("reserved resource", own.seconds, own.without_faults, own.note)
        reserved = Input("reserved hours", _stated(hours, "h", "costs.reserved_hours"))

        def amount(seconds: Sequence[Input], others: Input) -> Quantity:
            """No second is both used and unused: ``others`` are the machine seconds of the other lines."""
            used = [*seconds, others, reserved, self.machines, Input("price", self.price.value)]
            count = len(seconds)

            def function(*values: float) -> float:
                own_hours = sum(values[:count]) / 3600.0
                unused = max(0.0, values[count + 1] - own_hours - values[count] / 3600.0)
                return (own_hours + unused) * values[count + 2] * values[count + 3]

            return self._amount(formula, used, function)

        names = " + ".join(one.name for one in own.seconds)
        unused = f"max(0, reserved hours − ({names} + other machine time) / 3600)"
        formula = f"(({names}) / 3600 + {unused}) × machines × price"
        others = self._others(lambda line: line.seconds)
        inputs = (*own.seconds, others, reserved, self.machines, *self.price.inputs)
        without = amount(own.without_faults, self._others(lambda line: line.without_faults))
        return Line("reserved resource", amount(own.seconds, others), without, formula, inputs, own.note)

    def storage(self) -> Line:
        """Checkpoints and compiled programs, kept for as long as the job says."""
        price = self.book.storage()
        days = Input("days kept", _stated(self.costs.keep_days, "day", "costs.keep_days"))
        stored = [Input("checkpoints", self.facts.checkpoint_bytes)]
        note = ""
        if self.facts.cache_bytes is not None and self.facts.cache_bytes.known:
            stored.append(Input("compiled programs", self.facts.cache_bytes))
        elif self.facts.cache_bytes is not None:
            note = "compiled programs are not in it: nothing tells how many bytes they take"
        size = _BYTES[_per(price).partition("-")[0]]
        power = "10^9" if size == 1e9 else "2^30"
        formula = (
            f"({' + '.join(one.name for one in stored)}) / {power} × days kept / {DAYS_PER_MONTH} × price"
        )

        def function(*values: float) -> float:
            *sizes, kept, each = values
            return sum(sizes) / size * kept / DAYS_PER_MONTH * each

        inputs = (*stored, days, *price.inputs)
        nothing = self.costs.keep_days == 0 or all(one.value.value == 0 for one in stored)
        if not self.facts.checkpoint_bytes.known:
            self.left_out.append("cache storage")
        elif not nothing:
            self.stale += price.stale
        used = [*stored, days] if nothing else [*stored, days, Input("price", price.value)]
        amount = self._amount(formula, used, (lambda *_: 0.0) if nothing else function)
        return Line("cache storage", amount, amount, formula, inputs, note)

    def transfer(self) -> Line:
        """Loading at the machine's price; bytes moved at that of transfer, where the run says how many."""
        line = self.machine_line("data transfer and loading")
        moved = self.facts.transferred_bytes
        if moved is None:
            return line
        price = self.book.transfer()
        self.stale += price.stale
        size = _BYTES[_per(price)]
        formula = f"transferred bytes / {'10^9' if size == 1e9 else '2^30'} × transfer price"
        inputs = [Input("transferred bytes", moved), Input("transfer price", price.value)]
        bytes_amount = self._amount(formula, inputs, lambda count, each: count / size * each)

        def sum_of(one: Quantity) -> Quantity:
            return self._sum([one, bytes_amount])

        if "data transfer and loading" in self.left_out:
            return line
        parts = [Input("transfer price", price.value), *price.parts]
        return Line(
            line.name,
            sum_of(line.amount),
            sum_of(line.without_faults),
            f"{line.formula} + {formula}",
            (*line.inputs, inputs[0], *parts),
            line.note,
        )

    def operating(self) -> Line:
        """Hours of people, as the job states them, at their price."""
        formula = "operating hours × price"
        price = self.book.operating()
        hours = self.costs.operating_hours
        if hours is None:
            self.left_out.append("operating time")
            unknown = Quantity.unknown("h", "the job states no costs.operating_hours")
            amount = Quantity.unknown(self.currency, unknown.source)
            inputs = (Input("operating hours", unknown), *price.inputs)
            return Line("operating time", amount, amount, formula, inputs, "not stated, not in the total")
        self.stale += price.stale
        stated = Input("operating hours", _stated(hours, "h", "costs.operating_hours"))
        amount = self._amount(formula, [stated, Input("price", price.value)], lambda a, b: a * b)
        return Line("operating time", amount, amount, formula, (stated, *price.inputs))

    def _line(
        self,
        name: LineName,
        seconds: Sequence[Input],
        without: Sequence[Input],
        note: str,
        *,
        recorded: bool = True,
    ) -> Line:
        if not recorded:
            self.left_out.append(name)
        return Line(
            name,
            self._machine_amount(seconds),
            self._machine_amount(without),
            _formula(seconds),
            (*seconds, self.machines, *self.price.inputs),
            note,
        )

    def _machine_amount(self, seconds: Sequence[Input]) -> Quantity:
        if all(one.value.value == 0 for one in seconds):  # costs nothing at any price
            return self._amount(_formula(seconds), seconds, lambda *_: 0.0)
        used = [*seconds, self.machines, Input("price", self.price.value)]

        def function(*values: float) -> float:
            *spent, count, each = values
            return sum(spent) / 3600.0 * count * each

        return self._amount(_formula(seconds), used, function)

    def _others(self, side: Callable[[LineTime], Sequence[Input]]) -> Input:
        """Machine seconds of the lines other than the reserved resource."""
        found = [
            one
            for name, line in self.time.lines.items()
            if name != "reserved resource" and line.recorded
            for one in side(line)
        ]
        found += self.facts.abandoned
        value = total("compilation + loading + resume + abandoned trials", "s", [one.value for one in found])
        return Input("other machine time", value)

    def _amount(self, formula: str, used: Sequence[Input], function: _Function) -> Quantity:
        """The formula over its inputs; unknown with their reasons as soon as one is."""
        reasons = dict.fromkeys(one.value.source for one in used if not one.value.known)
        if reasons:
            return Quantity.unknown(self.currency, "; ".join(reasons))
        return combine(formula, self.currency, [one.value for one in used], function)

    def _sum(self, terms: Sequence[Quantity]) -> Quantity:
        reasons = dict.fromkeys(one.source for one in terms if not one.known)
        if reasons:
            return Quantity.unknown(self.currency, "; ".join(reasons))
        return total("machine time + transfer", self.currency, terms)


def _formula(seconds: Sequence[Input]) -> str:
    return f"({' + '.join(one.name for one in seconds)}) / 3600 × machines × price"


def _per(price: Priced) -> str:
    return price.value.unit.partition("/")[2]


def _stated(value: float, unit: str, key: str) -> Quantity:
    return Quantity(value, unit, Provenance.ASSUMED, f"stated in the job: {key}")
