"""A map of a channel, on which messages that mean similar things lie close.

The plane is the one that keeps most of what tells the vectors apart (principal components). Two of 384 dimensions keep
only a part of that, and the page says how much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Final

import numpy as np
from numpy.typing import NDArray

from channelmem.display import cut, flatten, named
from channelmem.types import Message
from channelmem.web.templating import short_day

MESSAGES: Final = 400
WIDTH, HEIGHT, MARGIN = 960, 560, 24
COLOURS: Final = 7
"""People with a colour of their own; all others share the last one."""
TEXT_CHARS: Final = 300
LABELS: Final = 28
LABEL_CHARS: Final = 26
CHAR_WIDTH, LINE_HEIGHT = 6.3, 15.0
"""Of a label, roughly: enough to keep them apart."""

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True, slots=True)
class Point:
    id: str
    x: float
    y: float
    colour: int
    author: str
    text: str
    time: str
    label: str = ""
    """The beginning of the text, where there is room for it."""


@dataclass(frozen=True, slots=True)
class Map:
    points: tuple[Point, ...]
    people: tuple[tuple[str, int, int], ...]
    """Name, colour and number of messages."""
    kept: int
    """Percent of the variance that the plane keeps."""
    width: int = WIDTH
    height: int = HEIGHT


def project(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float64], float]:
    """Two coordinates per row, and the share of the variance they keep."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    left, strength, _ = np.linalg.svd(centred, full_matrices=False)
    plane = np.zeros((len(vectors), 2))
    found = min(2, len(strength))
    # The sign of a component is chance; fixed, the same channel looks the same every time.
    signs = np.sign(left[np.abs(left[:, :found]).argmax(axis=0), range(found)])
    plane[:, :found] = left[:, :found] * strength[:found] * np.where(signs == 0, 1, signs)
    total = float((strength**2).sum())
    return plane, float((strength[:2] ** 2).sum()) / total if total else 1.0


def draw(messages: Sequence[Message], vectors: NDArray[np.float32], tz: tzinfo) -> Map:
    """Messages and vectors in the same order; at least one."""
    plane, kept = project(vectors)
    low, span = plane.min(axis=0), np.ptp(plane, axis=0)
    scaled = (plane - low) / np.where(span > 0, span, 1.0) if len(plane) > 1 else np.full((1, 2), 0.5)
    spoken = Counter(message.author_id for message in messages)
    colours = {author: at for at, (author, _) in enumerate(spoken.most_common(COLOURS))}
    names = {message.author_id: _name(message.author) for message in reversed(messages)}
    points = [
        Point(
            str(message.id),
            round(MARGIN + float(x) * (WIDTH - 2 * MARGIN), 1),
            round(MARGIN + float(y) * (HEIGHT - 2 * MARGIN), 1),
            colours.get(message.author_id, COLOURS),
            _name(message.author),
            cut(flatten(named(message.content, names)), TEXT_CHARS),
            short_day(message.ts, tz),
        )
        for message, (x, y) in zip(messages, scaled, strict=True)
    ]
    people = [(names[author], colour, spoken[author]) for author, colour in colours.items()]
    if others := sum(count for author, count in spoken.items() if author not in colours):
        people.append(("others", COLOURS, others))
    return Map(tuple(_labelled(points)), tuple(people), round(100 * kept))


def _labelled(points: Sequence[Point]) -> list[Point]:
    """The newest first, each unless it would cover another label or a point."""
    taken = [(point.x - 7, point.y - 7, point.x + 7, point.y + 7) for point in points]
    shown: dict[int, str] = {}
    for at, point in enumerate(points):
        text = cut(point.text, LABEL_CHARS)
        left, top = point.x + 10, point.y - LINE_HEIGHT / 2
        box = (left, top, left + CHAR_WIDTH * len(text), top + LINE_HEIGHT)
        if len(shown) < LABELS and box[2] < WIDTH and not any(_overlap(box, other) for other in taken):
            shown[at] = text
            taken.append(box)
    return [replace(point, label=shown.get(at, "")) for at, point in enumerate(points)]


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _name(name: str) -> str:
    return cut(flatten(name), 40) or "somebody"
