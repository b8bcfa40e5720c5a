'use strict';
// node-zookeeper-client against a server: see ../README.md.

const { ACL, CreateMode, Exception, Id, Permission } = require('node-zookeeper-client');
const { check, control, equal, eventually, finish, hold, refused } = require('./checks');
const { Session } = require('./session');

const HOSTS = process.env.ZK_HOSTS + process.env.ZK_ROOT;    // through the proxy
const DIRECT = process.env.ZK_DIRECT + process.env.ZK_ROOT;  // past it
const X = Buffer.from('x');

async function main() {
  const all = await Session.open(process.env.ZK_DIRECT);
  await all.call('create', process.env.ZK_ROOT);
  await all.close();
  const zk = await Session.open(HOSTS);
  const outside = await Session.open(DIRECT, 20000);
  await modes(zk);
  await operations(zk);
  await transactions(zk);
  await permissions(zk);
  await watches(zk, outside);
  await reconnect(zk, outside);
  await lock(zk);
  await expiry(outside);
  await closing(zk, outside);
  finish();
}

async function modes(zk) {
  await zk.call('create', '/modes');
  const owner = async (path) => (await zk.call('exists', path)).ephemeralOwner.toString('hex');
  await check('create persistent', async () => {
    equal(await zk.call('create', '/modes/p', X), '/modes/p');
    equal(await owner('/modes/p'), '0000000000000000');
  });
  await check('create ephemeral', async () => {
    await zk.call('create', '/modes/e', CreateMode.EPHEMERAL);
    equal(await owner('/modes/e'), zk.id);
  });
  await check('create persistent sequential', async () => {
    equal(await zk.call('create', '/modes/s-', CreateMode.PERSISTENT_SEQUENTIAL), '/modes/s-0000000002');
  });
  await check('create ephemeral sequential', async () => {
    equal(await zk.call('create', '/modes/es-', CreateMode.EPHEMERAL_SEQUENTIAL), '/modes/es-0000000003');
    equal(await owner('/modes/es-0000000003'), zk.id);
  });
  await check('create with parents', async () => {
    await zk.call('mkdirp', '/modes/a/b/c');
    hold('made', await zk.call('exists', '/modes/a/b/c'));
  });
  await check('create refused: exists, no parent, below an ephemeral', async () => {
    await refused(Exception.NODE_EXISTS, zk.call('create', '/modes/p'));
    await refused(Exception.NO_NODE, zk.call('create', '/modes/none/x'));
    await refused(Exception.NO_CHILDREN_FOR_EPHEMERALS, zk.call('create', '/modes/e/x'));
  });
}

async function operations(zk) {
  await check('get and set, right and wrong version', async () => {
    await zk.call('create', '/data', X);
    const [data, stat] = await zk.call('getData', '/data');
    equal([data.toString(), stat.version], ['x', 0]);
    equal((await zk.call('setData', '/data', Buffer.from('three'), 0)).version, 1);
    equal((await zk.call('getData', '/data'))[0].toString(), 'three');
    await refused(Exception.BAD_VERSION, zk.call('setData', '/data', X, 7));
    await refused(Exception.NO_NODE, zk.call('setData', '/none', X));
  });
  await check('no data, and half a megabyte', async () => {
    await zk.call('create', '/data/none');
    const [data, stat] = await zk.call('getData', '/data/none');
    equal([data, stat.dataLength], [undefined, 0]);
    const much = Buffer.alloc(500000, 7);
    await zk.call('setData', '/data', much);
    hold('the same came back', much.equals((await zk.call('getData', '/data'))[0]));
  });
  await check('exists reports missing znodes', async () => equal(await zk.call('exists', '/none'), null));
  await check('children', async () => {
    await zk.call('create', '/tree');
    await zk.call('create', '/tree/a');
    await zk.call('create', '/tree/b');
    const [names, stat] = await zk.call('getChildren', '/tree');
    equal([names.sort(), stat.numChildren], [['a', 'b'], 2]);
    equal((await zk.call('listSubTreeBFS', '/tree')).sort(), ['/tree', '/tree/a', '/tree/b']);
    await refused(Exception.NO_NODE, zk.call('getChildren', '/none'));
  });
  await check('delete, and delete refused: missing, wrong version, children', async () => {
    await refused(Exception.NOT_EMPTY, zk.call('remove', '/tree'));
    await refused(Exception.BAD_VERSION, zk.call('remove', '/tree/a', 3));
    await zk.call('remove', '/tree/a', 0);
    await refused(Exception.NO_NODE, zk.call('remove', '/tree/a'));
    await zk.call('removeRecursive', '/tree');
    equal(await zk.call('exists', '/tree'), null);
  });
  await check('five hundred creates on their way at once', async () => {
    await zk.call('create', '/many');
    const paths = Array.from({ length: 500 }, (_, i) => `/many/${i}`);
    equal(await Promise.all(paths.map((path) => zk.call('create', path))), paths);
  });
}

async function transactions(zk) {
  await check('transaction: all kinds succeed', async () => {
    const results = await zk.commit(zk.client.transaction()
      .create('/tx', X)
      .create('/tx/s-', CreateMode.PERSISTENT_SEQUENTIAL)
      .create('/tx/e', CreateMode.EPHEMERAL)
      .setData('/tx', Buffer.from('y'))
      .check('/tx', 1)
      .remove('/tx/s-0000000000'));
    equal(results.length, 6);
    equal(results[3].stat.version, 1);
    equal((await zk.call('getChildren', '/tx'))[0], ['e']);
  });
  await check('transaction: one failure undoes all, an error for each operation', async () => {
    const attempt = zk.commit(zk.client.transaction().create('/tx/never').check('/tx', 9).remove('/tx/e'));
    await refused(Exception.BAD_VERSION, attempt);
    await attempt.catch((error) => equal(error.results.map((result) => result.err), [0, Exception.BAD_VERSION, -2]));
    equal(await zk.call('exists', '/tx/never'), null);
  });
}

async function permissions(zk) {
  const bobOnly = [new ACL(Permission.ALL, new Id('digest', 'bob:ikIaKsbtGweaHnb/jKn7OHqbunM='))];
  const plain = (acls) => acls.map((acl) => [acl.permission, acl.id.scheme, acl.id.id]);
  await check('get and set ACL, right and wrong version', async () => {
    await zk.call('create', '/acl', X);
    const [acls, stat] = await zk.call('getACL', '/acl');
    equal([plain(acls), stat.aversion], [[[31, 'world', 'anyone']], 0]);
    await refused(Exception.BAD_VERSION, zk.call('setACL', '/acl', bobOnly, 7));
    await refused(Exception.INVALID_ACL,
      zk.call('setACL', '/acl', [new ACL(Permission.ALL, new Id('nonsense', 'x'))]));
    equal((await zk.call('setACL', '/acl', bobOnly, 0)).aversion, 1);
  });
  await check('digest: denied without', async () => {
    await refused(Exception.NO_AUTH, zk.call('getData', '/acl'));
    await refused(Exception.NO_AUTH, zk.call('setData', '/acl', X));
    await refused(Exception.NO_AUTH, zk.call('create', '/acl/x'));
    await refused(Exception.NO_AUTH, zk.call('setACL', '/acl', ACL.OPEN_ACL_UNSAFE));
  });
  const bob = await Session.open(HOSTS);
  await check('digest: allowed with addAuthInfo', async () => {
    bob.client.addAuthInfo('digest', Buffer.from('bob:pw'));
    equal((await bob.call('getData', '/acl'))[0].toString(), 'x');
    equal(plain((await bob.call('getACL', '/acl'))[0]), plain(bobOnly));
  });
  await check('auth scheme: the creator\'s own id', async () => {
    await bob.call('create', '/acl-auth', ACL.CREATOR_ALL_ACL);
    equal(plain((await bob.call('getACL', '/acl-auth'))[0]), plain(bobOnly));
  });
  await check('digest: allowed after a reconnect', async () => {
    const again = bob.once('connected');
    await control('cut');
    await again;
    equal((await bob.call('getData', '/acl'))[0].toString(), 'x');
  });
  await bob.close();
  await check('auth with an unknown scheme fails', async () => {
    const other = await Session.open(HOSTS);
    const failed = other.once('authenticationFailed');
    other.client.addAuthInfo('nonsense', X);
    await failed;
  });
}

async function watches(zk, outside) {
  await outside.call('create', '/w');
  await check('watch: data changed, deleted', async () => {
    const data = await zk.watch('getData', '/w');
    await outside.call('setData', '/w', X);
    equal(await data.event(), 'NODE_DATA_CHANGED /w');
    const again = await zk.watch('getData', '/w');
    await outside.call('remove', '/w');
    equal(await again.event(), 'NODE_DELETED /w');
  });
  await check('watch: exists, created', async () => {
    const exists = await zk.watch('exists', '/w');
    equal(exists.result, null);
    await outside.call('create', '/w');
    equal(await exists.event(), 'NODE_CREATED /w');
  });
  await check('watch: children', async () => {
    const children = await zk.watch('getChildren', '/w');
    await outside.call('create', '/w/c');
    equal(await children.event(), 'NODE_CHILDREN_CHANGED /w');
    const again = await zk.watch('getChildren', '/w');
    await outside.call('remove', '/w/c');
    equal(await again.event(), 'NODE_CHILDREN_CHANGED /w');
  });
}

async function reconnect(zk, outside) {
  const { id } = zk;
  await zk.call('create', '/live');
  await zk.call('create', '/live/mine', CreateMode.EPHEMERAL);
  await zk.call('create', '/live/quiet');
  const data = await zk.watch('getData', '/live');
  const children = await zk.watch('getChildren', '/live');
  const created = await zk.watch('exists', '/live/new');
  const quiet = await zk.watch('exists', '/live/quiet');
  await check('reconnect: same session', async () => {
    const cut = zk.once('disconnected');
    const again = zk.once('connected');
    await control('refuse');
    await cut;
    await outside.call('setData', '/live', X);
    await outside.call('create', '/live/new');
    await control('heal');
    await again;
    equal(zk.id, id);
  });
  await check('reconnect: ephemeral still there', async () => {
    equal((await outside.call('exists', '/live/mine')).ephemeralOwner.toString('hex'), id);
  });
  await check('reconnect: watches report what happened while away', async () => {
    equal(await data.event(), 'NODE_DATA_CHANGED /live');
    equal(await children.event(), 'NODE_CHILDREN_CHANGED /live');
    equal(await created.event(), 'NODE_CREATED /live/new');
  });
  await check('reconnect: other watches are armed again', async () => {
    await outside.call('setData', '/live/quiet', X);
    equal(await quiet.event(), 'NODE_DATA_CHANGED /live/quiet');
  });
}

// The lock of ZooKeeper's recipes page: each contender waits for the one before it.
async function acquire(session) {
  const mine = await session.call('create', '/lock/c-', CreateMode.EPHEMERAL_SEQUENTIAL);
  for (;;) {
    const [names] = await session.call('getChildren', '/lock');
    const place = names.sort().indexOf(mine.slice('/lock/'.length));
    if (place === 0) return mine;
    const before = await session.watch('exists', `/lock/${names[place - 1]}`);
    if (before.result) await before.event();
  }
}

async function lock(zk) {
  await check('lock: five contenders, one at a time', async () => {
    await zk.call('create', '/lock');
    let inside = 0;
    let held = 0;
    await Promise.all(Array.from({ length: 5 }, async () => {
      const session = await Session.open(HOSTS);
      for (let i = 0; i < 10; i += 1) {
        const mine = await acquire(session);
        inside += 1;
        equal(inside, 1);
        await session.call('getData', mine);
        held += 1;
        inside -= 1;
        await session.call('remove', mine);
      }
      await session.close();
    }));
    equal(held, 50);
  });
}

async function expiry(outside) {
  const brief = await Session.open(HOSTS, 1000);
  await brief.call('create', '/expiring', CreateMode.EPHEMERAL);
  await check('expiry: the ephemeral goes, others are notified', async () => {
    const gone = await outside.watch('exists', '/expiring');
    await control('refuse');
    equal(await gone.event(), 'NODE_DELETED /expiring');
    equal(await outside.call('exists', '/expiring'), null);
  });
  await check('expiry: the client sees it', async () => {
    const expired = brief.once('expired');
    await control('heal');
    await expired;
  });
  await check('expiry: the old session cannot be taken up again', async () => {
    const revenant = new Session(DIRECT, 6000, {
      sessionId: brief.client.getSessionId(), sessionPassword: brief.client.getSessionPassword(),
    });
    const expired = revenant.once('expired');
    revenant.client.connect();
    await expired;
  });
}

async function closing(zk, outside) {
  await check('close: the session\'s ephemerals go at once', async () => {
    await eventually('connected', () => zk.states[zk.states.length - 1] === 'SYNC_CONNECTED');
    hold('there', await outside.call('exists', '/live/mine'));
    await zk.close();
    equal(await outside.call('exists', '/live/mine'), null);
  });
}

main().catch((error) => {
  console.log(`not ok script: ${error.message}`, error.stack);
  process.exit(1);
});
