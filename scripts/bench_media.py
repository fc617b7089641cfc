"""Measures reading media offline: checking pictures, the text in a screenshot, speech; and context with known pictures.

python -m scripts.bench_media [--rounds N] [--voice FILE] [--json]

Processor time, since other programs may be running; that of the process that decodes counts, too.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from PIL import Image, ImageDraw
from rich.progress import Progress

from channelmem.media.decoder import Decoder
from channelmem.media.opening import Ocr, Whisper
from channelmem.memory import Memory
from channelmem.types import Attachment, Message, Question
from scripts import measure
from scripts.fake_embedder import FakeEmbedder

VOICE = Path(__file__).resolve().parent.parent / "tests" / "data" / "voice.ogg"
LONGEST_S = 3_600.0
QUICK = 20  # so often, because the times of another process are told in hundredths of a second
READING, CONTEXT = "processor seconds per file", "processor milliseconds per context"
PICTURES = 10
NOW = 1_800_000_000.0
LINES = ("Traceback (most recent call last):", "ImportError: libssl.so.1.1: cannot open", "shared object file")


@dataclass(frozen=True, slots=True)
class Work:
    what: str
    run: Callable[[], Awaitable[object]]
    times: int = 1


async def bench(options: argparse.Namespace, bar: Progress) -> measure.Report:
    report = measure.Report("bench_media")
    async with _decoder() as decoder:
        work = await _work(decoder, options.voice.read_bytes())
        doing = bar.add_task("reading", total=options.rounds * (len(work) + 1))
        for one in work:
            await one.run()  # loads what the first one loads
            times = [await _took(one, decoder) for _ in range(options.rounds)]
            bar.advance(doing, options.rounds)
            report.add(READING, what=one.what, median=measure.spread(times).p50, worst=max(times))
    with measure.bench_settings() as settings:
        async with Memory.open(settings, clock=lambda: NOW, embedder=FakeEmbedder()) as memory:
            for what, channel_id in (("without pictures", 1), (f"with {PICTURES} known pictures", 2)):
                times = await _contexts(memory, channel_id, options.rounds * 20)
                report.add(CONTEXT, what=what, median=measure.spread(times).p50 * 1000, worst=max(times) * 1000)
    bar.advance(doing, options.rounds)
    return report


async def _contexts(memory: Memory, channel_id: int, rounds: int) -> list[float]:
    for number in range(1, PICTURES + 1):
        file = Attachment(number, "https://cdn.discordapp.com/1", "image/png", f"{number}.png", text="a grey cat")
        files = (file,) if channel_id == 2 else ()
        await memory.remember(Message(measure.GUILD, channel_id, number, 5, "Ann", "look", NOW - 60, attachments=files))
    times = []
    for number in range(rounds):
        asked = Question(measure.GUILD, channel_id, 1_000 + number, 9, "Bob", "what is going on?", NOW)
        answer = await memory.ask(asked)
        started = time.process_time()
        await memory.context(asked, answer)
        times.append(time.process_time() - started)
    return times


async def _work(decoder: Decoder, speech: bytes) -> list[Work]:
    screenshot, photo, small = _screenshot(), _photo((4000, 3000)), _photo((800, 600))
    ocr, whisper = Ocr(), Whisper()
    seconds = f"{(await decoder.measure(speech, LONGEST_S)).seconds:.0f} s"

    async def text() -> object:
        return await asyncio.to_thread(ocr.read, await decoder.pixels(screenshot))

    async def words() -> object:
        return await asyncio.to_thread(whisper.read, await decoder.sound(speech, LONGEST_S))

    return [
        Work("check a picture of 0.5 megapixels, sent as it is", lambda: decoder.picture(small), QUICK),
        Work("check and scale a photo of 12 megapixels", lambda: decoder.picture(photo)),
        Work(f"measure speech, {seconds}", lambda: decoder.measure(speech, LONGEST_S), QUICK),
        Work("text in a screenshot (OCR)", text),
        Work(f"speech, {seconds} (Whisper tiny.en)", words),
    ]


def _process_of(decoder: Decoder) -> Any:
    return decoder._process  # noqa: SLF001


@asynccontextmanager
async def _decoder() -> AsyncIterator[Decoder]:
    decoder = Decoder()
    try:
        yield decoder
    finally:
        await decoder.close()


async def _took(work: Work, decoder: Decoder) -> float:
    started = _processor_s(decoder)
    for _ in range(work.times):
        await work.run()
    return (_processor_s(decoder) - started) / work.times


def _processor_s(decoder: Decoder) -> float:
    times = psutil.Process(_process_of(decoder).pid).cpu_times()
    return time.process_time() + times.user + times.system


def _photo(size: tuple[int, int]) -> bytes:
    out = io.BytesIO()
    Image.effect_noise((size[0] // 8, size[1] // 8), 60).resize(size).convert("RGB").save(out, "JPEG")
    return out.getvalue()


def _screenshot() -> bytes:
    image = Image.new("RGB", (900, 40 + 40 * len(LINES)), "white")
    for at, line in enumerate(LINES):
        ImageDraw.Draw(image).text((20, 20 + 40 * at), line, fill="black", font_size=28)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def main() -> None:
    parser = measure.parser(__doc__, "bench_media")
    parser.add_argument("--rounds", type=int, default=10, help="files of each kind (default 10)")
    parser.add_argument("--voice", type=Path, default=VOICE, help="a recording of speech")
    measure.run(bench, parser.parse_args())


if __name__ == "__main__":
    main()
