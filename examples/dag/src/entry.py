r"""Steps that depend on one another by parameter name: a diamond.

           catalogue
          /         \
      prices       stock
          \         /
            report

A step's parameters are the results of the steps of those names. `concurrent=True` resolves the dependencies of `report` side by
side; `catalogue`, which both need, runs once.
"""

from itertools import count
from urllib.parse import urlparse

from workers import Request, Response, WorkerEntrypoint, WorkflowEntrypoint

editions = count(1)  # the catalogue changes with every reading


class CatalogueReport(WorkflowEntrypoint):
    async def run(self, event, step):
        products: list[str] = event["payload"]["products"]

        @step.do()
        async def catalogue() -> dict[str, int]:
            return dict.fromkeys(products, next(editions))

        @step.do()
        async def prices(catalogue: dict[str, int]) -> dict[str, str]:
            return {name: f"price of edition {edition}" for name, edition in catalogue.items()}

        @step.do()
        async def stock(catalogue: dict[str, int]) -> dict[str, str]:
            return {name: f"stock of edition {edition}" for name, edition in catalogue.items()}

        @step.do(concurrent=True)
        async def report(prices: dict[str, str], stock: dict[str, str]) -> dict[str, list[str]]:
            return {name: [prices[name], stock[name]] for name in products}

        return await report()


class Default(WorkerEntrypoint):
    """`POST /` with a list of products starts a report; `GET /<id>` tells how it is."""

    async def fetch(self, request: Request) -> Response:
        if request.method == "POST":
            instance = await self.env.REPORTS.create(params=await request.json())
            return Response.json({"id": instance.id}, status=202)
        try:
            instance = await self.env.REPORTS.get(urlparse(request.url).path.strip("/"))
        except Exception as error:
            return Response.json({"error": str(error)}, status=404)
        return Response.json(await instance.status())
