/* A recurrent network in integers, equal to the Python engine and the exported C bit for bit in any JavaScript engine.
 *
 *     const state = network.init();
 *     for (const codes of sequence) network.step(state, codes);
 *     const logits = network.read(state); // an Int32Array
 *
 * A step of one layer, with H the block-diagonal Hadamard matrix, u its signs, k the leak of the unit's block:
 *
 *     a   = (u * H h) * 2^stateShift,  a - round(a / 2^k) if the block leaks
 *     acc = a + round(U x * 2^inputShift) + b * 2^biasShift
 *     h   = saturate(round(acc * multiplier / 2^roundShift)), cut at 0 if the recurrence is "relu"
 *
 * round takes ties up. All numbers are whole and below 2^53, so doubles are exact in any order of the sums.
 * No dependencies. Start reading at `Network`.
 */

/** Return the codes of [count, bits, base64], least significant bit first; single bits are signs, 1 for -1. */
export function unpack([count, bits, text]) {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const codes = new Int32Array(count);
  for (let i = 0, bit = 0; i < count; i += 1) {
    let code = 0;
    for (let place = 0; place < bits; place += 1, bit += 1) {
      code |= ((bytes[bit >> 3] >> (bit & 7)) & 1) << place;
    }
    codes[i] = bits === 1 ? 1 - 2 * code : (code << (32 - bits)) >> (32 - bits);
  }
  return codes;
}

/** Return round(value * 2^shift), ties up. */
function shifted(value, shift) {
  return shift >= 0 ? value * 2 ** shift : Math.floor(value * 2 ** shift + 0.5);
}

/** Return how many octaves 1 + |raw| / 2^knee spans, in units of 2^-16 with the sign of raw; without a knee, raw. */
function compressed(raw, knee) {
  if (!knee) return raw;
  const above = Math.abs(raw) + 2 ** knee;
  const octave = 31 - Math.clz32(above);
  return Math.sign(raw) * ((octave - knee) * 65536 + Math.floor((above / 2 ** octave - 1) * 65536));
}

function saturated(value, bits) {
  const high = 2 ** (bits - 1) - 1;
  return value > high ? high : value < -high - 1 ? -high - 1 : value;
}

/** Multiply every block of `work` by its Hadamard matrix, in place, one Kronecker factor after another. */
function transform(work, blockSize, factors, matrices) {
  let after = blockSize;
  for (const factor of factors) {
    const group = after;
    after /= factor;
    for (let start = 0; start < work.length; start += group) {
      if (factor === 2) {
        butterfly(work, start, after);
      } else {
        multiply(work, start, after, factor, matrices[factor]);
      }
    }
  }
}

function butterfly(work, start, after) {
  for (let i = start, end = start + after; i < end; i += 1) {
    const upper = work[i];
    const lower = work[i + after];
    work[i] = upper + lower;
    work[i + after] = upper - lower;
  }
}

function multiply(work, start, after, order, matrix) {
  const column = new Int32Array(order);
  for (let i = start; i < start + after; i += 1) {
    for (let j = 0; j < order; j += 1) column[j] = work[i + j * after];
    for (let r = 0; r < order; r += 1) {
      let sum = 0;
      for (let j = 0; j < order; j += 1) sum += matrix[r * order + j] * column[j];
      work[i + r * after] = sum;
    }
  }
}

/** One recurrent layer; its arrays may be changed between steps, as the live pages do. */
class Layer {
  constructor(fields, matrices) {
    Object.assign(this, fields);
    for (const name of ["signs", "weight", "bias", "gain", "offset"]) {
      this[name] = fields[name] ? unpack(fields[name]) : null;
    }
    this.matrices = matrices;
    // 2^-k of the unit's block; 0 if the block does not leak
    this.decay = this.leak && Float64Array.from({ length: this.units }, (_, i) => {
      const k = this.leak[Math.floor(i / this.blockSize)];
      return k > 0 ? 2 ** -k : 0;
    });
    this.work = new Int32Array(this.units);
    this.out = new Int32Array(this.units); // the layer output
  }

  /** Advance `h` in place by the codes x, or by the hot channel `hot`; return how many entries were clipped. */
  step(h, x, hot, bits, relu) {
    const { work, units, seen, weight, signs, bias, decay, multiplier } = this;
    work.set(h);
    transform(work, this.blockSize, this.factors, this.matrices);
    const [stateUnit, inputUnit, biasUnit] = [2 ** this.stateShift, 2 ** this.inputShift, 2 ** this.biasShift];
    const inputHalf = this.inputShift < 0 ? 0.5 : 0; // a left shift needs no rounding
    const [unit, half] = [2 ** -this.roundShift, this.roundShift > 0 ? 0.5 : 0];
    const high = 2 ** (bits - 1) - 1;
    let clipped = 0;
    for (let i = 0; i < units; i += 1) {
      let acc = signs[i] * work[i] * stateUnit;
      if (decay !== null && decay[i] > 0) acc -= Math.floor(acc * decay[i] + 0.5);
      let product = 0;
      if (hot >= 0) product = weight[i * seen + hot];
      else for (let j = 0; j < seen; j += 1) product += weight[i * seen + j] * x[j];
      acc += Math.floor(product * inputUnit + inputHalf);
      if (bias !== null) acc += bias[i] * biasUnit;
      let next = Math.floor(acc * multiplier * unit + half);
      if (next > high || next < -high - 1) {
        next = next > high ? high : -high - 1;
        clipped += 1;
      }
      h[i] = relu && next < 0 ? 0 : next;
    }
    return clipped;
  }

  /** Return the layer output for the state h; a layer with a skip adds its input x. */
  output(h, x) {
    for (let i = 0; i < this.units; i += 1) {
      let y = h[i];
      if (this.gain) y = shifted(y * this.gain[i] + this.offset[i] * 2 ** this.offsetShift, -this.gainShift);
      y = y > 0 ? y : 0;
      if (this.gain) y = saturated(y, this.outputBits);
      if (this.skipShift !== null) y = saturated(y + shifted(x[i], this.skipShift), this.outputBits);
      this.out[i] = y;
    }
    return this.out;
  }
}

/** Sums, counters and maxima over the steps of the last layer, for the read-outs. */
class Pools {
  constructor(network) {
    const { units } = network.layers[network.layers.length - 1];
    this.inputs = 0; // input steps since the start of the sequence
    this.steps = 0; // steps of the last layer since then
    for (const kind of network.readouts) {
      const rows = kind === "mean" || kind === "positive" ? network.thresholds.length / units : 1;
      if (kind !== "last") this[kind] = new Int32Array(rows * units);
    }
  }

  /** Add one step, the state h of the last layer. */
  add(h, thresholds) {
    const { mean, positive, max } = this;
    const rows = (mean || positive || h).length;
    for (let at = 0, i = 0; at < rows; at += 1, i = at % h.length) {
      const above = h[i] - thresholds[at];
      if (mean && above > 0) mean[at] += above;
      if (positive && above > 0) positive[at] += 1;
    }
    for (let i = 0; max && i < h.length; i += 1) max[i] = this.steps === 0 ? h[i] : Math.max(max[i], h[i]);
    this.steps += 1;
  }
}

/** The state of a stream between steps. */
class State {
  constructor(network) {
    this.h = network.layers.map((layer) => new Int32Array(layer.units)); // lowest layer first
    this.groups = network.layers.slice(1).map((layer) => new Int32Array(layer.seen)); // sums of a stride
    this.counts = new Float64Array(network.layers.length); // steps that each layer made
    this.pools = new Pools(network);
    this.saturations = 0; // entries of h clipped so far
  }

  /** The number of steps so far. */
  get steps() {
    return this.counts[0];
  }
}

/** An integer network. */
export class Network {
  constructor(model) {
    const { layers, matrices, outputWeight, outputBias, embedding, thresholds, featureShift, raw, ...rest } = model;
    Object.assign(this, rest);
    const signs = Object.fromEntries(Object.entries(matrices).map(([order, packed]) => [order, unpack(packed)]));
    this.layers = layers.map((layer) => new Layer(layer, signs));
    this.outputWeight = unpack(outputWeight);
    this.outputBias = unpack(outputBias);
    this.embedding = embedding ? unpack(embedding) : null;
    this.thresholds = thresholds ? unpack(thresholds) : new Int32Array(this.layers[this.layers.length - 1].units);
    this.featureShift = featureShift;
    this.raw = raw;
  }

  /** Return the zero state of a new stream. */
  init() {
    return new State(this);
  }

  /**
   * Advance a stream by one input: dense codes, which saturate, or an id. Return true; or false, with the state
   * unchanged, for an id outside the vocabulary and after `longest` steps of a pooled network.
   */
  step(state, input) {
    if (this.longest > 0 && state.pools.inputs >= this.longest) return false;
    let x = null;
    let hot = -1;
    if (this.inputKind === "dense") {
      x = this.saturate(typeof input === "number" ? [input] : input);
    } else if (!(Number.isInteger(input) && input >= 0 && input < this.vocabularySize)) {
      return false;
    } else if (this.embedding) {
      x = this.embedding.subarray(input * this.inputSize, (input + 1) * this.inputSize);
    } else {
      hot = input;
    }
    const relu = this.recurrence === "relu";
    state.pools.inputs += 1;
    for (let l = 0; l < this.layers.length; l += 1) {
      const layer = this.layers[l];
      state.saturations += layer.step(state.h[l], x, hot, this.stateBits, relu);
      state.counts[l] += 1;
      if (l === this.layers.length - 1) break;
      const below = layer.output(state.h[l], x);
      const group = state.groups[l];
      for (let i = 0; i < group.length; i += 1) group[i] += below[i];
      if (state.counts[l] % this.stride > 0) return true;
      x = group.slice();
      hot = -1;
      group.fill(0);
    }
    state.pools.add(state.h[state.h.length - 1], this.thresholds);
    return true;
  }

  /** Return the input codes of the read-out: the last state, or the scaled pools. */
  features(state, pools) {
    const h = state.h[state.h.length - 1];
    const parts = this.readouts.map((kind) => pools[kind] ?? h.map((code) => Math.max(code, 0)));
    if (!this.featureShift) return parts[0];
    const codes = new Int32Array(this.featureShift.length);
    let at = 0;
    parts.forEach((values, index) => {
      const kind = this.readouts[index];
      const whole = this.featureMultiplier[index] * 2 ** 15;
      const rate = kind === "mean" || kind === "positive" ? Math.floor(whole / Math.max(pools.steps, 1)) : whole;
      for (const value of values) {
        codes[at] = saturated(shifted(value * rate, -this.featureShift[at]), this.featureBits);
        at += 1;
      }
    });
    return codes;
  }

  /**
   * Return the logits V features + b of the steps so far, an Int32Array; multiply by `logitScale` for real numbers.
   */
  read(state) {
    const features = this.features(state, state.pools);
    const logits = new Int32Array(this.outputSize);
    for (let k = 0; k < this.outputSize; k += 1) {
      let sum = this.outputBias[k] * 2 ** this.outputBiasShift;
      for (let j = 0, at = k * features.length; j < features.length; j += 1) sum += this.outputWeight[at + j] * features[j];
      logits[k] = sum;
    }
    return logits;
  }

  /** Run a sequence from the zero state. Return its last logits, or those of every step if `everyOutput`. */
  run(sequence) {
    const state = this.init();
    const all = [];
    for (const input of sequence) {
      if (!this.step(state, input)) throw new RangeError(`Step ${state.steps} cannot take ${input}.`);
      if (this.everyOutput) all.push(this.read(state));
    }
    return this.everyOutput ? all : this.read(state);
  }

  /** Return the class of logits: the largest, or for a single logit whether it is positive. */
  classify(logits) {
    return logits.length === 1 ? Number(logits[0] > 0) : logits.indexOf(Math.max(...logits));
  }

  /** Return a regressor's values for these logits, integers in units of 2^-values.fracBits. */
  fixedValues(logits) {
    const { multiplier, shift, offset } = this.values;
    return Float64Array.from(logits, (logit, k) => {
      const product = BigInt(logit) * BigInt(multiplier[k]);
      const rounded = (product + (1n << BigInt(shift[k] - 1))) >> BigInt(shift[k]);
      return saturated(Number(rounded + BigInt(offset[k])), 53);
    });
  }

  /** Return readings corrected by a device's zero and gain for each channel; gains are integers in units of 2^-14. */
  calibrate(readings, zero, gain) {
    return Int32Array.from(readings, (reading, j) => {
      if (!(Number.isInteger(gain[j]) && gain[j] >= 0 && gain[j] <= 65535)) {
        throw new RangeError(`A gain must be an integer in 0..65535, got ${gain[j]}.`);
      }
      return saturated(Math.floor(((reading - zero[j]) * gain[j] + 8192) / 16384), 32);
    });
  }

  /** Return the input codes for a sensor's raw readings, one int32 per channel, encoded as for training. */
  encode(readings) {
    const { offset, multiplier, shift, knee } = this.raw ?? {};
    const codes = Array.from(readings, (reading, j) => {
      if (reading !== (reading | 0)) throw new RangeError(`A reading must be an int32, got ${reading}.`);
      return this.raw ? shifted((compressed(reading, knee?.[j]) - offset[j]) * multiplier[j], -shift[j]) : reading;
    });
    return this.saturate(codes);
  }

  /** Return the codes of a step's values, in the units of the training data: `encode` of round(value / rawUnit). */
  encodeValues(values) {
    const readings = Array.from(values, (value) => {
      if (!Number.isFinite(value)) throw new RangeError(`A value must be a finite number, got ${value}.`);
      return saturated(Math.floor(value / this.rawUnit + 0.5), 32);
    });
    return this.encode(readings);
  }

  /** Return dense codes clipped to their bits; refuse anything but one whole number per channel. */
  saturate(codes) {
    if (codes.length !== this.inputSize) {
      throw new RangeError(`A step of this network has ${this.inputSize} codes, got ${codes.length}.`);
    }
    const within = new Int32Array(codes.length);
    for (let j = 0; j < codes.length; j += 1) {
      if (!Number.isInteger(codes[j])) throw new RangeError(`A code must be a whole number, got ${codes[j]}.`);
      within[j] = saturated(codes[j], this.inputBits);
    }
    return within;
  }

  /** Return a `SlidingWindow` over this network. */
  window(size, hop) {
    return new SlidingWindow(this, size, hop);
  }
}

/**
 * A sliding window: every `hop` inputs, the logits of exactly the last `size` inputs, as `run` returns them. size / hop
 * states take turns, and each restarts once it has been read.
 */
export class SlidingWindow {
  constructor(network, size, hop) {
    if (!(Number.isInteger(hop) && hop > 0 && Number.isInteger(size) && size > 0 && size % hop === 0)) {
      throw new RangeError(`A window must be a positive multiple of its hop, got ${size} and ${hop}.`);
    }
    if (network.longest > 0 && size > network.longest) {
      throw new RangeError(`The sums of this network hold ${network.longest} steps, got a window of ${size}.`);
    }
    Object.assign(this, { network, size, hop, pushed: 0 });
    this.states = Array.from({ length: size / hop }, () => network.init());
  }

  /** Take one input; at the end of a hop return the logits of the last `size` inputs, else null. Ignore unknown ids. */
  push(input) {
    // A state whose turn comes later starts reading at the start of its own window.
    const begun = this.states.filter((_, turn) => this.pushed >= turn * this.hop);
    if (!begun.map((state) => this.network.step(state, input))[0]) return null;
    this.pushed += 1;
    if (this.pushed % this.hop || this.pushed < this.size) return null;
    const oldest = (this.pushed / this.hop) % this.states.length;
    const logits = this.network.read(this.states[oldest]);
    this.states[oldest] = this.network.init();
    return logits;
  }

  /** The state that is read next; before the first read, the one that began first. */
  get oldest() {
    const turn = this.pushed < this.size ? 0 : Math.floor(this.pushed / this.hop) + 1;
    return this.states[turn % this.states.length];
  }
}
