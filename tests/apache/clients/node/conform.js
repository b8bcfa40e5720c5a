'use strict';
// A program for `zoolet conform --client`: see ../conform.py.

const { promisify } = require('util');
const zookeeper = require('node-zookeeper-client');

const { ZOOKEEPER, ZOOKEEPER_SCENARIO, ZOOKEEPER_SECONDS, ZOOKEEPER_PATH } = process.env;
const SCENARIO = ZOOKEEPER_SCENARIO;
const MILLIS = Number(ZOOKEEPER_SECONDS) * 1000;

const pause = promisify(setTimeout);
const ignore = () => {};

let isExpired;

/** A client whose session is lost is of no more use; there is a new one for each session. */
function connect() {
  isExpired = false;
  return new Promise((resolve) => {
    const client = zookeeper.createClient(ZOOKEEPER, { sessionTimeout: 10000, spinDelay: 100 });
    client.once('expired', () => { isExpired = true; });
    client.once('connected', () => {
      client.addAuthInfo('digest', Buffer.from('conform:secret'));
      resolve(client);
    });
    client.connect();
  });
}

let client;
const call = (operation, ...args) => new Promise((resolve, reject) => {
  client[operation](...args, (error, result) => (error ? reject(error) : resolve(result)));
});

async function retry(operation) {
  for (const limit = Date.now() + 30000; ;) {
    try {
      return await operation();
    } catch (error) {
      if (Date.now() > limit) {
        throw error;
      }
      if (isExpired) {
        client = await connect();
      }
      await pause(100);
    }
  }
}

async function main() {
  client = await connect();
  await call('create', '/app', null, zookeeper.CreateMode.PERSISTENT);
  await call('create', '/app/watched', null, zookeeper.CreateMode.PERSISTENT);
  await call('create', '/app/lock', null, zookeeper.CreateMode.PERSISTENT);
  await retry(() => call('getData', '/app/watched', ignore));
  await retry(() => call('getChildren', '/app/watched', ignore));
  await retry(() => call('exists', '/app/absent', ignore));
  if (SCENARIO === 'many-watches') {
    for (let number = 0; number < 1300; number += 1) {
      await retry(() => call('exists', `/app/${'x'.repeat(900)}-${number}`, ignore));
    }
  } else if (SCENARIO === 'large-replies' || SCENARIO === 'empty-replies') {
    await call('getData', `${ZOOKEEPER_PATH}/data`);
    await call('getChildren', `${ZOOKEEPER_PATH}/children`);
  } else if (SCENARIO === 'idle') {
    await pause(MILLIS);
  }
  for (const end = Date.now() + MILLIS; Date.now() < end;) {
    await retry(async () => {
      const ticket = await call('create', '/app/lock/ticket-', null, zookeeper.CreateMode.EPHEMERAL_SEQUENTIAL);
      await call('setData', '/app', Buffer.from('x'));
      await call('remove', ticket, -1);
    });
    await pause(100);
  }
  client.once('disconnected', () => process.exit(0));
  client.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
