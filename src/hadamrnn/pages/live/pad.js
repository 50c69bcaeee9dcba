/* A pad to draw on with mouse, pen, finger or keyboard: strokes become the pixels that the network reads. */
import { colour, paint } from "./pictures.js";

const FINE = 4; // a pixel has FINE x FINE dots, and its level is the number of inked dots

/** Return the distance of a point from the segment a b. */
function distance(x, y, [ax, ay], [bx, by]) {
  const [dx, dy] = [bx - ax, by - ay];
  const length = dx * dx + dy * dy;
  const along = length ? Math.min(1, Math.max(0, ((x - ax) * dx + (y - ay) * dy) / length)) : 0;
  return Math.hypot(x - ax - along * dx, y - ay - along * dy);
}

/** Return strokes moved and scaled as in the training data: as tall as `box`, in the middle of the pad. */
export function fitted(strokes, side, box) {
  const points = strokes.flat();
  const range = (axis) => {
    const all = points.map((point) => point[axis]);
    return [Math.min(...all), Math.max(...all)];
  };
  const [[left, right], [top, bottom]] = [range(0), range(1)];
  const scale = box / Math.max(right - left, bottom - top, box / 4);
  const moved = ([x, y]) => [
    side / 2 + (x - (left + right) / 2) * scale,
    side / 2 + (y - (top + bottom) / 2) * scale,
  ];
  return strokes.map((stroke) => stroke.map(moved));
}

/** Return strokes moved so that the centre of mass of their ink is the middle of the pad. */
export function centred(strokes, side, radius) {
  const sums = [0, 0, 0];
  inked(strokes, side, radius, FINE * FINE).forEach((level, i) => {
    sums[0] += level;
    sums[1] += level * ((i % side) + 0.5);
    sums[2] += level * (Math.floor(i / side) + 0.5);
  });
  const [dx, dy] = [side / 2 - sums[1] / sums[0], side / 2 - sums[2] / sums[0]];
  return strokes.map((stroke) => stroke.map(([x, y]) => [x + dx, y + dy]));
}

/** Return the levels 0 ... top of side x side pixels under strokes of this radius. */
export function inked(strokes, side, radius, top) {
  const levels = new Array(side * side).fill(0);
  for (let dot = 0; dot < side * side * FINE * FINE; dot += 1) {
    const [column, row] = [dot % (side * FINE), Math.floor(dot / (side * FINE))];
    const [x, y] = [(column + 0.5) / FINE, (row + 0.5) / FINE];
    const near = strokes.some((stroke) =>
      stroke.some((point, i) => distance(x, y, stroke[Math.max(0, i - 1)], point) <= radius),
    );
    if (near) levels[Math.floor(row / FINE) * side + Math.floor(column / FINE)] += 1;
  }
  return levels.map((count) => Math.round((count * top) / (FINE * FINE)));
}

export class Pad {
  /** `changed(levels)` is called whenever the network should read the drawing. */
  constructor(canvas, { side, top, box, radius, byMass }, changed) {
    Object.assign(this, { canvas, side, top, box, radius, byMass, changed, strokes: [], cursor: null, reading: -1 });
    this.levels = new Array(side * side).fill(0);
    canvas.addEventListener("pointerdown", (event) => this.start(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => this.finish());
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.show((this.cursor = null)));
    this.show();
  }

  point(event) {
    const frame = this.canvas.getBoundingClientRect();
    return [
      ((event.clientX - frame.left) / frame.width) * this.side,
      ((event.clientY - frame.top) / frame.height) * this.side,
    ];
  }

  start(event) {
    event.preventDefault();
    this.canvas.focus({ preventScroll: true });
    this.canvas.setPointerCapture?.(event.pointerId);
    this.cursor = null;
    this.drawing = true;
    this.strokes.push([this.point(event)]);
    this.sketch();
  }

  move(event) {
    if (!this.drawing) return;
    this.strokes.at(-1).push(this.point(event));
    this.sketch();
  }

  finish() {
    if (!this.drawing) return;
    this.drawing = false;
    const strokes = fitted(this.strokes, this.side, this.box);
    const placed = this.byMass ? centred(strokes, this.side, this.radius) : strokes;
    this.levels = inked(placed, this.side, this.radius, this.top);
    this.changed(this.levels);
  }

  /** Show the strokes as lines while the pen is down. */
  sketch() {
    const { canvas } = this;
    const scale = (canvas.width = canvas.height = canvas.clientWidth * devicePixelRatio) / this.side;
    const context = canvas.getContext("2d");
    Object.assign(context, { lineWidth: 2 * this.radius * scale, lineCap: "round", lineJoin: "round" });
    context.strokeStyle = `rgb(${colour("ink")})`;
    for (const stroke of this.strokes) {
      context.beginPath();
      [stroke[0], ...stroke].forEach(([x, y]) => context.lineTo(x * scale, y * scale));
      context.stroke();
    }
  }

  /** Arrow keys move, space inks or clears the pixel, Enter reads, Delete clears all. */
  key(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.side, ArrowDown: this.side };
    if (event.key in moves) {
      const next = (this.cursor ?? Math.floor(this.levels.length / 2)) + moves[event.key];
      this.cursor = (next + this.levels.length) % this.levels.length;
    } else if (event.key === " " && this.cursor !== null) {
      this.levels[this.cursor] = this.levels[this.cursor] ? 0 : this.top;
    } else if (event.key === "Enter") {
      this.changed(this.levels);
    } else if (event.key === "Delete" || event.key === "Backspace") {
      this.clear();
    } else {
      return;
    }
    event.preventDefault();
    this.show();
  }

  clear() {
    this.set(new Array(this.side * this.side).fill(0));
  }

  /** Show these levels; the next stroke starts a new drawing. */
  set(levels) {
    Object.assign(this, { strokes: [], levels: [...levels], reading: -1 });
    this.show();
  }

  show() {
    const [ink, here, cursor] = [colour("ink"), colour("orange"), colour("blue")];
    paint(this.canvas, this.side, this.side, (i) => {
      if (i === this.reading) return [here, 1];
      if (i === this.cursor) return [cursor, 0.9];
      return [ink, this.levels[i] / this.top];
    });
  }
}
