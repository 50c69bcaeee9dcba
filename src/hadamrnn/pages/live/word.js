/* The copy task as a word: each letter is two symbols; the network is to say them after a long wait. */

const LETTERS = "abcdefghijklmnopqrstuvwxyz ";

export class Word {
  /** `changed(inputs)` is called with the sequence of a new word. */
  constructor({ symbols, delay, marker, base }, part, changed) {
    Object.assign(this, { symbols, delay, marker, base, part, changed });
    part.say.addEventListener("click", () => this.start());
    part.word.addEventListener("keydown", (event) => event.key === "Enter" && this.start());
  }

  start() {
    this.said = this.part.word.value.toLowerCase().replace(/[^a-z]/g, " ").slice(0, this.symbols / 2);
    this.changed(this.inputs(this.said));
  }

  /** Return the sequence: the symbols, the wait, the marker that asks for them, and time to answer. */
  inputs(word) {
    const letters = Array.from(word.padEnd(this.symbols / 2), (letter) => LETTERS.indexOf(letter));
    const codes = letters.flatMap((code) => [1 + Math.floor(code / this.base), 1 + (code % this.base)]);
    const blanks = (count) => new Array(count).fill(0);
    return [...codes, ...blanks(this.delay), this.marker, ...blanks(this.symbols - 1)];
  }

  /** Return the word that the last answers spell. */
  spelt(said) {
    const codes = said.slice(-this.symbols);
    const letters = codes.map((code, i) => (i % 2 ? "" : LETTERS[(code - 1) * this.base + codes[i + 1] - 1] ?? "?"));
    return letters.join("").trim();
  }

  answer(said) {
    return `After ${this.delay.toLocaleString("en")} steps the network says: ${this.spelt(said)}`;
  }
}
