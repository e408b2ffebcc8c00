"""Each rule of the check: what it reports, and what looks alike and is right."""

from textwrap import indent

import pytest

from wrangler_compat.check import check_source

AROUND = """\
import asyncio, contextlib, datetime, random, secrets, time, uuid
import httpx, requests, stripe
from collections import defaultdict
from datetime import timedelta
from workers import WorkflowEntrypoint, fetch

LIMITS = {"retries": {"limit": 3, "delay": "1 second"}}
ONCE = {"retries": {"limit": 0, "delay": 0}}

class Declined(Exception):
    pass

def now():
    return time.time()

class Checked(WorkflowEntrypoint):
    async def run(self, event, step):
"""
STEP = """
@step.do("one"{options})
async def one({parameters}):
{body}
"""


def found(body: str) -> list[str]:
    return [finding.code for finding in check_source(AROUND + indent(body, " " * 8), "entry.py")]


def a_step(
    body: str, *, options: str = "", parameters: str = "", after: str = "await one()"
) -> str:
    written = indent(body, " " * 4)
    return STEP.format(options=options, parameters=parameters, body=written) + after


WRONG = {
    "a sleep that is not awaited": ("WF001", 'step.sleep("a", "1 hour")'),
    "a wait that is not awaited": ("WF001", 'payment = step.wait_for_event("a", "paid")'),
    "a step that is kept and never awaited": ("WF001", a_step("return 1", after="task = one()")),
    "a step that is returned instead of its result": (
        "WF001",
        a_step("return 1", after="return one()"),
    ),
    "a step that is kept, and returned instead of its result": (
        "WF001",
        a_step("return 1", after="greeting = one()\nreturn greeting"),
    ),
    "a step whose result is asked for a key": (
        "WF001",
        a_step("return {}", after='order = one()\nprint(order["id"])'),
    ),
    "a step whose result is shown": ("WF001", a_step("return 1", after='print(f"{one()}")')),
    "a step whose result decides": (
        "WF001",
        a_step("return 1", after='if one():\n    await step.sleep("a", "1 hour")'),
    ),
    "a wait whose payload is compared": (
        "WF001",
        'return 1 if step.wait_for_event("a", "paid").payload == 1 else 2',
    ),
    "a step whose task is dropped": (
        "WF001",
        a_step("return 1", after="asyncio.create_task(one())"),
    ),
    "a step that is made in place": ("WF001", 'step.do("a")(lambda: 1)()'),
    "a function with steps": (
        "WF001",
        'async def more():\n    await step.sleep("a", "1 hour")\nmore()',
    ),
    "a step of a step": (
        "WF002",
        a_step("await two()") + '\n@step.do("two")\nasync def two():\n    return 1',
    ),
    "a declaration in a step": (
        "WF002",
        a_step('@step.do("two")\nasync def two():\n    return 1'),
    ),
    "a wait in a step": ("WF002", a_step('await step.wait_for_event("a", "paid")')),
    "the clock in a sleep's name": ("WF003", 'await step.sleep(f"at {time.time()}", "1 hour")'),
    "chance in a wait's name": ("WF003", 'await step.wait_for_event(str(uuid.uuid4()), "paid")'),
    "chance in the name, by way of variables": (
        "WF003",
        'token = secrets.token_hex()\nname = "a-" + token\nawait step.sleep(name, "1 hour")',
    ),
    "the clock in the name, by way of a function": (
        "WF003",
        'await step.sleep(f"at {now()}", "1 hour")',
    ),
    "the hash of a text in the name": ("WF003", 'await step.sleep(f"{hash(\'a\')}", "1 hour")'),
    "a loop until the clock says so": (
        "WF004",
        'while time.time() < 5:\n    await step.sleep("a", "1 hour")',
    ),
    "a choice by chance": ("WF004", 'length = "1 hour" if random.random() < 0.5 else "2 hours"'),
    "a match by the clock": (
        "WF004",
        'match datetime.date.today().weekday():\n    case 0:\n        await step.sleep("a", "1 hour")',
    ),
    "a token from outside the step": (
        "WF004",
        "token = uuid.uuid4()\n" + a_step("return str(token)"),
    ),
    "a shuffled list": ("WF004", "items = [1, 2]\nrandom.shuffle(items)"),
    "a literal set": (
        "WF005",
        'for name in {"a", "b"}:\n    await step.sleep(name, "1 hour")',
    ),
    "a set in a variable, listed": (
        "WF005",
        'names = set(event["payload"])\nfor name in list(names):\n    await step.sleep(name, "1 hour")',
    ),
    "a difference of sets": (
        "WF005",
        'for name in set("ab") - set("b"):\n    await step.sleep(name, "1 hour")',
    ),
    "a comprehension over a set": (
        "WF005",
        (
            'async def nap(name):\n    await step.sleep(name, "1 hour")\n'
            'await asyncio.gather(*(nap(name) for name in set("ab")))'
        ),
    ),
    "the tasks that asyncio.wait gives": (
        "WF005",
        (
            "done, late = await asyncio.wait([])\n"
            'for task in done:\n    await step.sleep("a", task.result())'
        ),
    ),
    "a request": ("WF006", 'requests.get("https://a.example")'),
    "a fetch": ("WF006", 'await fetch("https://a.example")'),
    "a client's request": (
        "WF006",
        'async with httpx.AsyncClient() as client:\n    await client.get("https://a.example")',
    ),
    "a write to a file": ("WF006", 'open("a.txt", "w").write("b")'),
    "a statement on a database": (
        "WF006",
        'await self.env.DB.prepare("DELETE FROM a").bind(1).run()',
    ),
    "a put on a binding in a variable": (
        "WF006",
        'bucket = self.env.BUCKET\nawait bucket.put("a", 1)',
    ),
    "an effect in a function that run calls": (
        "WF006",
        'async def save():\n    await self.env.KV.put("a", 1)\nawait save()',
    ),
    "a batch": ("WF007", "await self.env.CHILDREN.create_batch([{}])"),
    "an event to another instance": (
        "WF007",
        'other = await self.env.CHILDREN.get("a")\nawait other.send_event({"type": "go"})',
    ),
    "an end of another instance": (
        "WF007",
        'other = await self.env.CHILDREN.get("a")\nawait other.terminate()',
    ),
    "a blocking sleep": ("WF008", "time.sleep(5)"),
    "a limit that is not stored": (
        "WF008",
        'async with asyncio.timeout(5):\n    await step.sleep("nap", "1 hour")',
    ),
    "a wait with a limit that is not stored": (
        "WF008",
        'await asyncio.wait_for(step.sleep("nap", "1 hour"), timeout=5)',
    ),
    "a dictionary filled by a step": (
        "WF009",
        "sums = defaultdict(int)\n" + a_step('sums["a"] += 1') + "\nreturn sums",
    ),
    "an attribute set by a step": ("WF009", a_step("self.token = 1") + "\nreturn self.token"),
    "a nonlocal set by a step": (
        "WF009",
        "total = 0\n" + a_step("nonlocal total\ntotal = 5") + "\nreturn total",
    ),
    "a key of the event": ("WF010", 'event["payload"]["status"] = "new"'),
    "a list in the event": ("WF010", 'items = event["payload"]["items"]\nitems.append(1)'),
    "the elements of the event": (
        "WF010",
        'for item in event["payload"]["items"]:\n    item["done"] = True',
    ),
    "the event in a step": ("WF010", a_step('event["payload"].pop("secret")\nreturn 1')),
    "a dependency": (
        "WF011",
        a_step("zero.append(1)\nreturn zero", parameters="zero"),
    ),
    "an alias of a result": (
        "WF011",
        a_step("return {}", after="got = await one()\nrows = got\n")
        + '\n@step.do("two")\nasync def two():\n    rows["a"] = 1\nawait two()',
    ),
    "a refund": ("WF012", a_step("await self.env.SHOP.refund(order)\nreturn 1")),
    "a payment of a library": ("WF012", a_step("stripe.PaymentIntent.create(amount=5)")),
    "a request to pay": (
        "WF012",
        a_step('requests.post("https://bank.example/payments", json={"amount": 5})'),
    ),
    "a fetch to pay": (
        "WF012",
        a_step('await fetch("https://bank.example/payments", method="POST")'),
    ),
    "a mail, with retries asked for": (
        "WF012",
        a_step('await mailer.send_email("a@b.example")', options=", config=LIMITS"),
    ),
    "a charge in a function that the step calls": (
        "WF012",
        "def take():\n    bank.charge(5)\n" + a_step("take()"),
    ),
    "an API key is no key": ("WF012", a_step("await bank.charge(5, api_key=self.env.API_KEY)")),
    "a customer's id is no key": (
        "WF012",
        a_step("await bank.charge(event['payload']['customer_id'], 5)"),
    ),
    "a product that is seconds": ("WF013", 'await step.sleep("a", 5 * 60)'),
    "a timeout in seconds": ("WF013", 'await step.wait_for_event("a", "paid", timeout=60)'),
    "a delay in seconds": (
        "WF013",
        a_step("return 1", options=', config={"retries": {"limit": 3, "delay": 10}}'),
    ),
    "an attempt's timeout in seconds": (
        "WF013",
        a_step("return 1", options=', config={"timeout": 30}'),
    ),
    "a misspelt unit": ("WF019", 'await step.sleep("a", "30 secnds")'),
    "a unit with a capital": ("WF019", 'await step.wait_for_event("a", "paid", timeout="1 Hour")'),
    "a unit that is too short": ("WF019", 'pause = "5 m"\nawait step.sleep("a", pause)'),
    "a misspelt unit of a timeout": (
        "WF019",
        a_step("return 1", options=', config={"timeout": "10 mins"}'),
    ),
    "a misspelt unit of a delay": (
        "WF019",
        a_step("return 1", options=', config={"retries": {"limit": 1, "delay": "3 sec"}}'),
    ),
    "a misspelt unit of a retention": (
        "WF019",
        a_step('await self.env.MAIL.create(id="a", retention={"success_retention": "3 dayz"})'),
    ),
    "an instant in seconds": ("WF013", 'await step.sleep_until("a", time.time() + 3600)'),
    "a type with a colon, partly computed": (
        "WF014",
        'await step.wait_for_event("a", f"order:{event}")',
    ),
    "a type in a dictionary": ("WF014", 'await step.wait_for_event("a", {"type": "a b"})'),
    "a type that is sent": (
        "WF014",
        a_step('other = await self.env.B.get("a")\nawait other.send_event({"type": "a.b"})'),
    ),
    "an unknown key": ("WF015", a_step("return 1", options=', config={"retry": 3}')),
    "a backoff that there is not": (
        "WF015",
        a_step(
            "return 1",
            options=', config={"retries": {"limit": 3, "delay": "1 second", "backoff": "random"}}',
        ),
    ),
    "a timeout that is no duration": (
        "WF015",
        a_step("return 1", options=', config={"timeout": "soon"}'),
    ),
    "a duration that is none": ("WF016", 'await step.sleep("a", "an hour")'),
    "a sleep that is too long": ("WF016", 'await step.sleep("a", "2 years")'),
    "a name with a line break": ("WF016", 'await step.sleep("a\\nb", "1 hour")'),
    "a decorator without parentheses": (
        "WF016",
        "@step.do\nasync def one():\n    return 1\nawait one()",
    ),
    "a loop's variable as a default": (
        "WF016",
        "for item in [1]:\n    "
        + a_step("return item", parameters="item=item").replace("\n", "\n    "),
    ),
    "a tuple in a dictionary": ("WF017", a_step('return {"a": (1, 2)}')),
    "a tuple by way of a variable": ("WF017", a_step("pair = 1, 2\nreturn pair")),
    "a generator": ("WF017", a_step("return (item for item in [1])")),
    "a generator function": ("WF017", a_step("yield 1")),
    "a stream of texts": ("WF017", a_step('for part in "ab":\n    yield f"{part}"')),
    "a stream as the output": ("WF017", "return (item async for item in step.create_hook())"),
    "a map": ("WF017", a_step("return map(str, [1])")),
    "the handle of an instance": ("WF017", a_step("return await self.env.CHILDREN.create(id='a')")),
    "a handle in a variable": (
        "WF017",
        a_step("child = await self.env.CHILDREN.create(id='a')\nreturn child"),
    ),
    "a response": ("WF017", a_step('return await fetch("https://a.example")')),
    "the workflow": ("WF017", a_step("return self")),
    "a set of tuples": ("WF017", a_step("return {(1, 2)}")),
    "an output that is a tuple": ("WF017", "return 1, 2"),
    "a bare except": (
        "WF018",
        'try:\n    await step.sleep("a", "1 hour")\nexcept:\n    return 1',
    ),
    "a CancelledError among others": (
        "WF018",
        (
            'try:\n    await step.sleep("a", "1 hour")\n'
            "except (ValueError, asyncio.CancelledError):\n    return 1"
        ),
    ),
    "a suppressed cancellation": (
        "WF018",
        'with contextlib.suppress(BaseException):\n    await step.sleep("a", "1 hour")',
    ),
    "a class of Python's around a step": (
        "WF020",
        a_step("return 1", after="try:\n    return await one()\nexcept KeyError:\n    return 2"),
    ),
    "a class of the module's, among others": (
        "WF020",
        a_step(
            "return 1",
            after="try:\n    got = await one()\nexcept (ValueError, Declined):\n    got = 2\nreturn got",
        ),
    ),
    "a class around a wait": (
        "WF020",
        'try:\n    await step.wait_for_event("a", "paid", timeout=LIMIT)\nexcept ConnectionError:\n    return 2',
    ),
}

RIGHT = {
    "a limit inside a step": a_step("async with asyncio.timeout(5):\n        return 1"),
    "no limit": 'async with asyncio.timeout(None):\n    await step.sleep("nap", "1 hour")',
    "milliseconds that are meant": 'await step.sleep("a", "20 milliseconds")',
    "a retention that is computed": a_step(
        'await self.env.MAIL.create(id="a", retention={"success_retention": LIMITS["kept"]})'
    ),
    "a stream of bytes": a_step('yield b"a"\nfor part in [b"b"]:\n    yield part'),
    "a stream that another function makes": a_step(
        "parts = (part async for part in self.env.DISK.read())\nreturn parts"
    ),
    "a coroutine that is awaited later": a_step(
        "return 1", after="late = one()\nreturn await late"
    ),
    "a coroutine in a variable that its result takes": a_step(
        "return 1", after="late = one()\nlate = await late\nreturn late"
    ),
    "a coroutine that a function of the workflow gives": a_step(
        "return 1", after="async def late():\n    return one()\nreturn await (await late())"
    ),
    "a callback of a step's task": a_step(
        "return 1",
        after="task = asyncio.create_task(one())\ntask.add_done_callback(print)\nawait task",
    ),
    "a task that is awaited later": a_step(
        "return 1", after="task = asyncio.create_task(one())\nawait task"
    ),
    "steps in a gather": a_step("return 1", after="await asyncio.gather(one(), one())"),
    "a step that is returned": a_step("return 1", after="return await one()"),
    "a step handed to a function": "async def run_it(step_function):\n    return await step_function()\n"
    + a_step("return 1", after="await run_it(one)"),
    "chance in a step": a_step("return random.random()"),
    "a generator with a seed": 'dice = random.Random(5)\nawait step.sleep(f"{dice.random()}", "1 hour")'.replace(
        "dice.random()", "dice"
    ),
    "the result of a step in a name": a_step(
        "return str(uuid.uuid4())", after="name = await one()\n"
    )
    + 'await step.sleep(name, "1 hour")',
    "a name that was chance, and then a result": "name = uuid.uuid4()\n"
    + a_step("return 1", after="name = await one()\n")
    + 'await step.sleep(f"a {name}", "1 hour")',
    "the clock in a log": 'began = time.monotonic()\nprint(f"{time.monotonic() - began} s")',
    "the clock in an instant": 'await step.sleep_until("a", datetime.datetime.now() + timedelta(hours=1))',
    "milliseconds since 1970": 'await step.sleep_until("a", time.time() * 1000 + 5)',
    "a set that is sorted": 'for name in sorted({"a", "b"}):\n    await step.sleep(name, "1 hour")',
    "a set without steps": "total = 0\nfor size in {1, 2}:\n    total += size\nreturn total",
    "a dictionary's order": 'for name in {"a": 1}:\n    await step.sleep(name, "1 hour")',
    "a read of an instance": 'other = await self.env.B.get("a")\nreturn await other.status()',
    "a variable of env": 'base = self.env.BASE.rstrip("/")\nreturn base',
    "a file that is read": 'return open("a.txt").read()',
    "their own open": 'def open(name, mode):\n    return name\nreturn open("a", "w")',
    "a yield to the loop": "await asyncio.sleep(0)",
    "a sleep in a step": a_step("await asyncio.sleep(1)"),
    "a list of a step's own": a_step("rows = []\nrows.append(1)\nreturn rows"),
    "a list filled outside steps": "rows = []\n"
    + a_step("return 1", after="rows.append(await one())\nreturn rows"),
    "a list that only steps see": "seen = []\n" + a_step("seen.append(1)"),
    "a copy of the event": 'order = dict(event["payload"])\norder["a"] = 1',
    "another event": 'got = await step.wait_for_event("a", "paid")\ngot["payload"]["seen"] = True',
    "a result changed outside steps": a_step(
        "return []", after="rows = await one()\nrows.append(1)\nreturn rows"
    ),
    "a copy of a dependency": a_step(
        "rows = list(zero)\nrows.append(1)\nreturn rows", parameters="zero"
    ),
    "a charge that is tried once": a_step("await bank.charge(5)", options=", config=ONCE"),
    "a charge with a header": a_step(
        'await bank.charge(5, headers={"Idempotency-Key": event["payload"]["order"]})'
    ),
    "a charge with a key in a variable": a_step(
        'options = {"idempotency_key": "a"}\nawait bank.charge(5, options)'
    ),
    "a charge with the instance's id": a_step('await bank.charge(5, event["instanceId"])'),
    "a charge with a text made of an id": a_step("await bank.charge(f\"{event['id']}/charge\", 5)"),
    "a charge with what is not known": a_step("await bank.charge(**options)"),
    "a function of the module with a key": "def charge(amount):\n    bank.charge(amount, key='a')\n"
    + a_step("charge(5)"),
    "a question by POST": a_step('requests.post("https://a.example/search", json={})'),
    "a question to a model": a_step('await fetch("https://a.example/v1/messages", method="POST")'),
    "a mail, without a word on retries": a_step('await mailer.send("a@b.example")'),
    "a message with its id": a_step('await queue.send({"id": 5})', options=", config=LIMITS"),
    "milliseconds": 'await step.sleep("a", 1000)',
    "a duration that is computed": 'await step.sleep("a", event["payload"]["wait"])',
    "a name twice": 'await step.sleep("a", "1 hour")\nawait step.sleep("a", "1 hour")',
    "a config that is computed": a_step(
        "return 1", options=', config={"retries": {"limit": LIMIT, "delay": lambda f: 5}}'
    ),
    "a config with another in it": a_step(
        "return 1", options=', config={**LIMITS, "timeout": "1 hour"}'
    ),
    "a default beside depends": a_step("return 1", after="")
    + '\n@step.do("two", depends=[one])\nasync def two(value=None):\n    return value\nawait two()',
    "the text of a response": a_step(
        'response = await fetch("https://a.example")\nreturn await response.text()'
    ),
    "a value of a binding": a_step('return await self.env.KV.get("a")'),
    "a set": a_step("return {1, 2}"),
    "a tuple that is not returned": a_step("first, second = 1, 2\nreturn first + second"),
    "a list of pairs, looked up": a_step("return [pair[0] for pair in zip([1], [2])]"),
    "cancellation that is raised again": 'try:\n    await step.sleep("a", "1 hour")\n'
    "except BaseException:\n    print(1)\n    raise",
    "cancellation that is raised first": 'try:\n    await step.sleep("a", "1 hour")\n'
    "except asyncio.CancelledError:\n    raise\nexcept BaseException:\n    return 1",
    "a bare except around nothing awaited": "try:\n    x = 1\nexcept:\n    x = 2",
    "classes that failures of steps have": a_step(
        "return 1",
        after="try:\n    return await one()\nexcept TypeError:\n    return 2\nexcept NonRetryableError:\n    return 3\n"
        "except HookNotFoundError:\n    return 4\nexcept Exception:\n    return 5",
    ),
    "a timeout of a wait": 'try:\n    await step.wait_for_event("a", "paid")\nexcept TimeoutError:\n    return 2',
    "a class that something beside the step may raise": a_step(
        "return {}",
        after="try:\n    got = await one()\n    return got['a']\nexcept KeyError:\n    return 2",
    ),
    "a class that an argument may raise": 'try:\n    await step.sleep("a", event["payload"]["pause"])\n'
    "except KeyError:\n    return 2",
    "a class around code that runs no step": "try:\n    await asyncio.sleep(0)\nexcept KeyError:\n    return 2",
    "a class inside a step": a_step("try:\n    return {}['a']\nexcept KeyError:\n    return 2"),
    "a rollback that counts": "tries = 0\nasync def undo():\n    nonlocal tries\n    tries += 1\n"
    "    await self.env.SHOP.release(1)\n" + a_step("return 1", options=", rollback=undo"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_broken_rule_is_reported_once(case: str) -> None:
    code, body = WRONG[case]
    assert found(body) == [code]


@pytest.mark.parametrize("case", RIGHT)
def test_what_is_right_is_not_reported(case: str) -> None:
    assert found(RIGHT[case]) == []


def test_methods_and_classes_that_hold_step_are_workflow_code() -> None:
    source = """
import time

class Steps:
    def __init__(self, step):
        self.step = step

    async def rest(self):
        await self.step.sleep(f"rest {time.time()}", 30)
"""
    assert [finding.code for finding in check_source(source, "steps.py")] == ["WF003", "WF013"]


def test_a_worker_outside_workflows_may_do_what_it_likes() -> None:
    source = """
import random
from workers import Response, WorkerEntrypoint, fetch

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        if random.random() < 0.5:
            await fetch("https://a.example", method="POST")
        await self.env.ORDERS.create(id=str(random.random()))
        return Response("ok")
"""
    assert check_source(source, "entry.py") == []


def test_a_worker_awaits_its_bindings() -> None:
    source = """
class Default:
    async def fetch(self, request):
        self.env.ORDERS.create(id="a")
"""
    assert [finding.code for finding in check_source(source, "entry.py")] == ["WF001"]
