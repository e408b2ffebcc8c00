"""Stands in for the seats, the billing and the feature flags of a product. Every call has a key, and is made once for it."""


class SeatsTakenError(Exception):
    """There are not as many seats."""


class ProvisioningError(Exception):
    """The feature flags do not know the plan."""


class Service:
    """What has been done, by key; undoing what was not done is harmless."""

    def __init__(self) -> None:
        self.done: dict[str, str] = {}

    def do(self, key: str, what: str) -> str:
        """Do something, once."""
        return self.done.setdefault(key, what)

    def undo(self, key: str) -> None:
        """Undo it."""
        self.done.pop(key, None)


class Seats(Service):
    """Holds seats for an account."""

    limit = 100

    def reserve(self, key: str, seats: int) -> str:
        """Hold them.

        Raises:
            SeatsTakenError: there are not as many.
        """
        if seats > self.limit:
            raise SeatsTakenError(f"there are {self.limit} seats")
        return self.do(key, f"{seats} seats")


class Provisioning(Service):
    """Switches the features of a plan on."""

    plans = ("team", "business")

    def provision(self, key: str, plan: str) -> str:
        """Switch them on.

        Raises:
            ProvisioningError: there is no such plan.
        """
        if plan not in self.plans:
            raise ProvisioningError(f"no plan is called {plan}")
        return self.do(key, plan)


seats = Seats()
billing = Service()
provisioning = Provisioning()
