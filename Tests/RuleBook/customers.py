# SPDX-License-Identifier: Apache-2.0
"""The customers of an app: whose each purchase is, and what the app's backend gave them and corrected.

Read from docs/owners.md, docs/backend.md (Corrections, Grants), docs/configuration.md and docs/events.md, and from no
code of ours. Where the pages are silent, this says QUESTION: then `crowd.py` makes no
such history, or either answer is accepted.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Iterator

from rulebook import FOREVER, Catalogue, Facts, Grant, Judge

MINUTE, DAY = 60_000, 86_400_000

Words = dict[str, Any]
ENVIRONMENTS = ("Production", "Sandbox")
# What has no identity is shared by those who present it.
SHARED_BY = 16


# MARK: People


@dataclass(eq=False)
class Person:
    """A customer. The first id is the one that events name."""

    ids: list[str]
    # A submission, an alias or a grant has used an id; not only a token has named it.
    is_established: bool = False
    grants: list[CustomerGrant] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.ids[0]


@dataclass(eq=False)
class CustomerGrant:
    """An entitlement that the app's backend gave."""

    id: str
    request: tuple[Any, ...]
    entitlement: str
    environment: str
    until: int | None
    # By hand.
    is_ended: bool = False
    # The end at `until` was published, and the server looks at it again until then: for a day.
    is_told: bool = False
    watched: int | None = None

    def is_due(self, now: int) -> bool:
        return not self.is_ended and not self.is_told and self.until is not None and self.until <= now

    def is_told_early(self, now: int) -> bool:
        return not self.is_ended and self.is_told and self.until is not None and self.until > now

    @property
    def gift(self) -> tuple[str, Grant]:
        """From the response on, whatever the clock says then."""
        end = FOREVER if self.until is None else self.until
        return self.entitlement, Grant("", end, "grant", frozenset([self.id]))


@dataclass
class Owner:
    person: Person
    # QUESTION: which reason remains if two owners with different reasons became one? Either.
    reasons: frozenset[str]

    @property
    def follows_token(self) -> bool:
        return self.reasons == {"appAccountToken"}


@dataclass(eq=False)
class Merge:
    """What came with a merged customer."""

    survivor: Person
    # Without those that a correction took off the survivor since.
    ids: list[str]
    purchases: set[str]
    shared: set[str]
    # Earlier merges into the merged customer: they come back with it.
    earlier: list[Merge]
    is_undone: bool = False
    lost: set[str] = field(default_factory=set)


# MARK: The purchase of the app


@dataclass(frozen=True)
class AppPurchase:
    """What the documents say about one purchase of the app."""

    name: str
    environment: str
    id: str | None
    bought: int
    version: str | None
    platform: str | None
    type: str | None
    signed: int
    # Of a volume purchase.
    expires: int | None

    @property
    def is_shared(self) -> bool:
        """QUESTION: also by app transactions without an id, as from before 2025? They have no identity either."""
        return self.name.startswith("app:bought:")

    @staticmethod
    def stated(words: Words, signed: int) -> AppPurchase | None:
        """Identified by Apple's id; without an id, as in receipts, by its second. In the sandbox all receipts have the
        same date, and prove nothing."""
        id, bought = words.get("appTransactionId"), words["originalPurchaseDate"]
        environment = "Sandbox" if "Sandbox" in words["receiptType"] else "Production"
        if id in (None, "0") and environment == "Sandbox":
            return None
        name = f"app:bought:{bought // 1000}" if id in (None, "0") else f"app:{id}"
        return AppPurchase(
            name, environment, id, bought, words.get("originalApplicationVersion"), words.get("originalPlatform"),
            words["receiptType"], signed, words.get("expirationDate") if "VPP" in words["receiptType"] else None,
        )  # fmt: skip

    def meets(self, rule: Words) -> bool:
        """All conditions must hold. What a document does not say meets no condition."""
        if "beforeVersion" in rule:
            mine, limit = numbers(self.version), numbers(rule["beforeVersion"])
            if mine is None or limit is None or not mine < limit:
                return False
        if "beforeDate" in rule and not self.bought < rule["beforeDate"]:
            return False
        return "platform" not in rule or self.platform == rule["platform"]


def numbers(version: str | None) -> list[int] | None:
    """Numbers with dots between them, where 2 equals 2.0. Any other text is before no version."""
    if version is None or not re.fullmatch(r"[0-9]+(\.[0-9]+)*", version):
        return None
    parts = [int(part) for part in version.split(".")]
    while parts and parts[-1] == 0:
        parts.pop()
    return parts


# MARK: The customers of an app


class Lavish(Catalogue):
    """Gives something for every product."""

    def __init__(self, catalogue: Catalogue):
        self.products, self.leeway = catalogue.products, catalogue.leeway

    def names(self, product: str) -> set[str]:
        return {"something"}


# What an event must say: its kind, its customer, and its purchase or grant.
Expected = Counter[tuple[str, str | None, str | None]]


class Customers:
    """All customers, after the steps so far."""

    def __init__(self, world: Words):
        self.policy: str = world["policy"]
        self.catalogue = Catalogue(world["catalogue"])
        self.rules: list[Words] = world["catalogue"]["appPurchase"]
        self.refused_by_configuration = frozenset(world["catalogue"]["refusedPurchases"])
        self.documents: list[Words] = world["documents"]
        self.facts = Facts()
        self.apps: dict[str, list[AppPurchase]] = {}
        # By original transaction id: when the newest token in renewal info was signed, and the token.
        self.renewal_tokens: dict[str, tuple[int, str]] = {}
        self.people: list[Person] = []
        # By original transaction id, or the name of a purchase of the app.
        self.owners: dict[str, list[Owner]] = {}
        self.denied: set[str] = set()
        self.merges: list[Merge] = []
        # QUESTION: does a customer exist whose id a token names, and who owns nothing (any more)? If an alias takes
        # such an id, it may be a merge or not.
        self.perhaps_merged: set[str] = set()
        self.grants: dict[str, CustomerGrant] = {}
        self.expected: Expected = Counter()
        self.judges: dict[tuple[Person, str], Judge] = {}

    # Reading

    def find(self, id: str) -> Person | None:
        return next((person for person in self.people if id in person.ids), None)

    def purchases(self, person: Person) -> set[str]:
        return {name for name, owners in self.owners.items() if any(each.person is person for each in owners)}

    def originals(self) -> dict[str, set[str]]:
        """The transactions known of each purchase."""
        found: dict[str, set[str]] = {}
        for id, known in self.facts.transactions.items():
            found.setdefault(known.statement.original, set()).add(id)
        return found

    def emptied(self) -> set[str]:
        """Chains whose transactions all count in another."""
        named = set().union(*(known.originals for known in self.facts.transactions.values()))
        return named - self.originals().keys()

    def chains(self, id: str) -> set[str]:
        """All that have the transaction: each learns every statement about it (E.3, rule 0)."""
        return self.facts.transactions[id].originals

    def token(self, name: str) -> str | None:
        """The newest account token of a purchase. Its absence is no statement (rule k), in renewal info neither.

        QUESTION: the newest by the signature, of whatever transaction. `crowd.py` never changes a token.
        """
        stated = [known.token for known in self.facts.transactions.values() if name in known.originals]
        stated.append(self.renewal_tokens.get(name))
        return max((each for each in stated if each), default=(0, None))[1]

    def tokens(self) -> set[str]:
        stated = [known.token for known in self.facts.transactions.values()] + [*self.renewal_tokens.values()]
        return {each[1] for each in stated if each}

    def refused(self) -> frozenset[str]:
        """Denied by the backend; or by the configuration: by its original id, the id of any of its transactions, or
        `app:` and the id."""
        listed = self.refused_by_configuration
        found = {name for name, ids in self.originals().items() if name in listed or ids & listed}
        return frozenset(found | {name for name in self.apps if name in listed} | self.denied)

    def app(self, name: str) -> AppPurchase:
        return max(self.apps[name], key=lambda each: each.signed)

    def owned_apps(self, person: Person, environment: str) -> list[AppPurchase]:
        found = [self.app(name) for name in self.purchases(person) if name in self.apps]
        return [app for app in found if app.environment == environment]

    def judge(self, person: Person, environment: str) -> Judge:
        """Of what the customer owns in an environment."""
        key = (person, environment)
        if key not in self.judges:
            owned = self.purchases(person) if environment == "Production" else set()
            gifts = [grant.gift for grant in person.grants if grant.environment == environment and not grant.is_ended]
            for app in self.owned_apps(person, environment):
                gifts += self.given_by(app)
            self.judges[key] = Judge(self.facts_about(owned), self.catalogue, self.refused(), gifts)
        return self.judges[key]

    def facts_about(self, names: set[str]) -> Facts:
        transactions = {
            id: known for id, known in self.facts.transactions.items() if known.statement.original in names}
        return Facts(transactions, {name: each for name, each in self.facts.renewals.items() if name in names})

    def given_by(self, app: AppPurchase) -> Iterator[tuple[str, Grant]]:
        if app.name not in self.refused():
            for rule in self.rules:
                for entitlement in rule["entitlements"] if app.meets(rule) else []:
                    end = FOREVER if app.expires is None else app.expires
                    yield entitlement, Grant("", end, "appPurchase", frozenset([app.name]))

    def is_in_force(self, name: str, now: int) -> bool:
        """Whether the purchase would give something by itself, if the configuration let its product."""
        if name in self.refused() or name in self.apps:
            return name not in self.refused() and now < (self.app(name).expires or FOREVER)
        return bool(Judge(self.facts_about({name}), Lavish(self.catalogue)).holdings(now).entitlements)

    # Steps

    def take(self, step: Words) -> Words:
        """Takes a step, and returns what the response must say. `expected` then has the events that it must cause."""
        self.judges.clear()
        self.expected = Counter()
        return getattr(self, step["do"])(step)

    def expect(self, kind: str, customer: str | None, source: str | None = None) -> None:
        self.expected[kind, customer, source] += 1

    def found_or_added(self, id: str) -> Person:
        person = self.find(id)
        if person is None:
            person = Person([id])
            self.people.append(person)
        return person

    def established(self, id: str) -> Person:
        person = self.found_or_added(id)
        person.is_established = True
        return person

    def own(self, name: str, owners: list[Owner]) -> None:
        self.owners[name] = owners
        for merge in self.merges:
            if not any(each.person is merge.survivor for each in owners):
                merge.lost.add(name)

    # Documents and claims

    def record(self, step: Words) -> Words:
        documents = [self.documents[index] for index in step["documents"]]
        claimant = self.established(step["claimant"]) if step["claimant"] else None
        names: set[str] = set()
        for document in documents:
            places = {id: self.place(id) for id in self.ids(document)}
            self.facts.add(document)
            for id, old in places.items():
                self.keep_owners(id, old)
            names |= self.touched(document, is_claimed=claimant is not None)
        # QUESTION: does a chain in which nothing counts any more follow a token? Only if a document names it.
        learn = names.union(*(self.chains(id) for document in documents for id in self.ids(document)))
        for name in sorted(learn - (self.emptied() - names)):
            self.follow_token(name)
        return {"kept": [name for name in sorted(names) if claimant and not self.claim(name, claimant, step["at"])]}

    def place(self, id: str) -> str | None:
        """The chain in which a transaction counts: rule 0."""
        known = self.facts.transactions.get(id)
        return known.statement.original if known else None

    def keep_owners(self, id: str, old: str | None) -> None:
        """A purchase that only got another name keeps its owners, and whether it is denied. A correction lasts."""
        new = self.place(id)
        if old is None or new is None or new == old:
            return
        is_alone = all(other == id or self.place(other) != new for other in self.facts.transactions)
        is_corrected = {
            name: any("correction" in owner.reasons for owner in self.owners.get(name, [])) for name in (old, new)}
        if is_alone or is_corrected[old] and not is_corrected[new]:
            self.own(new, list(self.owners.get(old, [])))
        if is_alone:
            (self.denied.add if old in self.denied else self.denied.discard)(new)

    def touched(self, document: Words, *, is_claimed: bool) -> set[str]:
        """The purchases that a document is about. Documents about the app count only if a customer submits them."""
        if is_claimed and "app" in document:
            app = AppPurchase.stated(document["app"], document["signedDate"])
            if app:
                self.apps.setdefault(app.name, []).append(app)
        names = {app.name for app in [self.stated_app(document)] if app and is_claimed}
        renewal = document.get("renewal") or {}
        if "appAccountToken" in renewal:
            name, stated = renewal["originalTransactionId"], (renewal["signedDate"], renewal["appAccountToken"])
            self.renewal_tokens[name] = max(self.renewal_tokens.get(name, (0, "")), stated)
        return names | {words["originalTransactionId"] for words in [*self.rows(document), renewal] if words}

    @staticmethod
    def rows(document: Words) -> list[Words]:
        rows = [*document.get("transactions", []), *document.get("purchases", []), document.get("transaction")]
        return [words for words in rows if words]

    @staticmethod
    def ids(document: Words) -> set[str]:
        return {words["transactionId"] for words in Customers.rows(document)}

    @staticmethod
    def stated_app(document: Words) -> AppPurchase | None:
        return AppPurchase.stated(document["app"], document["signedDate"]) if "app" in document else None

    def follow_token(self, name: str) -> None:
        """A purchase belongs to the customer whom its token names, until a claim or a correction says otherwise."""
        token = self.token(name)
        if token is not None and all(owner.follows_token for owner in self.owners.get(name, [])):
            self.own(name, [Owner(self.found_or_added(token), frozenset(["appAccountToken"]))])

    def claim(self, name: str, claimant: Person, now: int) -> bool:
        """With a server key, so that no limit counts. A submission claims the chains that its documents name.

        QUESTION: also the chain in which a transaction counts that they name otherwise? `crowd.py` claims neither.
        """
        owners = self.owners.get(name, [])
        if any(owner.person is claimant for owner in owners):
            return True
        if any("correction" in owner.reasons for owner in owners):
            return False
        if name in self.apps and self.app(name).is_shared:
            if len(owners) < SHARED_BY:
                self.own(name, [*owners, Owner(claimant, frozenset(["claim"]))])
            return len(owners) < SHARED_BY
        if owners and not self.yields(name, claimant, now):
            return False
        self.own(name, (owners if self.policy == "share" else []) + [Owner(claimant, frozenset(["claim"]))])
        return True

    def yields(self, name: str, claimant: Person, now: int) -> bool:
        if self.policy == "keep":
            return False
        if self.policy == "transferIfInactive":
            return not self.is_in_force(name, now)
        if self.policy == "accountTokenWins":
            token = self.token(name)
            named = self.find(token) if token is not None else None
            return named is None or named is claimant or not named.is_established
        return True

    # Corrections

    def move(self, step: Words) -> Words:
        name = step["purchase"]
        people = list(dict.fromkeys(self.established(id) for id in step["customers"]))
        self.own(name, [Owner(person, frozenset(["correction"])) for person in people])
        return self.corrected(name)

    def deny(self, step: Words) -> Words:
        self.set_denied(step["purchase"], True, "purchase.denied")
        return self.corrected(step["purchase"])

    def allow(self, step: Words) -> Words:
        self.set_denied(step["purchase"], False, "purchase.allowed")
        return self.corrected(step["purchase"])

    def set_denied(self, name: str, is_denied: bool, kind: str) -> None:
        if (name in self.denied) == is_denied:
            return
        (self.denied.add if is_denied else self.denied.discard)(name)
        for customer in [owner.person.name for owner in self.owners.get(name, [])] or [None]:
            self.expect(kind, customer, name)

    def corrected(self, name: str) -> Words:
        owners = {owner.person.name: sorted(owner.reasons) for owner in self.owners.get(name, [])}
        return {"purchase": name, "owners": owners, "isDenied": name in self.denied}

    def alias(self, step: Words) -> Words:
        person, alias = self.found_or_added(step["customer"]), step["alias"]
        person.is_established = True
        other = self.find(alias)
        if other is None:
            self.perhaps_merged |= {alias} & self.tokens()
            person.ids.append(alias)
        elif other is not person and not self.is_somebody(other):
            self.people.remove(other)
            self.perhaps_merged |= set(other.ids)
            person.ids += other.ids
        elif other is not person:
            self.merge(other, person)
        return {}

    def is_somebody(self, person: Person) -> bool:
        return person.is_established or bool(person.grants) or bool(self.purchases(person))

    def merge(self, other: Person, person: Person) -> None:
        self.expect("customer.merged", person.name, other.name)
        mine, theirs = self.purchases(person), self.purchases(other)
        earlier = [merge for merge in self.merges if merge.survivor is other and not merge.is_undone]
        for merge in earlier:
            merge.survivor = person
        self.merges.append(Merge(person, list(other.ids), theirs, mine & theirs, earlier))
        for name in theirs:
            owners = self.owners[name]
            both = [owner for owner in owners if owner.person in (person, other)]
            reasons = frozenset().union(*(owner.reasons for owner in both))
            if len(both) > 1 and len(reasons) > 1:
                # What does not follow the token any more never does again.
                reasons -= {"appAccountToken"}
            rest = [owner for owner in owners if owner not in both]
            self.own(name, [*rest, Owner(person, reasons)])
        self.people.remove(other)
        person.ids += other.ids
        person.grants += other.grants

    def unlink(self, step: Words) -> Words:
        person = self.find(step["customer"])
        assert person and step["alias"] in person.ids[1:]
        person.ids.remove(step["alias"])
        self.no_longer_bring(person, {step["alias"]}, set())
        self.expect("customer.aliasRemoved", person.name)
        return {"outcome": "removed"}

    def merge_of(self, id: str) -> Merge | None:
        """The merge that is undone: the earliest that brought the id."""
        person = self.find(id)
        return next(
            (each for each in self.merges if each.survivor is person and id in each.ids and not each.is_undone), None)

    def no_longer_bring(self, survivor: Person, ids: set[str], purchases: set[str]) -> None:
        """What a correction takes off a customer came with no merge any more. If it comes again, it stays."""
        for merge in self.merges:
            if merge.survivor is survivor and not merge.is_undone:
                merge.ids = [id for id in merge.ids if id not in ids]
                merge.purchases -= purchases
                merge.shared -= purchases

    def can_be_undone(self, id: str) -> bool:
        """QUESTION: what if the customer has lost a purchase by a claim since, and has it again?"""
        merge = self.merge_of(id)
        if merge is None or id in self.perhaps_merged:
            return False
        return not merge.lost & self.purchases(merge.survivor) & merge.purchases

    def unmerge(self, step: Words) -> Words:
        merge = self.merge_of(step["customer"])
        assert merge
        survivor = merge.survivor
        ids = [id for id in merge.ids if id in survivor.ids]
        person = Person(ids, is_established=True)
        survivor.ids = [id for id in survivor.ids if id not in ids]
        self.people.append(person)
        merge.is_undone = True
        for earlier in merge.earlier:
            if earlier.survivor is survivor and not earlier.is_undone:
                earlier.survivor = person
        names = merge.purchases & self.purchases(survivor)
        # Another merge, later or around this one, found a purchase of it there, and brought it too.
        later = self.merges[self.merges.index(merge) + 1 :]
        others = [each for each in later if each.survivor is survivor and not each.is_undone]
        nested = [inner for each in others if merge not in each.earlier for inner in each.earlier]
        others = [each for each in others if each not in nested]
        kept = {name for name in names if name in merge.shared or any(name in each.shared for each in others)}
        for each in others:
            if merge in each.earlier:
                each.shared -= kept - merge.shared
                each.purchases -= kept - merge.shared
        for name in kept - merge.shared:
            first = next((each for each in others if name in each.shared and merge not in each.earlier), None)
            if first:
                first.shared.discard(name)
        for name in names:
            stays = name in kept
            owners = [owner for owner in self.owners[name] if stays or owner.person is not survivor]
            self.own(name, [*owners, Owner(person, frozenset(["correction"]))])
        self.no_longer_bring(survivor, {*ids}, names - kept)
        self.expect("customer.unmerged", person.name)
        return {"outcome": "undone", "ids": ids, "purchases": len(names), "emptied": len(self.emptied())}

    # Grants

    def grant(self, step: Words) -> Words:
        request = tuple(step[each] for each in ("customer", "entitlement", "environment", "until", "why"))
        known = self.grants.get(step["id"])
        if known:
            return {"outcome": "known" if known.request == request else "otherGrant"}
        if step["until"] is not None and step["until"] <= step["at"]:
            return {"outcome": "endIsPast"}
        person = self.established(step["customer"])
        grant = CustomerGrant(step["id"], request, step["entitlement"], step["environment"], step["until"])
        self.grants[grant.id] = grant
        person.grants.append(grant)
        self.expect("grant.made", person.name, grant.id)
        return {"outcome": "made"}

    def end(self, step: Words) -> Words:
        person = self.find(step["customer"])
        assert person
        for grant in person.grants:
            if grant.id != step["id"] or grant.is_ended:
                continue
            # Of an end that is told already, only the author is new: it stays, whatever the clock was.
            if not grant.is_told or grant.is_told_early(step["at"]):
                self.expect("grant.ended", person.name, grant.id)
            grant.is_ended = True
        return {"outcome": "ended"}

    # What a server does by itself, or an operator to the ledger

    def work(self, step: Words) -> Words:
        """The server publishes what is due, among it the ends of grants. It undoes ends that its clock told early, by
        more than a minute."""
        at = step["at"]
        for person in self.people:
            for grant in person.grants:
                if grant.is_due(at):
                    grant.is_told, grant.watched = True, at + DAY
                    self.expect("grant.ended", person.name, grant.id)
                elif grant.watched is not None and grant.is_told_early(at + MINUTE):
                    grant.is_told, grant.watched = False, None
                    self.expect("grant.made", person.name, grant.id)
                elif grant.watched is not None:
                    grant.watched = None if at >= grant.watched else min(grant.watched, at + DAY)
        return {}

    def rebuild(self, step: Words) -> Words:
        """Changes nothing."""
        return {"outcome": "rebuilt"}

    def copy(self, step: Words) -> Words:
        """Changes nothing."""
        return {"outcome": "copied"}
