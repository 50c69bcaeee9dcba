/** Decides when windows raise an event: pass the logits of every window to `decide`; it returns a class, or -1. */
export class Decider {
  constructor(fields) {
    Object.assign(this, fields); // thresholds, needed, votes, refractory, window, hop
    this.last = [];
    this.wait = 0;
  }

  /** Return the lead of the best class over the second, at most 2^31 - 2. */
  static margin(logits) {
    if (logits.length === 1) return Math.min(Math.abs(logits[0]), 2 ** 31 - 2);
    const [first, second] = Array.from(logits).sort((a, b) => b - a);
    return Math.min(first - second, 2 ** 31 - 2);
  }

  decide(logits) {
    const best = logits.length === 1 ? Number(logits[0] > 0) : logits.indexOf(Math.max(...logits));
    const vote = Decider.margin(logits) >= this.thresholds[best] ? best : -1;
    this.last = [...this.last, vote].slice(-this.votes);
    if (this.wait > 0) {
      this.wait -= 1;
      return -1;
    }
    if (vote < 0 || this.last.filter((each) => each === vote).length < this.needed) return -1;
    this.last = [];
    this.wait = this.refractory;
    return vote;
  }
}
