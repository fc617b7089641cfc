"""A real browser for tests of pages: Chromium by Playwright, or a skip that names what to install."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, async_playwright

from scripts.chromium import FLAGS, MISSING, chromium


@asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    path = chromium()
    if path is None:
        pytest.skip(MISSING)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            await browser.close()
