// A writer as a program of the original's kind: npm proper-lockfile with its ten retries (5 to 100 ms), temporary file,
// rename, no fsync. Prints `ready`, waits for a line, then one latency in microseconds a message, then its errors.
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { randomBytes, randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';

const lockfile = createRequire(import.meta.url)('proper-lockfile');
const [root, writer, messages] = process.argv.slice(2);
const inbox = `${root}/claude/teams/bench/inboxes/bob.json`;
const options = { realpath: false, retries: { retries: 10, minTimeout: 5, maxTimeout: 100 } };

async function send(text) {
  const release = await lockfile.lock(inbox, options);
  try {
    const entries = JSON.parse(readFileSync(inbox, 'utf8'));
    entries.push({
      from: 'team-lead', text, timestamp: new Date().toISOString(), msgV: 1, msg_id: randomUUID(), type: 'message',
      read: false,
    });
    const temporary = `${inbox}.tmp.${randomBytes(4).toString('hex')}`;
    writeFileSync(temporary, JSON.stringify(entries, null, 2));
    renameSync(temporary, inbox);
  } finally {
    await release();
  }
}

async function main() {
  let errors = 0;
  let out = '';
  for (let i = 0; i < Number(messages); i++) {
    const start = process.hrtime.bigint();
    try {
      await send(`message ${i} of writer ${writer}: the build is green and the tests of the parser pass; what is next?`);
      out += `${(process.hrtime.bigint() - start) / 1000n}\n`;
    } catch {
      errors++;
    }
  }
  process.stdout.write(`${out}errors ${errors}\n`);
}

console.log('ready');
const input = createInterface({ input: process.stdin });
input.once('line', () => {
  input.close();
  main();
});
