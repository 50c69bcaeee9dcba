/* Read a phone's motion sensors: acceleration and rotation, at the rate and in the units of the recordings. */

const GRAVITY = 9.80665; // m/s^2
const RADIANS = Math.PI / 180;

/** Return the nine channels of UCI HAR: body acceleration in g, rotation in rad/s, total acceleration in g. */
export function channels({ acceleration, rotationRate, accelerationIncludingGravity }) {
  const { alpha, beta, gamma } = rotationRate;
  const g = ({ x, y, z }) => [x, y, z].map((each) => each / GRAVITY);
  return [...g(acceleration), ...[alpha, beta, gamma].map((each) => each * RADIANS), ...g(accelerationIncludingGravity)];
}

/** Return values, then clipped copies of the first channels and of their changes since `before`: `with_fine`. */
export function withFine(values, before, still, slow) {
  const clip = (value, limit) => Math.min(Math.max(value, -limit), limit);
  const changes = slow.map((limit, j) => clip(values[j] - before[j], limit));
  return [...values, ...still.map((limit, j) => clip(values[j], limit)), ...changes];
}

/** Whether this looks like a phone or a tablet; desktop browsers define the event but never send it. */
export function hasSensor() {
  return "DeviceMotionEvent" in window && matchMedia("(pointer: coarse)").matches;
}

export class Sensor {
  /** `push(values)` gets each step, in the units of the training data; `fail(reason)` is called if there is none. */
  constructor({ still, slow, rate }, push, fail) {
    Object.assign(this, { still, slow, pause: 1000 / rate, push, fail });
    this.listen = (event) => this.take(event);
  }

  async start() {
    const asked = await window.DeviceMotionEvent.requestPermission?.().catch(() => "denied");
    if (asked === "denied") return this.fail("The browser does not let this page use the sensor.");
    Object.assign(this, { due: null, before: null });
    this.timer = setTimeout(() => this.fail("The sensor sent no readings."), 2000);
    return addEventListener("devicemotion", this.listen);
  }

  stop() {
    clearTimeout(this.timer);
    removeEventListener("devicemotion", this.listen);
  }

  /** Take a reading, unless it comes too early: browsers send 60 per second. */
  take(event) {
    if (event.acceleration?.x == null || event.rotationRate?.alpha == null) return;
    this.due ??= event.timeStamp;
    if (event.timeStamp < this.due) return;
    clearTimeout(this.timer);
    this.due = Math.max(this.due, event.timeStamp - this.pause) + this.pause;
    const values = channels(event);
    const all = withFine(values, this.before ?? values, this.still, this.slow);
    this.before = values;
    this.push(all);
  }
}
