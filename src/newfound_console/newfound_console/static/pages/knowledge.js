// SPDX-License-Identifier: Apache-2.0
// What the robot knows: classes with their pictures, and how it came to know them.

import { absent, ago, ask, h, keyed, percent, pretty, say, toast } from "../ui.js";

export function show(root, app) {
  let data = { classes: [], jobs: [], version: 0, restorable: [], memory: [0, 0] };
  let opened = null; // label of the class that is shown
  let shownVersion = -1;
  let checked = {};
  const bad = new Set();
  const search = h("input", { type: "search", placeholder: "Search", "aria-label": "Search what it knows", oninput: render });
  const list = h("ul", { class: "classes" });
  const total = h("p", { class: "quiet" });
  const test = h("button", { id: "check", onclick: check }, "Test its memory");
  const detail = h("section", { class: "panel detail", "aria-label": "Chosen thing", hidden: true });
  const timeline = h("ol", { class: "timeline" });
  const file = h("input", { type: "file", accept: ".nfp", id: "package", hidden: true, "aria-label": "File from another robot", onchange: load });
  const take = h("button", { id: "import", onclick: () => file.click() }, "Take from a file");
  const undo = h("button", { id: "undo", onclick: undoLast }, "Undo the last change");
  const busy = h("p", { class: "problem", role: "status", hidden: true });
  root.append(
    h("div", { class: "head" }, h("h1", {}, "What it knows"), total), busy,
    h("div", { class: "knowledge" },
      h("section", { class: "panel" }, h("div", { class: "row" }, search, test, take, file), list),
      h("div", { class: "side" }, detail,
        h("section", { class: "panel" }, h("div", { class: "row" }, h("h2", {}, "How it came to this"), undo), timeline))));
  app.watch(...(app.detector ? [`knowledge:${app.detector}`] : []));
  if (!app.detector) {
    say(total, absent("learns", "open_world_detector"));
    for (const button of [search, test, take, undo]) button.disabled = true;
  }

  async function undoLast() {
    await app.act("undo", {}, "Undone. Press again to take that back.");
  }

  async function load() {
    const chosen = file.files[0];
    file.value = "";
    if (!chosen) return;
    if (chosen.size > 32 * 2 ** 20) return toast("That file is too large to be a thing that a robot has learned.", { kind: "error" });
    const answer = await app.act("import", { package: base64(new Uint8Array(await chosen.arrayBuffer())) });
    if (answer) toast(`Learning “${pretty(answer.label)}”${answer.signer ? `, signed by ${answer.signer}` : ""}.`);
  }

  async function save(label) {
    const answer = await app.act("export", { label });
    if (!answer) return;
    const bytes = Uint8Array.from(atob(answer.package), (c) => c.charCodeAt(0));
    const link = h("a", { download: answer.file_name, href: URL.createObjectURL(new Blob([bytes], { type: "application/zip" })) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    toast(`Saved as ${answer.file_name}${answer.note ? " (not signed: other robots may refuse it)" : ""}.`);
  }

  async function check() {
    test.disabled = true;
    say(test, "Testing …");
    const answer = await app.act("check", {});
    test.disabled = false;
    say(test, "Test its memory");
    if (answer) checked = answer.classes;
    render();
  }

  async function loadVersions() {
    const answer = await app.act("versions", {});
    if (!answer) return;
    keyed(timeline, answer.versions, (v) => `${v.version} ${v.in_use}`, (v) => h("li", { class: v.in_use ? "now" : "" },
      h("div", { class: "row" }, h("strong", {}, plain(v.reason)), h("span", { class: "quiet" }, v.in_use ? "in use" : v.made ? ago(v.made) : "")),
      h("p", { class: "quiet" }, changes(v)),
      v.in_use ? null : h("div", { class: "row" },
        h("button", { class: "flat rehearse", onclick: (event) => rehearse(v, event.target.closest("li")) }, "What would change?"),
        h("button", { class: "flat", onclick: () => restore(v) }, "Go back to this"))));
    undo.hidden = answer.versions.length < 2;
  }

  async function rehearse(version, item) {
    item.querySelector(".rehearsal")?.remove();
    const place = h("div", { class: "rehearsal", role: "status" }, "Showing stored pictures to that version …");
    item.append(place);
    const answer = await app.act("rehearse", { version: version.version });
    if (!answer) return place.remove();
    const name = (label) => pretty(label || "unknown");
    place.replaceChildren(
      h("p", {}, `Of ${answer.named} stored pictures, ${answer.right_now} are named right now, ${answer.right_then} would be then.`),
      answer.changes.length ? h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "Pictures of"), h("th", {}, "now"), h("th", {}, "then"))),
        h("tbody", {}, answer.changes.map((c) => h("tr", {}, h("td", {}, `${pretty(c.label || "unnamed things")} (${c.pictures})`), h("td", {}, name(c.now)), h("td", {}, name(c.then))))))
        : h("p", {}, "Nothing would be called differently."));
  }

  async function restore(version) {
    if (await ask({ title: "Go back to this?", text: `The robot will know what it knew then (${version.classes} things). You can take this back.`, yes: "Go back" })) {
      await app.act("restore", { version: version.version }, "The robot knows what it knew then.");
    }
  }

  async function open(label) {
    opened = label;
    bad.clear();
    detail.hidden = false;
    detail.replaceChildren(h("p", { class: "quiet" }, "Loading …"));
    const { top } = detail.getBoundingClientRect();
    if (top < 0 || top > innerHeight / 2) detail.scrollIntoView(); // below the list, on a phone
    const answer = await app.act("examples", { label });
    if (opened !== label) return;
    showDetail(label, answer ? answer.examples : []);
    render();
  }

  function showDetail(label, examples) {
    const facts = data.classes.find((each) => each.label === label);
    const here = facts?.learned_here ?? true; // just renamed: the news is still on its way
    const right = examples.filter((each) => each.called === label).length;
    const wrong = [...new Set(examples.filter((each) => each.called !== label).map((each) => each.called || "unknown"))];
    const remove = h("button", { class: "primary", id: "remove", hidden: true, onclick: removeBad }, "");
    const pictures = h("div", { class: "examples" }, examples.map((each) => h("button", {
      type: "button", class: `example ${each.called === label ? "" : "odd"}`, "aria-pressed": "false",
      "aria-label": `Picture called ${each.called || "unknown"}`, disabled: !here,
      onclick: (event) => {
        const on = !bad.has(each.id);
        if (on) bad.add(each.id);
        else bad.delete(each.id);
        event.currentTarget.setAttribute("aria-pressed", String(on));
        remove.hidden = bad.size === 0;
        say(remove, `Remove ${bad.size} and learn again`);
      } },
    h("img", { src: each.picture, alt: "" }), h("span", {}, each.called === label ? percent(each.score) : pretty(each.called || "unknown")))));
    detail.replaceChildren(...[
      h("div", { class: "row" }, h("h2", {}, pretty(label)),
        h("button", { class: "flat", onclick: rename }, "Rename"),
        h("button", { class: "flat", onclick: forget }, "Forget"),
        examples.length ? h("button", { class: "flat", id: "export", onclick: () => save(label) }, "Save to a file") : null,
        h("button", { class: "flat", "aria-label": "Close", onclick: () => { opened = null; detail.hidden = true; render(); } }, "×")),
      h("p", { class: "quiet" }, [
        here ? `Learned here ${facts?.learned ? ago(facts.learned) : ""}` : "Came with the robot",
        examples.length ? `${right} of ${examples.length} of its pictures are recognised` : "no pictures are stored",
        wrong.length ? `others are called ${wrong.map(pretty).join(", ")}` : ""].filter(Boolean).join(" · ")),
      here && examples.length ? h("p", { class: "quiet" }, "Tap pictures that do not belong here, then remove them.") : null,
      pictures, remove].filter(Boolean));

    async function removeBad() {
      if (await app.act("remove", { label, ids: [...bad] }, `Learning “${pretty(label)}” again without ${bad.size === 1 ? "that picture" : `${bad.size} pictures`}.`)) {
        opened = null;
        detail.hidden = true;
      }
    }
    async function rename() {
      const name = await ask({ title: `Rename “${pretty(label)}”`, input: pretty(label), yes: "Rename" });
      if (name && name !== pretty(label) && (await app.act("rename", { label, new_label: name }, `It is called “${name}” now.`))) open(name);
    }
    async function forget() {
      if (await ask({ title: `Forget “${pretty(label)}”?`, text: "The robot will call it unknown again. You can undo this.", yes: "Forget", danger: true })
        && (await app.act("forget", { label }, `“${pretty(label)}” is forgotten.`))) {
        opened = null;
        detail.hidden = true;
      }
    }
  }

  function render() {
    const wanted = search.value.trim().toLowerCase();
    const found = data.classes.filter((each) => pretty(each.label).toLowerCase().includes(pretty(wanted)));
    say(total, app.detector ? `${data.classes.length} things · ${data.memory[0]} pictures remembered` : absent("learns", "open_world_detector"));
    keyed(list, found.slice(0, 300), (each) => each.label,
      (each) => h("li", {}, h("button", { onclick: () => open(each.label) }, h("span", { class: "label" }, pretty(each.label)), h("span", { class: "quiet" }))),
      (item, each) => {
        item.classList.toggle("open", each.label === opened);
        const tested = checked[each.label];
        const as = tested?.as.map(([label, n]) => `${n} × ${pretty(label || "unknown")}`).join(", ");
        say(item.querySelector(".quiet"), tested ? `${tested.right} of ${tested.n} right, ${percent(tested.sure)} sure${as ? ` (${as})` : ""}`
          : `${each.learned_here ? "learned here" : "came with it"} · ${each.examples} pictures`);
      });
    const jobs = data.jobs.filter((job) => !job.final);
    busy.hidden = !jobs.length;
    if (jobs.length) busy.replaceChildren(`Learning “${pretty(jobs[0].label)}” … ${percent(jobs[0].progress)} `,
      h("button", { class: "flat", onclick: () => app.act("cancel", { job: jobs[0].job }, "Stopped.") }, "Stop"));
    if (data.version !== shownVersion) {
      shownVersion = data.version;
      checked = {};
      loadVersions();
    }
  }

  return { data(channel, fresh) { if (channel.startsWith("knowledge:")) { data = fresh; render(); } } };
}

function base64(bytes) {
  let text = "";
  for (let start = 0; start < bytes.length; start += 32768) text += String.fromCharCode(...bytes.subarray(start, start + 32768));
  return btoa(text);
}

const QUOTED = /'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"/g; // as Python writes a text

function plain(reason) {
  const text = reason.replace(QUOTED, (_, single, double) => `“${pretty(single ?? double)}”`);
  const restored = text.match(/^version (\d+) restored$/);
  if (restored) return `Went back to step ${restored[1]}`;
  if (text === "shipped") return "What it came with";
  return text ? text[0].toUpperCase() + text.slice(1) : "Changed";
}

function changes(version) {
  const parts = [`Step ${version.version}`, `${version.classes} things`];
  if (version.added.length) parts.push(`new: ${version.added.slice(0, 6).map(pretty).join(", ")}`);
  if (version.removed.length) parts.push(`gone: ${version.removed.slice(0, 6).map(pretty).join(", ")}`);
  return parts.join(" · ");
}
