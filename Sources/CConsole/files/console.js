// SPDX-License-Identifier: Apache-2.0
// The console: a client of the server's API. It asks /v1 with a key that a person pastes, and whatever it can do the
// key may do. The key, the person's name and the places visited are in the tab's session storage, and nowhere else.
"use strict";
// MARK: - Text and elements
// Characters that nobody sees or that reorder their neighbours, spaces that look like a space, and marks upon marks.
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}\u115f\u1160\u2800\u3164\uffa0]|(?! )\p{Zs}|(?<=\p{M}{4})\p{M}/gu;

function visible(value) {
  const code = (one) => "⟨U+" + one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟩";
  return String(value).replace(UNSEEN, code);
}

/** The only way by which text enters the page: as text, apart from the direction of its surroundings. */
function text(value, node = document.createElement("bdi")) {
  node.textContent = visible(value);
  return node;
}

/** A product's id, which breaks after its dots and not in its words. */
function product(id) {
  if (!/^[\w-]{1,30}(\.[\w-]{1,30})+$/.test(id)) return id;
  const node = text(id);
  node.className = "product";
  for (let part = node.firstChild; part.data.includes(".");) {
    part = part.splitText(part.data.indexOf(".") + 1);
    part.before(document.createElement("wbr"));
  }
  return node;
}

// A text that is longer than any reason is folded, so that it moves nothing else on the page.
const LONGEST_TEXT = 600;

function folded(value) {
  const shown = String(value);
  if (shown.length <= LONGEST_TEXT) return text(shown);
  return make("details", { class: "folded" },
    make("summary", {}, Array.from(shown.slice(0, 80)).join("") + `… (${count(shown.length)} characters)`),
    text(shown));
}

const ATTRIBUTES = new Set(("class id for type name role scope required hidden selected tabindex autocomplete " +
  "spellcheck maxlength datetime data-label data-state x y x1 x2 y1 y2 width height d").split(" "));
// These have text alone as content.
const ONLY_TEXT = new Set(["option", "title", "text"]);
/** Makes an element. Attributes are the page's own words, and `on…` listens. Children are elements or text. */
function make(name, attributes = {}, ...children) {
  const [, drawing, local] = /^(svg:)?(.*)$/.exec(name);
  const node = drawing
    ? document.createElementNS("http://www.w3.org/2000/svg", local) : document.createElement(local);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "value") node.value = value;
    else if (ATTRIBUTES.has(key) || key.startsWith("aria-")) node.setAttribute(key, value === true ? "" : value);
    else throw new Error(`no element may have ${key}`);
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    if (child instanceof Node) node.append(child);
    else if (ONLY_TEXT.has(local)) text(child, node);
    else node.append(folded(child));
  }
  return node;
}

const small = (...children) => make("div", { class: "quiet small" }, ...children);
const quiet = (...children) => make("p", { class: "quiet" }, ...children);
const badge = (style, name) => make("span", { class: `badge ${style}` }, name);
// A form is never sent: its page asks the API.
const listen = (action) => (event) => { event.preventDefault(); action(); };
const button = (label, action, style) => make("button", { type: "button", class: style, onclick: action }, label);
const count = (number) => Number(number).toLocaleString("en-GB");
const plural = (number, one, many = one + "s") => `${count(number)} ${number === 1 ? one : many}`;
// "renewalDisabled" and "subscription.renewalDisabled" as words, and what support calls otherwise.
const [NO_ACCESS, ACCESS] = ["charge failed, no access", "charge failed, access goes on"];
const WORDS = new Map(Object.entries({ renewalInfo: "renewal information", "subscription.retryEntered": NO_ACCESS,
  billingRetry: NO_ACCESS, "subscription.graceEntered": ACCESS, billingGrace: ACCESS,
  addAlias: "added an id", allowPurchase: "allowed a purchase", backfillCustomer: "read from the App Store",
  createKey: "made a key", deleteCustomer: "deleted the customer", denyPurchase: "denied a purchase",
  extendAll: "extended all subscriptions", extendSubscription: "extended at Apple", movePurchase: "moved a purchase",
  recordConsent: "recorded the consent", revokeKey: "revoked a key", setAppAccountToken: "set the account",
  setAttributes: "set an attribute", supplyConsumption: "told Apple of the use", unlinkCustomer: "took an id off",
  unmergeCustomer: "undid a merge", addWebhook: "added a webhook", changeWebhook: "changed a webhook",
  pauseWebhook: "paused a webhook", removeWebhook: "removed a webhook", replayWebhook: "replayed to a webhook",
  resumeWebhook: "resumed a webhook", rotateWebhook: "rotated the secret of a webhook" }));
const words = (name) => String(name ?? "").split(", ").map((one) => WORDS.get(one) ??
  one.replace(/([a-z])([A-Z])/g, "$1 $2").replace(/\./g, ": ").replace(/^grant\b/, "gift")
    .replace(/ ([A-Z])(?![A-Z])/g, (found) => found.toLowerCase())).join(", ");
// MARK: - Times
const HOUR = 3_600_000, DAY = 24 * HOUR;
const DATE = { day: "numeric", month: "short", year: "numeric" }, CLOCK = { hour: "2-digit", minute: "2-digit" };
const FORMATS = Object.fromEntries(Object.entries({
  minute: { ...DATE, ...CLOCK }, date: { ...DATE, month: "long" }, hour: CLOCK, day: { day: "numeric", month: "short" },
  month: { month: "short", year: "numeric" }, year: { year: "numeric" },
}).map(([name, format]) =>
  [name, new Intl.DateTimeFormat("en-GB", { ...format, timeZone: "UTC", hourCycle: "h23" })]));
const isTime = (value) => typeof value === "number" && Math.abs(value) < 8.64e15;
const moment = (value, format = "minute") => isTime(value) ? FORMATS[format].format(value) : String(value);

function time(value, none = "–") {
  if (!isTime(value)) return value === null || value === undefined ? none : String(value);
  return make("time", { datetime: new Date(value).toISOString() }, moment(value));
}

function distance(value, now) {
  const units = [["year", 365 * DAY], ["month", 30 * DAY], ["day", DAY], ["hour", HOUR], ["minute", 60_000]];
  const [unit, size] = units.find(([, size]) => Math.abs(value - now) >= size) ?? ["second", 1000];
  const number = Math.round(Math.abs(value - now) / size);
  if (unit === "second" && number < 5) return "just now";
  return value > now ? `in ${plural(number, unit)}` : `${plural(number, unit)} ago`;
}

// MARK: - The session
const STORE = "quittance-console";
let session = { by: "", places: {}, at: 0, ...JSON.parse(sessionStorage.getItem(STORE) ?? "{}") };
// What GET /v1/key says of the key.
let who = null;

function keep(members) {
  session = { ...session, ...members };
  sessionStorage.setItem(STORE, JSON.stringify(session));
}

function signOut(reason) {
  sessionStorage.removeItem(STORE);
  session = { by: "", places: {}, at: 0 };
  who = null;
  names.clear();
  for (const open of document.querySelectorAll("dialog")) open.remove();
  showSignIn(reason);
}

class Refused extends Error {
  constructor(status, error) {
    super(error?.message ?? `The server answered ${status}.`);
    this.status = status;
    this.code = error?.code;
  }
}

const INVALID = "The key is no longer valid: it was revoked, or it has expired. Sign in with another key.";
/** Sends a request with the key, and returns the answer. */
async function ask(method, path, query = {}, body = undefined) {
  const key = session.key;
  const members = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const search = members.map(([name, value]) => `${name}=${encodeURIComponent(String(value).toWellFormed())}`);
  let response;
  try {
    response = await fetch(path + (search.length ? "?" + search.join("&") : ""), {
      method, headers: { Authorization: `Bearer ${key}` }, cache: "no-store", credentials: "omit",
      redirect: "error", body: body === undefined ? undefined : JSON.stringify(body), });
  } catch {
    throw new Refused(0, { message: "The server does not answer.", code: "unreachable" });
  }
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  // Another key may have signed in meanwhile.
  if (response.status === 401 && who && key === session.key) signOut(INVALID);
  throw new Refused(response.status, answer.error);
}

const get = (path, query) => ask("GET", path, query);
/** Sends a change for the person at the page, with the reason: the audit list has both. */
const alter = (method, path, query, reason, body) => ask(method, path, query, { ...body, reason, by: session.by });
/** A path with texts in it. */
function path(parts, ...values) {
  return parts.reduce((whole, part, index) => {
    const value = String(values[index - 1]).toWellFormed();
    // Browsers resolve such a part of a path, also if its periods are encoded.
    if (/^\.{1,2}$/.test(value)) throw new Refused(404, { message: `“${value}” cannot be asked for.` });
    return whole + encodeURIComponent(value) + part;
  });
}

// What roles may do: `support` changes what a customer has, and only `server` links ids.
const READERS = ["read", "support", "server"];
const may = { change: () => READERS.indexOf(who?.role) > 0, link: () => who?.role === "server" };
// A server refuses a revoked key within a second, and the page must say so within two.
const KEY_CHECK = 800;
let isChecking = false;

async function checkKey() {
  if (!who || isChecking || document.visibilityState !== "visible") return;
  isChecking = true;
  try {
    const found = await get("/v1/key");
    if (who) who = found;
    announce("");
  } catch (error) {
    if (who && error.status === 0) announce("The server does not answer. The console tries again.");
  } finally {
    isChecking = false;
  }
}

/** A message above the page, while its cause lasts. */
function announce(message) {
  const node = document.getElementById("notice");
  if (node && node.textContent !== message) text(message, node).hidden = !message;
}

// MARK: - Sign in
function showSignIn(reason) {
  document.title = "Sign in – Quittance console";
  const key = make("input", { id: "key", type: "password", required: true, autocomplete: "off", spellcheck: "false" });
  const problem = make("p", { class: "problem", role: "alert", id: "problem" });
  if (reason) problem.append(text(reason));
  const form = make("form", { class: "card signin", onsubmit: listen(signIn) }, make("h1", {}, "Quittance console"),
    problem, make("label", { for: "key" }, "Key"), key,
    quiet("Paste the key that you were given; it begins with qt_. The tab keeps it until you sign out or close it."),
    make("button", { class: "main" }, "Sign in"), quiet("No key? Whoever runs the server makes one: ",
      make("code", {}, "quittance keys create --name you --role support --expires 30d")));
  async function signIn() {
    keep({ key: key.value.trim() });
    try {
      if (/[^\x21-\x7e]/.test(session.key)) throw new Refused(401);
      const found = await get("/v1/key");
      if (!READERS.includes(found.role)) {
        throw new Refused(403, { message: `A ${found.role} key is for apps. The console needs a key with the role ` +
          "read, support or server." });
      }
      start(found);
    } catch (error) {
      sessionStorage.removeItem(STORE);
      session.key = undefined;
      key.value = "";
      problem.replaceChildren(text(error.status === 401 ? "The server does not accept this key." : error.message));
      key.focus();
    }
  }
  document.body.replaceChildren(make("main", { class: "narrow" }, form));
  key.focus();
}

function start(found) {
  who = found;
  const field = make("input", {
    id: "find", type: "search", name: "find", autocomplete: "off", spellcheck: "false", required: true, maxlength: 600,
    "aria-label": "Find a customer: an id or its beginning, an e-mail address, a transaction or an order",
  });
  const tab = (label, view) => make("button", { type: "button", id: `to-${view}`, onclick: () => go({ view }) }, label);
  document.body.replaceChildren(make("header", {}, make("div", { class: "bar" },
        make("button", { type: "button", class: "brand", onclick: () => go({ view: "overview" }) }, "Quittance"),
        make("form", { class: "find", role: "search", onsubmit: listen(() => {
          if (field.value.trim()) go({ view: "find", words: field.value.trim() });
        }) }, field, make("button", { class: "main" }, "Find")),
        make("nav", { "aria-label": "Pages" }, tab("Overview", "overview"), tab("Audit", "audit")),
        button("Sign out", () => signOut("You have signed out. This tab has forgotten the key."), "plain out")),
      make("div", { class: "bar app" }, product(who.bundleId), make("span", {}, "Times are UTC"),
        make("span", {}, text(who.name), " ", badge("", who.role)),
        isTime(who.expiresAt) && make("span", {}, "This key expires on ", time(who.expiresAt)))),
    make("p", { id: "notice", class: "notice", role: "alert", hidden: true }), make("main", { id: "main" }));
  show();
}

// MARK: - Places
// The address never changes: a place, which may have an id, is in the tab's storage, and the history has its number.
function go(place) {
  replace(place, session.at + 1);
  document.activeElement?.blur();
  history.pushState({ at: session.at }, "");
  show();
}

const VIEWS = { overview: showOverview, find: showFind, customer: showCustomer, audit: showAudit };
let turn = 0;
// As many places as a browser's history has.
function replace(place, at = session.at) {
  const old = Object.entries(session.places).filter(([number]) => number < at && number > at - 50);
  keep({ at, places: { ...Object.fromEntries(old), [at]: place } });
}

/** Shows the present place. An answer that arrives after the next click is dropped. */
async function show({ quietly = false } = {}) {
  const mine = ++turn;
  const place = session.places[session.at] ?? { view: "overview" };
  const main = document.getElementById("main");
  main.setAttribute("aria-busy", "true");
  for (const name of Object.keys(VIEWS)) {
    document.getElementById(`to-${name}`)?.setAttribute("aria-current", name === place.view ? "page" : "false");
  }
  if (!quietly) main.replaceChildren(make("p", { class: "quiet wait", role: "status" }, "Loading…"));
  let content;
  try {
    content = await VIEWS[place.view](place);
  } catch (error) {
    if (!(error instanceof Refused)) console.error(error);
    content = error.status === 404 && place.view === "customer"
      ? page(/no such order/.test(error.message) ? "No such order" : "Nothing found", quiet(error.message))
      : page("That did not work", problem(error), button("Try again", () => show()));
  }
  if (mine !== turn || !who || !content) return;
  main.replaceChildren(...content);
  main.removeAttribute("aria-busy");
  if (quietly) return;
  scrollTo(0, 0);
  // Who has begun to type meanwhile goes on.
  if (document.activeElement === document.body) main.querySelector("h1")?.focus();
}

/** The parts of a page, with its title, which names nobody. */
function page(title, ...children) {
  document.title = `${title} – Quittance console`;
  return [make("h1", { tabindex: "-1" }, title), ...children.flat().filter(Boolean)];
}

const problem = (error) => make("p", { class: "problem", role: "alert" }, error.message);
const card = (title, ...children) => make("section", { class: "card" }, make("h2", {}, title), ...children);
/** Something that arrives later than the rest of its page. */
function later(promise, render) {
  const node = make("div", { class: "later" }, make("p", { class: "quiet wait" }, "Loading…"));
  promise.then(render).catch((error) => problem(error)).then((content) => {
    node.replaceChildren(...[content].flat().filter(Boolean));
  });
  return node;
}

// MARK: - Tables
const PAGE = 20;
/** A table that shows 20 rows at once. A column is its title and what it shows of a row. */
function table(caption, columns, rows, none = "None.") {
  if (!rows.length) return quiet(none);
  const body = make("tbody", { role: "rowgroup" });
  const range = make("span", { role: "status" });
  let first = 0;
  const turnTo = (next) => {
    first = next;
    const shown = rows.slice(first, first + PAGE);
    body.replaceChildren(...shown.map((row) => make("tr", { role: "row" }, columns.map(([title, cell]) =>
      make("td", { role: "cell", "data-label": title }, make("div", {}, cell(row) ?? "–"))))));
    if (rows.length <= PAGE) return;
    text(`${count(first + 1)} to ${count(first + shown.length)} of ${count(rows.length)}`, range);
    back.disabled = first === 0;
    forth.disabled = first + PAGE >= rows.length;
  };
  const back = button("Newer", () => turnTo(Math.max(0, first - PAGE)), "plain");
  const forth = button("Older", () => turnTo(first + PAGE), "plain");
  const last = button("Oldest", () => turnTo(Math.floor((rows.length - 1) / PAGE) * PAGE), "plain");
  const node = make("div", { class: "rows" }, make("table", { role: "table" }, make("caption", {}, caption),
      make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, columns.map(([title]) =>
        make("th", { role: "columnheader", scope: "col", "data-label": title }, title)))), body),
    rows.length > PAGE && make("p", { class: "pager" }, back, forth, last, range));
  turnTo(0);
  return node;
}

// MARK: - Small things that several pages show
const ENVIRONMENTS = {
  Production: ["production", "production"], Sandbox: ["sandbox", "sandbox"], Xcode: ["xcode", "xcode"],
  LocalTesting: ["xcode", "localTesting"],
};
const environmentStyle = (name) => ENVIRONMENTS[name]?.[0] ?? "xcode";
const environmentQuery = (name) => ENVIRONMENTS[name]?.[1];
const environment = (name) => name && badge(environmentStyle(name), name);
const isUUID = (id) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id);
// People know the app's own ids, and not the account tokens.
const best = (ids) => ids.find((id) => !isUUID(id)) ?? ids[0];
// Events name customers by the first id. Of customers that were listed the page knows a better one.
const names = new Map();
const open = (id, pick) => go({ view: "customer", id, pick });
const customerLink = (id) => id && button(names.get(id) ?? id, () => open(names.get(id) ?? id), "link");
const price = (item) => typeof item.price === "number"
  ? `${(item.price / 1000).toLocaleString("en-GB", { minimumFractionDigits: 2 })} ${item.currency ?? ""}` +
    (item.price && item.environment && item.environment !== "Production" ? ", not charged" : "") : "–";

function customerList(items, none) {
  if (!items.length) return quiet(none);
  for (const item of items) names.set(item.ids[0], best(item.ids));
  return make("ul", { class: "list" }, items.map((item) => make("li", {}, customerLink(best(item.ids)), " ",
    item.entitlements.length
      ? item.entitlements.map((one) => badge("has", one.name)) : make("span", { class: "quiet" }, "has nothing now"),
    item.ids.length > 1 && small("also ",
      item.ids.filter((id) => id !== best(item.ids)).map((id, index) => [index ? ", " : "", id])))));
}

const gained = (event) => {
  const names = (list) => new Set((list ?? []).map((one) => one.name));
  const [before, after] = [names(event.entitlementsBefore), names(event.entitlementsAfter)];
  return [...[...after].filter((name) => !before.has(name)).map((name) => [true, name]),
    ...[...before].filter((name) => !after.has(name)).map((name) => [false, name])];
};
// What says why access began or ended, the best first. Several events tell the same.
const WHY = ["purchase.refunded", "purchase.refundReversed", "purchase.denied", "purchase.allowed",
  "purchase.shareEnded", "subscription.revoked", "subscription.priceIncreaseRefused", "subscription.expired",
  "subscription.retryEntered", "subscription.stale", "grant.made", "grant.ended", "subscription.started",
  "subscription.recovered", "purchase.made", "purchase.accessEnded"];
/** Each beginning and end of access, once for a purchase and minute. */
function accessChanges(events) {
  const found = new Map(), rank = (event) => (WHY.indexOf(event.kind) + 1) || WHY.length + 1;
  for (const event of events) {
    for (const [has, name] of gained(event)) {
      const key = JSON.stringify([event.customer, event.environment, event.originalTransactionId ?? event.grantId,
        Math.floor(event.recordedAt / 60_000), has, name]);
      if (!found.has(key) || rank(event) < rank(found.get(key).event)) found.set(key, { event, has, name });
    }
  }
  return [...found.values()];
}

function eventTable(events, withCustomer, none) {
  const changes = accessChanges(events), isToken = (event) => event.detail === "appAccountToken";
  const node = table("Events, the newest first", [["When", (event) => time(event.recordedAt)],
    ["What", (event) => [event.kind === "purchase.linked" && isToken(event)
      ? "belongs to this customer, by the app's token" : words(event.kind), event.productId &&
      small(product(event.productId)), [isToken(event) || isUUID(event.detail) ? "" : event.detail,
      event.correction?.reason].filter(Boolean).slice(0, 1).map((one) => small(one))]],
    withCustomer && ["Customer", (event) => customerLink(event.customer)],
    ["Access", (event) => changes.filter((one) => one.event === event).map(({ has, name }) =>
      badge(has ? "has" : "lost", (has ? "+ " : "− ") + name))],
    ["Where", (event) => environment(event.environment)],
    ["More", (event) => button("Details", () => showValue("Event", event), "plain")],
  ].filter(Boolean), events, none);
  if (events.length <= 5) return node;
  // A telephone shows five.
  const more = button("More events", () => {
    node.classList.remove("short");
    more.remove();
    node.querySelector("tr:nth-child(6) button")?.focus();
  }, "plain on-phones");
  node.classList.add("short");
  node.append(more);
  return node;
}

/** Lines of JSON, each a text by itself. */
function lines(value) {
  const all = JSON.stringify(value, null, 2).split("\n");
  const bound = 2000;
  return make("div", { class: "code", tabindex: "0", role: "group", "aria-label": "JSON" },
    all.slice(0, bound).map((line) => {
      const found = /: ([1-3]\d{12}),?$/.exec(line);
      return make("div", {}, line, found && make("span", { class: "quiet" }, `   ${moment(Number(found[1]))}`));
    }), all.length > bound && make("div", {}, `… ${plural(all.length - bound, "line")} more`));
}

/** A panel above the page. It gives the focus back. */
function panel(title, ...children) {
  const opener = document.activeElement;
  const heading = make("h2", { id: "panel-title", tabindex: "-1" }, title);
  const node = make("dialog", { "aria-labelledby": "panel-title" }, heading, ...children);
  node.addEventListener("close", () => {
    node.remove();
    (opener?.isConnected ? opener : document.querySelector("h1"))?.focus();
  });
  document.body.append(node);
  node.showModal();
  return node;
}

/** A panel to read and to close. */
function reading(title, content) {
  const node = panel(title, content, make("p", { class: "buttons" }, button("Close", () => node.close(), "main")));
  return node;
}

const showValue = (title, value) => reading(title, lines(value));

// MARK: - The front page
/** A concern with the times of this page. Commands are for those who have a terminal. */
function concern({ code, message }) {
  const said = message.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (found) => moment(Date.parse(found)));
  const parts = said.split(/(?<=\.) |(?<=:) (?=run quittance )/), isCommand = (one) => /\bquittance [a-z]/.test(one);
  return [parts.filter((one) => !isCommand(one)).join(" ").replace(/:$/, ".") || words(code),
    may.link() && small(parts.filter(isCommand).join(" "))];
}

async function showOverview() {
  const found = await get("/v1/overview"), customers = get("/v1/customers", { newest: true, limit: PAGE });
  const tile = (title, value, isBad, note) => make("div", { class: isBad ? "tile bad" : "tile" },
    make("div", { class: "quiet" }, title), make("div", { class: "big" }, value), note && small(note));
  const waiting = may.link() ? found.waitingEndpoints ?? [] : [], unknown = found.unknownProducts ?? [];
  const concerns = found.concerns ?? [];
  const newest = found.newestNotificationAt;
  return page("Overview", concerns.length
      ? make("section", { class: "card bad" }, make("h2", {}, plural(concerns.length, "concern")),
        make("ul", { class: "list" }, concerns.map((one) => make("li", {}, concern(one)))))
      : make("p", { class: "card fine" }, "No concerns: the server runs as it should."),
    make("div", { class: "tiles" },
      tile("Newest notification", isTime(newest) ? distance(newest, found.asOf) : "none yet", false,
        isTime(newest) && time(newest)),
      may.link() && tile("Webhooks waiting", count(waiting.length), waiting.length > 0),
      tile("Failed jobs", `${found.failedJobsArePartial ? "at least " : ""}${count(found.failedJobs ?? 0)}`,
        found.failedJobs > 0), tile("Unknown products", count(unknown.length), unknown.length > 0)),
    card("Notifications of the App Store", bars(found.notifications ?? [])),
    waiting.length > 0 && card("Webhooks waiting", table("Webhooks whose events wait", [
      ["Webhook", (one) => one.url], ["State", (one) => words(one.state)],
      ["More", (one) => button("Details", () => showValue("Webhook", one), "plain")], ], waiting)),
    unknown.length > 0 && card("Bought, and not in the configuration", table("Unknown products", [
      ["Product", (one) => product(one.productId)],
      ["Purchases", (one) => one.count === undefined ? "–" : count(one.count)],
    ], unknown)), make("div", { class: "columns" },
      card("Newest customers", later(customers, (list) => customerList(list.items, "No customer yet."))),
      card("Newest events", later(Promise.all([get("/v1/events", { newest: true, limit: PAGE }), customers]),
        ([list]) => eventTable(list.items, true, "No event yet.")))));
}

/** Notifications an hour. Widths and heights are percentages, so that the picture has the width of its place. */
function bars(hours) {
  if (!hours.length) return quiet("None.");
  const most = Math.max(1, ...hours.map((hour) => hour.count)), width = 100 / hours.length;
  const total = hours.reduce((sum, hour) => sum + hour.count, 0);
  const drawing = make("svg:svg", { class: "bars", role: "img", height: 120, width: "100%",
    "aria-label": `${plural(total, "notification")} in ${plural(hours.length, "hour")}, at most ${most} in one` },
    make("svg:line", { class: "axis", x1: "0", x2: "100%", y1: "99", y2: "99" }),
    hours.map((hour, index) => {
      const height = hour.count ? Math.max(2, hour.count / most * 80) : 0;
      return make("svg:rect", { class: "bar-of-hour", x: `${index * width + width * 0.12}%`, width: `${width * 0.76}%`,
        y: 98 - height, height }, make("svg:title", {}, `${moment(hour.from)}: ${hour.count}`));
    }),
    [0, 1, 2, 3].map((part) => {
      const hour = hours[Math.floor(part * hours.length / 4)];
      const name = `${moment(hour.from, "day")} ${moment(hour.from, "hour")}`;
      return make("svg:text", { x: `${part * 25}%`, y: 115 }, name);
    }), make("svg:text", { x: "0", y: 11 }, `at most ${count(most)} an hour`));
  return [quiet(`${plural(total, "notification")} in the last ${plural(hours.length, "hour")}`), drawing,
    make("details", {}, make("summary", {}, "The same as a table"), table("Notifications an hour", [
      ["Hour", (hour) => time(hour.from)], ["Notifications", (hour) => count(hour.count)], ], [...hours].reverse()))];
}

// MARK: - Find
// An order id has capital letters and digits. Only the App Store knows it, so asking costs a second click.
const isOrder = (id) => /^(?=.*[A-Z])[A-Z0-9]{6,64}$/.test(id);

async function showFind({ words: id }) {
  const [byEmail, begun] = await Promise.all([id.includes("@") ? get("/v1/customers", { email: id }) : { items: [] },
    get("/v1/customers", { prefix: id, limit: PAGE }).catch(() => ({ items: [] })), ]);
  const customers = [...new Map([...byEmail.items, ...begun.items].map((item) => [item.ids[0], item])).values()];
  const isExact = (item) => item.ids.includes(id) || byEmail.items.includes(item);
  const exact = customers.filter(isExact);
  // What only one has needs no list, unless it may be a transaction or an order.
  const mayBegin = !isOrder(id) && !/^\d{9,}$/.test(id);
  const only = exact.length === 1 ? exact : mayBegin && customers.length === 1 ? customers : [];
  if (only.length) return found(best(only[0].ids));
  let refusal = id.includes("@") && (/@.+\../.test(id) ? "No customer has this e-mail address." :
    "Type the whole e-mail address.");
  if (!customers.length && !isOrder(id) && !refusal) {
    try {
      return await found(id);
    } catch (error) {
      if (error.status !== 404 && error.status !== 400) throw error;
      refusal = error.message;
    }
  }
  return page("Find", make("p", {}, "Searched for ", make("b", {}, id)),
    customers.length > 0 && card("Customers", customerList(customers), customers.length >= PAGE &&
      quiet(`These are the first ${PAGE}. Type more of the id.`)),
    !customers.length && make("p", { class: "card" }, refusal || "No customer has an id that begins so.", make("br"),
      make("span", { class: "quiet" }, "You can look for an id of the app and its beginning, an e-mail address, the " +
        "number of a transaction, and the order id in Apple's e-mail.")), isOrder(id) && card("Is it an order id?",
      make("p", {}, "An order id is in the e-mail from Apple, for example MV5G8XK2PQ. Only the App Store knows which " +
        "purchase it is. Asking changes nothing."),
      button("Ask the App Store", () => open(id), "main")));

  function found(name) {
    const place = { view: "customer", id: name };
    return showCustomer(place, () => replace(place));
  }
}

// MARK: - The customer
async function showCustomer({ id, pick }, isFound = () => {}) {
  const { items } = await get(path`/v1/support/${id}`);
  isFound();
  if (items.length > 1 && pick === undefined) {
    return page("Several have this id", card("Which one?", make("ul", { class: "list" }, items.map((item, index) =>
      make("li", {}, button(best(item.ids) ?? item.id, () => open(id, index), "link"), " ",
        item.ids.length ? item.ids.join(", ") : "a purchase that belongs to no customer")))));
  }
  const customer = items[pick ?? 0];
  const isOwned = customer.ids.length > 0;
  const name = best(customer.ids) ?? customer.id;
  // Gifts and merges are few and needed by the panels, so the page waits for them.
  const [grants, merges] = isOwned ? await Promise.all([get(path`/v1/customers/${name}/grants`),
    get("/v1/events", { customer: name, kind: "customer.merged", newest: true, limit: 100 })]) : [];
  customer.grants = grants?.items ?? [];
  customer.merged = customer.ids.slice(1).filter((one) => merges?.items.some((event) => event.mergedCustomer === one));
  if (isOwned) names.set(customer.ids[0], name);
  const order = Object.keys(ENVIRONMENTS);
  const environments = [...customer.environments].sort((one, other) =>
    order.indexOf(one.environments[0]) - order.indexOf(other.environments[0]));
  document.title = "Customer – Quittance console";
  const since = customer.asOf - 90 * DAY;
  return [make("div", { class: "title" }, make("h1", { tabindex: "-1" }, isOwned ? name : `Purchase ${customer.id}`),
      button("Refresh", () => show(), "plain"),
      may.change() && button("What you can do", () => document.querySelector(".action")?.focus(), "plain on-phones")),
    quiet(isOwned ? "Customer" : "A purchase that belongs to no customer", ", as of ", time(customer.asOf)),
    make("div", { class: "sides" }, make("div", {},
        environments.length ? environments.map((one) => environmentCard(customer, one))
          : make("p", { class: "card" }, "This customer has bought nothing and was given nothing.")),
      make("aside", {}, may.change() && actionsCard(customer, name),
        isOwned && card("Ids", make("ul", { class: "list" }, customer.ids.map((one, index) => make("li", {}, one,
          index === 0 && small("main id"))))),
        card("Attributes", make("dl", {}, Object.entries(customer.attributes ?? {}).map(([key, value]) => [
          make("dt", {}, key), make("dd", {}, value.value ?? "–", small("since ", time(value.updatedAt)))])),
          !Object.keys(customer.attributes ?? {}).length && quiet("None.")), make("section", { class: "card" },
          small("Which purchases count: those of ", customer.counted.join(" and ") || "no environment")))),
    card("Notifications and documents of the App Store", quiet("The ten that were signed last."), table(
      "Documents, the newest first", [
        ["Signed", (one) => time(one.signedDate)], ["Received", (one) => time(one.receivedAt)],
        ["Document", (one) => [words(one.kind), one.notificationType && make("div", { class: "small" },
          one.notificationType + (one.subtype ? " " + one.subtype : ""))]],
        ["Where", (one) => environment(one.environment)], ["More", (one) => documentButton(one.id, one.environment)],
      ], customer.documents ?? [])),
    isOwned && card("Events of the last 90 days", later(
      get("/v1/events", { newest: true, customer: name, limit: 100 }), (list) => {
        const recent = list.items.filter((event) => event.recordedAt >= since);
        return [list.items.length >= 100 && recent.length >= 100 &&
          quiet("The newest 100."), eventTable(recent, false, "None.")];
      })),
    isOwned && card("Audit", later(get("/v1/audit", { customerId: name, limit: PAGE }),
      (list) => auditTable(list.items, false, "Nobody has changed anything.", customer.grants))), ].filter(Boolean);
}

const documentButton = (id, place) => id && button("Document", () => showDocument(id, place), "plain");

function environmentCard(customer, one) {
  const name = one.environments[0];
  const isCounted = customer.counted.includes(name);
  const gifts = customer.grants.filter((grant) => grant.environment === name);
  return make("section", { class: `card environment ${environmentStyle(name)}` },
    make("h2", {}, environment(name), name === "Production" ? "" : " No money was paid here."),
    !isCounted && make("p", { class: "problem" }, `${name} does not count for this customer: the app gets none of it.`),
    make("ul", { class: "sentences" }, (one.sentences ?? []).map((sentence) => make("li", {},
      sentence.split(/([\w-]+(?:\.[\w-]+){2,})/).map(product)))),
    one.timeline?.length > 0 && timeline(one.timeline, customer.asOf, one.timelineOmitted, name),
    make("h3", {}, "Access now"),
    table("Access now", [["May use", (item) => item.name], ["Until", (item) => time(item.until, "no end")],
      ["Because of", (item) => words(item.reason)],
      ["Product", (item) => item.productId ? product(item.productId) : "a gift"], ], one.entitlements, "Nothing."),
    gifts.length > 0 && [make("h3", {}, "Gifts"), table("Gifts", [
      ["Gives", (gift) => gift.entitlement], ["From", (gift) => time(gift.from)],
      ["Until", (gift) => time(gift.until, "no end")], ["Why", (gift) => gift.why], ["By", (gift) => gift.by],
      ["State", (gift) => gift.isActive ? "runs" : gift.endedAt ? ["ended ", time(gift.endedAt)] : "over"],
      ["More", (gift) => gift.isActive && may.change()
        ? button("End…", () => act("endGift", customer, { gift: gift.id }), "plain") : ""],
    ], [...gifts].reverse())],
    one.subscriptions.length > 0 && [make("h3", {}, "Subscriptions"), table("Subscriptions", [
      ["Subscription", (item) => [product(item.productId), small(item.originalTransactionId)]],
      ["Status", (item) => words(item.status)], ["Access until", (item) => time(item.accessUntil, "no end")],
      ["Renews", (item) => item.willRenew === true ? "yes" : item.willRenew === false ? "no" : "unknown"],
      ["Next price", (item) => item.willRenew === false ? "–" : price({ price: item.renewal?.renewalPrice,
        currency: item.renewal?.currency, environment: name })],
    ], one.subscriptions)], make("h3", {}, "Purchases"),
    table("Purchases, the newest first", [["Bought", (item) => time(item.purchaseDate)],
      ["Product", (item) => [product(item.productId), small(item.transactionId)]],
      ["Until", (item) => time(item.expiresDate)], ["Price", price],
      ["State", (item) => purchaseState(item, customer.asOf)],
      ["More", (item) => documentButton(item.evidence?.id, name)],
    ], [...one.purchases].sort((a, b) => (b.purchaseDate ?? 0) - (a.purchaseDate ?? 0))));
}

function purchaseState(item, now) {
  if (item.refused) return badge("lost", "denied");
  if (isTime(item.revocationDate)) return [badge("lost", "refunded"), " ", time(item.revocationDate)];
  if (item.isUpgraded) return "upgraded";
  const kind = item.offerDiscountType === "FREE_TRIAL" ? "trial, " : item.offerType ? "offer, " : "";
  if (!isTime(item.expiresDate)) return kind + "bought";
  return kind + (item.expiresDate > now ? "runs" : "over");
}

// MARK: - The time line
const STATES = {
  trial: "trial", offer: "offer", paid: "paid", chargedAhead: "charged ahead", grace: "grace: the charge failed",
  retry: "no access: Apple retries the charge", gap: "no access", upgraded: "upgraded", revoked: "refunded or revoked",
  given: "gift", stale: "renewal not heard of",
};
const DOWN = "M-6 -5h12l-6 10z";
const SHAPES = {
  purchase: "M0 -5a5 5 0 1 0 .01 0z", refund: DOWN, revoked: DOWN, denied: DOWN, granted: "M0 -6l6 6l-6 6l-6 -6z",
  ended: "M-4.5 -4.5h9v9h-9z", other: "M-1.5 -6h3v12h-3z",
};
// Nobody pays outside production.
const UNPAID = { paid: "bought", chargedAhead: "bought ahead" };
const stateName = (state, place) => (place !== "Production" && UNPAID[state]) || (STATES[state] ?? words(state));
const bandStyle = (state) => `band ${STATES[state] ? state : "stale"}`;
// The server sends at most 240 transactions. Of what is narrower than a part of the picture, in percent, this is shown.
const NARROWEST = 0.25, MOST_LANES = 24, LANE = 30;

function scale(entries, now) {
  const times = entries.flatMap((entry) => [...(entry.bands ?? []).flatMap((band) => [band.from, band.to]),
    ...(entry.marks ?? []).map((mark) => mark.at)]).filter(isTime);
  const first = times.reduce((a, b) => Math.min(a, b), now), last = times.reduce((a, b) => Math.max(a, b), first);
  // A subscription of the sandbox takes an hour: long afterwards, the picture ends with it.
  const isPast = now - last > 20 * (last - first + HOUR);
  const end = isPast ? last + (last - first) * 0.1 + HOUR / 10
    // An end that is far ahead would leave no room for the past.
    : Math.max(now + (now - first) * 0.05 + HOUR, Math.min(last, now + Math.max(45 * DAY, (now - first) * 0.4)));
  const at = (value) => Math.round(Math.min(1, Math.max(0, (value - first) / (end - first))) * 1e5) / 1e3;
  return { end, at, marks: ticks(first, end), isPast, last };
}

/** At most seven round times. */
function ticks(start, end) {
  const steps = [["hour", HOUR / 4], ["hour", HOUR], ["hour", 6 * HOUR], ["day", DAY], ["day", 7 * DAY],
    ["month", 30 * DAY, 1], ["month", 91 * DAY, 3], ["month", 182 * DAY, 6], ["year", 365 * DAY, 12],
    ["year", 1096 * DAY, 36], ["year", 3653 * DAY, 120], ["year", 36525 * DAY, 1200]];
  const [format, size, months] = steps.find((step) => (end - start) / step[1] <= 7) ?? steps.at(-1);
  const first = new Date(start), found = [];
  const month = months && first.getUTCFullYear() * 12 + first.getUTCMonth();
  for (let index = 1; index < 9; index += 1) {
    const next = months && (Math.floor(month / months) + index) * months;
    const value = months ? Date.UTC(Math.floor(next / 12), next % 12) : (Math.floor(start / size) + index) * size;
    if (value > start && value < end) found.push([value, moment(value, format)]);
  }
  return found;
}

function timeline(entries, now, omittedOnes, place) {
  const omitted = entries.reduce((sum, entry) => sum + (entry.omitted ?? 0), omittedOnes ?? 0);
  const { at, end, marks, isPast, last } = scale(entries, now);
  // Purchases that are points only share a lane.
  const lanes = entries.filter((entry) => entry.bands?.length);
  const points = entries.filter((entry) => !lanes.includes(entry));
  const shown = lanes.slice(0, MOST_LANES);
  if (points.length === 1) shown.push(points[0]);
  if (points.length > 1) shown.push({ id: "One-time purchases", marks: points.flatMap((entry) => entry.marks ?? []) });
  const states = [...new Set(shown.flatMap((entry) => (entry.bands ?? []).map((band) => band.state)))];
  const upright = (style, value) =>
    make("svg:line", { class: style, x1: `${at(value)}%`, x2: `${at(value)}%`, y1: "0", y2: LANE });
  const rows = entries.flatMap((entry) => [
    ...(entry.bands ?? []).map((band) => ({ ...band, entry, what: stateName(band.state, place), at: band.from })),
    ...(entry.marks ?? []).map((mark) => ({ ...mark, entry, what: mark.text || words(mark.kind) })),
  ]).sort((a, b) => b.at - a.at);
  const figure = make("figure", { class: "timeline" },
    make("figcaption", {}, "Time line", isPast && `, which ended ${distance(last, now)}`),
    make("div", { class: "lanes", "aria-hidden": "true" }, shown.map((lane) => make("div", { class: "lane" },
        make("div", { class: "small" }, product(laneName(lane)), lane.productId && lane.entitlement &&
          ` gives ${lane.entitlement}`), make("svg:svg", { class: "lane-drawing", width: "100%", height: LANE },
          marks.map(([value]) => upright("grid", value)),
          (lane.bands ?? []).map((band) => drawBand(band, at, now, end, place)), !isPast && upright("now", now),
          (lane.marks ?? []).map((mark) => make("svg:svg", { class: "mark-at", x: `${at(mark.at)}%`, y: 15 },
            make("svg:title", {}, `${moment(mark.at)}: ${mark.text || words(mark.kind)}`),
            make("svg:path", { class: `mark ${mark.kind in SHAPES ? mark.kind : "other"}`,
              d: SHAPES[mark.kind] ?? SHAPES.other })))))),
      make("svg:svg", { width: "100%", height: 18 },
        !isPast && make("svg:text", { class: `now-word ${at(now) > 90 ? "end" : at(now) < 10 ? "begin" : ""}`,
          x: `${at(now)}%`, y: 13 }, "now"),
        marks.map(([value, label]) => make("svg:text", { class: "tick", x: `${at(value)}%`, y: 13 }, label)))),
    make("p", { class: "legend small", "aria-hidden": "true" }, states.map((state) => make("span", {},
      make("svg:svg", { width: 16, height: 12 },
        make("svg:rect", { class: bandStyle(state), x: 0.5, y: 0.5, width: 15, height: 11 })),
      stateName(state, place)))),
    lanes.length > MOST_LANES && quiet(`${plural(lanes.length - MOST_LANES, "older line")} only in the table beneath.`),
    omitted > 0 && quiet(`${plural(omitted, "earlier transaction")} only among the purchases.`),
    make("details", {}, make("summary", {}, "The time line as a table"), table("The time line, the newest first", [
      ["From", (row) => time(row.at)], ["To", (row) => row.state ? time(row.to, "no end") : ""],
      ["What", (row) => row.what], ["Of", (row) => product(laneName(row.entry))],
      ["Transaction", (row) => row.transactionId], ], rows)));
  fitting.observe(figure);
  return figure;
}

// What a band may say, the longest first.
const sayings = new WeakMap();
// A label that has no room is not shown: in its band, or beside "now" and the label before it.
const fitting = new ResizeObserver((entries) => entries.forEach(({ target }) => {
  for (const node of target.querySelectorAll(".band-name")) {
    const room = node.previousSibling.getBoundingClientRect().width - 10;
    const fits = (one) => text(one, node).getComputedTextLength() <= room;
    if (!sayings.get(node).some(fits)) text("", node);
  }
  const taken = [];
  for (const node of target.querySelectorAll(".now-word, .tick")) {
    const { left, right } = node.getBoundingClientRect();
    const isFree = right <= target.getBoundingClientRect().right && !taken.some((one) =>
      left < one.right + 6 && right > one.left - 6);
    if (isFree) taken.push({ left, right });
    node.classList.toggle("unseen", !isFree);
  }
}));

const laneName = (lane) => lane.productId ?? (lane.kind === "grant" ? `Gift of ${lane.entitlement}` : lane.id);
/** A band with its name. What has no known end is drawn until now, if not longer. */
function drawBand({ state, from, to }, at, now, end, place) {
  const isOpen = to === undefined && ["paid", "given"].includes(state);
  const begin = at(from), width = Math.max(NARROWEST, at(to ?? (isOpen ? end : now)) - begin);
  const rest = to > end ? `, until ${moment(to, "date")} →` : isOpen ? ", no end →" : "";
  const name = stateName(state, place), label = make("svg:text", { class: "band-name", x: 9, y: 14 }, name + rest);
  sayings.set(label, [name + rest, name, name.split(":")[0]]);
  return make("svg:svg", { x: `${begin}%`, y: 5, height: 20, width: `${width}%`, "data-state": state },
    make("svg:title", {}, `${name}, ${moment(from)} to ${isTime(to) ? moment(to) : "no end"}`),
    make("svg:rect", { class: bandStyle(state), x: 0.5, y: 0.5, width: "100%", height: 19 }), width > 2 && label);
}

// MARK: - A document
const LONGEST_DOCUMENT = 20_000;

async function showDocument(id, place) {
  const body = make("div", {}, make("p", { class: "quiet wait" }, "Loading…"));
  reading("Document", body).classList.add("wide");
  try {
    const found = await get(path`/v1/evidence/${id}`, { explain: true, environment: environmentQuery(place) });
    body.replaceChildren(make("p", {}, environment(found.environment), " ", words(found.kind),
        [found.notificationType, found.subtype].filter(Boolean).map((one) => [" ", make("b", {}, one)])),
      make("dl", {}, make("dt", {}, "Signed"), make("dd", {}, time(found.signedDate)),
        make("dt", {}, "Received"), make("dd", {}, time(found.receivedAt)), make("dt", {}, "Name"),
        make("dd", {}, found.id)),
      ...(found.checks ? [make("h3", {}, "Checks"), make("ul", { class: "checks" }, found.checks.map((check) =>
        make("li", { class: check.passed === false ? "failed" : check.passed ? "passed" : "skipped" },
          make("b", {}, check.passed === false ? "✗ failed " : check.passed ? "✓ passed " : "– not done "),
          words(check.name), check.part && `, ${words(check.part)}`, check.text && small(check.text))))] : []),
      make("h3", {}, "What it says"),
      found.payload ? lines(found.payload) : quiet("Nothing can be shown: see the checks."),
      make("details", {}, make("summary", {}, "The document as it was signed"),
        make("div", { class: "code", tabindex: "0", role: "group", "aria-label": "Document" },
          text(String(found.document ?? "").slice(0, LONGEST_DOCUMENT)),
          String(found.document ?? "").length > LONGEST_DOCUMENT && make("div", {}, "…"))));
  } catch (error) {
    body.replaceChildren(problem(error));
  }
}

// MARK: - Audit
/** What was done, in the words of support. The list of gifts says what they gave. */
function change({ operation, subject = "", at }, grants) {
  const rest = subject.split(" ").filter((one) => !isUUID(one)).join(" "), ids = subject.split(" ");
  if (!["makeGrant", "endGrant"].includes(operation)) return [words(operation), rest && small(rest)];
  const gift = grants.find((one) => ids.includes(one.id) || one.entitlement === subject && one.madeAt === at);
  if (operation === "endGrant") return gift ? `ended the gift of ${gift.entitlement}` : "ended a gift";
  return `gave ${rest}` +
    (!gift ? "" : isTime(gift.until) ? ` until ${moment(gift.until).split(",")[0]}` : " for ever");
}

function auditTable(items, withCustomer, none, grants = []) {
  return table("Changes, the newest first", [["When", (one) => time(one.at)],
    ["Who", (one) => [one.by ?? one.keyName ?? "–", one.role && [" ", badge("", one.role)],
      one.by && one.keyName && small("with the key ", one.keyName)]],
    ["What", (one) => change(one, grants)], withCustomer && ["Customer", (one) => customerLink(one.customerId)],
    ["Reason", (one) => one.reason], ["Outcome", (one) => words(one.outcome)],
    ["More", (one) => button("Details", () => showValue("Change", one), "plain")], ].filter(Boolean), items, none);
}

async function showAudit(place) {
  const { customerId = "", from = "", to = "", after } = place;
  const day = (value, days) => value ? Date.parse(value + "T00:00:00Z") + days * DAY : undefined;
  const list = await get("/v1/audit", { customerId, from: day(from, 0), to: day(to, 1), after, limit: 100 });
  const field = (label, id, attributes) => make("label", {}, label, make("input", { id, ...attributes }));
  const form = make("form", { class: "card filter", onsubmit: listen(() => {
    const value = (id) => document.getElementById(id).value.trim();
    go({ view: "audit", customerId: value("audit-customer"), from: value("audit-from"), to: value("audit-to") });
  }) },
    field("Customer", "audit-customer", { type: "text", value: customerId, autocomplete: "off", spellcheck: "false" }),
    field("From", "audit-from", { type: "date", value: from }), field("To", "audit-to", { type: "date", value: to }),
    make("button", { class: "main" }, "Show"));
  return page("Audit", quiet("What people and backends have changed with a key or a command."), form,
    make("section", { class: "card" }, auditTable(list.items, true, "Nothing was changed."),
      list.nextCursor && button("Earlier changes", () => go({ ...place, after: list.nextCursor }), "plain")));
}

// MARK: - What support may do
/** The purchases of a customer, each once, the newest first. */
function chains(customer) {
  const found = new Map();
  for (const item of customer.environments.flatMap((one) => one.purchases)) {
    const key = `${item.environment} ${item.originalTransactionId}`;
    if (found.get(key)?.at > item.purchaseDate) continue;
    found.set(key, { key, id: item.originalTransactionId, name: item.productId, at: item.purchaseDate,
      isDenied: item.refused === true, place: item.environment,
      query: { environment: environmentQuery(item.environment) } });
  }
  return [...found.values()].sort((a, b) => b.at - a.at);
}

// More purchases than this are no list to choose from.
const MOST_CHOICES = 200;
/** A panel about one of these purchases. It begins with a field that chooses one, which its functions then get. */
function ofPurchase(list, { fields = [], effect, run, ...rest }) {
  const options = list.slice(0, MOST_CHOICES).map((chain) =>
    [chain.key, `${chain.name}, bought ${moment(chain.at, "date")} (${chain.id}, ${chain.place})`]);
  const hint = list.length > MOST_CHOICES && `The newest ${MOST_CHOICES} purchases.`;
  const on = (action) => (values) => action(list.find((one) => one.key === values.purchase), values);
  return list.length > 0 && { ...rest, effect: on(effect), run: on(run),
    fields: [{ name: "purchase", label: "Purchase", options, hint }, ...fields] };
}

function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** The end of a gift as a person types it: days, which end at midnight in UTC as those of the commands, or a date. */
function until(typed, now) {
  const found = /^(?:(\d{1,4})|(?:an?|one)(?= \w)) ?(?:(d)(?:ays?)?|(w)(?:eeks?)?|(m)(?:onths?)?)?$/i.exec(typed);
  const days = found && Number(found[1] ?? 1) * (found[3] ? 7 : found[4] ? 30 : 1);
  if (found) return days > 0 ? (Math.floor(now / DAY) + 1 + days) * DAY : undefined;
  const date = /^\d{4}-\d\d-\d\d$/.test(typed) ? Date.parse(typed + "T00:00:00Z") : NaN;
  return date > now ? date : undefined;
}

const makeGift = (name, place, why, gift) => ask("POST", path`/v1/customers/${name}/grants`,
  { environment: environmentQuery(place) }, { ...gift, why, by: session.by, new: false });
const endGift = (name, { id }, reason) => alter("POST", path`/v1/customers/${name}/grants/${id}/end`, {}, reason);
const undone = (reason) => `undone: ${reason}`.slice(0, 500);
const onlyServer = (what) => !may.link() && `Only a server key can ${what} again.`;
/**
 * Each makes a panel for a customer, or nothing if it does not apply: fields, what will happen (nothing while a field
 * is empty, a text that asks for a correction, or sentences), and the request, with what undoes it. `twice` asks again.
 */
const ACTIONS = {
  give(customer, name) {
    if (!customer.ids.length) return null;
    const known = who.entitlements ?? [], id = randomId();
    return {
      title: "Give days",
      fields: [
        { name: "entitlement", label: "What", options: known.length ? known.map((one) => [one, one]) : undefined,
          hint: !known.length && "The name of an entitlement, such as pro." },
        { name: "until", label: "For how long", value: "30d",
          hint: "Days such as 30d, 2 weeks, a month (30 days), or the date of the end: 2027-02-05." },
        { name: "place", label: "Where", options: [["Production", "Production: the app of the App Store"],
          ["Sandbox", "Sandbox: TestFlight and App Review"]] }],
      effect({ entitlement, until: typed, place }) {
        const end = until(typed, customer.asOf);
        if (!entitlement) return undefined;
        if (!end) return "Type a number of days, or a date ahead.";
        const pays = customer.environments.some((one) =>
          one.subscriptions.some((item) => item.hasAccess && item.willRenew));
        return [`${name} may use ${entitlement} until ${moment(end)} UTC, at once and without paying (${place}).`,
          customer.environments.some((one) => one.entitlements.some((item) => item.name === entitlement &&
            item.environment === place && !(item.until < end))) &&
            "The customer has it as long or longer without this.",
          "The App Store is not told.", pays && "The customer's subscription goes on, and Apple charges it as before."];
      },
      async run({ entitlement, until: typed, place, reason }) {
        const grant = await makeGift(name, place, reason, { id, entitlement, until: until(typed, customer.asOf) });
        return { done: `${name} has ${grant.entitlement} until ${moment(grant.until)} UTC.`,
          undo: ["End this gift", () => endGift(name, grant, undone(reason))] };
      }, };
  },
  endGift(customer, name, given) {
    const list = customer.grants.filter((grant) => grant.isActive);
    const chosen = ({ gift }) => list.find((grant) => grant.id === gift);
    return list.length && {
      title: "End a gift",
      fields: [{ name: "gift", label: "Gift", value: given.gift, options: list.map((one) => [one.id, one.entitlement +
        ` until ${isTime(one.until) ? moment(one.until) : "no end"}, ${one.environment}: ${one.why}`]) }],
      effect: (values) => [`${chosen(values).entitlement} ends for ${name} now, unless a purchase gives it too.`],
      async run(values) {
        const gift = chosen(values), { entitlement, until: end, environment: place } = gift;
        await endGift(name, gift, values.reason);
        const again = { id: randomId(), entitlement, until: end, forever: !isTime(end) };
        return { done: `The gift of ${entitlement} has ended.`,
          undo: ["Give it again", () => makeGift(name, place, undone(values.reason), again)] };
      }, };
  },
  move: (customer, name) => ofPurchase(chains(customer), {
    title: "Move a purchase",
    fields: [{ name: "to", label: "To the customer with the id" },
      { name: "isNew", label: "Nobody has this id yet: make a new customer", isCheck: true }],
    effect: (chain, { to, isNew }) => to && [`${chain.name} (${chain.id}) belongs to ${to} alone, at once.`,
      isNew && `If nobody has the id ${to}, a new customer with it is made.`,
      customer.ids.length > 0 && `${name} loses what it gives.`,
      "Later documents and claims of apps do not change this."],
    async run({ id, query, name: product }, { to, isNew, reason }) {
      const before = (await get(path`/v1/transactions/${id}`, query)).customers ?? [];
      const move = (why, body) => alter("POST", path`/v1/transactions/${id}/move`, query, why, body);
      await move(reason, { customers: [to], new: isNew });
      const owners = before.map((one) => one === customer.ids[0] ? name : one).join(", ");
      return { done: `${product} belongs to ${to}.`, undo: before.length > 0 && before.length <= 10 &&
        [`Move it back to ${owners}`, () => move(undone(reason), { customers: before, new: false })] };
    }, }),
  deny: (customer) => denial(customer, false, "Deny a purchase", "deny", "allow", (chain) => [
    `${chain.name} (${chain.id}) gives nothing from now on, although it was bought, until somebody allows it.`,
    "Apple refunds nothing, and goes on charging a subscription."]),
  allow: (customer) => denial(customer, true, "Allow a denied purchase", "allow", "deny", (chain) => [
    `${chain.name} (${chain.id}) gives again what it gave before it was denied.`]),
  unlink: (customer) => separation(customer, "Take an id off", "Id", (id) => [
    `${id} then belongs to nobody. The purchases stay with this customer.`,
    "An app that asks with this id finds nothing.", onlyServer("add the id")], async (id, rest, reason) => {
    await alter("POST", path`/v1/customers/${rest}/unlink`, {}, reason, { alias: id });
    return `${id} belongs to nobody.`;
  }, "Add the id again"),
  unmerge: (customer) => separation(customer, "Undo a merge", "Id of the customer that was merged in", (id) => [
    `The customer that had the id ${id} is a customer of its own again, with its ids and purchases of then.`,
    "Gifts and attributes stay with this customer.", onlyServer("merge them")], async (id, _, reason) => {
    await alter("POST", path`/v1/customers/${id}/unmerge`, {}, reason);
    return `${id} is a customer of its own.`;
  }, "Merge them again", customer.merged),
  refresh: (customer) => ofPurchase(chains(customer), {
    title: "Read from the App Store",
    effect: ({ place }) => ["The server reads the customer's whole history with this purchase from the App Store, " +
      `and records what it lacks (${place}).`, "Nobody is charged, and nothing is erased."],
    async run({ id, query }, { reason }) {
      const found = await alter("POST", "/v1/backfill", query, reason, { transactionId: id });
      return { done: !found.complete ? "The App Store has not told all of it yet. The server goes on by itself."
        : `It answered: ${plural(found.recorded, "new document")}, ${count(found.alreadyKnown)} already known.` };
    }, }),
  extend(customer) {
    const keys = new Set(customer.environments.flatMap((one) => one.subscriptions.filter((item) => item.hasAccess)
      .map((item) => `${item.environment} ${item.originalTransactionId}`)));
    const requestIdentifier = randomId();
    return ofPurchase(chains(customer).filter((chain) => keys.has(chain.key)), {
      title: "Extend at Apple", twice: "Apple extends at once and sends the customer an e-mail. Nobody can undo it.",
      fields: [{ name: "days", label: "Days, 1 to 90", value: "7" },
        { name: "code", label: "Reason for Apple", options: [["1", "Customer satisfaction"],
          ["3", "Service issue or outage"], ["2", "Other"], ["0", "Not declared"]] }],
      effect: ({ name }, { days }) => !/^([1-9]|[1-8]\d|90)$/.test(days) ? "Type a number of days from 1 to 90." : [
        `Apple moves the next renewal of ${name} by ${plural(Number(days), "day")}, without a charge, and sends the ` +
        "customer an e-mail.", "It cannot be undone."],
      async run({ id, query }, { days, code, reason }) {
        const found = await alter("POST", path`/v1/subscriptions/${id}/extension`, query, reason,
          { extendByDays: Number(days), extendReasonCode: Number(code), requestIdentifier });
        return { done: `The next renewal is on ${moment(found.effectiveDate)} UTC.` };
      }, });
  },
  attribute(customer, name) {
    const before = (attribute) => customer.attributes?.[attribute]?.value ?? null;
    return customer.ids.length && {
      title: "Set an attribute", fields: [{ name: "attribute", label: "Attribute", hint: "Such as $email or plan." },
        { name: "value", label: "Value", isOptional: true, hint: "Empty removes the attribute." }],
      effect: ({ attribute, value }) => attribute && [
        value ? `${attribute} becomes “${value}”.` : `${attribute} is removed.`,
        before(attribute) === null ? "The customer does not have it yet." : `Now it is “${before(attribute)}”.`],
      async run({ attribute, value, reason }) {
        const set = (why, one) => alter("PATCH", path`/v1/customers/${name}/attributes`, {}, why,
          { attributes: { [attribute]: { value: one } }, new: false });
        await set(reason, value || null);
        return { done: "The attribute is set.", undo: ["Set it back", () => set(undone(reason), before(attribute))] };
      }, };
  },
};

function denial(customer, isDenied, title, verb, opposite, effect) {
  return ofPurchase(chains(customer).filter((chain) => chain.isDenied === isDenied), {
    title, effect,
    async run({ id, query, name }, { reason }) {
      const send = (what, why) => alter("POST", path`/v1/transactions/${id}/` + what, query, why);
      await send(verb, reason);
      return { done: `${name} is ${isDenied ? "allowed" : "denied"}.`,
        undo: [isDenied ? "Deny it again" : "Allow it again", () => send(opposite, undone(reason))] };
    }, });
}

/** Takes an id of the customer away. The first id names the customer in events, and stays. */
function separation(customer, title, label, effect, send, undo, ids = customer.ids.slice(1)) {
  return ids.length > 0 && {
    title, fields: [{ name: "id", label, options: ids.map((id) => [id, id]) }],
    effect: ({ id }) => effect(id),
    async run({ id, reason }) {
      const rest = customer.ids[0];
      return { done: await send(id, rest, reason), next: best(customer.ids.filter((one) => one !== id)),
        undo: may.link() &&
          [undo, () => alter("POST", path`/v1/customers/${rest}/aliases`, {}, undone(reason), { alias: id })] };
    }, };
}

function actionsCard(customer, name) {
  return make("section", { class: "card actions" }, make("h2", {}, "What you can do"),
    Object.entries(ACTIONS).map(([key, action]) => [key, action(customer, name, {})]).map(([key, possible]) =>
      possible ? button(possible.title + "…", () => act(key, customer), "action") : ""),
    make("p", { class: "quiet small" }, "Each first says what will happen."));
}

/** Opens the panel of an action. */
function act(key, customer, given = {}) {
  const name = best(customer.ids) ?? customer.id, action = ACTIONS[key](customer, name, given);
  const inputs = new Map();
  const fields = [...action.fields,
    { name: "reason", label: "Reason", maxlength: 400, hint: "It is kept: name nobody in it." },
    { name: "by", label: "Your name", value: session.by, maxlength: 100,
      hint: "Nobody checks it: only the key is certain." }];
  const rows = fields.map((field) => {
    const id = `field-${field.name}`, hint = field.hint && `hint-${field.name}`;
    const shared = { id, required: !field.isCheck && !field.isOptional, "aria-describedby": hint };
    const input = field.options ? make("select", shared, field.options.map(([value, label]) =>
        make("option", { value, selected: value === field.value }, label)))
      : make("input", { ...shared, type: field.isCheck ? "checkbox" : "text", autocomplete: "off", spellcheck: "false",
        value: field.value, maxlength: field.maxlength });
    inputs.set(field.name, input);
    const label = make("label", { for: id, class: shared.required && !field.options && "needed" }, field.label);
    return make("div", { class: field.isCheck ? "field check" : "field" },
      field.isCheck ? [input, label] : [label, input],
      hint && make("div", { id: hint, class: "quiet small" }, field.hint));
  });
  const values = () => Object.fromEntries([...inputs].map(([field, input]) =>
    [field, input.type === "checkbox" ? input.checked : input.value.trim()]));
  const effect = make("div", { class: "effect", "aria-live": "polite" }), failure = make("div", { class: "failure" });
  const send = make("button", { class: "main" });
  const form = make("form", { onsubmit: listen(submit), oninput: () => update() }, rows, effect,
    make("p", { class: "quiet small" }, "Fields with * are needed. The audit list has the reason and your name with " +
      "your key, ", who.name, "."), failure,
    make("p", { class: "buttons" }, button("Cancel", () => node.close(), "plain"), send));
  let isSure;
  const node = panel(action.title, form);
  update();
  inputs.values().next().value.focus();

  /** The needed fields without a value. A browser also takes blanks for one. */
  function missing() {
    return fields.filter(({ name }) => inputs.get(name).required && !inputs.get(name).value.trim());
  }

  /** Says what will happen. Who changes a field is asked again. */
  function update(sure = !action.twice) {
    isSure = sure;
    const said = action.effect(values());
    effect.replaceChildren(make("b", {}, "What will happen"),
      ...[said || `Fill in first: ${missing().map((field) => field.label).join(", ")}.`].flat().filter(Boolean)
        .map((one) => make("p", {}, one)));
    if (sure && action.twice) effect.append(make("p", { class: "problem", role: "alert" }, action.twice));
    text(!action.twice ? action.title : sure ? "Yes, do it" : "Go on", send)
      .classList.toggle("danger", Boolean(sure && action.twice));
  }

  async function submit() {
    const empty = missing()[0];
    if (empty) return inputs.get(empty.name).focus();
    if (!Array.isArray(action.effect(values()))) return;
    if (!isSure) { update(true); return; }
    keep({ by: values().by });
    await attempt(send, async () => report(await action.run(values())));
  }

  /** Does what a button says, once, and shows a refusal. */
  async function attempt(pressed, work) {
    const label = pressed.textContent;
    pressed.disabled = true;
    text("Please wait…", pressed);
    failure.replaceChildren();
    try {
      await work();
    } catch (error) {
      if (!(error instanceof Refused)) console.error(error);
      // The server says how a program makes a customer.
      const [said, isUnknown] = error.message.split(" “new” ");
      failure.replaceChildren(problem({ message: isUnknown ? said + " Tick the box to make a new customer." : said }));
      pressed.disabled = false;
      text(label, pressed).focus();
    }
  }

  function report({ done, undo, next }) {
    const close = button("Close", () => node.close(), "main");
    const back = undo && button(undo[0], () => attempt(back, async () => {
      await undo[1]();
      report({ done: "It is undone." });
    }), "plain");
    form.replaceChildren(make("p", { class: "done", role: "status" }, make("b", {}, "Done. "), done), failure,
      quiet(undo && "Was that wrong?"), make("p", { class: "buttons" }, back, close));
    close.focus();
    if (next) replace({ view: "customer", id: next });
    show({ quietly: true });
  }
}

// MARK: - Start
addEventListener("popstate", (event) => {
  if (!who) return;
  keep({ at: event.state?.at ?? 0 });
  for (const open of document.querySelectorAll("dialog")) open.close();
  show();
});
setInterval(checkKey, KEY_CHECK);
document.addEventListener("visibilitychange", checkKey);
if (session.key) {
  get("/v1/key").then(start, (error) => {
    if (error.status === 401) signOut(INVALID);
    else showSignIn(error.message);
  });
} else {
  showSignIn();
}
