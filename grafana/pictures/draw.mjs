// Draws dashboards with their answers: node draw.mjs FOLDER_OF_ANSWERS FOLDER_OF_PICTURES [light]

import { execFileSync } from 'node:child_process';
import { mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';
import { launch } from 'puppeteer-core';
import sharp from 'sharp';

const WIDTH_PX = 1440;
// The charts measure themselves, and draw in frames of their own.
const SETTLES_MS = 1000;
// No server and no network: the browser's requests are answered here.
const ORIGIN = 'http://pictures.invalid';
const FONT = import.meta.resolve('@fontsource-variable/inter/files/inter-latin-wght-normal.woff2');

const [from, to, mode = 'dark'] = process.argv.slice(2);

/** Gives the page's files by their paths. */
async function page() {
  const at = fileURLToPath(new URL('page', import.meta.url));
  const { outputFiles } = await build({
    bundle: true,
    define: { 'process.env.NODE_ENV': '"production"' },
    entryPoints: [join(at, 'main.jsx')],
    jsx: 'automatic',
    loader: { '.ttf': 'empty' },
    logLevel: 'error',
    outdir: '/',
    write: false,
  });
  const files = outputFiles.map(({ path, contents }) => [path, Buffer.from(contents)]);
  return new Map([...files, ['/', await readFile(join(at, 'index.html'))]]);
}

function answer(request, files, font) {
  const { pathname } = new URL(request.url());
  const body = pathname.startsWith('/fonts/inter/') ? font : files.get(pathname);
  const contentType = { '': 'text/html', css: 'text/css', js: 'text/javascript' }[pathname.split('.')[1] ?? ''];
  return request.respond(body ? { body, contentType } : { status: 404 });
}

function chromium() {
  const names = process.env.CHROMIUM ? [process.env.CHROMIUM] : ['chromium', 'chromium-browser', 'google-chrome'];
  for (const name of names) {
    try {
      return execFileSync('which', [name], { encoding: 'utf8' }).trim();
    } catch {
      continue;
    }
  }
  throw new Error(`no ${names.join(' or ')} on PATH: install one, or name it by CHROMIUM`);
}

async function draw(browser, files, font, board) {
  const page = await browser.newPage();
  const errors = [];
  page.on('pageerror', (error) => errors.push(error.stack ?? error.message));
  await page.setRequestInterception(true);
  page.on('request', (request) => answer(request, files, font));
  await page.setViewport({ width: WIDTH_PX, height: 1000 });
  await page.evaluateOnNewDocument((given) => Object.assign(window, given), { board, mode });
  await page.goto(ORIGIN);
  await page.waitForFunction(() => window.drawn, { timeout: 30_000 }).catch((error) => errors.push(error.message));
  const height = await page.evaluate(() => document.body.offsetHeight);
  await page.setViewport({ width: WIDTH_PX, height });
  await new Promise((resolve) => setTimeout(resolve, SETTLES_MS));
  const picture = await page.screenshot();
  const drawn = await page.evaluate(() => window.drawn);
  await page.close();
  if (errors.length) {
    throw new Error(`${board.dashboard.title}: ${errors.join('\n')}`);
  }
  return { picture, empty: drawn.empty };
}

// As root Chromium has no sandbox to offer; it shows nothing but this page.
const args = process.getuid() === 0 ? ['--no-sandbox'] : [];
const browser = await launch({ args, executablePath: chromium() });
try {
  const [files, font] = [await page(), await readFile(fileURLToPath(FONT))];
  await mkdir(to, { recursive: true });
  for (const name of (await readdir(from)).sort()) {
    const board = JSON.parse(await readFile(join(from, name), 'utf8'));
    const { picture, empty } = await draw(browser, files, font, board);
    const file = join(to, `${basename(name, '.json')}.png`);
    // 64 colours are enough for lines and text.
    await writeFile(file, await sharp(picture).png({ palette: true, colours: 64, dither: 0, effort: 10 }).toBuffer());
    console.log(`${file}${empty.length ? ` (without data: ${empty.join(', ')})` : ''}`);
  }
} finally {
  await browser.close();
}
