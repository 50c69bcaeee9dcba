/* Starts every widget of the page. `live` is at hand in the browser's console. */
import { Widget } from "./widget.js";

const data = JSON.parse(document.getElementById("live-data").textContent);
const live = [...document.querySelectorAll("[data-live]")].map((root) => new Widget(root, data[root.dataset.live]));
for (const widget of live) {
  const { together } = widget.data;
  widget.peers = live.filter((other) => together && other !== widget && other.data.together === together);
}
window.live = live;
