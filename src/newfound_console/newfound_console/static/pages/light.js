// SPDX-License-Identifier: Apache-2.0
// How the robot keeps up with the light: how far it has moved, and the brakes.

import { h, keyed, partName, percent, say, svg } from "../ui.js";

const STATES = {
  off: ["Off", "It uses what it was trained with."],
  following: ["Follows the light", "What it has learned moves along with the light."],
  frozen: ["Held", "It stays as it is now."],
  resting: ["Resting", "The light is as usual: there is nothing to follow."],
};

export function show(root, app) {
  const list = h("div", { class: "lights" });
  const none = h("p", { class: "nothing" }, "Waiting for the parts that follow the light …");
  root.append(h("div", { class: "head" }, h("h1", {}, "Light"), h("p", { class: "quiet" }, "Colours change with lamps and daylight. Here you see how far the robot has followed.")), list, none);
  app.watch("light");

  const act = (node, what, done) => app.act("light", { node, do: what }, done);

  function create(each) {
    return h("section", { class: "panel" },
      h("div", { class: "row" }, h("h2", {}), h("span", { class: "state" })), h("p", { class: "quiet what" }),
      svg("svg", { class: "curve", viewBox: "0 0 600 120", preserveAspectRatio: "none", role: "img", "aria-label": "Distance from training over the last ten minutes" }, svg("path", { class: "fill" }), svg("path", { class: "stroke" })),
      h("p", { class: "quiet numbers" }), h("p", { class: "problem" }), h("p", { class: "mixed" }, "What it sees is like a mixture of what it was trained in:"), h("div", { class: "domains" }),
      h("div", { class: "row" },
        h("button", { class: "hold", onclick: (event) => act(each.node, event.currentTarget.dataset.what, event.currentTarget.dataset.what === "freeze" ? "Held." : "It follows again.") }),
        h("button", { class: "reset", onclick: () => act(each.node, "reset", "Back to the beginning.") }, "Start over"),
        each.kind === "detector" ? null : h("button", { class: "flat", onclick: () => act(each.node, "save", "Saved.") }, "Save"),
        each.kind === "detector" ? null : h("button", { class: "flat", onclick: () => act(each.node, "restore", "Restored.") }, "Restore")));
  }

  function update(item, each) {
    const [title, what] = STATES[each.state] || ["", ""];
    say(item.querySelector("h2"), partName(each.node, app.camera));
    say(item.querySelector(".state"), title);
    item.querySelector(".state").className = `state ${each.state}`;
    say(item.querySelector(".what"), what);
    const off = each.state === "off";
    const hold = item.querySelector(".hold");
    for (const button of item.querySelectorAll("button")) button.hidden = off;
    hold.dataset.what = each.state === "frozen" ? "follow" : "freeze";
    say(hold, each.state === "frozen" ? "Follow again" : "Hold as it is");
    say(item.querySelector(".numbers"), off ? "" : [`distance ${each.drift?.toFixed(3) ?? "–"}`, `${each.updates} updates from ${each.frames} pictures`,
      each.alarms ? `${each.alarms} alarms` : "", each.kind !== "detector" && each.agreement !== null ? `agrees with the original in ${percent(each.agreement)}` : "", each.reset ? `last started over because ${each.reset}` : ""].filter(Boolean).join(" · "));
    const problem = item.querySelector(".problem");
    say(problem, each.message);
    problem.hidden = !each.message || off;
    item.querySelector(".curve").toggleAttribute("hidden", off || each.curve.length < 2);
    if (!off) draw(item, each.curve);
    keyed(item.querySelector(".domains"), each.domains, ([name]) => name, ([name]) => h("div", { class: "row" }, h("span", {}, name), h("meter", { min: "0", max: "1", "aria-label": name }), h("span", { class: "quiet" })),
      (row, [, weight]) => {
        row.children[1].value = weight ?? 0;
        say(row.lastChild, percent(weight));
      });
    item.querySelector(".mixed").hidden = !each.domains.length;
  }

  return {
    data(channel, data) {
      if (channel !== "light") return;
      none.hidden = data.nodes.length > 0;
      say(none, "No part that follows the light has said anything yet.");
      keyed(list, data.nodes, (each) => each.node, create, update);
    },
  };
}

function draw(item, curve) {
  const points = curve.filter(([, value]) => value !== null);
  if (points.length < 2) return;
  const end = points.at(-1)[0], start = Math.min(points[0][0], end - 60);
  const top = Math.max(...points.map(([, value]) => value), 0.01) * 1.15;
  const path = points.map(([time, value], n) => `${n ? "L" : "M"}${(((time - start) / (end - start)) * 600).toFixed(1)} ${(118 - (value / top) * 112).toFixed(1)}`).join("");
  const first = (((points[0][0] - start) / (end - start)) * 600).toFixed(1);
  item.querySelector(".stroke").setAttribute("d", path);
  item.querySelector(".fill").setAttribute("d", `${path}L600 120L${first} 120z`);
}
