"""Threads as rails beside a timeline. In: messages, newest first. Out: for each, its lane and those that pass by it.

A thread has one lane from its first to its last message, like a branch in a drawing of a repository's history. Threads
that are over make room for others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from channelmem.telling.threads import build
from channelmem.types import Message

LANES: Final = 6
"""More threads at the same time share the last lane."""
COLOURS: Final = 8


@dataclass(frozen=True, slots=True)
class Rail:
    """`newer` and `older` say whether the thread goes on upwards or downwards from this message."""

    lane: int = 0
    colour: int = 0
    newer: bool = False
    older: bool = False
    passing: tuple[tuple[int, int], ...] = ()
    """Lane and colour of other threads that pass by."""


@dataclass(slots=True)
class _Track:
    first: int
    last: int
    lane: int = 0
    colour: int = 0


def rails(messages: Sequence[Message]) -> list[Rail]:
    place = {message.id: at for at, message in enumerate(messages)}
    forest = build(messages, max_threads=len(messages), max_messages=len(messages))
    tracks = [
        _Track(min(rows), max(rows))
        for thread in forest.threads
        if (rows := [place[message.id] for message in thread.messages])
    ]
    track_of = {
        place[message.id]: track
        for thread, track in zip(forest.threads, tracks, strict=True)
        for message in thread.messages
    }
    _lay_out(tracks, messages, track_of)
    return [_rail(at, track_of[at], tracks) for at in range(len(messages))]


def _lay_out(tracks: list[_Track], messages: Sequence[Message], track_of: dict[int, _Track]) -> None:
    """The leftmost free lane, from the oldest thread on, so that new messages do not move old threads."""
    taken: list[_Track] = []
    for track in sorted(tracks, key=lambda one: -one.last):
        taken = [one for one in taken if one.first <= track.last]
        used = {one.lane for one in taken}
        track.lane = next((lane for lane in range(LANES) if lane not in used), LANES - 1)
        taken.append(track)
    for at, track in track_of.items():
        if at == track.last:
            track.colour = _colour(messages[at].id)  # of the thread's first message: stays when others come


def _colour(message_id: int) -> int:
    """Spread evenly: the low bits of Discord's ids are nearly always the same (Fibonacci hashing)."""
    return (message_id * 0x9E37_79B9_7F4A_7C15 & 0xFFFF_FFFF_FFFF_FFFF) >> 61


def _rail(at: int, own: _Track, tracks: Sequence[_Track]) -> Rail:
    passing = {
        one.lane: one.colour for one in tracks if one is not own and one.first < at < one.last and one.lane != own.lane
    }
    return Rail(own.lane, own.colour, own.first < at, at < own.last, tuple(sorted(passing.items())))
