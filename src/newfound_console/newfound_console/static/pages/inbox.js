// SPDX-License-Identifier: Apache-2.0
// Unknown things as cards: one key to confirm a name, or type another.

import { absent, h, keyed, one, percent, pretty, say, toast } from "../ui.js";

const STEPS = { fetching: "Looking for pictures of it …", submitting: "About to learn it …", learning: "Learning …", dismissing: "Putting it aside …" };
const OPEN = ["asking", "waiting", "backlog"];

export function show(root, app) {
  let inbox = { cards: [], finished: [], labels: [], hidden: 0, backlog: 0 };
  let told = null; // labels known when the page was opened, to notice what is learned
  const selected = new Set();
  const cards = h("div", { class: "cards" });
  const empty = h("p", { class: "nothing" });
  const budget = h("p", { class: "quiet", id: "budget" });
  const names = h("datalist", { id: "known-names" });
  const finished = h("ul", { class: "finished" });
  const finishedPart = h("section", { class: "panel", hidden: true }, h("h2", {}, "Just done"), finished);
  const count = h("span", {});
  const nameAll = h("input", { type: "text", placeholder: "Name for all of them", "aria-label": "Name for all selected", maxlength: "100", list: "known-names" });
  const bulk = h("form", { class: "bulk panel", hidden: true, onsubmit: (event) => { event.preventDefault(); nameSelected(); } },
    count, nameAll,
    h("button", { class: "primary", type: "submit" }, "Same thing: name them"),
    h("button", { type: "button", id: "merge", onclick: mergeSelected }, "Same thing: merge"),
    h("button", { type: "button", id: "accept", onclick: acceptSelected }, "Accept suggestions"),
    h("button", { type: "button", onclick: () => dismiss([...selected]) }, "Not interesting"),
    h("button", { type: "button", class: "flat", onclick: () => { selected.clear(); render(); } }, "Clear"));
  root.append(
    h("div", { class: "head" }, h("h1", {}, "What is this?"), budget),
    h("p", { class: "quiet keys" }, "Keys: arrows to move, Enter or 1–5 to take a suggestion, T to type, N for other suggestions, D to put aside, X to select, M to merge."),
    bulk, cards, empty, finishedPart, names);
  app.watch(...(app.detector ? [`inbox:${app.detector}`] : []));

  /** Do something with things and say how it went, also if some of them fail. */
  async function act(action, body, done) {
    const answer = await app.act(action, body);
    const failed = Object.values(answer.failed || {});
    if (failed.length) toast(`${failed.length} of ${body.ids.length} did not work: ${failed[0]}`, { kind: "error" });
    else if (answer) toast(done);
    return answer;
  }

  /** `label` is empty for the first suggestion of each. */
  function name(ids, label, shown = label.trim()) {
    return act("name", { ids, label: label.trim() }, `Learning “${pretty(shown)}”.`);
  }

  /** Take a suggestion of a card, by its place. */
  function take(card, at) {
    return name([card.id], at ? card.candidates[at].label : "", card.candidates[at].label);
  }

  async function dismiss(ids) {
    if (await act("dismiss", { ids }, ids.length > 1 ? `${ids.length} things put aside.` : "Put aside. It will not be asked about again.")) selected.clear();
    render();
  }

  const refuse = (id) => app.act("refuse", { id }, "Looking for other names …");

  async function nameSelected() {
    if (nameAll.value.trim() && (await name([...selected], nameAll.value))) {
      selected.clear();
      nameAll.value = "";
      render();
    }
  }

  async function mergeSelected() {
    if (selected.size > 1 && (await app.act("merge", { ids: [...selected] }, "They are one thing now."))) selected.clear();
    render();
  }

  async function acceptSelected() {
    const ids = [...selected].filter((id) => inbox.cards.find((card) => card.id === id)?.candidates.length);
    if (!ids.length) return toast("None of them has a suggestion yet.", { kind: "error" });
    if (await act("name", { ids, label: "" }, `${ids.length} suggestions taken.`)) selected.clear();
    render();
  }

  function create(card) {
    const field = h("input", { type: "text", placeholder: "Type a name", "aria-label": "Name of this thing", maxlength: "100", list: "known-names", autocomplete: "off" });
    const box = h("input", { type: "checkbox", "aria-label": "Select this thing", onchange: () => toggle(card.id, box.checked) });
    const item = h("article", { class: "card", tabindex: "0", "aria-label": "Unknown thing" },
      h("div", { class: "views" }),
      h("div", { class: "body" },
        h("div", { class: "row" }, h("h2", {}), h("label", { class: "select" }, box, h("span", { class: "quiet" }, "Select"))),
        h("p", { class: "quiet seen" }), h("p", { class: "problem" }),
        h("div", { class: "candidates" }),
        h("button", { type: "button", class: "flat others", onclick: () => refuse(card.id) }, "None of these: look for others"),
        h("form", { class: "row answer", onsubmit: (event) => { event.preventDefault(); if (field.value.trim()) name([card.id], field.value); } },
          field, h("button", { class: "primary" }, "Save"),
          h("button", { type: "button", class: "flat", onclick: () => dismiss([card.id]) }, "Not interesting")),
        h("div", { class: "learning" }, h("p", {}), h("progress", { max: "1", "aria-label": "Learning" }),
          h("button", { onclick: () => app.act("cancel", { job: item.job }, "Stopped.") }, "Stop learning"))));
    return item;
  }

  function update(item, card) {
    const open = OPEN.includes(card.state);
    item.job = card.job;
    item.classList.toggle("selected", selected.has(card.id));
    item.querySelector("input[type=checkbox]").checked = selected.has(card.id);
    item.querySelector(".select").hidden = !open;
    say(item.querySelector("h2"), open ? (card.candidates[0] ? `Is this ${one(card.candidates[0].label)}?` : "What is this?") : pretty(card.label || "Unknown thing"));
    const times = card.sightings ? `Seen ${card.sightings} times` : "";
    say(item.querySelector(".seen"), [times, card.state === "asking" ? "looking up names …" : "", card.nearest && open ? `looks most like ${one(card.nearest)}` : ""].filter(Boolean).join(" · "));
    const problem = item.querySelector(".problem");
    say(problem, open ? card.message || "" : "");
    problem.hidden = !problem.textContent;
    item.querySelector(".views").style.setProperty("--rows", Math.max(1, card.views.length - 1));
    keyed(item.querySelector(".views"), card.views.filter(Boolean), (view) => view, (view) => h("img", { src: view, alt: "View of the unknown thing", loading: "lazy" }));
    const choices = item.querySelector(".candidates");
    choices.hidden = !open || !card.candidates.length;
    keyed(choices, card.candidates.map((candidate, number) => ({ ...candidate, number: number + 1 })), (c) => `${c.label} ${c.provider}`,
      (c) => h("button", { type: "button", class: "candidate", onclick: () => name([card.id], c.number === 1 ? "" : c.label, c.label) },
        h("kbd", {}), h("span", { class: "label" }, pretty(c.label)), h("span", { class: "quiet" })),
      (button, c) => { say(button.children[0], String(c.number)); say(button.children[2], `${percent(c.confidence)} · ${c.provider}`); });
    item.querySelector(".others").hidden = choices.hidden || !inbox.curator;
    item.querySelector(".answer").hidden = !open;
    const learning = item.querySelector(".learning");
    learning.hidden = open;
    say(learning.querySelector("p"), STEPS[card.state] || "");
    learning.querySelector("progress").value = card.progress || 0;
    learning.querySelector("button").hidden = card.state !== "learning" || !card.job;
  }

  function toggle(id, on) {
    if (on) selected.add(id);
    else selected.delete(id);
    render();
  }

  function render() {
    const ids = new Set(inbox.cards.map((card) => card.id));
    for (const id of selected) if (!ids.has(id)) selected.delete(id);
    keyed(cards, inbox.cards, (card) => card.id, create, update);
    bulk.hidden = selected.size === 0;
    say(count, `${selected.size} selected`);
    bulk.querySelector("#merge").hidden = selected.size < 2;
    empty.hidden = inbox.cards.length > 0;
    say(empty, app.detector ? "Nothing to answer. When the robot meets something it does not know, it appears here." : absent("looks for unknown things", "open_world_detector"));
    const more = inbox.hidden ? `${inbox.hidden} more wait; the most important come first.` : "";
    const [rate, most] = app.camera?.budget || [];
    const rule = most ? `It asks about ${rate ? `at most ${rate} things a minute, ` : ""}${most} at a time.` : "";
    say(budget, [rule, inbox.backlog ? `${inbox.backlog} wait${inbox.backlog === 1 ? "s" : ""}, to save your time.` : "", more].filter(Boolean).join(" "));
    keyed(names, inbox.labels.slice(0, 500).map(pretty), (label) => label, (label) => h("option", { value: label }));
    finishedPart.hidden = !inbox.finished.length;
    keyed(finished, inbox.finished, (card) => `${card.id} ${card.state} ${card.last} ${card.gone}`, (card) => h("li", {},
      card.views[0] ? h("img", { src: card.views[0], alt: "" }) : null,
      h("span", {}, card.state !== "learned" ? "Put aside" : `${card.gone ? "Not known any more" : "Learned"}: ${pretty(card.label)}`),
      card.last ? h("button", { class: "undo", onclick: undo }, "Undo") : null));
    const asked = location.hash.split("?")[1];
    if (asked) {
      const card = cards.querySelector(`[data-key="${CSS.escape(asked)}"]`);
      if (card) { history.replaceState(null, "", "#/inbox"); card.focus(); card.scrollIntoView({ block: "center" }); }
    }
  }

  async function undo() {
    await app.act("undo", {}, "Undone. The robot knows what it knew before.");
  }

  render();

  return {
    status: () => {},
    data(channel, data) {
      if (!channel.startsWith("inbox:")) return;
      inbox = data;
      const fresh = told ? inbox.labels.filter((label) => !told.has(label)) : [];
      if (fresh.length) toast(`It knows “${fresh.map(pretty).join("”, “")}” now.`, { action: "Undo", run: undo });
      if (inbox.version) told = new Set(inbox.labels); // 0: what is known has not come yet
      render();
    },
    key(event) {
      const list = [...cards.children];
      const at = list.indexOf(document.activeElement?.closest(".card"));
      const card = inbox.cards[at];
      const steps = { ArrowRight: 1, ArrowDown: 1, j: 1, ArrowLeft: -1, ArrowUp: -1, k: -1 };
      if (steps[event.key] && list.length) {
        list[Math.max(0, Math.min(list.length - 1, at + steps[event.key]))].focus();
      } else if (!card || !OPEN.includes(card.state) || event.target.closest("button")) return;
      else if (event.key === "Enter" && card.candidates.length) take(card, 0);
      else if (/^[1-5]$/.test(event.key) && card.candidates[event.key - 1]) take(card, event.key - 1);
      else if (event.key === "t" || event.key === "Enter") list[at].querySelector(".answer input").focus();
      else if (event.key === "n" && card.candidates.length) refuse(card.id);
      else if (event.key === "d" || event.key === "Delete") dismiss([card.id]);
      else if (event.key === "x") toggle(card.id, !selected.has(card.id));
      else if (event.key === "m") mergeSelected();
      else return;
      event.preventDefault();
    },
  };
}
