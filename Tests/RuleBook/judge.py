# SPDX-License-Identifier: Apache-2.0
"""Compares a library's answers with the rule book's, and prints what differs so that it can be had again."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Iterator

from rulebook import FOREVER, NUMBERS, Catalogue, Facts, Grant, Holdings, Judge, Status

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


def compare_status(answer: Words, status: Status) -> Iterator[Difference]:
    ids, product = sorted(status.period.ids), status.period.product
    if answer["transactionId"] not in ids or answer["productId"] != product:
        told = f"{answer['transactionId']} {answer['productId']} ≠ {ids} {product}"
        yield Difference("governing period", told)
        return
    if answer["status"] != status.name:
        yield Difference(f"status {answer['status']} ≠ {status.name}", f"T is {ids}")
        return
    if answer.get("until") not in (status.until, status.ahead or status.until):
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

    @property
    def is_of_the_past(self) -> bool:
        """Of what is signed later than it is asked a server seldom knows; but its clock may be behind."""
        return any(document["signedDate"] > self.now for document in self.delivered)


def questions(world: Words, plan: list[Words]) -> Iterator[Question]:
    """Delivers, and stops wherever the plan asks."""
    facts, delivered, catalogue = Facts(), [], Catalogue(world["catalogue"])
    judge: Judge | None = None
    for step in plan:
        if "deliver" in step:
            delivered.append(world["documents"][step["deliver"]])
            facts.add(delivered[-1])
            judge = None
        else:
            judge = judge or Judge(facts, catalogue)
            yield Question(step["ask"], delivered, judge)


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


def closest(ours: Words, readings: Iterator[Holdings]) -> tuple[Holdings, list[Difference]]:
    """The reading with which an answer agrees; else the first."""
    compared: list[tuple[Holdings, list[Difference]]] = []
    for book in readings:
        compared.append((book, [*compare(ours, book)]))
        if not compared[-1][1]:
            return compared[-1]
    return compared[0]


def verdict(question: Question, ours: Words, book: Holdings) -> Iterator[Difference]:
    """`data.status` of a notification is Apple's own verdict at its signedDate (E.3)."""
    last = question.delivered[-1] if question.delivered else {}
    status = last.get("envelope", {}).get("data", {}).get("status")
    if status is None or last["signedDate"] != question.now:
        return
    original = last["transaction"]["originalTransactionId"]
    name = ours["subscriptions"].get(original, {}).get("status")
    if NUMBERS.get(name) != status:
        yield Difference(f"{name} ≠ data.status {status}", "", original)
    if book.statuses[original].number != status:
        yield Difference(f"THE BOOK: {book.statuses[original].name} ≠ data.status {status}", "", original)


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


def judge_files(world_file: str, answers_file: str) -> int:
    found = Found()
    with open(world_file) as worlds, open(answers_file) as answers:
        for world, given in zip(worlds, answers, strict=True):
            judge(json.loads(world), json.loads(given), found)
    return found.report()
