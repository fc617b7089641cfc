"""Screenshots of the inspector for the README and docs/inspector.md, from the real page with made-up data.

    python -m scripts.screenshots [--out docs]

Starts the service on a free port with an embedded Redis of its own, fills it, and lets Chromium draw. Prints how large
the first page is and how long it takes until it is ready, both measured by the browser.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import socket
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from PIL import Image
from playwright.async_api import Browser, Page, async_playwright

from channelmem import Memory, Settings
from channelmem.access import OpenDoor
from channelmem.api.app import create_app
from channelmem.api.asking import CallersHistory
from scripts import window_demo as demo
from scripts.chromium import FLAGS, MISSING, chromium

ROOT = Path(__file__).resolve().parent.parent
HERE = f"/g/{demo.GUILD}/c/{demo.GENERAL}"
ASKED = f"{HERE}/ask?q=what+did+Bob+say+about+the+login+service%3F&as={demo.PEOPLE['Mark']}"
LOADS = 7
COLOURS = 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="folder for the pictures")
    parser.add_argument("--measure", action="store_true", help="only measure, write no pictures")
    asyncio.run(run(parser.parse_args()))


async def run(options: argparse.Namespace) -> None:
    program = chromium()
    if program is None:
        sys.exit(MISSING)
    async with served() as url, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        await measure(browser, url)
        if not options.measure:
            for name, path, theme, size in PICTURES:
                await take(browser, f"{url}{path}", options.out / name, theme, size)
        await browser.close()


PICTURES = (
    ("inspector-timeline.png", HERE, "light", (1280, 860)),
    ("inspector-ask.png", ASKED, "light", (1280, 860)),
    ("inspector-map.png", f"{HERE}/map", "dark", (1280, 860)),
    ("inspector-phone.png", HERE, "dark", (400, 800)),
)


@asynccontextmanager
async def served() -> AsyncIterator[str]:
    """The service with demo data, on a free port of this machine."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        settings = Settings(_env_file=None, redis_url=None, data_dir=Path(folder), embedded_grace_s=0.5)
        async with Memory.open(settings, history=CallersHistory()) as memory:
            await demo.fill(memory)
            config = uvicorn.Config(create_app(memory, OpenDoor(), settings), log_level="warning")
            server = uvicorn.Server(config)
            running = asyncio.create_task(server.serve(sockets=[listening]))
            while not server.started:  # noqa: ASYNC110  (it tells nobody)
                await asyncio.sleep(0.01)
            try:
                yield f"http://127.0.0.1:{listening.getsockname()[1]}"
            finally:
                server.should_exit = True
                await running


async def measure(browser: Browser, url: str) -> None:
    """First visits, with nothing in the browser's cache: bytes over the wire, and milliseconds until loaded."""
    for name, path in (("channels", "/"), ("a channel", HERE)):
        bytes_, times = 0, []
        for _ in range(LOADS):
            page = await (await browser.new_context()).new_page()
            await page.goto(f"{url}{path}", wait_until="load")
            bytes_, ready_ms = await _loaded(page)
            times.append(ready_ms)
            await page.context.close()
        print(f"{name}: {bytes_:,} bytes, ready in {statistics.median(times):.0f} ms (median of {LOADS})")


async def _loaded(page: Page) -> tuple[int, float]:
    bytes_, ready_ms = await page.evaluate(
        """() => {
            const page = performance.getEntriesByType("navigation")[0];
            const all = [page, ...performance.getEntriesByType("resource")];
            return [all.reduce((sum, one) => sum + one.transferSize, 0), page.loadEventStart];
        }"""
    )
    return int(bytes_), float(ready_ms)


async def take(browser: Browser, address: str, file: Path, theme: str, size: tuple[int, int]) -> None:
    context = await browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if theme == "dark" else "light"
    )
    page = await context.new_page()
    await page.goto(address, wait_until="load")
    for drawing in await page.query_selector_all("[data-shows] [data-text]"):
        await drawing.hover(force=True)
        break
    if details := await page.query_selector("#reasons"):
        await details.evaluate("node => node.open = true")
    picture = await page.screenshot()
    await context.close()
    print(f"{file.name}: {keep(picture, file):,} bytes")


def keep(picture: bytes, file: Path) -> int:
    """Pages have few colours: with a palette the file is a third as large."""
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS).save(file, optimize=True)
    return file.stat().st_size


if __name__ == "__main__":
    main()
