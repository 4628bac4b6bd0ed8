// The other party of a lock, by the real npm proper-lockfile. Usage: node lockfile_party.cjs MODULES TARGET VERB
//   hold: locks, says "held", and releases when its standard input ends.
//   append N FROM: appends N messages one by one as the original does, and says how many were written.
'use strict';
const { createRequire } = require('node:module');
const { randomBytes, randomUUID } = require('node:crypto');
const fs = require('node:fs');
const [modules, target, verb, count, from] = process.argv.slice(2);
const lockfile = createRequire(`${modules}/package.json`)('proper-lockfile');
// The original's retry figures, but more of them: here it is the other party that is tested.
const options = { realpath: false, retries: { retries: 200, minTimeout: 5, maxTimeout: 100 } };

async function hold() {
  const release = await lockfile.lock(target, { ...options, onCompromised: (e) => console.log(`compromised ${e.code}`) });
  console.log('held');
  process.stdin.resume();
  process.stdin.on('end', async () => {
    await release().then(() => console.log('released'), (e) => console.log(`not released ${e.code}`));
    process.exit(0);
  });
}

async function append() {
  let written = 0;
  for (let i = 0; i < Number(count); i++) {
    const release = await lockfile.lock(target, options);
    const entries = JSON.parse(fs.readFileSync(target, 'utf8'));
    entries.push({ from, text: `${from} ${i}`, timestamp: new Date().toISOString(), msg_id: randomUUID(), read: false });
    const temporary = `${target}.tmp.${randomBytes(4).toString('hex')}`;
    fs.writeFileSync(temporary, JSON.stringify(entries, null, 2));
    fs.renameSync(temporary, target);
    await release();
    written++;
  }
  console.log(`written ${written}`);
}

(verb === 'hold' ? hold() : append()).catch((e) => {
  console.log(`failed ${e.code}`);
  process.exit(1);
});
