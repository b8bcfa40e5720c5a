'use strict';
// Checks, waiting, and the proxy's control port.

const net = require('net');
const { isDeepStrictEqual, inspect } = require('util');

const PATIENCE_MS = 10000;
let failed = 0;

/** One check: whatever is thrown in the block makes it fail, and the script goes on. */
async function check(what, block) {
  try {
    await block();
    console.log(`ok ${what}`);
  } catch (error) {
    failed += 1;
    console.log(`not ok ${what}: ${String(error && error.message || error).replace(/\n/g, ' ')}`);
    console.log(error && error.stack);
  }
}

function hold(what, condition) {
  if (!condition) throw new Error(`not so: ${what}`);
}

function equal(got, expected) {
  if (!isDeepStrictEqual(got, expected)) throw new Error(`got ${inspect(got)}, expected ${inspect(expected)}`);
}

/** The promise has to be refused with this code. */
async function refused(code, promise) {
  let error;
  try {
    await promise;
  } catch (thrown) {
    error = thrown;
  }
  if (!error || error.code !== code) throw new Error(`refused with ${error && (error.code || error)}, expected ${code}`);
}

async function eventually(what, condition) {
  const deadline = Date.now() + PATIENCE_MS;
  while (!await condition()) {
    if (Date.now() > deadline) throw new Error(`still not so: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function inTime(what, promise) {
  let timer;
  const late = new Promise((resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`did not happen in time: ${what}`)), PATIENCE_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Has the proxy obey a command. */
function control(command) {
  const [host, port] = process.env.ZK_CONTROL.split(':');
  return inTime(`the proxy's answer to ${command}`, new Promise((resolve, reject) => {
    const socket = net.connect(Number(port), host, () => socket.write(`${command}\n`));
    socket.on('error', reject);
    socket.on('data', (answer) => {
      socket.destroy();
      answer.toString().startsWith('ok') ? resolve() : reject(new Error(`the proxy answered ${answer} to ${command}`));
    });
  }));
}

function finish() {
  process.exit(failed > 0 ? 1 : 0);
}

module.exports = { check, hold, equal, refused, eventually, inTime, control, finish };
