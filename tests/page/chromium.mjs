// Chromium without a window, driven by its own protocol over a pipe: no package is needed.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export class Browser {
  static async start(program) {
    const browser = new Browser();
    browser.profile = mkdtempSync(join(tmpdir(), 'zoolet-page-'));
    browser.process = spawn(program, [
      '--headless=new', '--remote-debugging-pipe', '--no-first-run', '--no-default-browser-check', '--disable-gpu',
      // As root, in a container, there is no sandbox to be had. The page is ours.
      '--no-sandbox', '--disable-dev-shm-usage', `--user-data-dir=${browser.profile}`, '--hide-scrollbars', '--force-color-profile=srgb', 'about:blank',
    ], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
    browser.process.on('error', error => browser.fail(error));
    browser.process.on('exit', code => browser.fail(new Error(`chromium has ended with ${code}`)));
    browser.calls = new Map();
    browser.listeners = [];
    browser.next = 1;
    let rest = '';
    browser.process.stdio[4].setEncoding('utf8').on('data', data => {
      const messages = (rest + data).split('\0');
      rest = messages.pop();
      for (const message of messages) browser.take(JSON.parse(message));
    });
    return browser;
  }

  fail(error) {
    for (const { reject } of this.calls.values()) reject(error);
    this.calls.clear();
  }

  take(message) {
    const call = this.calls.get(message.id);
    if (call) {
      this.calls.delete(message.id);
      if (message.error) call.reject(new Error(`${call.method}: ${message.error.message}`));
      else call.resolve(message.result);
    }
    for (const listener of this.listeners) listener(message);
  }

  send(method, params = {}, sessionId = undefined) {
    const id = this.next++;
    this.process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((resolve, reject) => this.calls.set(id, { resolve, reject, method }));
  }

  async open(url, { width = 1280, height = 800, dark = false } = {}) {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    const page = new Page(this, targetId, sessionId);
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await page.send(`${domain}.enable`);
    await page.resize(width, height);
    await page.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }, { name: 'prefers-reduced-motion', value: 'reduce' }] });
    await page.send('Page.navigate', { url });
    return page;
  }

  async close() {
    const ended = new Promise(resolve => this.process.once('exit', resolve));
    await this.send('Browser.close').catch(() => this.process.kill());
    await ended;
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

class Page {
  constructor(browser, targetId, sessionId) {
    Object.assign(this, { browser, targetId, sessionId, problems: [], dialogs: [], requests: [] });
    browser.listeners.push(({ sessionId: of, method, params }) => {
      if (of !== sessionId) return;
      if (method === 'Runtime.exceptionThrown') this.problems.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
      if (method === 'Log.entryAdded' && params.entry.level === 'error') this.problems.push(`${params.entry.text} ${params.entry.url ?? ''}`);
      if (method === 'Network.requestWillBeSent') this.requests.push(params.request.url);
      if (method === 'Page.javascriptDialogOpening') {
        this.dialogs.push(params.message);
        this.send('Page.handleJavaScriptDialog', { accept: false });
      }
    });
  }

  send(method, params) { return this.browser.send(method, params, this.sessionId); }

  resize(width, height) {
    return this.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false });
  }

  /** The value of an expression, or of the promise that it is. */
  async eval(expression) {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }

  /** Waits until an expression is true, and returns its value. */
  async until(expression, what = expression, seconds = 20) {
    const end = Date.now() + seconds * 1000;
    for (;;) {
      const value = await this.eval(expression).catch(error => { if (Date.now() > end) throw error; return null; });
      if (value) return value;
      if (Date.now() > end) {
        const text = await this.eval('document.body?.innerText').catch(() => '');
        throw new Error(`never within ${seconds} s: ${what}\n--- the page:\n${text}\n--- problems: ${this.problems.join('; ')}`);
      }
      await new Promise(resolve => setTimeout(resolve, 50));
    }
  }

  async key(key, count = 1) {
    const codes = { Enter: 13, Escape: 27, Tab: 9, ArrowLeft: 37, ArrowUp: 38, ArrowRight: 39, ArrowDown: 40, Home: 36, End: 35, PageUp: 33, PageDown: 34, ' ': 32 };
    for (let done = 0; done < count; done += 1) {
      const event = { key, code: key === ' ' ? 'Space' : key, windowsVirtualKeyCode: codes[key], text: key === 'Enter' ? '\r' : key === ' ' ? ' ' : undefined };
      await this.send('Input.dispatchKeyEvent', { type: event.text ? 'keyDown' : 'rawKeyDown', ...event });
      await this.send('Input.dispatchKeyEvent', { type: 'keyUp', ...event, text: undefined });
    }
  }

  type(text) { return this.send('Input.insertText', { text }); }

  /** Clicks into the middle of the first element that fits. */
  async click(selector) {
    const at = await this.until(`(() => { const e = document.querySelector(${JSON.stringify(selector)}); if (!e) return null; e.scrollIntoView({ block: 'nearest' }); const r = e.getBoundingClientRect(); return r.width ? { x: r.x + r.width / 2, y: r.y + r.height / 2 } : null; })()`, `an element ${selector}`);
    for (const type of ['mousePressed', 'mouseReleased']) await this.send('Input.dispatchMouseEvent', { type, ...at, button: 'left', clickCount: 1 });
  }

  async go(hash) { await this.eval(`location.hash = ${JSON.stringify(hash)}`); }

  async picture() {
    const { data } = await this.send('Page.captureScreenshot', { format: 'png' });
    return Buffer.from(data, 'base64');
  }
}
