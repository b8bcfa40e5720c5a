// The pictures of docs/page.md.

import { writeFileSync } from 'node:fs';
import { Browser } from './chromium.mjs';

const [program, url, folder] = process.argv.slice(2);
const browser = await Browser.start(program);

async function picture(name, hash, ready, { act = async () => {}, wait = 300, ...options } = {}) {
  const page = await browser.open(`${url}/#${hash}`, { height: 720, ...options });
  await page.until(ready);
  await act(page);
  await new Promise(resolve => setTimeout(resolve, wait));
  writeFileSync(`${folder}/${name}.png`, await page.picture());
  await browser.send('Target.closeTarget', { targetId: page.targetId });
}

const znode = "document.querySelector('#znode pre')?.textContent.includes('orders') && document.querySelectorAll('#tree .row').length > 8";
try {
  await picture('znode', '/znodes/config/app', znode);
  await picture('znode-dark', '/znodes/config/app', znode, { dark: true });
  await picture('found', '/znodes/big', "document.querySelector('#find-where').textContent === '/big'", {
    async act(page) {
      await page.click('#find-text');
      await page.type('9999');
      await page.key('Enter');
      await page.until("document.querySelector('#find-state').textContent.includes('among 100,000')");
      await page.key('ArrowDown');
      await page.key('ArrowDown', 2);
      await page.key('Enter');
      await page.until("document.querySelector('#znode [aria-current]')?.textContent === 'node-029999'");
    },
  });
  await picture('locks', '/locks', "document.querySelectorAll('.queue').length > 3", { height: 900 });
  await picture('sessions', '/sessions', "document.querySelector('#sessions tbody tr')", { height: 420, wait: 800, act: page => page.click('#sessions tbody tr:nth-child(3) button') });
  await picture('transactions', '/transactions', "document.querySelectorAll('#txn-rows tr').length > 11", { height: 620 });
  await picture('load', '/load', "document.querySelectorAll('.plot').length > 5", { wait: 64_000, height: 690 });
  await picture('narrow-tree', '/znodes/', "document.querySelectorAll('#tree .row').length > 8", { width: 360, height: 640, act: page => page.click('#tree .row:nth-child(3) .twist') });
} finally {
  await browser.close();
}
