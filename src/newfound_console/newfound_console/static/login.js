// SPDX-License-Identifier: Apache-2.0
// The token: from the address (behind #, so that it is sent to nobody by itself) or typed in.

import { isOpen, post } from "./link.js";
import { h, say } from "./ui.js";

export async function login(root) {
  const given = location.hash.match(/^#token=(.+)$/);
  if (given) {
    history.replaceState(null, "", "/");
    await post("login", { token: decodeURIComponent(given[1]) }).catch(() => null);
  }
  if (await isOpen()) return;
  await new Promise((resolve) => {
    const field = h("input", { type: "password", id: "token", autocomplete: "current-password", required: true });
    const problem = h("p", { class: "problem", role: "alert" });
    const form = h("form", { class: "panel login", onsubmit: async (event) => {
      event.preventDefault();
      try {
        await post("login", { token: field.value.trim() });
        form.remove();
        resolve();
      } catch (error) {
        say(problem, error.message);
      }
    } },
    h("h1", {}, "Who is there?"),
    h("p", {}, "Others can reach this robot, too. Please enter the token that was shown when it started."),
    h("label", { for: "token" }, "Token"), field, problem,
    h("button", { class: "primary" }, "Open"));
    root.replaceChildren(form);
    field.focus();
  });
}
