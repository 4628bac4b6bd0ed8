// The foreign party of scripts/chaos, by the real npm proper-lockfile. Usage: node party.cjs MODULES INBOX VERB
//   write: appends what it is given, one JSON entry a line, as the original does; answers "ok" or "failed CODE" a line.
//   own: delivers as the original does: reads without the lock, prints each unread entry as one JSON line, then removes
//        from the file, under the lock, what it has printed. Ends when its input has ended and nothing is left.
'use strict';
const { createRequire } = require('node:module');
const { randomBytes } = require('node:crypto');
const fs = require('node:fs');
const readline = require('node:readline');
const [modules, target, verb] = process.argv.slice(2);
const lockfile = createRequire(`${modules}/package.json`)('proper-lockfile');
const options = { realpath: false, retries: { retries: 400, minTimeout: 5, maxTimeout: 100 } };
const read = () => JSON.parse(fs.readFileSync(target, 'utf8'));

async function change(edit) {
  const release = await lockfile.lock(target, options);
  try {
    const temporary = `${target}.tmp.${randomBytes(4).toString('hex')}`;
    fs.writeFileSync(temporary, JSON.stringify(edit(read()), null, 2));
    fs.renameSync(temporary, target);
  } finally {
    await release();
  }
}

async function write() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const entry = JSON.parse(line);
    await change((all) => [...all, entry]).then(() => console.log('ok'), (e) => console.log(`failed ${e.code}`));
  }
}

async function own() {
  let ends = false;
  process.stdin.resume().on('end', () => (ends = true));
  // Printed, and not yet gone from the file.
  let held = new Set();
  const key = (e) => `${e.from}|${e.timestamp}|${e.text}`;
  for (;;) {
    const wasEnding = ends;
    const all = read();
    for (const entry of all.filter((e) => !e.read && !held.has(key(e)))) {
      held.add(key(entry));
      console.log(JSON.stringify(entry));
    }
    if (all.length > 0) {
      await change((now) => now.filter((e) => !e.read && !held.has(key(e)))).then(() => (held = new Set()), () => {});
    } else if (wasEnding) {
      return;
    }
    await new Promise((done) => setTimeout(done, 20));
  }
}

(verb === 'write' ? write() : own()).catch((e) => {
  console.error(`party: ${e.stack}`);
  process.exit(1);
});
