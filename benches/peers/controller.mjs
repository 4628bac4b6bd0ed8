// A writer by npm claude-code-controller, which appends to an inbox under its own locking. Speaks as lockfile.mjs does.
import { mkdirSync, symlinkSync } from 'node:fs';
import { createInterface } from 'node:readline';

const [root, writer, messages] = process.argv.slice(2);
// It knows only ~/.claude, and looks it up when it is loaded.
const home = `${root}/home-${writer}`;
mkdirSync(home, { recursive: true });
try {
  symlinkSync(`${root}/claude`, `${home}/.claude`);
} catch {
  // It is there.
}
process.env.HOME = home;
const { writeInbox } = await import('claude-code-controller');

async function main() {
  let errors = 0;
  let out = '';
  for (let i = 0; i < Number(messages); i++) {
    const text = `message ${i} of writer ${writer}: the build is green and the tests of the parser pass; what is next?`;
    const start = process.hrtime.bigint();
    try {
      await writeInbox('bench', 'bob', { from: 'team-lead', text, timestamp: new Date().toISOString() });
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
