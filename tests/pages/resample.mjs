// Resamples signals of a file and prints them: node resample.mjs RESAMPLER FILE
import { readFileSync } from "node:fs";

const { Resampler } = await import(process.argv[2]);
const cases = JSON.parse(readFileSync(process.argv[3], "utf8"));
const results = cases.map(({ from, to, values, block }) => {
  const resampler = new Resampler(from, to);
  const samples = [];
  for (let at = 0; at < values.length; at += block) samples.push(...resampler.push(values.slice(at, at + block)));
  return samples;
});
process.stdout.write(JSON.stringify(results));
