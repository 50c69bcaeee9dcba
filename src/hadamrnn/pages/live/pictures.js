/* Pictures on canvases, a pixel a number, in the colours of the page. */

/** Return a colour of the page's style as [red, green, blue]. */
export function colour(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

/** Paint a grid, the pixel at `i` with `shade(i)`: a colour and how opaque it is, 0 to 1. */
export function paint(canvas, columns, rows, shade) {
  if (canvas.width !== columns || canvas.height !== rows) Object.assign(canvas, { width: columns, height: rows });
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let i = 0; i < columns * rows; i += 1) {
    const [rgb, alpha] = shade(i);
    image.data.set(rgb, 4 * i);
    image.data[4 * i + 3] = 255 * Math.min(1, alpha);
  }
  context.putImageData(image, 0, 0);
}

/** Return columns and rows of the nearly square grid, a power of two wide, that shows so many units. */
export function gridShape(units) {
  const columns = Math.min(units, 2 ** Math.ceil(Math.log2(Math.max(1, units)) / 2));
  return [columns, Math.ceil(units / columns)];
}

/** Draw a state, a square a unit; `largest` is the most that any unit had. */
export function drawUnits(canvas, h, largest) {
  const [up, down] = [colour("blue"), colour("orange")];
  paint(canvas, ...gridShape(h.length), (i) => [h[i] > 0 ? up : down, Math.abs(h[i] ?? 0) / largest]);
}

/** Draw signs, those that are not as trained in a colour of their own. */
export function drawSigns(canvas, signs, trained) {
  const [plus, minus, flipped] = [colour("line"), colour("grey"), colour("orange")];
  paint(canvas, ...gridShape(signs.length), (i) => {
    const shade = signs[i] !== trained[i] ? flipped : signs[i] > 0 ? plus : minus;
    return [shade, Number(i < signs.length)];
  });
}

/** Draw how sure each class was after each step, a row a class, time to the right. */
export function drawShares(canvas, history, steps, classes) {
  const ink = colour("blue");
  paint(canvas, steps, classes, (i) => [ink, history[i % steps]?.[Math.floor(i / steps)] ?? 0]);
}

/** Return the index of the grid's cell under a pointer. */
export function cellAt(canvas, event, columns, rows) {
  const box = canvas.getBoundingClientRect();
  const x = Math.floor(((event.clientX - box.left) / box.width) * columns);
  const y = Math.floor(((event.clientY - box.top) / box.height) * rows);
  return Math.min(Math.max(y, 0), rows - 1) * columns + Math.min(Math.max(x, 0), columns - 1);
}

/** Draw a sequence, a line a channel, and where the network reads. */
export function drawSequence(canvas, inputs, step) {
  const [width, height] = [Math.max(1, canvas.clientWidth), Math.max(1, canvas.clientHeight)];
  Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  const channels = typeof inputs[0] === "number" ? 1 : inputs[0].length;
  const value = (t, c) => (typeof inputs[t] === "number" ? inputs[t] : inputs[t][c]);
  const all = inputs.flatMap((input) => (typeof input === "number" ? [input] : [...input]));
  const low = all.reduce((least, one) => Math.min(least, one), 0);
  const high = all.reduce((most, one) => Math.max(most, one), 1);
  const x = (t) => ((t + 0.5) / inputs.length) * width;
  const y = (code) => height - 4 - ((code - low) / (high - low)) * (height - 8);
  const names = ["blue", "orange", "green", "grey"];
  for (let c = 0; c < channels; c += 1) {
    context.strokeStyle = `rgb(${colour(names[c % names.length])})`;
    context.beginPath();
    inputs.forEach((_, t) => context[t ? "lineTo" : "moveTo"](x(t), y(value(t, c))));
    context.stroke();
  }
  context.fillStyle = `rgba(${colour("ink")}, 0.25)`;
  context.fillRect(x(step - 1) - 1, 0, 3, height);
}
