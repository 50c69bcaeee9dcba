/* Draw pictures on canvases, one pixel per number, in the colours of the page. */

/** Return a colour of the page's style as [red, green, blue]. */
export function colour(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

/** Set the size of a canvas; return whether the size changed, which clears the canvas. */
function resize(canvas, width, height) {
  if (canvas.width === width && canvas.height === height) return false;
  Object.assign(canvas, { width, height });
  return true;
}

/** Paint a grid from column `left` on, the pixel at `i` with `shade(i)`: a colour and its opacity, 0 to 1. */
function put(canvas, left, columns, rows, shade) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let i = 0; i < columns * rows; i += 1) {
    const [[red, green, blue], alpha] = shade(i);
    image.data[4 * i] = red;
    image.data[4 * i + 1] = green;
    image.data[4 * i + 2] = blue;
    image.data[4 * i + 3] = 255 * Math.min(1, alpha);
  }
  context.putImageData(image, left, 0);
}

/** Paint a whole canvas, one pixel per number. */
export function paint(canvas, columns, rows, shade) {
  resize(canvas, columns, rows);
  put(canvas, 0, columns, rows, shade);
}

/** Return columns and rows of a nearly square grid, a power of two wide, for this many units. */
export function gridShape(units) {
  const columns = Math.min(units, 2 ** Math.ceil(Math.log2(Math.max(1, units)) / 2));
  return [columns, Math.ceil(units / columns)];
}

/** Draw a state, one square per unit; `largest` is the largest magnitude of any unit so far. */
export function drawUnits(canvas, h, largest) {
  const [up, down] = [colour("blue"), colour("orange")];
  paint(canvas, ...gridShape(h.length), (i) => [h[i] > 0 ? up : down, Math.abs(h[i] ?? 0) / largest]);
}

/** Draw signs; flipped signs have a different colour. */
export function drawSigns(canvas, signs, trained) {
  const [plus, minus, flipped] = [colour("line"), colour("grey"), colour("orange")];
  paint(canvas, ...gridShape(signs.length), (i) => {
    const shade = signs[i] !== trained[i] ? flipped : signs[i] > 0 ? plus : minus;
    return [shade, Number(i < signs.length)];
  });
}

/** Draw the confidence in each class after each step, one row per class; `painted` steps are already drawn. */
export function drawShares(canvas, history, steps, classes, painted) {
  const from = resize(canvas, steps, classes) ? 0 : painted;
  const ink = colour("blue");
  const width = history.length - from;
  if (from === 0) canvas.getContext("2d").clearRect(0, 0, steps, classes);
  if (width > 0) put(canvas, from, width, classes, (i) => [ink, history[from + (i % width)][Math.floor(i / width)]]);
}

/** Return the index of the grid's cell under a pointer. */
export function cellAt(canvas, event, columns, rows) {
  const box = canvas.getBoundingClientRect();
  const x = Math.floor(((event.clientX - box.left) / box.width) * columns);
  const y = Math.floor(((event.clientY - box.top) / box.height) * rows);
  return Math.min(Math.max(y, 0), rows - 1) * columns + Math.min(Math.max(x, 0), columns - 1);
}

const MOST_LINES = 12; // limit on channels drawn as lines

const row = (input) => (typeof input === "number" ? [input] : input);

/** Return the least and the largest code of a sequence, at most 0 and at least 1. */
export function ends(inputs) {
  return inputs.reduce(([low, high], input) => {
    const codes = row(input);
    return [Math.min(low, ...codes), Math.max(high, ...codes)];
  }, [0, 1]);
}

/** Return an image of a sequence with the size of a canvas; codes lie between the two ends. */
export function sequencePicture(canvas, inputs, range) {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((side) => Math.max(1, side * devicePixelRatio));
  const picture = Object.assign(document.createElement("canvas"), { width, height });
  const rows = inputs.map(row);
  if (rows[0].length > MOST_LINES) drawRows(picture, rows, range);
  else drawLines(picture, rows, range);
  return picture;
}

/** Draw one line per channel. */
function drawLines(picture, rows, [low, high]) {
  const { width, height } = picture;
  const context = picture.getContext("2d");
  const margin = 4 * devicePixelRatio;
  const names = ["blue", "orange", "green", "grey"];
  context.lineWidth = devicePixelRatio;
  for (let channel = 0; channel < rows[0].length; channel += 1) {
    context.strokeStyle = `rgb(${colour(names[channel % names.length])})`;
    context.beginPath();
    rows.forEach((row, t) => {
      const y = height - margin - ((row[channel] - low) / (high - low)) * (height - 2 * margin);
      context.lineTo(((t + 0.5) / rows.length) * width, y);
    });
    context.stroke();
  }
}

/** Draw one row per channel, the first at the bottom, higher codes darker: for filterbanks, a spectrogram. */
function drawRows(picture, rows, [low, high]) {
  const small = document.createElement("canvas");
  const channels = rows[0].length;
  const ink = colour("blue");
  paint(small, rows.length, channels, (i) => {
    const channel = channels - 1 - Math.floor(i / rows.length);
    return [ink, ((rows[i % rows.length][channel] - low) / (high - low)) ** 2];
  });
  const context = picture.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, picture.width, picture.height);
}

/** Draw the picture of a sequence and the position of the network: `at` is the fraction that it has read. */
export function drawSequence(canvas, picture, at) {
  const { width, height } = picture;
  const context = canvas.getContext("2d");
  if (!resize(canvas, width, height)) context.clearRect(0, 0, width, height);
  context.drawImage(picture, 0, 0);
  const mark = 3 * devicePixelRatio;
  context.fillStyle = `rgba(${colour("ink")}, 0.5)`;
  context.fillRect(Math.min(at * width, width - mark), 0, mark, height);
}
