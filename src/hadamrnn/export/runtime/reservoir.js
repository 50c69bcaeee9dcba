/** A group's part of a stream's state: sums of samples, delayed means, states by phase. */
class GroupState {
  constructor(group, channels, units) {
    this.sums = new Int32Array(channels);
    this.delays = new Int32Array(group.dilation * channels);
    this.h = new Int32Array(group.dilation * units);
    this.steps = 0; // counted steps
  }
}

/** The state of a reservoir within a window: its groups, and the counts of all features. */
class ReservoirState {
  constructor(network) {
    this.groups = network.groups.map((group) => new GroupState(group, network.inputSize, 8 * group.blocks));
    this.counts = new Uint16Array(network.threshold.length);
    this.steps = 0;
    this.saturations = 0;
  }

  get h() {
    return this.groups.map((group) => group.h);
  }
}

/**
 * A reservoir: units at several time scales, thresholds, counts. Step j of a group that averages m samples:
 *
 *     v_j = round((x_(mj) + ... + x_(mj + m - 1)) / m)
 *     u_j = v_j - v_(j-d) if the group reads differences (from j = d on), else v_j
 *     h_j = saturate16(round(H D h_(j-d) / 4) + 2^q U u_j)
 *
 *     code   = round(count floor(2^30 / steps) / 2^(15 + e)),  count = steps with h above a threshold
 *     logits = V code + b 2^outputBiasShift
 */
export class Reservoir extends Network {
  constructor({ channel, signs, inputWeight, unit, threshold, segment, exponents, ...rest }) {
    super(rest);
    const packed = { channel, signs, inputWeight, unit, threshold, segment, exponents };
    for (const [name, values] of Object.entries(packed)) this[name] = unpack(values);
    let first = 0;
    this.layers = this.groups.map(({ blocks }) => ({ signs: this.signs.subarray(first, (first += 8 * blocks)) }));
  }

  init() {
    return new ReservoirState(this);
  }

  step(state, input) {
    if (state.steps >= this.longest) return false;
    const x = this.saturate(typeof input === "number" ? [input] : input);
    let firstUnit = 0;
    let firstFeature = 0;
    this.groups.forEach((group, g) => {
      const u = this.drive(group, state.groups[g], x, state.steps);
      if (u) this.advance(group, state, g, u, firstUnit, firstFeature);
      firstUnit += 8 * group.blocks;
      firstFeature += group.features;
    });
    state.steps += 1;
    return true;
  }

  /** Return u of every channel if sample number `sample` completes a counted mean, else null. */
  drive(group, own, x, sample) {
    const { width, dilation } = group;
    for (let c = 0; c < x.length; c += 1) own.sums[c] += x[c];
    if ((sample + 1) % width > 0) return null;
    const j = Math.floor(sample / width);
    const u = new Int32Array(x.length);
    for (let c = 0; c < x.length; c += 1) {
      const v = Math.floor(own.sums[c] / width + 0.5);
      const at = (j % dilation) * x.length + c;
      u[c] = group.isDifference ? v - own.delays[at] : v;
      own.delays[at] = v;
    }
    own.sums.fill(0);
    return group.isDifference && j < dilation ? null : u;
  }

  advance(group, state, g, u, firstUnit, firstFeature) {
    const own = state.groups[g];
    const units = 8 * group.blocks;
    const h = own.h.subarray((own.steps % group.dilation) * units, (own.steps % group.dilation + 1) * units);
    const mixed = h.map((code, i) => code * this.signs[firstUnit + i]);
    transform(mixed, 8, [2, 2, 2], {});
    for (let i = 0; i < units; i += 1) {
      const at = firstUnit + i;
      const input = this.inputWeight[at] * u[this.channel[at >> 3]] * 2 ** group.inputShift;
      const next = Math.floor((mixed[i] + 2) / 4) + input;
      h[i] = saturated(next, 16);
      if (h[i] !== next) state.saturations += 1;
    }
    const third = Number(own.steps >= group.ends[0]) + Number(own.steps >= group.ends[1]);
    for (let f = firstFeature; f < firstFeature + group.features; f += 1) {
      const counts = !group.isSegmented || this.segment[f] === third;
      if (counts && h[this.unit[f] - firstUnit] > this.threshold[f]) state.counts[f] += 1;
    }
    own.steps += 1;
  }

  /** Return the input codes of the read-out: each feature's fraction of steps times 2^(15 - e). */
  features(state) {
    const codes = new Int32Array(state.counts.length);
    let f = 0;
    this.groups.forEach((group, g) => {
      const { steps } = state.groups[g];
      for (const end = f + group.features; f < end; f += 1) {
        const third = group.isSegmented ? this.segment[f] : 0;
        const begin = third > 0 ? group.ends[third - 1] : 0;
        const counted = Math.min(steps, group.ends[third]) - begin;
        const rate = Math.floor(2 ** 30 / Math.max(counted, 1));
        codes[f] = shifted(state.counts[f] * rate, -15 - this.exponents[f]);
      }
    });
    return codes;
  }

  /** Return the fraction of steps in which each feature was above its threshold, 0 to 1. */
  shares(state) {
    return Float64Array.from(this.features(state), (code, f) => code * 2 ** (this.exponents[f] - 15));
  }
}

/** Build the network for a model of either kind. */
export const networkOf = (model) => (model.groups ? new Reservoir(model) : new Network(model));
