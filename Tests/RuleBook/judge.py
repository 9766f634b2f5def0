# SPDX-License-Identifier: Apache-2.0
"""Compares a library's answers with the rule book's, and prints what differs so that it can be had again."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Iterator

from customers import ENVIRONMENTS, AppPurchase, Customers, Expected, Person
from follower import Follower
from rulebook import FOREVER, NUMBERS, Access, Catalogue, Facts, Grant, Holdings, Judge, Status

Words = dict[str, Any]
CENTURY = 100 * 365 * 86_400_000
# How many kinds of difference are shown with all that was delivered.
EXAMPLES = 8


@dataclass(frozen=True)
class Difference:
    kind: str
    what: str
    # The chain that it is about, if it is about one.
    original: str | None = None
    # Which of the harder rules had a say.
    rules: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.kind} ({', '.join(self.rules)})" if self.rules else self.kind


def compare(ours: Words, book: Holdings) -> Iterator[Difference]:
    """The library's answer beside the book's. What follows from a difference is none of its own."""
    chains = [*compare_chains(ours, book)]
    yield from chains or (replace(each, rules=book.rules) for each in compare_holdings(ours, book))


def compare_chains(ours: Words, book: Holdings) -> Iterator[Difference]:
    for original in sorted({*ours["subscriptions"], *book.statuses}):
        answer, status = ours["subscriptions"].get(original), book.statuses.get(original)
        if answer is None or status is None:
            yield Difference("subscription known or not", f"{answer} ≠ {status}", original)
        else:
            for difference in compare_status(answer, status):
                yield replace(difference, original=original, rules=status.rules)


def compare_holdings(ours: Words, book: Holdings) -> Iterator[Difference]:
    yield from compare_entitlements(ours["entitlements"], book.entitlements)
    consumables = {each["transactionId"]: each for each in ours["consumables"]}
    if consumables.keys() != book.consumables.keys():
        yield Difference("consumables", f"{sorted(consumables)} ≠ {sorted(book.consumables)}")
    for id in consumables.keys() & book.consumables.keys():
        each, (product, quantity, least, most) = consumables[id], book.consumables[id]
        if (each["productId"], each["quantity"]) != (product, quantity) or not least <= each["revoked"] <= most:
            yield Difference("consumable", f"{each} ≠ {book.consumables[id]}")
    if "purchases" in ours:
        yield from compare_purchases(ours["purchases"], book)


def compare_purchases(answers: list[Words], book: Holdings) -> Iterator[Difference]:
    """What was bought once, and is not used up: under one of its transaction ids."""
    left = list(answers)
    for purchase, access in book.purchases:
        told = [answer for answer in left if answer["transactionId"] in purchase.ids]
        left = [answer for answer in left if answer not in told]
        if len(told) != 1:
            yield Difference("purchase known or not", f"{told} ≠ {purchase}")
        elif "hasAccess" in told[0]:
            yield from compare_access(told[0], access, purchase.type)
    if left:
        yield Difference("purchase known or not", f"{left}")


def compare_access(answer: Words, access: Access, what: str) -> Iterator[Difference]:
    """`hasAccess`, and `until` as the end of access, past or not."""
    if answer["hasAccess"] != access.is_given:
        yield Difference(f"hasAccess of {what}: {answer['hasAccess']} ≠ {access.is_given}", f"{access}")
    elif not access.allows(answer.get("until")):
        yield Difference(f"end of access of {what}", f"{answer.get('until')} ≠ {access}")


def compare_status(answer: Words, status: Status) -> Iterator[Difference]:
    ids, product = sorted(status.period.ids), status.period.product
    if answer["transactionId"] not in ids or answer["productId"] != product:
        told = f"{answer['transactionId']} {answer['productId']} ≠ {ids} {product}"
        yield Difference("governing period", told)
        return
    if answer["status"] != status.name:
        yield Difference(f"status {answer['status']} ≠ {status.name}", f"T is {ids}")
        return
    if "hasAccess" in answer:
        yield from compare_access(answer, status.access, status.name)
    elif answer.get("until") not in (status.until, status.ahead or status.until):
        yield Difference(f"accessUntil of {status.name}", f"{answer.get('until')} ≠ {status.until}")
    if answer.get("willRenew") != status.renews:
        kind = f"willRenew of {status.name}: {answer.get('willRenew')} ≠ {status.renews}"
        yield Difference(kind, f"T is {ids}")
    if answer.get("next") != status.next_product:
        yield Difference("next product", f"{answer.get('next')} ≠ {status.next_product}")


def compare_entitlements(answers: list[Words], book: dict[str, list[Grant]]) -> Iterator[Difference]:
    told = Counter(answer["name"] for answer in answers)
    for name in sorted({*told, *book}):
        grants = book.get(name, [])
        if told[name] > 1:
            yield Difference("entitlement told twice", name)
        elif not told[name] or not grants:
            kind = f"denied, by the book {grants[0].reason}" if grants else "granted, by the book not"
            told_so = [answer for answer in answers if answer["name"] == name]
            yield Difference(f"entitlement {kind}", f"{name}: {told_so or grants}")
    for answer in answers:
        grants = book.get(answer["name"], [])
        mine = (answer["productId"], answer.get("until") or FOREVER, answer["reason"])
        sources = frozenset().union(*(grant.ids for grant in grants if grant.reason == answer["reason"]))
        if grants and answer.get("source") and sources and answer["source"] not in sources:
            yield Difference("entitlement's source", f"{answer['name']}: {answer['source']} ≠ {sorted(sources)}")
        if grants and mine not in [(grant.product, grant.until, grant.reason) for grant in grants]:
            parts = ["productId", "until", "reason"]
            theirs = (grants[0].product, grants[0].until, grants[0].reason)
            differing = [part for part, one, other in zip(parts, mine, theirs) if one != other]
            yield Difference(f"entitlement's {', '.join(differing)}", f"{answer['name']}: {mine} ≠ {grants}")


@dataclass
class Found:
    """Differences by kind, with one of each: that of which the fewest documents are to be read."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, tuple[int, str]] = field(default_factory=dict)
    questions: int = 0

    def add(self, difference: Difference, where: str, question: Question, ours: Words, book: Holdings) -> None:
        title, documents = difference.title, question.delivered
        self.counts[title] += 1
        if len(documents) < self.examples.get(title, (sys.maxsize, ""))[0]:
            listed = "\n".join(
                f"    {line}" for each in documents for line in lines(each, question.now, difference.original))
            self.examples[title] = len(documents), (
                f"{title}\n  {difference.what}\n  {where}\n  ours: {json.dumps(ours)}\n  book: {book}\n"
                f"  delivered, times from then:\n{listed}\n")

    def add_text(self, difference: Difference, size: int, text: str) -> None:
        self.counts[difference.title] += 1
        if size < self.examples.get(difference.title, (sys.maxsize, ""))[0]:
            self.examples[difference.title] = size, text

    def report(self) -> int:
        for kind, _ in self.counts.most_common(EXAMPLES):
            print(self.examples[kind][1])
        print(f"{self.questions} answers, {sum(self.counts.values())} differences")
        for kind, count in self.counts.most_common():
            print(f"{count:8} {kind}")
        return 1 if self.counts else 0


def lines(document: Words, now: int, original: str | None) -> Iterator[str]:
    """A document for the eye: what the rules look at, of one chain or of all."""

    def time(name: str, words: Words) -> str:
        if words.get(name) is None:
            return ""
        sign, rest = ("-", now - words[name]) if words[name] < now else ("+", words[name] - now)
        days, rest = divmod(rest, 86_400_000)
        return f"{name} {sign}{days}d {rest // 3_600_000:02}:{rest // 60_000 % 60:02}:{rest / 1000 % 60:06.3f}"

    rows = [*document.get("transactions", []), *document.get("purchases", [])]
    rows += filter(None, [document.get("transaction"), document.get("renewal")])
    rows = [words for words in rows if original in (None, words["originalTransactionId"])]
    if not rows:
        return
    envelope = document.get("envelope", {})
    about = [envelope.get("notificationType"), envelope.get("subtype"), envelope.get("data", {}).get("status")]
    yield " ".join([document["kind"], *(str(each) for each in about if each is not None), time("signedDate", document)])
    for words in rows:
        dates = [time(name, words) for name in words if name.endswith("Date") and name in SHOWN]
        others = [f"{name} {words[name]}" for name in words if name in SHOWN and not name.endswith("Date")]
        yield "  " + ", ".join(filter(None, [*others, *dates]))


SHOWN = {
    "transactionId", "originalTransactionId", "productId", "webOrderLineItemId", "purchaseDate", "expiresDate",
    "isUpgraded", "revocationDate", "cancellationDate", "revocationPercentage", "transactionReason", "quantity",
    "autoRenewProductId", "autoRenewStatus", "renewalDate", "isInBillingRetryPeriod", "gracePeriodExpiresDate",
    "expirationIntent",
}  # fmt: skip


@dataclass
class Question:
    """What is asked, after what was delivered."""

    now: int
    delivered: list[Words]
    judge: Judge
    # What was refunded, if only for a while.
    refunded: set[str] = field(default_factory=set)

    @property
    def is_of_the_past(self) -> bool:
        """Of what is signed later than it is asked a server seldom knows; but its clock may be behind."""
        return any(document["signedDate"] > self.now for document in self.delivered)


def questions(world: Words, plan: list[Words]) -> Iterator[Question]:
    """Delivers, and stops wherever the plan asks."""
    facts, delivered, catalogue = Facts(), [], Catalogue(world["catalogue"])
    judge: Judge | None = None
    refunded: set[str] = set()
    for step in plan:
        if "deliver" in step:
            delivered.append(world["documents"][step["deliver"]])
            facts.add(delivered[-1])
            judge = Judge(facts, catalogue)
            refunded |= judge.refunded()
        else:
            judge = judge or Judge(facts, catalogue)
            yield Question(step["ask"], delivered, judge, refunded)


def judge(world: Words, answers: list[list[Words]], found: Found) -> None:
    """Compares every answer that was given about one customer, and in an orderly history Apple's own verdicts."""
    for number, (plan, given) in enumerate(zip(world["plans"], answers, strict=True)):
        for question, ours in zip(questions(world, plan), given, strict=True):
            book, differences = closest(ours, question.judge.readings(question.now))
            differences = differences or [*until_next_change(question, ours)]
            if question.is_of_the_past:
                differences = [replace(each, kind=f"asked of the past: {each.kind}") for each in differences]
            differences += verdict(question, ours, book) if number == 0 else []
            where = (
                f"world.py --seed {world['seed']} --only {world['customer']}: plan {number}, "
                f"{len(question.delivered)} delivered, asked at {question.now}"
            )
            found.questions += 1
            for difference in differences:
                found.add(difference, where, question, ours, book)
            for id in ours.get("refundsTold", []):
                if id not in question.refunded:
                    found.add(Difference("refund told, by the book none", id), where, question, ours, book)


def closest(ours: Words, readings: Iterator[Holdings]) -> tuple[Holdings, list[Difference]]:
    """The reading with which an answer agrees; else the first."""
    compared: list[tuple[Holdings, list[Difference]]] = []
    for book in readings:
        compared.append((book, [*compare(ours, book)]))
        if not compared[-1][1]:
            return compared[-1]
    return compared[0]


def verdict(question: Question, ours: Words, book: Holdings) -> Iterator[Difference]:
    """`data.status` of a notification is Apple's own verdict at its signedDate (E.3). It is about the whole
    subscription, also if some of its transactions were told under another original id. Apple may have another reading
    of what is open than the book."""
    last = question.delivered[-1] if question.delivered else {}
    status = last.get("envelope", {}).get("data", {}).get("status")
    if status is None or last["signedDate"] != question.now:
        return
    original = last["transaction"]["originalTransactionId"]
    known = question.judge.facts.transactions.values()
    if any(original in each.originals and len(each.originals) > 1 for each in known):
        return
    if status == 4 and is_over(last, question.judge.catalogue.leeway):
        return
    name = ours["subscriptions"].get(original, {}).get("status")
    read = {each.statuses[original].number for each in question.judge.readings(question.now)}
    if {status, NUMBERS.get(name)} <= read:
        return
    if NUMBERS.get(name) != status:
        yield Difference(f"{name} ≠ data.status {status}", "", original)
    if book.statuses[original].number != status:
        yield Difference(f"THE BOOK: {book.statuses[original].name} ≠ data.status {status}", "", original)


def is_over(notification: Words, leeway: int) -> bool:
    """Grace without a date lasts for the leeway alone (rule l), whatever Apple says of it later."""
    is_dated = "gracePeriodExpiresDate" in notification["renewal"]
    return not is_dated and notification["signedDate"] >= notification["transaction"]["expiresDate"] + leeway


def until_next_change(question: Question, ours: Words) -> Iterator[Difference]:
    """An answer must hold until the instant at which it says that it will change."""
    upcoming = ours.get("nextChange")
    later = question.now + CENTURY if upcoming is None else max(question.now, upcoming - 1)
    if all(any(compare(ours, reading)) for reading in question.judge.readings(later)):
        yield Difference("changes before nextChange", f"by {later}, said {upcoming}")


def verdicts(world_file: str) -> int:
    """The book's own test: in histories that arrive in order, it must say what the App Store says."""
    found = Found()
    with open(world_file) as worlds:
        for line in worlds:
            world = json.loads(line)
            for question in questions(world, world["plans"][0]):
                book = question.judge.holdings(question.now)
                ours = {"subscriptions": {each: {"status": status.name} for each, status in book.statuses.items()}}
                for difference in verdict(question, ours, book):
                    found.add(difference, f"--seed {world['seed']} --only {world['customer']}", question, ours, book)
                found.questions += 1
    return found.report()


# MARK: Crowds

# The kinds of events of which the book knows all.
COUNTED = {
    "customer.merged", "customer.unmerged", "customer.aliasRemoved", "purchase.denied", "purchase.allowed",
    "grant.made", "grant.ended",
}  # fmt: skip
# Within a minute a clock that was ahead is not taken for wrong: what it published stays.
TOLERANCE = 60_000


class CrowdJudge:
    """Compares what the library answered to the steps of a crowd."""

    def __init__(self, world: Words, found: Found):
        self.world, self.found = world, found
        self.book, self.follower = Customers(world), Follower()
        self.delivered: list[Words] = []
        self.number, self.step, self.done = 0, {}, []  # type: ignore[var-annotated]

    def judge(self, answers: list[Words]) -> None:
        for self.number, (self.step, ours) in enumerate(zip(self.world["steps"], answers, strict=True)):
            if self.step["do"] == "ask":
                self.compare_answers(ours["customers"])
                continue
            self.done.append(self.step)
            for index in self.step.get("documents", []):
                self.delivered.append(self.world["documents"][index])
            self.compare_outcome(ours["outcome"], self.book.take(self.step))
            self.compare_events(ours["events"], self.book.expected)
            for event in ours["events"]:
                self.follower.apply(event)

    def differ(self, kind: str, what: str, ours: Any = None) -> None:
        """What differs, and how it came to that."""
        where = f"world.py --seed {self.world['seed']} --crowds 1 --only {self.world['crowd']}: step {self.number}"
        history = "\n".join(f"    {step}" for step in self.done[-12:])
        title = f"{self.step['do']}: {kind}"
        self.found.add_text(
            Difference(title, what), len(self.done),
            f"{title}\n  {what}\n  {where}: {self.step}\n  policy {self.world['policy']}\n  ours: {ours}\n{history}\n")

    # What a step answers

    def compare_outcome(self, ours: Words, book: Words) -> None:
        """QUESTION: is a chain kept, or does it come back with a customer, whose transactions all count in another (E.3,
        rule 0)? It may be told or not."""
        if "kept" in book:
            empty = {*self.book.emptied()}
            ours, book = ({**each, "kept": sorted({*each["kept"]} - empty)} for each in (ours, book))
        uncertain = book.pop("emptied", 0)
        if uncertain and abs(book["purchases"] - ours.get("purchases", 0)) <= uncertain:
            ours = {**ours, "purchases": book["purchases"]}
        for name in sorted({*ours, *book} - {"owners"}):
            if ours.get(name) != book.get(name):
                self.differ(name, f"{ours.get(name)} ≠ {book.get(name)}", ours)
        if "owners" in book and not self.are_owners(ours["owners"], book["owners"]):
            self.differ("owners", f"{ours['owners']} ≠ {book['owners']}")

    def are_owners(self, ours: dict[str, str], book: dict[str, list[str]]) -> bool:
        return ours.keys() == book.keys() and all(ours[owner] in book[owner] for owner in ours)

    def compare_events(self, events: list[Words], expected: Expected) -> None:
        def source(event: Words) -> str | None:
            return event.get("mergedCustomer") or event.get("grantId") or event.get("originalTransactionId")

        for event in events:
            self.compare_states(event)
        told = Counter((event["kind"], event.get("customer"), source(event)) for event in events)
        told = Counter({event: count for event, count in told.items() if event[0] in COUNTED})
        for uncertain in [event for event in [*told, *expected] if event[2] in self.book.perhaps_merged]:
            told.pop(uncertain, None), expected.pop(uncertain, None)
        if told != expected:
            self.differ("events", f"{told - expected} and not {expected - told}")

    def compare_states(self, event: Words) -> None:
        """A state without an end of access is one with access. And no refund is told that the book does not see."""
        for state in [event.get("before"), event.get("after")]:
            if state and state.get("hasAccess") is False and state.get("until") is None:
                self.differ("a state without access, and without its end", f"{event}")
        id = event.get("transactionId")
        if event["kind"] == "purchase.refunded" and id in self.book.facts.transactions:
            if id not in Judge(self.book.facts, self.book.catalogue).refunded():
                self.differ("refund told, by the book none", f"{event}")

    # What the customers have

    def compare_answers(self, answers: list[Words]) -> None:
        entitled: dict[tuple[str, str], float] = {}
        for id, ours in zip(self.step["customers"], answers, strict=True):
            person = self.book.find(id)
            for environment in ENVIRONMENTS:
                self.found.questions += 1
                self.compare_answer(person, environment, ours[environment])
            # Production counts before the sandbox.
            for environment in reversed(ENVIRONMENTS):
                for each in ours[environment]["entitlements"] if person else []:
                    entitled[person.name, each["name"]] = each.get("until") or FOREVER
        if self.is_published():
            asked = {person.name for person in map(self.book.find, self.step["customers"]) if person}
            table = self.follower.table(self.step["at"])
            table = {key: until for key, until in table.items() if key[0] in asked or not self.book.find(key[0])}
            # An end that a clock ahead has told comes true before a correction could arrive.
            now = self.step["at"]
            soon = now + TOLERANCE if any(step["at"] > now for step in self.done) else now
            wrong = sorted((each for each in table.items() ^ entitled.items() if each[1] > soon), key=str)
            if wrong:
                self.differ("table of the events", f"{wrong}", [table, entitled])

    def is_published(self) -> bool:
        """All changes up to now, and no others: the server has worked, and undone what its clock published early.

        QUESTION: a clock that is behind what the App Store has signed? An event that a document proves stays.
        QUESTION: a clock that is behind the end of a grant by more than a day? The event of the end stays.
        """
        now = self.step["at"]
        if any(grant.is_told_early(now) and grant.watched is None for grant in self.book.grants.values()):
            return False
        if any(document["signedDate"] > now for document in self.delivered):
            return False
        # A rebuild publishes what its clock says.
        others = [step for step in self.done if step["do"] != "copy" and (step["do"] != "rebuild" or step["at"] > now)]
        last = others[-1] if others else self.step
        early = [step for step in self.done if now < step["at"] <= now + TOLERANCE]
        return last["do"] == "work" and last["at"] == now and not early

    def compare_answer(self, person: Person | None, environment: str, ours: Words) -> None:
        if person is None:
            judge, owned = Judge(Facts(), self.book.catalogue), set()
        else:
            judge, owned = self.book.judge(person, environment), self.book.purchases(person)
        question = Question(self.step["at"], self.delivered, judge)
        book, differences = closest(ours, judge.readings(question.now))
        differences = differences or [*until_next_change(question, ours)]
        for each in differences:
            self.differ(each.title, f"{person and person.ids} in {environment}: {each.what}", ours)
        apps = self.book.owned_apps(person, environment) if person else []
        refused = self.book.refused() & owned
        of_apps = {name for name in refused if name in self.book.apps}
        refused = {app.name for app in apps} & of_apps | (refused - of_apps if environment == "Production" else set())
        if {*ours["refused"]} != refused:
            self.differ("refused", f"{person and person.ids}: {ours['refused']} ≠ {sorted(refused)}")
        if not is_app(ours.get("app"), apps):
            self.differ("app", f"{person and person.ids}: {ours.get('app')} ≠ {apps}")


def is_app(ours: Words | None, apps: list[AppPurchase]) -> bool:
    """The earliest of a customer's purchases of the app. QUESTION: of those in one second, either."""
    if ours is None or not apps:
        return ours is None and not apps
    first = min(app.bought // 1000 for app in apps)
    allowed = [app for app in apps if app.bought // 1000 == first]
    return any(
        ours.get("id") == app.id and ours.get("version") == app.version and ours.get("platform") == app.platform
        and ours["bought"] // 1000 == first
        for app in allowed
    )  # fmt: skip


def judge_files(world_file: str, answers_file: str) -> int:
    found = Found()
    with open(world_file) as worlds, open(answers_file) as answers:
        for line, given in zip(worlds, answers, strict=True):
            world = json.loads(line)
            if "steps" in world:
                CrowdJudge(world, found).judge(json.loads(given))
            else:
                judge(world, json.loads(given), found)
    return found.report()
