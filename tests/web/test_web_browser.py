"""The inspector in a real browser: it keeps itself current, explains answers, changes settings, and runs nothing that
people wrote.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from browser import browsing
from clock import wall_now
from conftest import FakeEmbedder, make_settings
from playwright.async_api import Browser, Page, expect
from serving import Running, serving

from channelmem import Attachment, Message
from channelmem.access import Scope

pytestmark = pytest.mark.asyncio(loop_scope="module")

GUILD, CHANNEL, HOSTILE, OTHER_GUILD = 811 << 22, 4_001, 4_002, 812 << 22
HERE, THERE = f"/g/{GUILD}/c/{CHANNEL}", f"/g/{GUILD}/c/{HOSTILE}"
VIEWS = ("", "/summaries", "/ask?q=what+did+Ann+say+about+the+release%3F", "/map", "/settings")
PAGES = ("/login", "/", "/health", "/settings", *(HERE + view for view in VIEWS))
ATTACKS = (
    "<script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    '"><svg onload=window.hacked=1>',
    "'-window.hacked=1-'",
    "{{ 7*7 }}${window.hacked=1}",
    "</template></textarea><script>window.hacked=1</script>",
    "javascript:window.hacked=1",
)
FIRST_PAGE_BYTES = 100_000

expect.set_options(timeout=20_000)


def said(number: int, text: str, minutes_ago: float = 5.0, **changes: Any) -> Message:
    given: dict[str, Any] = {"guild_id": GUILD, "channel_id": CHANNEL, "author_id": 5, "author": "Ann", **changes}
    return Message(id=number, content=text, ts=wall_now() - minutes_ago * 60 + number / 1_000, **given)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    folder: Path = tmp_path_factory.mktemp("inspector")
    settings = make_settings(redis_url, folder, key_prefix=f"t{uuid.uuid4().hex[:12]}")
    async with serving(settings, FakeEmbedder()) as running:
        await fill(running)
        yield running
        for guild in (GUILD, OTHER_GUILD):
            await running.memory.delete_guild(guild)


async def fill(running: Running) -> None:
    picture = Attachment(1, content_type="image/png", name="chart.png", size=4_000, text="a chart that goes up")
    talk = [said(number, f"older line {number} about tests", 3_000 - 31 * number) for number in range(1, 40)]
    await running.memory.remember_many(
        [
            *talk,
            said(100, "the release is on Friday"),
            said(101, "who brings the cake?", author_id=6, author="Bob"),
            said(102, "I do", reply_to=101),
            said(103, "look at this", attachments=(picture,)),
            said(104, "a thing of another guild", guild_id=OTHER_GUILD),
        ]
    )
    await running.memory.overview.tell_names(GUILD, "Turtle Club", {CHANNEL: "general", HOSTILE: ATTACKS[0]})
    await running.memory.overview.tell_names(OTHER_GUILD, "Cat Club", {CHANNEL: "cats"})
    await running.memory.flush()
    await running.memory.summaries.update(GUILD, CHANNEL)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with browsing() as opened:
        yield opened


@asynccontextmanager
async def visit(
    browser: Browser, service: Running, path: str = "/", *guild_ids: int, scopes: Any = tuple(Scope), **options: Any
) -> AsyncIterator[Page]:
    """A page of somebody who has logged in. Fails if the page complains, or is kept from something by its policy."""
    context = await browser.new_context(base_url=service.url, **options)
    page = await context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.set_default_timeout(20_000)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    try:
        await page.goto(path)
        await page.fill("#token", await service.token("visitor", scopes, *guild_ids))
        await page.press("#token", "Enter")
        await page.wait_for_url(lambda address: "/login" not in address)
        yield page
    finally:
        await context.close()
    # A refused form answers 422, which the browser notes: that is the page doing its work.
    assert not [one for one in complaints if "422" not in one]


async def test_a_message_appears_changes_and_goes_by_itself(browser: Browser, service: Running) -> None:
    async with visit(browser, service, HERE) as page:
        row = page.locator("#m900")
        await expect(row).to_have_count(0)
        await service.memory.remember(said(900, "the umbrella is in the attic", 0.1, reply_to=100))
        await expect(row.locator(".text")).to_have_text("the umbrella is in the attic")
        await expect(row.locator(".state")).to_have_text("embedded")
        await expect(row.locator(".reply")).to_contain_text("Ann: the release is on Friday")
        await expect(page.locator("#timeline .row").first).to_have_attribute("id", "m900")
        await service.memory.edit(said(900, "the umbrella is in the cellar", 0.1, revision=wall_now()))
        await expect(row.locator(".text")).to_have_text("the umbrella is in the cellar")
        await expect(row.get_by_text("edited")).to_be_visible()
        await service.memory.delete(GUILD, CHANNEL, [900])
        await expect(row).to_have_count(0)
        await expect(page.locator("#live")).to_have_text("live")


async def test_a_timeline_draws_threads_pictures_and_the_end_of_the_buffer(browser: Browser, service: Running) -> None:
    async with visit(browser, service, HERE) as page:
        lane = await page.locator("#m101 .rail circle").get_attribute("cx")
        assert await page.locator("#m102 .rail circle").get_attribute("cx") == lane
        assert await page.locator("#m101 .rail line").count() >= 1
        assert await page.locator("#m102 .rail line").count() >= 1
        await expect(page.locator("#m103 .files")).to_contain_text("a chart that goes up")
        await expect(page.locator(".rule.edge")).to_have_text("the buffer ends here, below is the archive")
        await expect(page.locator("#m100 .left")).to_contain_text("6d 23h left")


async def test_the_question_box_explains_an_answer(browser: Browser, service: Running) -> None:
    async with visit(browser, service, f"{HERE}/ask") as page:
        await page.fill("#q", "what did Ann say about the release?")
        await page.keyboard.press("Enter")
        await expect(page.locator("blockquote")).to_contain_text("the release is on Friday")
        reasons = page.locator("#reasons li").first
        await expect(reasons).to_be_hidden()
        await page.click("summary:has-text('Reasons')")
        await expect(reasons).to_be_visible()
        await expect(page.locator(".candidates tbody tr").first).to_contain_text("the release is on Friday")
        await expect(page.locator(".waterfall tr")).to_have_count(4)
        await page.click(".candidates tbody tr:first-child a")
        await expect(page.locator("#m100")).to_be_in_viewport()


async def test_a_setting_is_edited_and_a_wrong_value_explained(browser: Browser, service: Running) -> None:
    async with visit(browser, service, f"{HERE}/settings") as page:
        row = page.locator("tr:has(#s-context_messages)")
        await page.get_by_label("Context Messages").fill("lots")
        await page.click("button:has-text('Save')")
        await expect(row.get_by_role("alert")).to_contain_text("a whole number from 1 to 100")
        await page.get_by_label("Context Messages").fill("42")
        await page.click("button:has-text('Save')")
        await expect(page.get_by_role("status")).to_contain_text("Saved")
        await expect(row.locator("td strong")).to_have_text("42")
        await expect(row.locator(".tag")).to_have_text("channel")
        assert service.memory.policy(GUILD, CHANNEL).context_messages == 42
        await page.get_by_label("Context Messages").fill("")
        await page.click("button:has-text('Save')")
        await expect(row.locator(".tag")).to_have_text("default")


async def test_nothing_that_people_wrote_is_run_or_shown_as_markup(browser: Browser, service: Running) -> None:
    hostile = [
        said(
            300 + at,
            attack,
            author=attack,
            author_id=50 + at,
            channel_id=HOSTILE,
            attachments=(Attachment(at + 1, name=attack, content_type=attack, text=attack, size=1),),
        )
        for at, attack in enumerate(ATTACKS)
    ]
    await service.memory.remember_many([*hostile, said(400, ATTACKS[1], 60, channel_id=HOSTILE)])
    await service.memory.flush()
    await service.memory.summaries.update(GUILD, HOSTILE)
    asked = "+".join(re.sub(r"\W", "", word) or "x" for word in ATTACKS[1].split())
    async with visit(browser, service, THERE) as page:
        for view in ("", "/summaries", f"/ask?q={asked}", "/map", f"/settings?character={ATTACKS[1]}"):
            await page.goto(THERE + view)
            await expect(page.locator("h1")).to_contain_text(ATTACKS[0])
            assert await page.evaluate("window.hacked") is None, view
            assert await page.locator("main script, main img, main svg[onload]").count() == 0, view
        await page.goto(THERE)
        texts = await page.locator(".row .text").all_text_contents()
        assert set(ATTACKS) <= set(texts)
        for attack in ATTACKS:
            await page.goto(f"{THERE}/ask")
            await page.fill("#q", f"what about {attack}")
            await page.keyboard.press("Enter")
            await expect(page.locator("blockquote")).to_be_visible()
            assert await page.evaluate("window.hacked") is None, attack
        await page.goto(THERE)
        await service.memory.remember(said(450, ATTACKS[2], 0.1, channel_id=HOSTILE, author=ATTACKS[1], author_id=70))
        await expect(page.locator("#m450 .text")).to_have_text(ATTACKS[2])
        await expect(page.locator("#m450 .meta strong")).to_have_text(ATTACKS[1])
        assert await page.evaluate("window.hacked") is None


async def test_the_map_and_the_pyramid_are_read_by_pointer_and_by_keyboard(browser: Browser, service: Running) -> None:
    async with visit(browser, service, f"{HERE}/map") as page:
        dots, note = page.locator(".map .dot"), page.locator("#point")
        await dots.nth(2).hover(force=True)
        await expect(note).to_contain_text(str(await dots.nth(2).get_attribute("data-text")))
        await dots.nth(0).focus()
        await page.keyboard.press("ArrowRight")
        await expect(dots.nth(1)).to_be_focused()
        await expect(note).to_contain_text(str(await dots.nth(1).get_attribute("data-text")))
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile(rf"{HERE}#m\d+$"))
        await page.goto(f"{HERE}/summaries")
        await page.locator(".box").first.focus()
        await page.keyboard.press("End")
        await expect(page.locator("#summary .title")).to_contain_text("Level 1")


async def test_a_page_can_be_used_without_a_mouse(browser: Browser, service: Running) -> None:
    async with visit(browser, service, "/") as page:
        await page.keyboard.press("Tab")
        await expect(page.locator(".skip")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator("main")).to_be_focused()
        await page.keyboard.press("Tab")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(page.locator(".tabs a[aria-current]")).to_have_text("Timeline")


async def test_without_the_script_everything_can_still_be_read(browser: Browser, service: Running) -> None:
    async with visit(browser, service, HERE, java_script_enabled=False) as page:
        await expect(page.locator("#m100 .text")).to_have_text("the release is on Friday")
        await expect(page.locator("#live")).to_be_hidden()
        await page.goto(f"{HERE}/ask")
        await page.fill("#q", "what did Ann say about the release?")
        await page.click("button:has-text('Ask')")
        await expect(page.locator("blockquote")).to_contain_text("the release is on Friday")


async def test_colours_follow_the_system_until_somebody_chooses(browser: Browser, service: Running) -> None:
    async with visit(browser, service, "/", color_scheme="dark") as page:
        background = "getComputedStyle(document.documentElement).backgroundColor"
        dark = await page.evaluate(background)
        await page.emulate_media(color_scheme="light")
        light = await page.evaluate(background)
        assert dark != light
        await page.click("#theme")
        assert await page.evaluate(background) == dark
        await page.reload()
        assert await page.evaluate(background) == dark


async def test_a_bound_token_sees_its_guild_and_logging_out_ends_the_visit(browser: Browser, service: Running) -> None:
    async with visit(browser, service, "/", OTHER_GUILD, scopes=[Scope.READ]) as page:
        await expect(page.locator("main")).to_contain_text("Cat Club")
        await expect(page.locator("body")).not_to_contain_text("Turtle Club")
        await page.click("text=Log out")
        await expect(page.locator("#token")).to_be_visible()
        await page.goto("/")
        await expect(page.locator("#token")).to_be_visible()


async def test_on_a_phone_nothing_is_wider_than_the_screen(browser: Browser, service: Running) -> None:
    async with visit(browser, service, "/", viewport={"width": 375, "height": 700}) as page:
        for path in (*PAGES, THERE):
            await page.goto(path)
            wide = await page.evaluate("document.scrollingElement.scrollWidth - innerWidth")
            assert wide <= 0, path


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_nothing_serious_on_any_page(browser: Browser, service: Running, theme: Any) -> None:
    async with visit(browser, service, "/", color_scheme=theme) as page:
        for path in PAGES:
            await page.goto(path)
            found = (await Axe().run(page)).response["violations"]
            serious = [
                (path, one["id"], [node["html"][:160] for node in one["nodes"][:3]])
                for one in found
                if one["impact"] in {"serious", "critical"}
            ]
            assert not serious


async def test_the_first_page_is_small(browser: Browser, service: Running) -> None:
    async with visit(browser, service, "/") as page:
        loaded = await page.evaluate(
            """() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
                .reduce((sum, one) => sum + one.decodedBodySize, 0)"""
        )
        assert 5_000 < loaded < FIRST_PAGE_BYTES
