// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Crypto

/// The page of the control port: one document without external resources. The page shows the state from `GET /state`,
/// and sends the same commands as curl.
struct ControlPage: Sendable {
    /// The document as UTF-8.
    let body: [UInt8]
    /// `Content-Security-Policy`: permits only the page's own script and style, and requests to the control port.
    let policy: String

    init() {
        body = Array(
            """
            <!DOCTYPE html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width">
            <title>App Store simulator</title>
            <style>\(Self.style)</style>
            </head>
            \(Self.content)
            <script>\(Self.script)</script>
            </html>

            """.utf8)
        policy = """
            default-src 'none'; script-src '\(Self.hash(Self.script))'; style-src '\(Self.hash(Self.style))'; \
            connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'
            """
    }

    /// The hash by which the policy permits an inline script or style (Content Security Policy Level 3, section 2.3.1).
    private static func hash(_ text: String) -> String {
        "sha256-" + Base64.encode(Array(SHA256.hash(data: Array(text.utf8))))
    }

    private static let style = """
        body { font: 15px/1.4 system-ui, sans-serif; margin: 0 auto; max-width: 72rem; padding: 1rem; }
        h1 { font-size: 1.3rem; } h2 { font-size: 1.1rem; margin: 0; }
        section, form { border: 1px solid #bbb; border-radius: 6px; margin: .7rem 0; padding: .7rem; }
        button, select, input { font: inherit; margin: .1rem; } input { width: 10rem; }
        table { border-collapse: collapse; margin: .4rem 0; width: 100%; }
        td, th { border-top: 1px solid #ddd; padding: .2rem .5rem; text-align: left; vertical-align: top; }
        .active, .grace { color: #060; } .retry, .revoked { color: #a00; } .expired, .old { color: #666; }
        #answer { min-height: 1.4rem; white-space: pre-wrap; } #answer.error { color: #a00; }
        """

    private static let content = """
        <body>
        <h1>App Store simulator <small id="app"></small></h1>
        <section>
          It is <b id="date">…</b>, <span id="speed"></span>. Turn the clock:
          <button data-hours="1">1 hour</button><button data-hours="24">1 day</button>
          <button data-hours="168">1 week</button><button data-hours="744">31 days</button>
          <button data-hours="8784">366 days</button>
          Speed: <button data-speed="0">stand still</button><button data-speed="1">real time</button>
          <button data-speed="3600">an hour a second</button><button data-speed="86400">a day a second</button>
        </section>
        <form id="add">
          <h2>Add a customer</h2>
          <label>Name <input name="name" required></label>
          <label>in <select name="environment"><option>Production<option>Sandbox</select></label>
          <label>country <input name="storefront" placeholder="USA"></label>
          <label><input name="askToBuy" type="checkbox"> asks to buy</label>
          <button>Add</button>
        </form>
        <form id="buy">
          <h2>Buy</h2>
          <label>Customer <select name="customer" required></select></label>
          <label>product <select name="product" required></select></label>
          <label>offer <input name="offer" list="offers" placeholder="none"></label><datalist id="offers"></datalist>
          <label>quantity <input name="quantity" type="number" min="1" max="10" placeholder="1"></label>
          <label><input name="monthly" type="checkbox"> pay by month</label>
          <button>Buy</button>
        </form>
        <div id="answer" role="status"></div>
        <div id="customers"></div>
        <button id="test">Send a test notification</button>
        </body>
        """

    private static let script = #"""
        "use strict";
        const $ = id => document.getElementById(id);
        const path = name => "/customers/" + encodeURIComponent(name);

        function element(name, text, kind) {
          const made = document.createElement(name);
          if (text !== undefined) made.textContent = text;
          if (kind) made.className = kind;
          return made;
        }

        async function send(route, body) {
          const answer = $("answer");
          try {
            const response = await fetch(route, {method: "POST", body: JSON.stringify(body || {})});
            const json = await response.json();
            answer.className = response.ok ? "" : "error";
            answer.textContent = json.error ? json.error.message : summary(json);
            await refresh();
          } catch (error) {
            answer.className = "error";
            answer.textContent = "The simulator does not answer: " + error.message;
          }
        }

        function summary(json) {
          if (!json.notifications) return "Done.";
          const lines = json.notifications.slice(-8).map(n =>
            [n.date, n.type, n.subtype, n.customer, n.transactionId].filter(x => x).join("  "));
          const count = json.notificationCount;
          const fates = ["delivered", "failed", "postponed"].filter(one => json[one]).map(one => json[one] + " " + one);
          const said = [count + (count === 1 ? " notification" : " notifications"), ...fates].join(", ");
          return "Done: " + said + ".\n" + lines.join("\n");
        }

        function button(text, action) {
          const made = element("button", text);
          made.addEventListener("click", action);
          return made;
        }

        function ask(question, value, use) {
          const answer = prompt(question, value);
          if (answer) use(answer);
        }

        function subscriptionButtons(name, subscription) {
          const send1 = (route, body) =>
            send(path(name) + route, Object.assign({subscription: subscription.originalTransactionId}, body));
          return [
            subscription.renews ? button("Cancel", () => send1("/cancel")) : button("Resume", () => send1("/resume")),
            button("Raise price", () =>
              ask("New price in milliunits", "5990", x => send1("/price", {price: Number(x)}))),
            button("Consent", () => send1("/consent")),
            button("Extend 30 days", () => send1("/extend", {days: 30})),
            button("Expire", () => send1("/expire")),
          ];
        }

        function transactionButtons(name, transaction) {
          const send1 = (route, body) =>
            send(path(name) + route, Object.assign({transaction: transaction.transactionId}, body));
          if (transaction.revocationDate) return [button("Reverse refund", () => send1("/refund/reverse"))];
          const buttons = [button("Refund", () => send1("/refund"))];
          if (transaction.isRefundRequested) {
            buttons.push(button("Decline refund", () => send1("/refund/decline")));
          } else {
            buttons.push(button("Request refund", () => send1("/refund/request")));
          }
          return buttons;
        }

        function customerButtons(customer) {
          const to = (route, body) => () => send(path(customer.name) + route, body);
          const buttons = [
            customer.canPay ? button("Break billing", to("/billing/break")) : button("Fix billing", to("/billing/fix")),
            button("Move", () => ask("Country, three letters", "DEU",
              x => send(path(customer.name) + "/move", {storefront: x}))),
            button(customer.asksToBuy ? "No Ask to Buy" : "Ask to Buy", to("/ask-to-buy", {on: !customer.asksToBuy})),
            customer.family.length ? button("Leave family", to("/family/leave"))
              : button("Make family", () => ask("The other members, with commas", "",
                x => send(path(customer.name) + "/family", {with: x.split(",").map(name => name.trim())}))),
            button("External purchase token", to("/external-token")),
            button("Rescind consent", to("/rescind-consent")),
          ];
          if (customer.waiting.length) {
            buttons.unshift(button("Approve " + customer.waiting[0], to("/approve")),
              button("Decline " + customer.waiting[0], to("/decline")));
          }
          return buttons;
        }

        function row(cells, buttons, kind) {
          const made = element("tr", undefined, kind);
          for (const cell of cells) made.append(element("td", cell || ""));
          const last = element("td");
          last.append(...buttons);
          made.append(last);
          return made;
        }

        function price(transaction) {
          if (transaction.price === undefined) return "";
          return (transaction.price / 1000).toFixed(2) + " " + transaction.currency;
        }

        function transactionRow(name, transaction, isNewest) {
          const until = transaction.revocationDate ? "revoked " + transaction.revocationDate
            : transaction.expiresDate ? "until " + transaction.expiresDate : "";
          return row([
            transaction.transactionId, transaction.productId, transaction.purchaseDate, until, price(transaction)],
            isNewest || transaction.revocationDate ? transactionButtons(name, transaction) : [], isNewest ? "" : "old");
        }

        function card(customer) {
          const made = element("section");
          const facts = [customer.environment, customer.storefront, customer.canPay ? "" : "cannot pay",
            customer.asksToBuy ? "asks to buy" : "",
            customer.family.length ? "family: " + customer.family.join(", ") : ""];
          made.append(element("h2", customer.name), element("div", facts.filter(x => x).join(" · ")));
          made.append(...customerButtons(customer));
          const table = element("table");
          for (const subscription of customer.subscriptions) {
            const next = subscription.next ? subscription.next.event + " " + subscription.next.date : "";
            const renewal = subscription.renews ? "renews" : "does not renew";
            const shared = subscription.sharedFrom ? "shared by the family" : renewal;
            table.append(row([subscription.productId, subscription.status, shared, next,
              subscription.nextProductId !== subscription.productId ? "then " + subscription.nextProductId : ""],
              subscription.sharedFrom ? [] : subscriptionButtons(customer.name, subscription), subscription.status));
            const newest = subscription.transactions.slice(-3);
            const last = newest[newest.length - 1];
            for (const one of newest) table.append(transactionRow(customer.name, one, one === last));
          }
          for (const purchase of customer.purchases.slice(-5))
            table.append(transactionRow(customer.name, purchase, true));
          made.append(table);
          return made;
        }

        function options(select, values) {
          const chosen = select.value;
          select.replaceChildren(...values.map(value => element("option", value)));
          if (values.includes(chosen)) select.value = chosen;
        }

        let shown = "";
        async function refresh() {
          const state = await (await fetch("/state")).json();
          $("date").textContent = state.clock.date;
          $("speed").textContent = state.clock.speed === 0 ? "and the clock stands still"
            : state.clock.speed + " virtual seconds a second";
          $("app").textContent = state.bundleId;
          const text = JSON.stringify([state.products, state.customers]);
          if (text === shown) return;
          shown = text;
          options($("buy").customer, state.customers.map(customer => customer.name));
          options($("buy").product, state.products.filter(product => product.isForSale).map(product => product.id));
          options($("offers"), state.products.flatMap(product => product.offers));
          $("customers").replaceChildren(...state.customers.map(card));
        }

        function form(id, use) {
          $(id).addEventListener("submit", event => {
            event.preventDefault();
            use(event.target);
          });
        }

        form("add", form => {
          const body = {
            name: form.elements.name.value, environment: form.environment.value, askToBuy: form.askToBuy.checked};
          if (form.storefront.value) body.storefront = form.storefront.value;
          send("/customers", body);
        });
        form("buy", form => {
          const body = {product: form.product.value};
          if (form.offer.value) body.offer = form.offer.value;
          if (form.quantity.value) body.quantity = Number(form.quantity.value);
          if (form.monthly.checked) body.monthly = true;
          send(path(form.customer.value) + "/buy", body);
        });
        for (const one of document.querySelectorAll("[data-hours]")) {
          one.addEventListener("click", () => send("/clock/advance", {hours: Number(one.dataset.hours)}));
        }
        for (const one of document.querySelectorAll("[data-speed]")) {
          one.addEventListener("click", () => send("/clock/speed", {speed: Number(one.dataset.speed)}));
        }
        $("test").addEventListener("click", () => send("/notifications/test"));

        async function watch() {
          try { await refresh(); } catch (error) { $("date").textContent = "unknown: the simulator does not answer"; }
          setTimeout(watch, 1000);
        }
        watch();
        """#
}
