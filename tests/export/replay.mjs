// Runs networks of a file and prints what each gives: node replay.mjs RUNTIME FILE
import { readFileSync } from "node:fs";

const { Network } = await import(process.argv[2]);
const cases = JSON.parse(readFileSync(process.argv[3], "utf8"));

const answers = cases.map(({ model, rows, raw, window, zero, gain }) => {
  const network = new Network(model);
  const streams = rows.map((row) => {
    const state = network.init();
    const logits = row.map((input) => {
      network.step(state, input);
      return [...network.read(state)];
    });
    return { logits, states: state.h.map((h) => [...h]), saturations: state.saturations };
  });
  const sliding = network.window(...window);
  return {
    streams,
    run: rows.map((row) => [network.run(row)].flat().map((logits) => [...logits])),
    encoded: raw.map((reading) => [...network.encode(reading)]),
    calibrated: raw.map((reading) => [...network.calibrate(reading, zero, gain)]),
    values: rows.map((row) => network.values && [...network.fixedValues([network.run(row)].flat().at(-1))]),
    windows: rows[0].map((input) => sliding.push(input)).map((logits) => logits && [...logits]),
  };
});
process.stdout.write(JSON.stringify(answers));
