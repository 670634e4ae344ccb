// SPDX-License-Identifier: Apache-2.0
// The camera, with what was found in it drawn as data over the picture.

import { h, keyed, partName, percent, pretty, say } from "../ui.js";
import { Picture } from "../picture.js";

const LIGHT = { following: "follows", frozen: "held", resting: "as usual" };
const LEVELS = { ok: "Working", warn: "Look at this", error: "Not working", down: "Not running" };

export function show(root, app) {
  const picture = new Picture((box) => {
    if (box.unknown) location.hash = `#/inbox?${box.unknown}`;
  }, () => {
    say(facts, "");
    things.replaceChildren();
    none.hidden = false;
    say(none, "Nothing comes from the camera.");
  });
  const facts = h("p", { class: "facts", "aria-live": "off" });
  const legend = h("p", { class: "quiet" }, "Green: it knows this. Dashed: it does not; click it to say what it is.");
  const things = h("ul", { class: "things", id: "in-view" });
  const none = h("p", { class: "quiet" }, "Nothing is in view.");
  const place = h("p", { class: "big" }, "–");
  const sure = h("p", { class: "quiet" });
  const placePanel = h("section", { class: "panel", hidden: true }, h("h2", {}, "Place"), place, sure);
  const light = h("ul", { class: "things" });
  const lightPanel = h("section", { class: "panel", hidden: true }, h("h2", {}, "Light"), light, h("a", { href: "#/light" }, "More"));
  const health = h("ul", { class: "health" });
  const empty = h("div", { class: "panel", hidden: true },
    h("h2", {}, "No camera yet"),
    h("p", {}, "The page is running, but it has not found a robot. It looks every second: as soon as one is there, you see it here."));
  root.append(h("h1", { class: "hide" }, "Live"), empty,
    h("div", { class: "live" },
      h("section", { class: "stage", "aria-label": "Camera" }, picture.element, facts, legend),
      h("div", { class: "side" },
        h("section", { class: "panel" }, h("h2", {}, "In view"), things, none),
        placePanel, lightPanel,
        h("section", { class: "panel" }, h("h2", {}, "Parts of the robot"), health))));

  function watch() {
    app.watch(...(app.camera ? [`live:${app.camera.id}`, "light"] : []));
  }
  watch();

  function status(report) {
    empty.hidden = report.cameras.length > 0;
    root.querySelector(".live").hidden = !empty.hidden;
    keyed(health, report.nodes, (node) => node.name,
      (node) => h("li", {}, h("span", { class: "dot", "aria-hidden": "true" }), h("span", { class: "name" }, partName(node.name, app.camera)), h("span", { class: "state" }), h("span", { class: "quiet why" })),
      (item, node) => {
        item.className = node.level;
        item.title = node.name;
        say(item.querySelector(".state"), LEVELS[node.level]);
        say(item.querySelector(".why"), node.level === "down" ? `silent for ${node.silent} s` : node.message === "inactive" ? "switched off" : node.message);
      });
  }
  status(app.status);

  function showLight(nodes) {
    const own = [app.detector, ...(app.camera?.classifiers || []), ...(app.camera?.places || []), ...(app.camera?.segmenters || [])];
    const shown = nodes.filter((node) => own.includes(node.node) && node.state !== "off");
    lightPanel.hidden = !shown.length;
    keyed(light, shown, (node) => node.node,
      (node) => h("li", {}, h("span", { class: "dot", "aria-hidden": "true" }), h("span", {}, partName(node.node, app.camera)), h("span", { class: "quiet" })),
      (item, node) => {
        item.className = node.state === "following" ? "known" : "unknown";
        say(item.lastChild, `${LIGHT[node.state] || ""} · ${(node.drift ?? 0).toFixed(2)}`);
      });
  }

  return {
    leave: () => picture.close(),
    status,
    data(channel, data, image) {
      if (channel === "light") return showLight(data.nodes);
      if (!channel.startsWith("live:")) return;
      picture.draw(data, image);
      const known = data.boxes.filter((box) => box.known).length;
      say(facts, data.answered
        ? `${known} known, ${data.boxes.length - known} unknown · ${data.rate.toFixed(1)} pictures a second`
        : "The picture is there, but nobody looks for things in it.");
      none.hidden = data.boxes.length > 0;
      say(none, data.answered ? "Nothing is in view." : "Nobody looks for things now.");
      keyed(things, data.boxes.map((box, number) => ({ ...box, key: box.track || `n${number}` })), (box) => box.key,
        () => h("li", {}, h("span", { class: "dot", "aria-hidden": "true" }), h("span", { class: "name" }), h("span", { class: "quiet" })),
        (item, box) => {
          item.className = box.known ? "known" : "unknown";
          say(item.children[1], box.known ? pretty(box.label) : "Unknown thing");
          const sure = box.known ? percent(box.score) : "", where = box.distance ? `${box.distance.toFixed(2)} m` : "";
          say(item.children[2], [sure, where].filter(Boolean).join(" · "));
          if (box.position) item.title = `${box.position.map((v) => v.toFixed(2)).join(", ")} m from the camera, ± ${box.error?.toFixed(2)} m`;
        });
      const told = data.place || data.classified;
      placePanel.hidden = !told;
      if (told) {
        say(placePanel.firstChild, data.place ? "Place" : "Picture");
        say(place, pretty(told.label || `unlike all it knows (${told.nearest}?)`));
        say(sure, `${percent(told.confidence)} sure`);
      }
    },
  };
}
