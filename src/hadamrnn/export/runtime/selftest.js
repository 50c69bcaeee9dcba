/* Replays golden.json, made by the reference engine, and compares every bit. Run it with: node test.js */
import { readFileSync } from "node:fs";
import * as exported from "./MODULE";

const golden = JSON.parse(readFileSync(new URL("golden.json", import.meta.url), "utf8"));
const same = (left, right) => left.length === right.length && left.every((code, i) => code === right[i]);
const { network, detector } = exported;
let differences = 0;

golden.inputs.forEach((sequence, index) => {
  const state = network.init();
  sequence.forEach((input, t) => {
    network.step(state, Array.isArray(input) ? network.encode(input) : input);
    const wanted = golden.every || t === sequence.length - 1 ? golden.logits[index][golden.every ? t : 0] : null;
    if (wanted && !same(network.read(state), wanted)) differences += 1;
  });
  if (network.classify(network.read(state)) !== golden.classes[index]) differences += 1;
});
golden.raw.forEach((reading, index) => {
  if (!same(network.encode(reading), golden.encoded[index])) differences += 1;
});
golden.detector?.raw.forEach((sequence, index) => {
  const stream = detector.init();
  sequence.forEach((readings, t) => {
    const level = golden.detector.levels[index][t];
    if (detector.push(stream, readings) !== (level > detector.threshold) || stream.level !== level) differences += 1;
  });
});
console.log(`${golden.inputs.length} sequences of ${golden.source}: ${differences ? `${differences} DIFFERENCES` : "the same bits"}`);
process.exitCode = differences ? 1 : 0;
