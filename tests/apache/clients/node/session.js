'use strict';
// node-zookeeper-client with promises in place of callbacks.

const zookeeper = require('node-zookeeper-client');
const { inTime } = require('./checks');

class Session {
  constructor(hosts, sessionTimeout = 6000, options = {}) {
    this.client = zookeeper.createClient(hosts, { sessionTimeout, spinDelay: 50, retries: 0, ...options });
    this.states = [];
    this.client.on('state', (state) => this.states.push(state.name));
  }

  static async open(hosts, sessionTimeout, options) {
    const session = new Session(hosts, sessionTimeout, options);
    const connected = session.once('connected');
    session.client.connect();
    await connected;
    return session;
  }

  once(event) {
    return inTime(event, new Promise((resolve) => this.client.once(event, resolve)));
  }

  /** Calls an operation; several results come as an array. */
  call(operation, ...args) {
    return inTime(`${operation} ${args[0]}`, new Promise((resolve, reject) => {
      this.client[operation](...args, (error, ...results) => {
        error ? reject(error) : resolve(results.length > 1 ? results : results[0]);
      });
    }));
  }

  /** Calls an operation that takes a watcher; returns its results and a promise of the event, as text. */
  async watch(operation, path) {
    let told;
    const event = new Promise((resolve) => { told = resolve; });
    const result = await this.call(operation, path, (got) => told(`${got.getName()} ${got.getPath()}`));
    return { result, event: () => inTime(`an event of ${path}`, event) };
  }

  commit(transaction) {
    return inTime('the transaction', new Promise((resolve, reject) => {
      transaction.commit((error, results) => (error ? reject(Object.assign(error, { results })) : resolve(results)));
    }));
  }

  get id() {
    return this.client.getSessionId().toString('hex');
  }

  async close() {
    const closed = this.once('disconnected');
    this.client.close();
    await closed;
  }
}

module.exports = { Session };
