/* Start every widget of the page. The browser's console has them as `live`. */
import { storedSequences } from "./stored.js";
import { Widget } from "./widget.js";

const data = JSON.parse(document.getElementById("live-data").textContent);
const roots = [...document.querySelectorAll("[data-live]")];
const sequences = await Promise.all(
  roots.map((root) => storedSequences(data[root.dataset.live].stored, data[root.dataset.live].model)),
);
const live = roots.map((root, i) => new Widget(root, data[root.dataset.live], sequences[i]));
for (const widget of live) {
  const { together } = widget.data;
  widget.peers = live.filter((other) => together && other !== widget && other.data.together === together);
}
window.live = live;
