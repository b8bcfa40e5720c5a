// The page of a Zoolet server. No framework and no build step: the server sends this file as it is.
// Names and values come from anybody who may write to the server. They become text nodes and never markup.

const $ = id => document.getElementById(id);

/** An element with properties and children; strings become text. */
function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'class') element.className = value;
    else if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name.includes('-') || name === 'role' || name === 'colspan' || name === 'for') element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.flat().filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

const SVG = 'http://www.w3.org/2000/svg';
function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// ---- The server ---------------------------------------------------------------------------------------------------------------

/** Credentials: `user:password`. In memory only. */
let credentials = null;
let server = null;

class Refused extends Error {
  constructor(status, body) {
    super(body?.message ?? `the server answered ${status}`);
    this.code = body?.code;
  }
}

/** Header fields are bytes: UTF-8, one character for each. */
const bytesAsText = text => String.fromCharCode(...new TextEncoder().encode(text));

async function ask(name, args = {}, options = {}) {
  const query = new URLSearchParams(Object.entries(args).filter(([, value]) => value !== undefined && value !== null && value !== ''));
  const headers = { ...options.headers };
  if (credentials) headers.Authorization = `digest ${bytesAsText(credentials)}`;
  const response = await fetch(`api/${name}${query.size ? `?${query}` : ''}`, { ...options, headers, cache: 'no-store' });
  const body = await response.json().catch(() => null);
  if (!response.ok || body === null) throw new Refused(response.status, body);
  return body;
}

const write = (name, body) => ask(name, {}, {
  method: 'POST',
  headers: { 'Content-Type': 'application/json', 'X-Zoolet-Page': '1' },
  body: JSON.stringify(body),
});

function say(problem) {
  $('problem').textContent = problem ?? '';
  $('problem').hidden = !problem;
}

const sentence = text => `${text[0].toUpperCase()}${text.slice(1)}${/[.!?…]$/.test(text) ? '' : '.'}`;

function explain(error) {
  if (error instanceof Refused) return sentence(error.message);
  return 'The server does not answer. It may have stopped; this page goes on asking.';
}

// ---- Text ---------------------------------------------------------------------------------------------------------------------

const number = new Intl.NumberFormat('en-US');
const count = (n, one, many = `${one}s`) => `${number.format(n)} ${n === 1 ? one : many}`;
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 });
const day = new Intl.DateTimeFormat('en-CA');

function when(ms) {
  const date = new Date(ms);
  if (!ms || Number.isNaN(date.getTime())) return ms === 0 ? 'never' : String(ms);
  return `${day.format(date)} ${clock.format(date)}`;
}

function span(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor(seconds / 3600) % 24} h`;
}

/** How long ago, by the server's clock. */
const ago = (ms, now) => h('time', { title: `${when(ms)} (local time)`, dateTime: new Date(ms).toISOString() }, span(now - ms));

function bytes(n) {
  if (n < 1024) return count(n, 'byte');
  if (n < 1024 * 1024) return `${(n / 1024).toFixed(n < 10240 ? 1 : 0)} KiB`;
  return `${(n / 1024 / 1024).toFixed(1)} MiB`;
}

/** Control characters and the like would not show, or would turn the text around them. */
const visible = text => text.replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
  char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
/** The same for data, where line ends and tabs are meant. */
const visibleLines = text => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
  char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);

const parentOf = path => path.slice(0, Math.max(1, path.lastIndexOf('/')));
const nameOf = path => path.slice(path.lastIndexOf('/') + 1);
const childOf = (path, name) => (path === '/' ? `/${name}` : `${path}/${name}`);
const linkTo = path => `#/znodes${path.split('/').map(encodeURIComponent).join('/')}`;
const pathLink = path => h('a', { class: 'path', href: linkTo(path) }, visible(path));

/** A table of rows of cells; each column has a title, and perhaps a class for its cells and one for its width. */
function table(columns, rows, extra = '') {
  return h('div', { class: `table stack ${extra}` }, h('table', {},
    h('colgroup', {}, columns.map(([, , width]) => h('col', { class: width }))),
    h('thead', {}, h('tr', {}, columns.map(([title, kind]) => h('th', { scope: 'col', class: kind?.includes('num') ? 'num' : '' }, title)))),
    h('tbody', {}, rows)));
}

/** A row of such a table. */
function row(columns, cells, props = {}) {
  return h('tr', props, cells.map((cell, at) => h('td', { class: columns[at][1], 'data-title': columns[at][0] }, h('span', {}, cell))));
}

const empty = (title, text) => h('p', { class: 'empty' }, h('b', {}, title), text);

// ---- Views --------------------------------------------------------------------------------------------------------------------

const views = {};
let current = null;

function route() {
  const [, name, rest] = location.hash.match(/^#\/([a-z]+)(.*)$/) ?? [];
  const view = Object.hasOwn(views, name) ? name : 'znodes';
  if (current !== view) {
    if (current) views[current].leave?.();
    current = view;
    for (const section of document.querySelectorAll('main > section')) section.hidden = section.id !== `view-${view}`;
    for (const link of document.querySelectorAll('nav a')) {
      if (link.dataset.view === view) {
        link.setAttribute('aria-current', 'page');
        // Within a narrow bar.
        link.parentElement.scrollLeft = link.offsetLeft - link.parentElement.offsetLeft - 40;
      } else link.removeAttribute('aria-current');
    }
    document.title = `Zoolet: ${view}`;
    views[view].enter?.(rest);
  }
  views[view].show?.(rest);
}

/** Calls `work` at once, and again after each pause, while the view is shown. */
function repeating(work, pause) {
  let timer = null, running = 0;
  const round = async mine => {
    try {
      await work();
      if (mine === running) say();
    } catch (error) {
      if (mine === running) say(explain(error));
    }
    if (mine === running) timer = setTimeout(() => (document.hidden ? again(mine) : round(mine)), pause);
  };
  const again = mine => document.addEventListener('visibilitychange', () => mine === running && round(mine), { once: true });
  return {
    start() { clearTimeout(timer); round(++running); },
    stop() { clearTimeout(timer); running += 1; },
  };
}

// ---- A long list: only the rows that are seen exist ---------------------------------------------------------------------------

class LongList {
  /** `size()` rows; `draw(index, row)` fills one; `seen(first, last)` is called when others come into sight. */
  constructor(element, { size, draw, seen, act }) {
    Object.assign(this, { element, size, draw, seen, active: 0 });
    this.rows = element.firstElementChild;
    element.addEventListener('scroll', () => this.later());
    new ResizeObserver(() => this.later()).observe(element);
    element.addEventListener('click', event => {
      const row = event.target.closest('.row');
      if (!row) return;
      this.active = Number(row.dataset.index);
      act(event.target.classList.contains('twist') ? 'twist' : 'choose', this.active);
      this.later();
    });
    element.addEventListener('keydown', event => {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const page = Math.max(1, Math.floor(element.clientHeight / this.height) - 1);
      const last = this.size() - 1;
      const to = { ArrowDown: this.active + 1, ArrowUp: this.active - 1, PageDown: this.active + page, PageUp: this.active - page, Home: 0, End: last }[event.key];
      if (to !== undefined) this.go(Math.min(last, Math.max(0, to)));
      else if (event.key === 'Enter' || event.key === ' ') act('choose', this.active);
      else if (event.key === 'ArrowRight') act('right', this.active);
      else if (event.key === 'ArrowLeft') act('left', this.active);
      else if (event.key === 'Escape') act('escape', this.active);
      else return;
      event.preventDefault();
    });
  }

  get height() { return parseInt(getComputedStyle(document.documentElement).getPropertyValue('--row'), 10) || 26; }

  /** Browsers limit the height of an element: a longer list moves by several rows for each step of its bar. */
  get drawn() { return Math.min(this.size() * this.height, 8_000_000); }

  offset() {
    const space = this.drawn - this.element.clientHeight;
    const all = this.size() * this.height - this.element.clientHeight;
    return space > 0 ? this.element.scrollTop / space * all : 0;
  }

  go(index) {
    this.active = index;
    const top = this.offset(), height = this.height, shown = this.element.clientHeight;
    let to = top;
    if (index * height < top) to = index * height;
    if ((index + 1) * height > top + shown) to = (index + 1) * height - shown;
    if (to !== top) {
      const space = this.drawn - shown, all = this.size() * height - shown;
      this.refresh();
      this.element.scrollTop = all > 0 ? to / all * space : 0;
    }
    this.later();
  }

  later() {
    this.frame ??= requestAnimationFrame(() => { this.frame = null; this.refresh(); });
  }

  refresh() {
    const { element, height } = this;
    const size = this.size();
    this.rows.style.height = `${this.drawn}px`;
    const offset = this.offset();
    const first = Math.max(0, Math.floor(offset / height) - 8);
    const last = Math.min(size, Math.ceil((offset + element.clientHeight) / height) + 8);
    this.active = Math.min(this.active, Math.max(0, size - 1));
    const shown = [];
    for (let index = first; index < last; index += 1) {
      const row = h('div', { class: 'row', id: `${element.id}-${index}` });
      row.dataset.index = index;
      row.style.top = `${element.scrollTop + index * height - offset}px`;
      this.draw(index, row);
      if (index === this.active) row.classList.add('active');
      shown.push(row);
    }
    this.rows.replaceChildren(...shown);
    if (size) element.setAttribute('aria-activedescendant', `${element.id}-${this.active}`);
    else element.removeAttribute('aria-activedescendant');
    this.seen?.(first, last);
  }
}

// ---- The tree -----------------------------------------------------------------------------------------------------------------

const PAGE = 500;

/** A znode of the tree. `children` has those that were loaded, in their order. Looks at them are counted: `applied` is the one that has shown these, `begun` the last one. */
class TreeNode {
  constructor(path, depth, parent, total, ephemeral) {
    Object.assign(this, { path, depth, parent, total, ephemeral, open: false, children: [], complete: false, loading: null, problem: null, begun: 0, applied: 0 });
  }
}

const tree = {
  root: new TreeNode('/', 0, null, 1, false),
  rows: [],
  chosen: '/',

  /** Rows of what is loaded, and of each open znode with more children one entry for all of those. */
  lay() {
    const rows = [];
    const add = node => {
      rows.push({ node });
      if (!node.open) return;
      for (const child of node.children) add(child);
      const missing = node.complete ? 0 : Math.max(1, (node.total ?? 0) - node.children.length);
      if (missing || node.problem) rows.push({ gap: node, length: node.problem ? 1 : missing });
    };
    add(this.root);
    let at = 0;
    this.gaps = [];
    rows.forEach((row, position) => {
      if (row.gap) this.gaps.push({ at, position, length: row.length });
      at += row.length ?? 1;
    });
    this.rows = rows;
    this.size = at;
    this.list?.later();
  },

  /** The row at an index of the list. */
  at(index) {
    let shift = 0;
    for (const gap of this.gaps) {
      if (index < gap.at) break;
      if (index < gap.at + gap.length) return this.rows[gap.position];
      shift += gap.length - 1;
    }
    return this.rows[index - shift];
  },

  /** The index of the row of a znode. */
  indexOf(node) {
    let index = 0;
    for (const row of this.rows) {
      if (row.node === node) return index;
      index += row.length ?? 1;
    }
    return -1;
  },

  /** Loads children of a node, page after page, while `wanted` says so. */
  load(node, wanted) {
    node.wanted = wanted;
    node.loading ??= (async () => {
      let laid = 0;
      try {
        while (!node.complete && node.wanted(node.children.length)) {
          const { children } = node, after = children.at(-1);
          const page = await ask('children', { path: node.path, after: after && nameOf(after.path), limit: PAGE });
          // It was closed and opened, or loaded anew: what follows the old ones does not follow the new ones.
          if (node.children !== children) continue;
          node.problem = null;
          node.total = page.total;
          for (const [name, total, ephemeral] of page.children) {
            children.push(new TreeNode(childOf(node.path, name), node.depth + 1, node, total, ephemeral));
          }
          node.complete = !page.more;
          // To lay out 100,000 rows takes a frame.
          if (performance.now() - laid > 100) { this.lay(); laid = performance.now(); }
        }
      } catch (error) {
        node.problem = explain(error);
        node.complete = true;
      } finally {
        node.loading = null;
        this.lay();
      }
    })();
    return node.loading;
  },

  toggle(node, open = !node.open) {
    if (open === node.open) return;
    node.open = open;
    // What was loaded may be old by now.
    if (open) this.reset(node);
    this.lay();
  },

  reset(node) {
    node.begun += 1;
    Object.assign(node, { children: [], complete: false, problem: null, applied: node.begun });
  },

  /** Loads the children of an open znode anew. Those that are open stay so, with the children that they have. */
  async reload(node) {
    if (!node.open) {
      const stat = await ask('znode', { path: node.path }).catch(() => null);
      if (stat) node.total = stat.stat.children;
      this.lay();
      return;
    }
    await node.loading;
    node.begun += 1;
    const round = node.begun;
    const loaded = Math.max(PAGE, node.children.length);
    const fresh = new TreeNode(node.path, node.depth, node.parent, node.total, node.ephemeral);
    await this.load(fresh, have => have < loaded);
    // A later look has shown a newer state.
    if (round < node.applied) return;
    if (fresh.problem) {
      node.problem = fresh.problem;
      this.lay();
      return;
    }
    const before = new Map(node.children.map(child => [child.path, child]));
    node.children = fresh.children.map(child => {
      const old = before.get(child.path);
      if (!old) return Object.assign(child, { parent: node });
      return Object.assign(old, { total: child.total });
    });
    Object.assign(node, { total: fresh.total, complete: fresh.complete, problem: null, applied: round });
    this.lay();
  },

  /** The node at a path, if it is loaded. */
  find(path) {
    let node = this.root;
    for (const name of path === '/' ? [] : path.slice(1).split('/')) {
      node = node?.children.find(child => child.path === childOf(node.path, name));
    }
    return node;
  },

  /** Opens the parents of a znode, as far as it is among the first children of each. */
  async reveal(path) {
    let node = this.root;
    for (const name of path === '/' ? [] : path.slice(1).split('/')) {
      if (!node.open) this.toggle(node, true);
      const wanted = childOf(node.path, name);
      const has = () => node.children.some(child => child.path === wanted);
      await this.load(node, have => !has() && have < 4 * PAGE);
      const next = node.children.find(child => child.path === wanted);
      if (!next) return;
      node = next;
    }
    if (this.chosen !== path) return;
    this.list.go(this.indexOf(node));
  },
};

function drawTreeRow(index, row) {
  const { node, gap } = tree.at(index);
  const depth = gap ? gap.depth + 1 : node.depth;
  row.style.paddingLeft = `${8 + Math.min(depth, 30) * 16}px`;
  if (gap) {
    row.classList.add('gap');
    row.append(h('span', { class: 'twist' }), gap.problem ?? 'loading…');
    return;
  }
  const leaf = node.total === 0;
  row.setAttribute('role', 'treeitem');
  row.setAttribute('aria-level', node.depth + 1);
  if (!leaf) row.setAttribute('aria-expanded', node.open);
  row.setAttribute('aria-selected', node.path === tree.chosen);
  if (node.open) row.classList.add('open');
  if (leaf) row.classList.add('leaf');
  const name = node.path === '/' ? '/' : visible(nameOf(node.path));
  row.append(h('span', { class: 'twist', 'aria-hidden': 'true' }), h('span', { class: 'name', title: name }, name));
  if (node.total) row.append(h('span', { class: 'count', title: count(node.total, 'child', 'children') }, number.format(node.total)));
  if (node.total === null) row.append(h('span', { class: 'count', title: 'An ACL hides its children' }, '?'));
  if (node.ephemeral) row.append(h('span', { class: 'mark' }, 'ephemeral'));
}

function actInTree(action, index) {
  const { node, gap } = tree.at(index) ?? {};
  if (action === 'escape') return;
  if (gap) {
    if (action === 'left') tree.list.go(tree.indexOf(gap));
    return;
  }
  if (!node) return;
  if (action === 'twist') tree.toggle(node);
  else if (action === 'right') node.open ? tree.list.go(Math.min(index + 1, tree.size - 1)) : node.total !== 0 && tree.toggle(node, true);
  else if (action === 'left') node.open ? tree.toggle(node, false) : node.parent && tree.list.go(tree.indexOf(node.parent));
  else if (action === 'choose') {
    if (node.path === tree.chosen && matchMedia('(min-width: 761px)').matches) tree.toggle(node);
    choose(node.path);
  }
}

tree.lay();
tree.list = new LongList($('tree'), {
  size: () => tree.size,
  draw: drawTreeRow,
  act: actInTree,
  seen(first, last) {
    for (const gap of tree.gaps) {
      const { gap: node } = tree.rows[gap.position];
      if (node.problem || gap.at >= last || gap.at + gap.length <= first) continue;
      const top = tree.indexOf(node);
      tree.load(node, have => {
        // Only as far as somebody looks.
        const bottom = tree.list.offset() / tree.list.height + $('tree').clientHeight / tree.list.height + 8;
        return node.open && !$('tree').hidden && (have === 0 || top + have < bottom);
      });
    }
  },
});

// ---- Search -------------------------------------------------------------------------------------------------------------------

const MOST_FOUND = 1000;
const found = { paths: [], round: 0 };
found.list = new LongList($('found'), {
  size: () => found.paths.length,
  draw(index, row) {
    const path = found.paths[index];
    row.setAttribute('role', 'option');
    row.setAttribute('aria-selected', path === tree.chosen);
    row.style.paddingLeft = '12px';
    row.append(h('span', { class: 'name', title: visible(path) }, visible(nameOf(path))));
  },
  act(action, index) {
    if (action === 'escape') { endSearch(); $('find-text').focus(); }
    if (action === 'choose' && found.paths[index]) choose(found.paths[index]);
  },
});

/** Where a search looks: below the chosen znode, or beside it if nothing is below. */
function findIn(path) {
  if (!$('found').hidden) return;
  $('find-where').textContent = visible(path);
  $('find-where').dataset.path = path;
}

function endSearch() {
  found.round += 1;
  $('find-text').value = '';
  $('find-state').textContent = '';
  $('found').hidden = true;
  $('tree').hidden = false;
  tree.list.later();
}

async function search() {
  const text = $('find-text').value;
  if (!text) return endSearch();
  if (text.startsWith('/')) {
    endSearch();
    return choose(text.length > 1 ? text.replace(/\/+$/, '') : text);
  }
  const round = ++found.round;
  const dir = $('find-where').dataset.path;
  found.paths = [];
  $('tree').hidden = true;
  $('found').hidden = false;
  let after, looked = 0;
  try {
    do {
      const page = await ask('search', { path: dir, text, after });
      if (round !== found.round) return;
      looked += page.looked;
      found.paths.push(...page.names.map(name => childOf(dir, name)));
      found.list.later();
      after = page.more ? page.next : undefined;
      const names = `${count(found.paths.length, 'name')} found among ${number.format(looked)}`;
      $('find-state').textContent = after === undefined ? names : `${names}, searching…`;
    } while (after !== undefined && found.paths.length < MOST_FOUND);
    if (after !== undefined) $('find-state').textContent = `The first ${number.format(found.paths.length)} names; search for more of the name.`;
  } catch (error) {
    if (round === found.round) $('find-state').textContent = explain(error);
  }
}

$('find').addEventListener('submit', event => { event.preventDefault(); search(); });
$('find-text').addEventListener('input', () => { if (!$('find-text').value) endSearch(); });
$('find-text').addEventListener('keydown', event => {
  if (event.key === 'Escape') endSearch();
  if (event.key === 'ArrowDown') {
    event.preventDefault();
    ($('found').hidden ? $('tree') : $('found')).focus();
  }
});

// ---- One znode ----------------------------------------------------------------------------------------------------------------

let shown = null; // what the article shows
let form = null; // text, JSON or hex, if the reader has chosen

function choose(path) {
  const link = linkTo(path);
  if (location.hash === link) views.znodes.show(link.slice('#/znodes'.length));
  else location.hash = link;
}

/** Indents JSON and keeps each of its numbers and strings as it is written; null if it is not JSON. */
function pretty(text) {
  try { JSON.parse(text); } catch { return null; }
  let depth = 0;
  // Not by depth alone: 32 kB of brackets would get half a gigabyte of blanks.
  const line = () => `\n${'  '.repeat(Math.min(depth, 20))}`;
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g) ?? [];
  return tokens.map((token, at) => {
    const isEmpty = '[{'.includes(tokens[at - 1] ?? ' ');
    if (token === '[' || token === '{') { depth += 1; return ']}'.includes(tokens[at + 1]) ? token : token + line(); }
    if (token === ']' || token === '}') { depth -= 1; return isEmpty ? token : line() + token; }
    if (token === ',') return token + line();
    return token === ':' ? ': ' : token;
  }).join('');
}

function hex(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    const part = [...data.subarray(at, at + 16)];
    const digits = part.map(byte => byte.toString(16).padStart(2, '0'));
    const left = digits.slice(0, 8).join(' '), right = digits.slice(8).join(' ');
    const text = part.map(byte => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : '.')).join('');
    lines.push(`${at.toString(16).padStart(6, '0')}  ${left.padEnd(23)}  ${right.padEnd(23)}  ${text}`);
  }
  return lines.join('\n');
}

const fromBase64 = text => Uint8Array.from(atob(text), char => char.charCodeAt(0));
function toBase64(data) {
  let text = '';
  for (const byte of data) text += String.fromCharCode(byte);
  return btoa(text);
}

/** The data as text, or null. The first part of a text may end within a character. */
function asText(data, isWhole) {
  for (let cut = 0; cut <= (isWhole ? 0 : 3); cut += 1) {
    try { return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(data.subarray(0, data.length - cut)); } catch { /* shorter */ }
  }
  return null;
}

function drawData(znode) {
  const { length, base64 } = znode.data;
  const part = h('section', { class: 'part', 'aria-label': 'Data' });
  const title = h('h3', {}, length === null ? 'Data: null' : `Data: ${bytes(length)}`);
  if (!length) {
    part.append(title, h('p', { class: 'none' }, length === null ? 'No data: null, which is not the same as empty.' : 'Empty.'));
    return part;
  }
  const data = fromBase64(base64);
  const isWhole = data.length === length;
  const text = asText(data, isWhole);
  const json = text !== null && isWhole && /^\s*[[{]/.test(text) ? pretty(text) : null;
  const forms = { Text: text && visibleLines(text), JSON: json && visibleLines(json), Hex: hex(data) };
  const best = json ? 'JSON' : text === null || /[\u0000-\u0008\u000e-\u001f]/.test(text) ? 'Hex' : 'Text';
  const view = h('pre', { tabIndex: 0, 'aria-label': 'Data of the znode' });
  const tabs = h('div', { class: 'tabs', role: 'group', 'aria-label': 'Show the data as' });
  const show = name => {
    view.textContent = forms[name];
    view.className = name === 'Hex' ? 'hex' : '';
    for (const tab of tabs.children) tab.setAttribute('aria-pressed', tab.textContent === name);
  };
  for (const name of Object.keys(forms)) {
    tabs.append(h('button', {
      type: 'button', disabled: forms[name] === null, onclick: () => { form = name; show(name); },
      title: forms[name] === null ? `The data is not ${name === 'JSON' ? 'JSON' : 'UTF-8 text'}` : '',
    }, name));
  }
  show(form && forms[form] !== null ? form : best);
  part.append(h('div', { class: 'bar' }, title, tabs), view);
  if (!isWhole) part.append(h('p', { class: 'note' }, `The first ${bytes(data.length)} of ${bytes(length)}.`));
  return part;
}

const fact = (name, value, title) => h('div', {}, h('dt', {}, name), h('dd', title ? { title } : {}, value));

function drawStat({ stat, now }) {
  const time = ms => h('span', { title: `${new Date(ms).toISOString()}, ${span(now - ms)} ago` }, when(ms));
  const list = h('dl', { class: 'facts' },
    fact('Created (ctime)', ms0(stat.ctime, time)), fact('Modified (mtime)', ms0(stat.mtime, time)),
    fact('Children', number.format(stat.children)),
    fact('czxid', h('span', { class: 'mono' }, stat.czxid), 'The transaction that created it'),
    fact('mzxid', h('span', { class: 'mono' }, stat.mzxid), 'The last one that set its data'),
    fact('pzxid', h('span', { class: 'mono' }, stat.pzxid), 'The last one that changed its list of children'),
    fact('version', String(stat.version), 'Changes of its data'),
    fact('cversion', String(stat.cversion), 'Changes of its list of children'),
    fact('aversion', String(stat.aversion), 'Changes of its ACL'));
  return h('section', { class: 'part', 'aria-label': 'Stat' }, h('h3', {}, 'Stat'), list);
}

/** The znodes of an empty tree have no time. */
const ms0 = (ms, time) => (ms ? time(ms) : 'with the server');

function drawAcl(znode) {
  const part = h('section', { class: 'part', 'aria-label': 'ACL' }, h('h3', {}, 'ACL'));
  const rows = znode.acl.map(([perms, scheme, id]) => h('tr', {},
    h('td', { class: 'mono' }, perms || 'none'), h('td', { class: 'path' }, visible(scheme)), h('td', { class: 'path' }, visible(id))));
  part.append(h('div', { class: 'table' }, h('table', {},
    h('thead', {}, h('tr', {}, ...['Permissions', 'Scheme', 'Id'].map(title => h('th', { scope: 'col' }, title)))),
    h('tbody', {}, rows))));
  if (znode.acl_length > znode.acl.length) part.append(h('p', { class: 'note' }, `The first ${znode.acl.length} of ${number.format(znode.acl_length)} entries.`));
  return part;
}

function drawCrumbs(path) {
  const crumbs = h('nav', { class: 'crumbs', 'aria-label': 'Path' });
  const names = path === '/' ? [] : path.slice(1).split('/');
  let at = '/';
  const crumb = (name, target, last) => (last
    ? h('span', { class: 'path', 'aria-current': 'location' }, name)
    : h('a', { class: 'path', href: linkTo(target) }, name));
  crumbs.append(crumb('/', '/', !names.length));
  names.forEach((name, index) => {
    at = childOf(at, name);
    if (index) crumbs.append(h('span', { class: 'sep' }, '/'));
    crumbs.append(crumb(visible(name), at, index === names.length - 1));
  });
  return crumbs;
}

function drawTags({ owner, stat }) {
  const tags = h('div', { class: 'tags' });
  if (owner.kind === 'ephemeral') tags.append(h('span', { class: 'badge wait' }, 'ephemeral'), h('span', { class: 'soft' }, 'of session ', h('a', { class: 'path', href: `#/sessions?${owner.session}` }, owner.session)));
  else if (owner.kind === 'ttl') tags.append(h('span', { class: 'badge wait' }, `TTL ${span(owner.ttl)}`));
  else tags.append(h('span', { class: 'badge' }, owner.kind));
  if (stat.children) tags.append(h('span', { class: 'badge' }, count(stat.children, 'child', 'children')));
  return tags;
}

function drawZnode(path, znode, error) {
  const article = $('znode');
  const head = h('div', { class: 'head' },
    h('button', { type: 'button', class: 'back', onclick: () => $('view-znodes').classList.remove('detail') }, '← Tree'),
    drawCrumbs(path));
  if (error) {
    const hint = error.code === 'NoAuth' ? ' Enter an identity above that may read it.' : '';
    article.replaceChildren(head, h('div', { class: 'body' }, empty(error.code === 'NoNode' ? 'No such znode' : 'Not shown', explain(error) + hint)));
    return;
  }
  const tags = drawTags(znode);
  const buttons = h('div', { class: 'buttons' });
  const readOnly = !server?.writable;
  const hint = readOnly ? 'This page is read-only. Start the admin server as writable to change znodes.' : '';
  const button = (text, dialog, props) => h('button', { type: 'button', disabled: readOnly, title: hint, onclick: dialog, ...props }, text);
  buttons.append(button('Set data', () => setDialog(path, znode)), button('Create child', () => createDialog(path)));
  if (path !== '/') buttons.append(button('Delete', () => deleteDialog(path, znode), { class: 'danger' }));
  tags.append(buttons);
  head.append(tags);
  const body = h('div', { class: 'body' }, drawData(znode), drawStat(znode), drawAcl(znode));
  const top = article.querySelector('.body')?.scrollTop ?? 0;
  const samePath = shown?.path === path;
  article.replaceChildren(head, body);
  if (samePath) body.scrollTop = top;
}

/** Asks for the chosen znode, and draws it if it has changed. */
async function refreshZnode() {
  const path = tree.chosen;
  let znode = null, error = null;
  try { znode = await ask('znode', { path }); } catch (refusal) {
    if (!(refusal instanceof Refused)) throw refusal;
    error = refusal;
  }
  if (path !== tree.chosen) return;
  const mark = JSON.stringify(error ? error.message : [znode.stat, znode.acl, server?.writable]);
  const children = znode?.stat.pzxid;
  if (shown?.path === path && shown.mark === mark) return;
  const hadChildren = shown?.path === path ? shown.children : undefined;
  drawZnode(path, znode, error);
  findIn(znode?.stat.children ? path : parentOf(path));
  shown = { path, mark, children };
  const node = tree.find(path);
  if (node && znode && node.total !== znode.stat.children) { node.total = znode.stat.children; tree.lay(); }
  if (node && hadChildren !== undefined && hadChildren !== children) await tree.reload(node);
}

const znodeRefresh = repeating(refreshZnode, 2000);

views.znodes = {
  enter() { tree.list.later(); },
  show(rest) {
    let path = '/';
    try { path = decodeURIComponent(rest) || '/'; } catch { /* not a path: the root */ }
    if (!path.startsWith('/')) path = '/';
    const isNew = path !== tree.chosen || !shown;
    if (isNew) form = null;
    tree.chosen = path;
    if (isNew) findIn(tree.find(path)?.total === 0 ? parentOf(path) : path);
    $('view-znodes').classList.toggle('detail', path !== '/' || $('view-znodes').classList.contains('detail'));
    tree.list.later();
    found.list.later();
    znodeRefresh.start();
    if (!tree.root.open) tree.toggle(tree.root, true);
    if (isNew && !tree.find(path)) tree.reveal(path);
  },
  leave() { znodeRefresh.stop(); },
};

// ---- Writes -------------------------------------------------------------------------------------------------------------------

function writeDialog({ title, ok, fields, danger, send }) {
  $('write-title').textContent = title;
  $('write-ok').textContent = ok;
  $('write-ok').className = danger ? 'primary danger' : 'primary';
  $('write-fields').replaceChildren(...fields);
  $('write-problem').hidden = true;
  const dialog = $('write-dialog');
  dialog.onsubmit = async event => {
    if (event.submitter?.value !== 'ok') return;
    event.preventDefault();
    $('write-ok').disabled = true;
    try {
      await send();
      dialog.close();
    } catch (error) {
      $('write-problem').textContent = explain(error);
      $('write-problem').hidden = false;
    } finally {
      $('write-ok').disabled = false;
    }
  };
  dialog.returnValue = '';
  dialog.showModal();
}

const encode = text => toBase64(new TextEncoder().encode(text));

/** The line ends of a text, which a text area turns into \n; null if it has several kinds. */
function lineEnd(text) {
  const ends = new Set(text.match(/\r\n|\r|\n/g));
  return ends.size > 1 ? null : [...ends][0] ?? '\n';
}

function setDialog(path, znode) {
  const whole = znode.data.length === null ? new Uint8Array() : fromBase64(znode.data.base64);
  const isWhole = whole.length === (znode.data.length ?? 0);
  const text = isWhole ? asText(whole, true) : null;
  const end = text === null ? null : lineEnd(text);
  const area = h('textarea', { rows: 10, class: 'path', spellcheck: false, value: end === null ? '' : text });
  const note = end === null ? h('p', { class: 'note' }, 'The present data is no text, has line ends of several kinds, or is longer than this page shows. What you write here replaces all of it.') : null;
  const version = znode.stat.version;
  writeDialog({
    title: `Set the data of ${visible(path)}`, ok: 'Set',
    fields: [note, h('label', {}, 'New data, as UTF-8', area), h('p', { class: 'note' }, `Refused if somebody else has changed it since: it has version ${version}.`)].filter(Boolean),
    async send() {
      await write('set', { path, data: encode(area.value.replaceAll('\n', end ?? '\n')), version });
      await refreshZnode();
    },
  });
}

function createDialog(path) {
  const name = h('input', { class: 'path', required: true, spellcheck: false, autocomplete: 'off' });
  const area = h('textarea', { rows: 6, class: 'path', spellcheck: false });
  const sequential = h('input', { type: 'checkbox' });
  writeDialog({
    title: `Create a child of ${visible(path)}`, ok: 'Create',
    fields: [h('label', {}, 'Name', name), h('label', {}, 'Data, as UTF-8', area),
      h('label', { class: 'check' }, sequential, 'Append a number (sequential)'),
      h('p', { class: 'note' }, credentials ? 'A persistent znode, which your identity may do everything with and others may read.' : 'A persistent znode that anybody may change.')],
    async send() {
      const made = await write('create', { path: childOf(path, name.value), data: encode(area.value), sequential: sequential.checked });
      const node = tree.find(path);
      if (node) await tree.reload(node);
      choose(made.path);
    },
  });
}

function deleteDialog(path, znode) {
  const version = znode.stat.version;
  writeDialog({
    title: `Delete ${visible(path)}?`, ok: 'Delete', danger: true,
    fields: [h('p', {}, znode.stat.children
      ? `It has ${count(znode.stat.children, 'child', 'children')}. Only a znode without children can be deleted, so this will be refused.`
      : `This deletes version ${version} with ${bytes(znode.data.length ?? 0)} of data, and cannot be undone.`)],
    async send() {
      await write('delete', { path, version });
      const parent = tree.find(parentOf(path));
      choose(parentOf(path));
      if (parent) await tree.reload(parent);
    },
  });
}

// ---- Sessions -----------------------------------------------------------------------------------------------------------------

const opened = new Set();

function drawPaths(title, list) {
  const part = h('div', {}, h('h3', {}, `${title}: ${number.format(list.length)}`));
  if (list.paths.length) part.append(h('ul', {}, list.paths.map(path => h('li', {}, pathLink(path)))));
  else if (list.length === 0) part.append(h('p', { class: 'note' }, 'none'));
  if (list.hidden) part.append(h('p', { class: 'note' }, `${count(list.hidden, 'path')} hidden by ACLs`));
  const more = list.length - list.paths.length - list.hidden;
  if (more > 0) part.append(h('p', { class: 'note' }, `and ${number.format(more)} more`));
  return part;
}

const sessionColumns = [['Session', 'fix'], ['State', 'fix'], ['Address', 'fix'], ['Connected for', 'num'], ['Timeout', 'num'], ['Expires', 'num'], ['Ephemerals', 'num'], ['Watches', 'num']];

async function refreshSessions() {
  const wanted = location.hash.match(/^#\/sessions\?(0x[0-9a-f]{1,16})$/)?.[1];
  if (wanted) { opened.add(wanted); history.replaceState(null, '', '#/sessions'); }
  const page = await ask('sessions', { open: [...opened].slice(-20).join(',') });
  const details = await Promise.all(page.sessions.filter(session => opened.has(session.id)).map(async session =>
    [session.id, await ask('session', { id: session.id }).catch(() => null)]));
  if (current !== 'sessions') return;
  const detailOf = new Map(details);
  if (!page.sessions.length) {
    $('sessions').replaceChildren(empty('No sessions', 'A session appears here when a client connects.'));
    return;
  }
  const rows = page.sessions.flatMap(session => {
    const isOpen = opened.has(session.id);
    const toggle = () => { isOpen ? opened.delete(session.id) : opened.add(session.id); refreshSessions(); };
    const line = row(sessionColumns, [
      h('button', { type: 'button', class: 'link path twisted', 'aria-expanded': isOpen, onclick: toggle, id: `session-${session.id}` }, session.id),
      session.connected ? h('span', { class: 'badge good' }, 'connected') : h('span', { class: 'badge wait' }, 'no connection'),
      session.in_process ? 'in process' : session.address ?? '–',
      session.since ? ago(session.since, page.now) : '–',
      `${number.format(session.timeout / 1000)} s`,
      session.expires > page.now ? `in ${span(session.expires - page.now)}` : 'now',
      number.format(session.ephemerals),
      number.format(session.watches),
    ]);
    const detail = detailOf.get(session.id);
    if (!detail) return [line];
    return [line, h('tr', { class: 'detail' }, h('td', { colspan: 8 }, h('div', { class: 'paths' }, drawPaths('Ephemerals', detail.ephemerals), drawPaths('Watches', detail.watches))))];
  });
  const focus = document.activeElement?.id;
  $('sessions').replaceChildren(table(sessionColumns, rows));
  if (page.length > page.sessions.length) $('sessions').append(h('p', { class: 'note' }, `${number.format(page.sessions.length)} of ${number.format(page.length)} sessions: those that expire first.`));
  if (focus) $(focus)?.focus();
}

const sessionRefresh = repeating(refreshSessions, 2000);
views.sessions = { show: () => sessionRefresh.start(), leave: () => sessionRefresh.stop() };

// ---- Locks --------------------------------------------------------------------------------------------------------------------

const states = { holds: ['holds', 'good'], waits: ['waits', 'wait'], first: ['first', ''], next: ['later', ''] };

const lockColumns = [['State', 'fix', 'w-state'], ['Contender', 'path'], ['In the queue for', 'num', 'w-span'], ['Fencing token', 'num', 'w-zxid'], ['Session', 'fix', 'w-session'], ['Address', 'fix', 'w-address']];

function drawQueue(queue, now) {
  const { contenders } = queue;
  const holders = contenders.filter(one => one.state === 'holds').length;
  const waiting = queue.length - holders;
  const top = h('div', { class: 'top' }, pathLink(queue.path), h('span', { class: 'badge' }, queue.recipe));
  const waits = waiting === 0 ? 'none waits' : `${number.format(waiting)} ${waiting === 1 ? 'waits' : 'wait'}`;
  if (queue.known) top.append(h('span', { class: 'soft' }, `${number.format(holders)} ${holders === 1 ? 'holds' : 'hold'}, ${waits}`));
  else top.append(h('span', { class: 'soft' }, `${number.format(queue.length)} in the order of their numbers; no known recipe`));
  const rows = contenders.map(one => {
    const [text, tone] = states[one.state];
    return row(lockColumns, [
      [h('span', { class: `badge ${tone}` }, text), one.shared ? h('span', { class: 'soft' }, ' shared') : null],
      h('a', { href: linkTo(one.path) }, visible(one.name)),
      one.since ? ago(one.since, now) : '–',
      h('span', { class: 'mono', title: one.token ? `decimal ${BigInt(one.token)}` : 'An ACL hides it' }, one.token ?? '–'),
      one.session ? h('a', { class: 'path', href: `#/sessions?${one.session}` }, one.session) : '–',
      one.address ?? '–',
    ]);
  });
  const more = queue.length - contenders.length;
  return h('section', { class: 'queue', 'aria-label': `Queue ${visible(queue.path)}` }, top, table(lockColumns, rows, 'fixed'),
    more > 0 ? h('p', { class: 'note' }, `and ${number.format(more)} more`) : null);
}

let lastLocks = '';
async function refreshLocks() {
  const page = await ask('locks');
  // The times go on: once in five rounds all is drawn anew, and otherwise only if something has changed.
  const mark = JSON.stringify([page.queues, Math.floor(page.now / 5000)]);
  if (current !== 'locks' || mark === lastLocks) return;
  lastLocks = mark;
  const focus = document.activeElement?.getAttribute('href');
  const queues = page.queues.map(queue => drawQueue(queue, page.now));
  if (!queues.length) queues.push(empty('No lock queues', 'Queues of Zoolet, Curator, kazoo, Go and the Java recipe appear here: directories with sequential ephemerals.'));
  if (page.more) queues.push(h('p', { class: 'note' }, `Found among the first ${number.format(page.looked)} ephemerals. There are more.`));
  $('locks').replaceChildren(...queues);
  if (focus) for (const link of $('locks').querySelectorAll('a')) if (link.getAttribute('href') === focus) { link.focus(); break; }
}

const lockRefresh = repeating(refreshLocks, 1000);
views.locks = { show: () => { lastLocks = ''; lockRefresh.start(); }, leave: () => lockRefresh.stop() };

// ---- Transactions -------------------------------------------------------------------------------------------------------------

const MOST_TXNS = 500;
const txns = { round: 0, paused: false, abort: null };

const txnColumns = [['Time', 'fix', 'w-time'], ['zxid', 'fix', 'w-zxid'], ['Type', 'fix', 'w-type'], ['Path', 'path'], ['Session', 'fix', 'w-session']];

function drawStep(txn, step) {
  const text = [];
  if (txn.kind === 'multi' || txn.kind === 'closeSession') text.push(h('span', { class: 'soft' }, `${step.kind} `));
  if (step.path === null) text.push(h('span', { class: 'soft' }, step.hidden ? 'hidden by an ACL' : 'a long path'));
  else text.push(pathLink(step.path));
  if (typeof step.length === 'number') text.push(h('span', { class: 'soft' }, ` ${bytes(step.length)}`));
  return h('div', {}, text);
}

function drawTxn(txn) {
  const what = txn.steps.map(step => drawStep(txn, step));
  if (txn.length > txn.steps.length) what.push(h('div', { class: 'soft' }, `and ${number.format(txn.length - txn.steps.length)} more`));
  if (txn.error) what.push(h('span', { class: 'soft' }, txn.error));
  return row(txnColumns, [
    h('span', { title: when(txn.time) }, clock.format(new Date(txn.time))),
    h('span', { class: 'mono' }, txn.zxid),
    txn.kind === 'error' ? h('span', { class: 'badge bad' }, 'refused') : h('span', { class: 'badge' }, txn.kind),
    what,
    h('a', { class: 'path', href: `#/sessions?${txn.session}` }, txn.session),
  ], { class: 'new' });
}

const txnTable = table(txnColumns, [], 'fixed');
const txnBody = txnTable.querySelector('tbody');
txnBody.id = 'txn-rows';
const txnEmpty = empty('No transactions yet', 'Writes appear here while this page follows. Reads take no transaction.');
txnTable.hidden = true;
$('txns').append(txnTable, txnEmpty);

function clearTxns() {
  txnBody.replaceChildren();
  txnTable.hidden = true;
  txnEmpty.hidden = false;
}

async function follow() {
  const round = ++txns.round;
  txns.abort?.abort();
  txns.abort = new AbortController();
  const filter = { path: $('txn-path').value.trim(), session: $('txn-session').value.trim(), kind: $('txn-kind').value };
  let after;
  while (round === txns.round) {
    try {
      const page = await ask('transactions', { after, ...filter }, { signal: txns.abort.signal });
      if (round !== txns.round) return;
      say();
      after = page.last;
      $('txn-state').textContent = page.missed ? 'Some were missed: more came than the server keeps.' : 'Following';
      // Not more often than somebody can look.
      await new Promise(resolve => setTimeout(resolve, 100));
      if (round !== txns.round) return;
      if (!page.transactions.length) continue;
      txnBody.prepend(...page.transactions.reverse().map(drawTxn));
      while (txnBody.childElementCount > MOST_TXNS) txnBody.lastElementChild.remove();
      txnTable.hidden = false;
      txnEmpty.hidden = true;
    } catch (error) {
      if (round !== txns.round) return;
      $('txn-state').textContent = '';
      say(explain(error));
      after = undefined;
      await new Promise(resolve => setTimeout(resolve, 2000));
    }
  }
}

function stopFollowing(text) {
  txns.round += 1;
  txns.abort?.abort();
  $('txn-state').textContent = text;
}

$('txn-filter').addEventListener('submit', event => { event.preventDefault(); });
for (const id of ['txn-path', 'txn-session', 'txn-kind']) {
  $(id).addEventListener('change', () => { clearTxns(); if (!txns.paused) follow(); });
}
$('txn-clear').addEventListener('click', clearTxns);
$('txn-pause').addEventListener('click', () => {
  txns.paused = !txns.paused;
  $('txn-pause').setAttribute('aria-pressed', txns.paused);
  if (txns.paused) stopFollowing('Paused'); else follow();
});
views.transactions = { enter() { if (!txns.paused) follow(); }, leave() { stopFollowing(txns.paused ? 'Paused' : ''); } };

// ---- Load ---------------------------------------------------------------------------------------------------------------------

const EVERY = 2000, KEPT = 150; // five minutes
const samples = []; // of the server's counters, by time

const rate = (field, a, b) => Math.max(0, (b[field] - a[field]) / (b.now - a.now) * 1000);
/** The mean of what came between two samples. */
const mean = (sum, of, a, b) => (b[of] > a[of] ? (b[sum] - a[sum]) / (b[of] - a[of]) : 0);
const short = value => (value >= 100 || Number.isInteger(value) ? number.format(Math.round(value)) : String(Number(value.toFixed(value < 1 ? 2 : 1))));

const plots = [
  { title: 'Requests', unit: 'answered a second', value: (a, b) => rate('handled', a, b) },
  { title: 'Latency', unit: 'ms, mean', value: (a, b) => mean('latency_micros', 'handled', a, b) / 1000 },
  { title: 'Outstanding', unit: 'requests without an answer', value: (a, b) => b.outstanding },
  { title: 'Connections', unit: 'open', value: (a, b) => b.connections },
  { title: 'Sessions', unit: 'alive', value: (a, b) => b.sessions },
  { title: 'Transactions', unit: 'a second', value: (a, b) => Math.max(0, Number(BigInt(b.zxid) - BigInt(a.zxid)) / (b.now - a.now) * 1000) },
  { title: 'Waiting for the log', unit: 'transactions', when: now => now.log, value: (a, b) => b.log.queued },
  { title: 'Syncs of the log', unit: 'a second', when: now => now.syncs !== null, value: (a, b) => (a.syncs === null ? undefined : rate('syncs', a, b)) },
  { title: 'Time of a sync', unit: 'ms, mean', when: now => now.syncs !== null, value: (a, b) => (a.syncs === null ? undefined : mean('sync_ms', 'syncs', a, b)) },
  { title: 'Znodes', unit: 'in the tree', value: (a, b) => b.znodes },
  { title: 'Watches', unit: 'set', value: (a, b) => b.watches },
  { title: 'Received', unit: 'KiB a second', value: (a, b) => rate('bytes_received', a, b) / 1024 },
];

function drawPlot(plot) {
  const newest = samples.at(-1);
  const points = [];
  for (let at = 1; at < samples.length; at += 1) {
    const [a, b] = [samples[at - 1], samples[at]];
    if (b.now > a.now && plot.value(a, b) !== undefined) points.push([b.now, plot.value(a, b)]);
  }
  const values = points.map(([, value]) => value);
  const most = Math.max(...values, 0);
  const top = most > 0 ? most * 1.1 : 1;
  // The time that was measured, half a minute at least and five minutes at most.
  const width = Math.max(30_000, newest ? newest.now - samples[0].now : 0);
  const x = time => ((1 - (newest.now - time) / width) * 300).toFixed(1);
  const y = value => (82 - value / top * 78).toFixed(1);
  const line = points.map(([time, value]) => `${x(time)},${y(value)}`);
  const label = values.length ? short(values.at(-1)) : '–';
  const picture = svg('svg', { viewBox: '0 0 300 84', preserveAspectRatio: 'none', role: 'img', 'aria-label': `${plot.title}: now ${label} ${plot.unit}; at most ${short(most)} in the last ${span(width)}` });
  picture.append(svg('path', { class: 'grid', d: 'M0 82.5H300M0 43.5H300' }));
  if (line.length > 1) {
    picture.append(svg('path', { class: 'area', d: `M${x(points[0][0])},82 L${line.join(' L')} L${x(points.at(-1)[0])},82 Z` }));
    picture.append(svg('path', { class: 'line', d: `M${line.join(' L')}` }));
  }
  return h('section', { class: 'plot', 'aria-label': plot.title }, h('h3', {}, plot.title),
    h('p', { class: 'now' }, h('b', {}, label), h('span', {}, plot.unit)), picture,
    h('p', { class: 'axis' }, h('span', {}, `${span(width)} ago`), h('span', {}, values.length ? `at most ${short(most)}` : 'measuring…'), h('span', {}, 'now')));
}

function drawLoad() {
  const newest = samples.at(-1);
  $('plots').replaceChildren(...plots.filter(plot => !plot.when || (newest && plot.when(newest))).map(drawPlot));
}

function drawSummary() {
  const now = samples.at(-1);
  if (!now || !server) return;
  const part = (name, value, kind) => h('span', { class: kind }, `${name} `, h('b', {}, value));
  $('summary').replaceChildren(
    part('znodes', number.format(now.znodes)), part('sessions', number.format(now.sessions)), part('up', span(now.now - now.started)),
    part('zxid', now.zxid, 'wide'), part('state', now.log ? 'on disk' : 'in memory', 'wide'), part('version', server.version, 'wide'));
}

async function sample() {
  // Times of syncs are recorded from the first look at them on.
  const load = await ask('load', { measure: current === 'load' ? 1 : '' });
  if (samples.length && load.started !== samples[0].started) samples.length = 0;
  samples.push(load);
  if (samples.length > KEPT + 1) samples.shift();
  if (!server) await meet();
  drawSummary();
  if (current === 'load') drawLoad();
}
views.load = { show: drawLoad };

// ---- Identity -----------------------------------------------------------------------------------------------------------------

async function meet() {
  server = await ask('server');
  $('mode').hidden = false;
  $('mode').textContent = server.writable ? 'writable' : 'read-only';
  $('mode').className = server.writable ? 'badge wait' : 'badge';
  $('identity').textContent = credentials ? `digest:${visible(credentials.split(':')[0])}` : 'Anonymous';
  $('identity').title = `Reads and writes as ${server.identities.join(', ')}`;
  // What may be done with it is known now.
  if (current === 'znodes') await refreshZnode();
}

$('identity').addEventListener('click', () => {
  $('identity-dialog').returnValue = '';
  $('identity-password').value = '';
  $('identity-dialog').showModal();
});
$('identity-dialog').addEventListener('close', async () => {
  const answer = $('identity-dialog').returnValue;
  if (answer !== 'ok' && answer !== 'anonymous') return;
  const [user, password] = [$('identity-user').value, $('identity-password').value];
  $('identity-password').value = '';
  credentials = answer === 'ok' && user ? `${user}:${password}` : null;
  // Everything may look different now.
  shown = null;
  lastLocks = '';
  tree.reset(tree.root);
  tree.root.open = false;
  tree.lay();
  clearTxns();
  try { await meet(); } catch (error) { say(explain(error)); }
  if (current === 'transactions') { if (!txns.paused) follow(); } else route();
});

// ---- Begin --------------------------------------------------------------------------------------------------------------------

addEventListener('hashchange', route);
repeating(sample, EVERY).start();
route();
