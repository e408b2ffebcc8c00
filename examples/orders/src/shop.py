"""The warehouse, the ledger and the carrier: stand-ins for services that are reached over a network.

A step can run more than once (the process may die between the call and the storing of its result), so each call that
changes something has an idempotency key, and a second call with the same key changes nothing. Theirs is memory only, and
new with each process; the services of a real shop remember.
"""


class OutOfStockError(Exception):
    """There are not enough pieces on the shelf."""


class UndeliverableError(Exception):
    """The carrier does not go there."""


class Warehouse:
    """Counts what is on the shelves, and what is put aside under which key."""

    def __init__(self, stock: dict[str, int]) -> None:
        self.stock = stock
        self._reservations: dict[str, tuple[str, int]] = {}

    def reserve(self, key: str, sku: str, quantity: int) -> None:
        """Put pieces aside.

        Raises:
            OutOfStockError: fewer pieces are left; none is put aside.
        """
        if key in self._reservations:
            return
        left = self.stock.get(sku, 0)
        if left < quantity:
            raise OutOfStockError(f"{left} of {sku!r} left, {quantity} wanted")
        self.stock[sku] = left - quantity
        self._reservations[key] = (sku, quantity)

    def release(self, key: str) -> None:
        """Put pieces back, if any were put aside under this key."""
        if key in self._reservations:
            sku, quantity = self._reservations.pop(key)
            self.stock[sku] += quantity


class Ledger:
    """Money in and out, in cents."""

    def __init__(self) -> None:
        self._entries: dict[str, int] = {}

    def record(self, key: str, amount_cents: int) -> None:
        """Write an amount down once."""
        self._entries.setdefault(key, amount_cents)

    @property
    def balance_cents(self) -> int:
        return sum(self._entries.values())


class Carrier:
    """Takes parcels; the key is the parcel's."""

    def ship(self, key: str, address: str) -> str:
        """Give the tracking number.

        Raises:
            UndeliverableError: the address is empty.
        """
        if not address.strip():
            raise UndeliverableError("the parcel has no address")
        return f"TRACK-{key}"


warehouse = Warehouse({"mug": 10, "poster": 3})
ledger = Ledger()
carrier = Carrier()
