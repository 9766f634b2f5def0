# SPDX-License-Identifier: Apache-2.0
"""Customers of an app who share purchases, and the app's backend, which grants and corrects.

The documents are those of `store.py`, of several Apple Accounts, and documents about the purchase of the app itself.
Their order is that of their arrival. The server's clock jumps, mostly to where something ends, and back.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Callable, Iterator

from customers import Customers, Person
from store import BUNDLE, CATALOGUE, DAY, GENESIS, HOUR, MINUTE, SECOND, Customer, Words

POLICIES = ["accountTokenWins", "transfer", "transferIfInactive", "keep", "share"]
NAMES = ["anna", "bert", "cora", "dora"]
ALIASES = ["a@example.com", "b@example.com", "old account"]
TOKENS = ["0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11", "7e3fb204-2a7d-41e6-b58f-0c6b8e6f4a31"]
GRANTED = ["read", "sync", "pro", "news", "season", "vip"]
# Documents signed later have no valid signature: the signers of the tests end.
LAST_DAY = GENESIS + 690 * DAY
RULES: list[Words] = [
    {"beforeVersion": "210", "platform": "iOS", "entitlements": ["read", "legacy"]},
    {"beforeVersion": "2.0", "platform": "macOS", "entitlements": ["sync"]},
    {"beforeVersion": "1.10", "entitlements": ["filters"]},
    {"beforeDate": GENESIS - 200 * DAY, "entitlements": ["legacy", "pro"]},
    {"beforeVersion": "300", "beforeDate": GENESIS - 100 * DAY, "entitlements": ["season"]},
    {"platform": "visionOS", "entitlements": ["vip"]},
]
VERSIONS = ["1", "1.9", "1.9.9", "1.10", "2", "2.0.1", "2.0b1", "41", "209", "210", "1000"]

# What must happen now and then.
EVENTS = """
policy accountTokenWins, policy transfer, policy transferIfInactive, policy keep, policy share, claim kept by another,
claim moved a purchase, claim of the app, owner by token, app by receipt, app transaction, app rule holds, app in the
sandbox, grant made, grant known, grant otherGrant, grant endIsPast, grant with an end, grant in the sandbox, grant
ended by hand, grant ended in time, grant ended by a clock ahead, grant of a merged customer, move, move to several,
move of the app, deny, deny of the app, deny again, allow, alias, merge, unlink, unlink of a token, unmerge, unmerge
with purchases, unmerge of a merge further down, clock ahead, clock behind, around the end of a grant, rebuild,
rebuild without facts, rebuild of a denied purchase, copy, refused by the configuration, asked of the past, signed
without its account token, transaction under two original ids, app shared by several, app shared by too many, app of a
volume purchase, clock seconds behind, clock a day ahead
"""


class Crowd:
    """One app with its customers."""

    def __init__(self, seed: int, number: int):
        self.rng = random.Random(f"{seed}/crowd {number}")
        self.coverage: Counter[str] = Counter()
        self.accounts = [
            Customer(seed, 1_000_000 + number * 10 + place, is_in_crowd=True)
            for place in range(self.rng.choice([2, 3]))
        ]  # fmt: skip
        self.documents: list[Words] = []
        self.instants: set[int] = set()
        # To whom the documents of an Apple Account belong, if nobody copies them.
        self.homes: list[str] = []
        # Original ids of which a purchase has two, and the ids of its transactions.
        self.named_twice: set[str] = set()
        for account in self.accounts:
            account.live()
            self.take_documents(account)
        self.policy = POLICIES[number % len(POLICIES)]
        self.happens(f"policy {self.policy}")
        self.world: Words = {
            "seed": seed, "crowd": number, "policy": self.policy, "catalogue": self.draw_catalogue(),
            "documents": self.documents, "steps": [],
        }  # fmt: skip
        self.book = Customers(self.world)
        self.steps: list[Words] = self.world["steps"]  # type: ignore[assignment]
        self.answers: list[Words] = []
        self.jump, self.jumping = 0, 0
        self.grants = 0

    def happens(self, event: str, condition: object = True) -> None:
        self.coverage[event] += bool(condition)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    # The documents

    def take_documents(self, account: Customer) -> None:
        """The App Store's documents about an Apple Account, with the tokens that the app set when it sold, and
        documents about the purchase of the app."""
        home = self.rng.choice(NAMES)
        tokens: dict[str, str] = {}
        for line in account.lines:
            names = {line.original, line.other} - {None}
            if self.chance(0.5):
                tokens |= dict.fromkeys(names, self.rng.choice(TOKENS))
            if line.other:
                self.named_twice |= names | {name.id for purchase in line.purchases for name in purchase.names}
        app, volume = self.draw_app(account.number), self.draw_volume()
        documents = [document for document in account.documents if document["signedDate"] < LAST_DAY]  # type: ignore
        loses = {name: self.draw_loss(documents) for name in sorted(tokens)}
        for document in documents:
            rows = [*document.get("transactions", []), document.get("transaction")]  # type: ignore[misc]
            for words in filter(None, rows):
                name = words["originalTransactionId"]
                if name in tokens and loses[name](words):
                    self.happens("signed without its account token")
                elif name in tokens:
                    words["appAccountToken"] = tokens[name]
                    if document.get("renewal") and self.chance(0.5):
                        document["renewal"]["appAccountToken"] = tokens[name]  # type: ignore[index]
            if document["kind"] == "receipt":
                document["app"] = self.in_receipt(app) | volume
        first = min([document["signedDate"] for document in documents] or [GENESIS])  # type: ignore[type-var]
        # QUESTION: does an app transaction without an id say that the volume purchase of the same second has no end?
        for _ in range(self.rng.choice([0, 1, 2] if not volume or "appTransactionId" in app else [0])):
            signed = first + self.rng.randrange(100 * DAY) // SECOND * SECOND + 950
            documents.append(self.app_transaction(app, signed))
        if self.chance(0.3):
            signed = first + self.rng.randrange(100 * DAY) // SECOND * SECOND + 950
            documents.append(self.receipt_of_app(app, signed, volume))
        if self.chance(0.3):
            sandbox = {
                "appTransactionId": f"71{account.number}", "receiptType": "Sandbox", "originalPlatform": "iOS",
                "originalPurchaseDate": 1_375_340_400_000, "originalApplicationVersion": "1.0",
            }  # fmt: skip
            documents.append(self.app_transaction(sandbox, first + self.rng.randrange(100 * DAY)))
        self.documents += documents
        self.homes += [home] * len(documents)
        instants = account.instants | ({int(str(volume["expirationDate"]))} if volume else set())
        self.instants |= {instant for instant in instants if instant < LAST_DAY + 100 * DAY}

    def draw_loss(self, documents: list[Words]) -> Callable[[Words], bool]:
        """Which signatures of a purchase lack its account token: none, all from some day on, or some."""
        dates = [int(str(document["signedDate"])) for document in documents]
        last = self.rng.choice([0, self.rng.choice(dates)]) if dates else 0
        return self.rng.choice([
            lambda words: False, lambda words: words["signedDate"] > last > 0, lambda words: self.chance(0.3)])

    def draw_volume(self) -> Words:
        """What the receipts of a volume purchase say, and app transactions do not."""
        if self.chance(0.75):
            return {}
        expires = GENESIS + self.rng.randrange(LAST_DAY - GENESIS) // SECOND * SECOND
        return {"receiptType": "ProductionVPP", "expirationDate": expires}

    def draw_app(self, number: int) -> Words:
        """Since 2025 the documents have an id and the platform."""
        bought = GENESIS - self.rng.randrange(400 * DAY)
        app: Words = {
            "receiptType": "Production", "originalPurchaseDate": bought,
            "originalApplicationVersion": self.rng.choice(VERSIONS),
        }  # fmt: skip
        if self.chance(0.6):
            platform = self.rng.choice(["iOS", "iOS", "macOS", "visionOS"])
            app |= {"appTransactionId": f"70{number}", "originalPlatform": platform}
        return app

    def in_receipt(self, app: Words) -> Words:
        words = {name: app[name] for name in ("receiptType", "originalApplicationVersion")}
        return words | {"originalPurchaseDate": app["originalPurchaseDate"] // SECOND * SECOND}  # type: ignore

    def app_transaction(self, app: Words, signed: int) -> Words:
        words = {"bundleId": BUNDLE, "receiptCreationDate": signed, **app}
        return {"kind": "appTransaction", "signedDate": signed, "app": words}

    def receipt_of_app(self, app: Words, signed: int, volume: Words) -> Words:
        created = signed // SECOND * SECOND
        return {"kind": "receipt", "signedDate": created, "purchases": [], "app": self.in_receipt(app) | volume}

    def draw_catalogue(self) -> Words:
        ids = [
            words[name] for document in self.documents for words in [document.get("transaction")] if words
            for name in ("transactionId", "originalTransactionId") if words[name] not in self.named_twice
        ]  # type: ignore[index]  # fmt: skip
        apps = [
            f"app:{document['app']['appTransactionId']}" for document in self.documents
            if "appTransactionId" in document.get("app", {})
        ]  # type: ignore[index, operator]  # fmt: skip
        refused = [self.rng.choice(ids) for _ in range(self.rng.choice([0, 0, 1, 2])) if ids]
        refused += [self.rng.choice(apps)] if apps and self.chance(0.15) else []
        rules = self.rng.sample(RULES, self.rng.randrange(1, 5))
        return CATALOGUE | {"appPurchase": rules, "refusedPurchases": sorted(set(refused))}

    # The course of time

    def live(self) -> None:
        arrivals = [(int(str(document["signedDate"])), index) for index, document in enumerate(self.documents)]
        start, end = min(arrivals)[0], max(arrivals)[0] + 60 * DAY
        jitter = self.rng.choice([MINUTE, 3 * DAY, 60 * DAY])
        due: list[tuple[int, Callable[[int], None]]] = []
        for date, index in arrivals:
            if self.chance(0.9):
                due.append((date + self.rng.randrange(jitter), self.arrival(index)))
        for act in self.draw_acts():
            due.append((self.rng.randrange(start, end), act))
        now = start
        for now, act in sorted(due, key=lambda each: each[0]):
            act(now)
            if self.chance(0.5):
                self.ask(now)
        self.end_all(now + HOUR)

    def arrival(self, index: int) -> Callable[[int], None]:
        def arrive(now: int) -> None:
            is_notified = self.documents[index]["kind"] == "notification"
            nobody = is_notified or self.chance(0.2)
            nobody = nobody or self.is_about_elsewhere(index)
            claimant = None if nobody else self.homes[index] if self.chance(0.75) else self.draw_name()
            self.record([index], claimant, now)

        return arrive

    def is_about_elsewhere(self, index: int) -> bool:
        """QUESTION: what does a claim with an old document move, if its transaction counts in another chain since?"""
        document = self.documents[index]
        for words in Customers.rows(document):
            known = self.book.facts.transactions.get(words["transactionId"])
            newest = known.statement if known else None
            if newest and newest.original != words["originalTransactionId"]:
                if newest.signed >= document["signedDate"]:  # type: ignore[operator]
                    self.happens("no claim of what counts elsewhere")
                    return True
        return False

    def draw_acts(self) -> Iterator[Callable[[int], None]]:
        acts: list[tuple[Callable[[int], None], int]] = [
            (self.grant, 10), (self.grant_again, 5), (self.end_grant, 3), (self.deny, 5), (self.allow, 3),
            (self.move, 5), (self.alias, 9), (self.unlink, 4), (self.unmerge, 5), (self.claim_again, 6),
            (self.rebuild, 1), (self.copy, 1), (self.work_and_ask, 8),
        ]  # fmt: skip
        yield from self.rng.choices([act for act, _ in acts], [weight for _, weight in acts], k=40)
        if self.chance(0.3):
            yield self.share_app

    def clock(self, now: int) -> int:
        """What the server's clock says: for some steps it is ahead, mostly where something ends, or behind."""
        if self.jumping:
            self.jumping -= 1
            return now + self.jump
        if self.chance(0.88):
            return now
        self.jumping = self.rng.randrange(0, 4)
        if self.chance(0.4):
            self.jump = self.rng.choice([25 * HOUR, -self.rng.randrange(90 * SECOND)])
            self.happens("clock a day ahead" if self.jump > 0 else "clock seconds behind")
        elif self.chance(0.3):
            self.jump = -self.rng.randrange(20 * DAY)
            self.happens("clock behind")
        else:
            self.jump = self.draw_instant(now) - now
            self.happens("clock ahead", self.jump > 0)
        return now + self.jump

    def ends_of_grants(self, now: int) -> list[int]:
        return [grant.until for grant in self.book.grants.values() if grant.until and grant.until > now]

    def draw_instant(self, now: int) -> int:
        """Around where something changes."""
        ends = self.ends_of_grants(now)
        ahead = sorted(instant for instant in self.instants if instant > now)[:20]
        if ends and (self.chance(0.5) or not ahead):
            self.happens("around the end of a grant")
            return self.rng.choice(ends) + self.rng.choice([-1, 0, 1])
        return self.rng.choice(ahead) + self.rng.choice([-1, 0, 1]) if ahead else now + self.rng.randrange(90 * DAY)

    def take(self, do: str, now: int, at: int | None = None, **words: object) -> Words:
        step = {"do": do, "at": self.clock(now) if at is None else at, **words}
        self.steps.append(step)
        return self.book.take(step)

    # Questions

    def ask(self, now: int, *, works: bool | None = None, instants: list[int] | None = None) -> None:
        """What everyone has at some instants: mostly now, after the server has published what is due."""
        if self.chance(0.6) if works is None else works:
            self.work(now)
            at = int(str(self.steps[-1]["at"]))
        else:
            at = self.clock(now)
        instants = instants or [at] + ([self.draw_instant(now)] if self.chance(0.4) else [])
        if self.chance(0.1):
            instants.append(at - self.rng.randrange(30 * DAY))
            self.happens("asked of the past")
        people = self.book.people
        people = people if len(people) < 10 else self.rng.sample(people, 9)
        customers = [self.rng.choice(person.ids) for person in people] + ["nobody"]
        for instant in instants:
            self.steps.append({"do": "ask", "at": instant, "customers": customers})

    def work_and_ask(self, now: int) -> None:
        self.ask(now, works=True)

    def work(self, now: int) -> None:
        self.take("work", now)
        ended = [source for kind, _, source in self.book.expected if kind == "grant.ended"]
        at = int(str(self.steps[-1]["at"]))
        self.happens("grant ended in time", ended and at <= now)
        self.happens("grant ended by a clock ahead", any((self.book.grants[id or ""].until or 0) > now for id in ended))

    def end_all(self, now: int) -> None:
        """At several instants, and once more after a rebuild, and once more in a copy."""
        self.jumping = 0
        instants = [now, *(self.draw_instant(now) for _ in range(3)), now + 100 * DAY]
        self.steps += [{"do": "work", "at": now}]
        self.book.take(self.steps[-1])
        for do in ["rebuild", "copy", None]:
            customers = [id for person in self.book.people for id in person.ids] + ["nobody"]
            self.steps += [{"do": "ask", "at": instant, "customers": customers} for instant in instants]
            if do == "rebuild":
                self.rebuild(now, forgets=True)
            elif do:
                self.copy(now)

    # Customers

    def draw_name(self) -> str:
        return self.rng.choice([*NAMES, *TOKENS, *(id for person in self.book.people for id in person.ids)])

    def draw_person(self, suits: Callable[[Person], object] = lambda person: True) -> Person | None:
        people = [person for person in self.book.people if suits(person)]
        return self.rng.choice(people) if people else None

    def record(self, documents: list[int], claimant: str | None, now: int) -> None:
        before = {name: {owner.person for owner in owners} for name, owners in self.book.owners.items()}
        answer = self.take("record", now, documents=documents, claimant=claimant)
        after = {name: {owner.person for owner in owners} for name, owners in self.book.owners.items()}
        self.happens("claim kept by another", answer["kept"])
        names = {each.name for each in map(Customers.stated_app, map(self.documents.__getitem__, documents)) if each}
        shared = [name for name in names if name in self.book.apps and self.book.app(name).is_shared]
        self.happens("app shared by several", any(len(self.book.owners[name]) > 1 for name in shared))
        self.happens("app shared by too many", {*shared} & {*answer["kept"]})
        self.happens("app of a volume purchase", claimant and any(self.book.app(name).expires for name in shared))
        ids = [id for index in documents for id in Customers.ids(self.documents[index])]
        self.happens("transaction under two original ids", any(len(self.book.chains(id)) > 1 for id in ids))
        self.happens("claim moved a purchase", any(after[name] != had for name, had in before.items() if had))
        kinds = {self.documents[index]["kind"] for index in documents if "app" in self.documents[index]}
        self.happens("claim of the app", claimant and kinds)
        self.happens("app by receipt", claimant and "receipt" in kinds)
        self.happens("app transaction", claimant and "appTransaction" in kinds)
        self.happens("app in the sandbox", any(self.book.app(name).environment == "Sandbox" for name in self.book.apps))
        given = [name for name in self.book.apps if any(self.book.given_by(self.book.app(name)))]
        self.happens("app rule holds", claimant and given)
        owners = [owner for each in self.book.owners.values() for owner in each]
        self.happens("owner by token", any(owner.follows_token for owner in owners))
        self.happens("refused by the configuration", self.book.refused() - self.book.denied)

    def claim_again(self, now: int) -> None:
        """A customer submits what has arrived before, perhaps a copy."""
        known = [
            index for step in self.steps if step["do"] == "record" for index in step["documents"]  # type: ignore
            if self.documents[index]["kind"] != "notification" and not self.is_about_elsewhere(index)
        ]  # fmt: skip
        if known:
            count = min(len(set(known)), self.rng.choice([1, 1, 2]))
            self.record(self.rng.sample(sorted(set(known)), count), self.draw_name(), now)

    def share_app(self, now: int) -> None:
        """More customers than may own it present one receipt, which says which app was bought, and not by whom."""
        receipts = [index for index, each in enumerate(self.documents) if each["kind"] == "receipt"]
        receipts = [index for index in receipts if not self.documents[index]["purchases"]]
        if receipts:
            index = self.rng.choice(receipts)
            for guest in range(self.rng.choice([3, 17, 17])):
                self.record([index], f"guest {guest}", now)
            self.happens("many presented a receipt")

    def alias(self, now: int) -> None:
        person = self.draw_person(self.book.is_somebody)
        if person is None:
            return
        others = [id for other in self.book.people if other is not person for id in other.ids]
        alias = self.rng.choice(others if others and self.chance(0.6) else ALIASES + TOKENS * 2)
        had = self.book.find(alias)
        self.take("alias", now, customer=self.rng.choice(person.ids), alias=alias)
        is_merge = any(kind == "customer.merged" for kind, _, _ in self.book.expected)
        self.happens("merge" if is_merge else "alias")
        self.happens("grant of a merged customer", is_merge and had and had.grants)

    def unlink(self, now: int) -> None:
        person = self.draw_person(lambda person: len(person.ids) > 1)
        if person:
            tokens = [id for id in person.ids[1:] if id in TOKENS]
            alias = self.rng.choice(tokens if tokens and self.chance(0.6) else person.ids[1:])
            self.take("unlink", now, customer=self.rng.choice(person.ids), alias=alias)
            self.happens("unlink")
            follows = [
                name for name, owners in self.book.owners.items()
                if self.book.token(name) == alias and any(owner.follows_token for owner in owners)]
            self.happens("unlink of a token", follows)

    def unmerge(self, now: int) -> None:
        ids = [id for person in self.book.people for id in person.ids if self.book.can_be_undone(id)]
        if ids:
            nested = [id for id in ids if (found := self.book.merge_of(id)) and found.earlier]
            id = self.rng.choice(nested if nested and self.chance(0.5) else ids)
            merge = self.book.merge_of(id)
            assert merge
            self.happens("unmerge of a merge further down", merge.earlier)
            answer = self.take("unmerge", now, customer=id)
            self.happens("unmerge")
            self.happens("unmerge with purchases", answer["purchases"])

    # Purchases

    def draw_purchase(self, suits: Callable[[str], object] = lambda name: True) -> str | None:
        """QUESTION: does a correction hold for a transaction that another chain has had since?"""
        known = sorted({*self.book.originals(), *self.book.apps} - self.named_twice)
        names = [name for name in known if suits(name)]
        return self.rng.choice(names) if names else None

    def named(self, name: str) -> Words:
        """A purchase, by any of its transactions."""
        ids = self.book.originals().get(name, set())
        environment = "Production" if name not in self.book.apps else self.book.app(name).environment
        return {"purchase": name, "transaction": self.rng.choice([name, *sorted(ids)]), "environment": environment}

    def move(self, now: int) -> None:
        name = self.draw_purchase()
        if name:
            customers = [self.draw_name() for _ in range(self.rng.choice([1, 1, 2, 3]))]
            self.take("move", now, customers=customers, **self.named(name))
            self.happens("move")
            self.happens("move to several", len(self.book.owners[name]) > 1)
            self.happens("move of the app", name in self.book.apps)

    def deny(self, now: int) -> None:
        name = self.draw_purchase()
        if self.book.denied and self.chance(0.15):
            name = self.rng.choice(sorted(self.book.denied))
        if name:
            self.happens("deny again", name in self.book.denied)
            self.take("deny", now, **self.named(name))
            self.happens("deny of the app" if name in self.book.apps else "deny")

    def allow(self, now: int) -> None:
        name = self.draw_purchase(lambda name: name in self.book.denied or self.chance(0.05))
        if name:
            self.take("allow", now, **self.named(name))
            self.happens("allow")

    # Grants

    def grant(self, now: int) -> None:
        until = now + self.rng.randrange(MINUTE, self.rng.choice([DAY, 60 * DAY])) if self.chance(0.8) else None
        if self.chance(0.1):
            until = now - self.rng.choice([0, 1, DAY])
        elif self.chance(0.2):
            until = self.draw_instant(now)
        self.grants += 1
        environment = "Sandbox" if self.chance(0.15) else "Production"
        person = self.draw_person()
        # A request that is refused makes no customer.
        customer = self.rng.choice(person.ids) if person else None
        if customer is None or (self.chance(0.3) and (until is None or until > now + 500 * DAY)):
            customer = self.draw_name()
        self.give(now, f"grant-{self.grants}", customer, self.rng.choice(GRANTED), environment, until, "outage")
        self.happens("grant with an end", until is not None)
        self.happens("grant in the sandbox", environment == "Sandbox")

    def give(
        self, now: int, id: str, customer: str, entitlement: str, environment: str, until: int | None, why: str
    ) -> None:
        answer = self.take(
            "grant", now, id=id, customer=customer, entitlement=entitlement, environment=environment, until=until,
            why=why)  # fmt: skip
        self.happens(f"grant {answer['outcome']}")

    def holder(self, id: str) -> Person:
        return next(person for person in self.book.people if any(grant.id == id for grant in person.grants))

    def grant_again(self, now: int) -> None:
        """The same request, or another with the same id. QUESTION: the same request for an id that the customer has
        lost since?"""
        if self.book.grants:
            grant = self.rng.choice(sorted(self.book.grants.values(), key=lambda each: each.id))
            customer, entitlement, environment, until, why = grant.request
            if self.book.find(customer) is self.holder(grant.id):
                why = why if self.chance(0.7) else "another reason"
                self.give(now, grant.id, customer, entitlement, environment, until, why)

    def end_grant(self, now: int) -> None:
        """QUESTION: by hand, between its `until` and the event of its end?"""
        at = self.clock(now)
        grants = [grant for grant in self.book.grants.values() if not grant.is_due(at)]
        if grants:
            grant = self.rng.choice(sorted(grants, key=lambda each: each.id))
            self.happens("grant ended by hand", not grant.is_ended)
            self.take("end", now, at, customer=self.rng.choice(self.holder(grant.id).ids), id=grant.id)

    # The ledger

    def rebuild(self, now: int, *, forgets: bool | None = None) -> None:
        """`forgets` removes the derived facts first, so that all of them have to be derived again."""
        forgets = self.chance(0.7) if forgets is None else forgets
        self.take("rebuild", now, forgets=forgets)
        self.happens("rebuild")
        self.happens("rebuild without facts", forgets)
        self.happens("rebuild of a denied purchase", forgets and self.book.denied)

    def copy(self, now: int) -> None:
        self.take("copy", now)
        self.happens("copy")
