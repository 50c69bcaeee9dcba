/* Starts every widget of the page. `live` is at hand in the browser's console. */
import { Widget } from "./widget.js";

const data = JSON.parse(document.getElementById("live-data").textContent);
window.live = [...document.querySelectorAll("[data-live]")].map((root) => new Widget(root, data[root.dataset.live]));
