// A node that waits for its program: required before the program is looked up, in the process that will run it.
//
// It says that it waits, blocks until it is told of its program, makes the process what a start with these arguments
// and variables would have made it, and returns. Descriptor 3 is a socket: one byte says that this waits; what comes is
// fields that each end with a NUL (is there standard input; the number of arguments; these; the environment).
// Descriptor 4 is the pipe for standard input.
'use strict';

// Workers run this too, long after.
if (process.env.BELLJAR_WARM === '1' && require('worker_threads').isMainThread) {
  const fs = require('fs');
  const CHANNEL = 3;
  const STDIN = 4;

  // A function of its own, so that nothing of it is left. Any failure ends the process without a word: whoever waits
  // for it sees the end, and starts a new one.
  (() => {
    let message;
    try {
      delete process.env.BELLJAR_WARM;
      delete process.env.NODE_OPTIONS;
      fs.writeSync(CHANNEL, 'r');
      const chunks = [];
      for (;;) {
        const chunk = Buffer.allocUnsafeSlow(65536);
        const count = fs.readSync(CHANNEL, chunk);
        if (count === 0) break;
        chunks.push(chunk.subarray(0, count));
      }
      message = Buffer.concat(chunks).toString('utf8');
      if (message === '') process.reallyExit(0);
      fs.closeSync(CHANNEL);
      const [stdin, count, ...fields] = message.split('\0');
      if (stdin === '1') {
        // There is no dup2: what is opened next gets the number 0.
        fs.closeSync(0);
        fs.openSync(`/proc/self/fd/${STDIN}`, 'r');
      }
      fs.closeSync(STDIN);
      const args = fields.slice(0, Number(count));
      const env = fields.slice(Number(count), -1).map((field) => {
        const at = field.indexOf('=');
        return [field.slice(0, at), field.slice(at + 1)];
      });
      const current = Object.entries(process.env);
      if (current.length !== env.length || current.some(([n, v], at) => n !== env[at][0] || v !== env[at][1])) {
        for (const [name] of current) delete process.env[name];
        for (const [name, value] of env) process.env[name] = value;
      }
      process.argv.push(...args);
    } catch {
      process.reallyExit(1);
    }
  })();
}
delete require.cache[__filename];
