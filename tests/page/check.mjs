// The page in Chromium, against two servers of `examples/page.rs`: one whose page only reads, and one whose page may write.

import assert from 'node:assert/strict';
import { Browser } from './chromium.mjs';

const [program, reading, writing, ...names] = process.argv.slice(2);
const browser = await Browser.start(program);
const failed = [];
let passed = 0;

/** A check on a page of its own, which must load nothing from elsewhere, open no dialog and report no error but `refusals`. */
async function check(name, { url = reading, hash = '/znodes/', refusals = 0, ...options }, work) {
  if (names.length && !names.some(part => name.includes(part))) return;
  const begun = Date.now();
  let page;
  try {
    page = await browser.open(`${url}/#${hash}`, options);
    await page.until("document.querySelector('#summary b')", 'the summary of the server');
    await work(page);
    assert.deepEqual(page.dialogs, [], 'dialogs of scripts');
    assert.deepEqual(page.requests.filter(to => !to.startsWith(`${url}/`)), [], 'requests to elsewhere');
    const problems = page.problems.filter(problem => !/status of 4\d\d/.test(problem));
    assert.deepEqual(problems, [], 'errors in the console');
    assert.ok(page.problems.length - problems.length <= refusals, page.problems.join('; '));
    assert.ok(!(await page.eval('document.title')).includes('run'), 'no name has run');
    passed += 1;
    console.log(`ok   ${name} (${Date.now() - begun} ms)`);
  } catch (error) {
    failed.push(name);
    console.log(`FAIL ${name}\n     ${String(error.stack).replaceAll('\n', '\n     ')}`);
  } finally {
    if (page) await browser.send('Target.closeTarget', { targetId: page.targetId }).catch(() => {});
  }
}

const text = selector => `document.querySelector(${JSON.stringify(selector)})?.textContent`;
const rows = "document.querySelectorAll('#tree .row').length";
const chosen = "document.querySelector('#znode [aria-current]')?.textContent";
const call = (name, body) => `fetch('api/${name}', { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Zoolet-Page': '1' }, body: ${JSON.stringify(JSON.stringify(body))} }).then(async r => [r.status, await r.json()])`;

/** From now on each answer with children waits in `held` for its call. */
const holdChildren = "(() => { const real = window.fetch; window.held = []; window.fetch = async (to, ...rest) => { const answer = await real(to, ...rest); if (to.startsWith('api/children')) await new Promise(done => held.push(done)); return answer; }; })()";

await check('a znode among 100,000 is found by a part of its name', { hash: '/znodes/big' }, async page => {
  await page.until("document.querySelector('#find-where').textContent === '/big'");
  await page.click('#find-text');
  await page.type('-09876');
  await page.key('Enter');
  await page.until("document.querySelector('#find-state').textContent.includes('among 100,000')");
  assert.equal(await page.eval("document.querySelectorAll('#found .row').length"), 10);
  await page.key('ArrowDown');
  await page.key('ArrowDown', 5);
  await page.key('Enter');
  await page.until(`${chosen} === 'node-098765'`);
});

await check('a list of 100,000 scrolls to its end, and only the rows in sight exist', { hash: '/znodes/big' }, async page => {
  await page.until("document.querySelector('#tree .row[aria-selected=\"true\"]')");
  await page.eval("document.querySelector('#tree').focus()");
  await page.key('ArrowRight');
  await page.until(`${rows} > 20`);
  const slow = await page.eval(`new Promise(resolve => {
    const tree = document.querySelector('#tree'); let longest = 0, last = performance.now(), frames = 0;
    const step = now => { longest = Math.max(longest, now - last); last = now; tree.scrollTop += 400; (frames += 1) < 120 ? requestAnimationFrame(step) : resolve(longest); };
    requestAnimationFrame(step);
  })`);
  assert.ok(slow < 400, `a frame took ${slow} ms`);
  assert.ok(await page.eval(rows) < 100, 'rows that exist');
  await page.key('End');
  await page.until("[...document.querySelectorAll('#tree .row')].some(row => row.textContent.includes('zookeeper'))");
  await page.key('PageUp');
  await page.until("[...document.querySelectorAll('#tree .row .name')].some(name => name.textContent === 'node-099999')", 'the last of them');
  assert.ok(await page.eval(rows) < 100, 'rows that exist');
});

await check('a znode that is closed and opened while its children come has all of them', { hash: '/znodes/big' }, async page => {
  const first = "[...document.querySelectorAll('#tree .name')].find(name => name.textContent.startsWith('node-'))?.textContent";
  await page.until("document.querySelector('#tree .row[aria-selected=\"true\"]')");
  await page.eval("document.querySelector('#tree').focus()");
  await page.key('ArrowRight');
  await page.until(`${first} === 'node-000000'`);
  await page.eval(holdChildren);
  await page.eval("document.querySelector('#tree').scrollTop = 1e6");
  await page.until('held.length === 1', 'the next children');
  await page.key('ArrowLeft');
  await page.key('ArrowRight');
  await page.eval("document.querySelector('#tree').scrollTop = 0");
  await page.eval('held[0]()');
  await page.until('held.length === 2', 'the first children again');
  await page.eval('held[1]()');
  await page.until(`${first} === 'node-000000'`, 'the first of them');
});

await check('the tree is used by keyboard alone, and shows where the focus is', {}, async page => {
  await page.until(`${rows} > 5`);
  await page.key('Tab');
  assert.equal(await page.eval('document.activeElement.textContent'), 'Skip to the content');
  for (let at = 0; at < 20 && await page.eval("document.activeElement.id !== 'tree'"); at += 1) await page.key('Tab');
  await page.key('Home');
  await page.key('ArrowDown', 2);
  await page.key('Enter');
  await page.until(`${chosen} === 'config'`);
  await page.key('ArrowRight', 2);
  await page.until("document.querySelector('#tree .row.active .name')?.textContent.startsWith('<img')");
  const outline = await page.eval("getComputedStyle(document.querySelector('#tree')).outlineStyle + getComputedStyle(document.querySelector('#tree .row.active')).boxShadow");
  assert.match(outline, /^solid.*inset/);
  assert.equal(await page.eval("document.getElementById(document.querySelector('#tree').getAttribute('aria-activedescendant')).classList.contains('active')"), true);
  await page.key('ArrowLeft', 2);
  await page.until("document.querySelector('#tree .row.active').getAttribute('aria-expanded') === 'false'");
});

await check('a lock queue shows who holds and the two that wait', { hash: '/locks' }, async page => {
  const queue = "[...document.querySelectorAll('.queue')].find(queue => queue.textContent.startsWith('/locks/ledger'))";
  await page.until(queue);
  assert.equal(await page.eval(`[...${queue}.querySelectorAll('tbody .badge')].map(badge => badge.textContent).join(' ')`), 'holds waits waits');
  assert.match(await page.eval(`${queue}.textContent`), /lock1 holds, 2 wait/);
  assert.ok(await page.eval(`[...${queue}.querySelectorAll('tbody tr')].every(row => /0x[0-9a-f]{4,}/.test(row.children[3].textContent) && /\\d s$/.test(row.children[2].textContent))`), 'token and time of each');
  await page.eval(`${queue}.querySelector('tbody a').click()`);
  await page.until("document.querySelector('#znode .tags')?.textContent.includes('ephemeral')");
});

await check('a write is followed live, and the filter selects', { hash: '/transactions' }, async page => {
  const body = "document.querySelector('#txn-rows')";
  await page.until(`${body}.childElementCount >= 2`);
  const first = await page.eval(`${body}.firstElementChild.textContent`);
  await page.until(`${body}.firstElementChild.textContent !== ${JSON.stringify(first)}`, 'a newer one', 5);
  await page.click('#txn-path');
  await page.type('/config/heart');
  await page.key('Tab');
  await page.until(`${body}.childElementCount >= 2 && [...${body}.children].every(row => row.textContent.includes('/config/heartbeat'))`);
  await page.click('#txn-pause');
  const paused = await page.eval(`${body}.firstElementChild.textContent`);
  await new Promise(resolve => setTimeout(resolve, 1500));
  assert.equal(await page.eval(`${body}.firstElementChild.textContent`), paused);
});

await check('a page that only reads refuses a write', { hash: '/znodes/config/app', refusals: 1 }, async page => {
  await page.until("document.querySelector('#mode').textContent === 'read-only' && document.querySelectorAll('#znode .buttons button').length === 3");
  assert.equal(await page.eval("[...document.querySelectorAll('#znode .buttons button')].every(button => button.disabled)"), true);
  const before = await page.eval("fetch('api/znode?path=/config/app').then(r => r.json())");
  const [status, { code }] = await page.eval(call('set', { path: '/config/app', data: '', version: 0 }));
  assert.deepEqual([status, code], [403, 'ReadOnly']);
  const after = await page.eval("fetch('api/znode?path=/config/app').then(r => r.json())");
  assert.deepEqual(after.stat, before.stat);
});

await check('znodes named like scripts, with data like scripts, do nothing', { hash: '/znodes/config' }, async page => {
  await page.until("document.querySelector('#tree .row[aria-selected=\"true\"]')");
  await page.eval("document.querySelector('#tree').focus()");
  await page.key('ArrowRight', 2);
  await page.until("document.querySelector('#tree .row.active .name')?.textContent.startsWith('<img')");
  await page.key('Enter');
  await page.until(`${chosen}?.startsWith('<img src=x onerror=')`);
  assert.equal(await page.until("document.querySelector('#znode pre')?.textContent"), "<script>document.title='run'</script>");
  await page.go('/locks');
  await page.until("document.querySelector('#locks').textContent.includes('<svg onload=')");
  await page.go('/sessions');
  await page.until("document.querySelector('#sessions tbody tr')");
  await page.eval("document.querySelectorAll('#sessions .twisted').forEach(button => button.click())");
  await page.until("document.querySelector('#sessions').textContent.includes('<svg onload=')");
  await page.go("/znodes/%3Cimg%20src%3Dx%20onerror%3Ddocument.title%3D'run'%3E");
  await page.until("document.querySelector('#znode .empty')");
  await new Promise(resolve => setTimeout(resolve, 300));
  assert.equal(await page.eval("document.querySelectorAll('main img, main script, main svg[onload]').length"), 0);
  page.problems = page.problems.filter(problem => !problem.includes('404'));
});

await check('the policy stops markup and scripts even if the page made some', {}, async page => {
  assert.match(await page.eval("(() => { try { document.body.innerHTML = '<b>x</b>'; return 'made'; } catch (error) { return error.name; } })()"), /TypeError/);
  await page.eval("(() => { const s = document.createElement('script'); try { s.text = \"document.title='run'\"; } catch { s.append(document.createTextNode(\"document.title='run'\")); } document.body.append(s); })()").catch(() => {});
  assert.ok(!(await page.eval('document.title')).includes('run'));
  page.problems = [];
});

await check('an identity reads what its ACL allows, and is forgotten with the page', { hash: '/znodes/secret', refusals: 4 }, async page => {
  await page.until("document.querySelector('#znode .empty')?.textContent.includes('ACL')");
  await page.click('#identity');
  await page.type('bob');
  await page.key('Tab');
  await page.type('secret');
  await page.key('Enter');
  await page.until("document.querySelector('#znode pre')?.textContent === 'of bob'");
  assert.equal(await page.eval(text('#identity')), 'digest:bob');
  assert.equal(await page.eval('localStorage.length + sessionStorage.length + document.cookie.length'), 0);
  assert.ok(!(await page.eval("document.documentElement.outerHTML + [...document.querySelectorAll('input')].map(input => `[${input.value}]`)")).match(/bob:secret|\[secret\]/), 'no password in the page');
  await page.send('Page.reload');
  await page.until("document.querySelector('#znode .empty')?.textContent.includes('ACL')");
});

await check('data is shown as text, as JSON with its numbers as they are, and as hex', { hash: '/znodes/config/app' }, async page => {
  await page.until("document.querySelector('#znode pre')?.textContent.includes('\"max\": 9007199254740993,')");
  await page.click('.tabs button:nth-child(3)');
  await page.until("document.querySelector('#znode pre.hex')?.textContent.startsWith('000000  7b 22 6e 61')");
  await page.go('/znodes/config/blob');
  await page.until("document.querySelector('#znode')?.textContent.includes('The first 64 KiB of 195 KiB.')");
  await page.go('/znodes/config/motd');
  await page.until("document.querySelector('#znode')?.textContent.includes('33 bytes')");
});

await check('JSON of many levels is shown, and not with as many blanks as it has levels', { url: writing, hash: '/znodes/config' }, async page => {
  const data = Buffer.from('['.repeat(16_000) + ']'.repeat(16_000)).toString('base64');
  assert.equal((await page.eval(call('create', { path: '/config/deep', data })))[0], 200);
  await page.go('/znodes/config/deep');
  await page.until("document.querySelector('#znode pre')?.textContent.startsWith('[\\n')");
  assert.ok(await page.eval("document.querySelector('#znode pre').textContent.length") < 2e6);
  assert.equal((await page.eval(call('delete', { path: '/config/deep', version: 0 })))[0], 200);
});

await check('a writable page creates, sets and deletes, and asks before it deletes', { url: writing, hash: '/znodes/config', refusals: 1 }, async page => {
  await page.until("document.querySelector('#mode').textContent === 'writable' && document.querySelector('#znode .buttons')");
  await page.click('#znode .buttons button:nth-child(2)');
  await page.type('made <b>here</b>');
  await page.key('Tab');
  await page.type('one');
  await page.click('#write-ok');
  await page.until(`${chosen} === 'made <b>here<' || document.querySelector('#write-problem').textContent`);
  // A slash is not allowed in a name; the dialog stays and says so.
  assert.match(await page.eval(text('#write-problem')), /no znode/);
  await page.eval("document.querySelector('#write-fields input').value = 'made <b>here'");
  await page.click('#write-ok');
  await page.until(`${chosen} === 'made <b>here'`);
  await page.until("document.querySelector('#znode pre')?.textContent === 'one'");
  await page.until("[...document.querySelectorAll('#tree .name')].some(name => name.textContent === 'made <b>here')", 'the new one in the tree');
  await page.click('#znode .buttons button:nth-child(1)');
  await page.key('End');
  await page.type(' two');
  await page.click('#write-ok');
  await page.until("document.querySelector('#znode pre')?.textContent === 'one two'");
  await page.click('#znode .buttons button:nth-child(3)');
  await page.until("document.querySelector('#write-dialog').open && document.querySelector('#write-fields').textContent.includes('version 1')");
  await page.key('Escape');
  assert.equal((await page.eval("fetch('api/znode?path=/config/made%20%3Cb%3Ehere').then(r => r.status)")), 200);
  await page.click('#znode .buttons button:nth-child(3)');
  await page.click('#write-ok');
  await page.until(`${chosen} === 'config'`);
  await page.until("![...document.querySelectorAll('#tree .name')].some(name => name.textContent.startsWith('made'))");
});

for (const order of [[0, 1], [1, 0]]) {
  await check(`of two looks at the same children that end as ${order} the later one counts`, { url: writing, hash: '/znodes/config' }, async page => {
    const named = name => `[...document.querySelectorAll('#tree .name')].some(name => name.textContent === '${name}')`;
    await page.until("document.querySelector('#znode .buttons') && document.querySelector('#tree .row[aria-selected=\"true\"]')");
    await page.eval("document.querySelector('#tree').focus()");
    await page.key('ArrowRight');
    await page.until(named('app'), 'the children');
    // Answers wait until both looks have begun: that of the refresh, and that of the dialog.
    await page.eval(holdChildren);
    assert.equal((await page.eval(call('create', { path: '/config/first', data: '' })))[0], 200);
    await page.until('held.length === 1', 'the look of the refresh');
    await page.click('#znode .buttons button:nth-child(2)');
    await page.type('second');
    await page.click('#write-ok');
    await page.until('held.length === 2', 'the look of the dialog');
    for (const at of order) {
      await page.eval(`held[${at}]()`);
      await page.until(named(['first', 'second'][at]), `what look ${at} has found`);
    }
    await page.until(`${chosen} === 'second'`);
    await page.eval('new Promise(done => setTimeout(done, 100))');
    assert.equal(await page.eval(`${named('first')} && ${named('second')}`), true, 'both');
    for (const name of ['first', 'second']) assert.equal((await page.eval(call('delete', { path: `/config/${name}`, version: 0 })))[0], 200);
  });
}

await check('children that cannot be loaded anew stay as they were, and the next look shows the new ones', { url: writing }, async page => {
  const named = name => `[...document.querySelectorAll('#tree .name')].some(name => name.textContent === '${name}')`;
  await page.until(`document.querySelector('#znode .buttons') && ${named('config')}`);
  await page.eval("document.querySelector('#tree').focus()");
  await page.key('ArrowDown', 2);
  await page.key('ArrowRight');
  await page.until(named('app'), 'the children of /config');
  await page.eval("window.real = window.fetch; window.fetch = (to, ...rest) => to.startsWith('api/children') ? Promise.reject(new TypeError('gone')) : real(to, ...rest)");
  assert.equal((await page.eval(call('create', { path: '/another', data: '' })))[0], 200);
  await page.until("document.querySelector('#tree .gap')?.textContent.includes('does not answer')", 'the problem');
  assert.equal(await page.eval(named('app')), true, 'the children of /config');
  await page.eval('window.fetch = real');
  assert.equal((await page.eval(call('create', { path: '/last', data: '' })))[0], 200);
  await page.until(`${named('last')} && ${named('another')} && ${named('app')} && !document.querySelector('#tree .gap')`, 'all of them');
  for (const name of ['another', 'last']) assert.equal((await page.eval(call('delete', { path: `/${name}`, version: 0 })))[0], 200);
});

await check('what somebody has changed meanwhile is not overwritten', { url: writing, hash: '/znodes/config/empty', refusals: 1 }, async page => {
  await page.until("document.querySelector('#mode').textContent === 'writable' && document.querySelector('#znode .buttons')");
  const { stat } = await page.eval("fetch('api/znode?path=/config/empty').then(r => r.json())");
  await page.click('#znode .buttons button:nth-child(1)');
  await page.type('ours');
  await page.eval(call('set', { path: '/config/empty', data: '', version: stat.version }));
  await page.click('#write-ok');
  await page.until("!document.querySelector('#write-problem').hidden");
  assert.match(await page.eval(text('#write-problem')), /version/);
});

await check('setting a text keeps its line ends', { url: writing, hash: '/znodes/config/empty' }, async page => {
  await page.until("document.querySelector('#mode').textContent === 'writable' && document.querySelector('#znode .buttons')");
  const ask = "fetch('api/znode?path=/config/empty').then(r => r.json())";
  const { stat } = await page.eval(ask);
  await page.eval(call('set', { path: '/config/empty', data: btoa('a\r\nb'), version: stat.version }));
  await page.until("document.querySelector('#znode pre')?.textContent.startsWith('a')");
  await page.click('#znode .buttons button:nth-child(1)');
  await page.click('#write-ok');
  await page.until("!document.querySelector('#write-dialog').open");
  const { data, stat: after } = await page.eval(ask);
  assert.deepEqual([atob(data.base64), after.version], ['a\r\nb', stat.version + 2]);
});

await check('a link to no view shows the tree, and one to no session all of them', { hash: '/constructor' }, async page => {
  await page.until("!document.querySelector('#view-znodes').hidden");
  await page.eval("location.hash = '#/sessions?0x' + 'f'.repeat(17)");
  await page.until("document.querySelector('#sessions table')", 'the sessions');
});

await check('load is plotted', { hash: '/load' }, async page => {
  await page.until("document.querySelectorAll('.plot .line').length >= 8", 'lines', 15);
  assert.ok(await page.eval("Number(document.querySelector('.plot b').textContent) > 0"), 'requests a second');
});

for (const dark of [false, true]) {
  await check(`texts have a contrast of 4.5 to 1 when it is ${dark ? 'dark' : 'light'}`, { hash: '/locks', dark }, async page => {
    await page.until("document.querySelector('.queue')");
    const low = await page.eval(`(() => {
      const rgb = text => text.match(/[\\d.]+/g).map(Number);
      const light = ([r, g, b]) => [r, g, b].map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }).reduce((sum, v, at) => sum + v * [.2126, .7152, .0722][at], 0);
      const back = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
      return [...document.querySelectorAll('header a, header button, #summary, #summary b, .badge, .soft, .queue a, .queue th, .queue td')].map(e => {
        const [a, b] = [light(rgb(getComputedStyle(e).color)), light(back(e))].sort((x, y) => y - x);
        return [(a + .05) / (b + .05), e.textContent.slice(0, 30)];
      }).filter(([ratio]) => ratio < 4.5);
    })()`);
    assert.deepEqual(low, []);
  });
}

await check('nothing is wider than a screen of 360 pixels', { width: 360, height: 720, refusals: 1 }, async page => {
  for (const hash of ['/znodes/', '/znodes/config/app', '/znodes/config/blob', '/sessions', '/locks', '/transactions', '/load', '/znodes/secret']) {
    await page.go(hash);
    await new Promise(resolve => setTimeout(resolve, 700));
    assert.ok(await page.eval("document.documentElement.scrollWidth <= 360 && document.querySelector('main').scrollWidth <= 360"), hash);
  }
});

await browser.close();
console.log(`${passed} checks passed, ${failed.length} failed${failed.length ? `: ${failed.join('; ')}` : ''}`);
process.exit(failed.length ? 1 : 0);
