// Runs front ends of a file and prints the codes that each gives: node replay.mjs RUNTIME FILE
import { readFileSync } from "node:fs";

const { FrontEnd } = await import(process.argv[2]);
const cases = JSON.parse(readFileSync(process.argv[3], "utf8"));
const answers = cases.map(({ fields, samples }) => {
  const frontEnd = new FrontEnd(fields);
  return samples.map((sample) => frontEnd.push(sample)).flatMap((codes) => (codes ? [...codes] : []));
});
process.stdout.write(JSON.stringify(answers));
