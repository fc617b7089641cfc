"""The two flows of channelmem, in the order in which things happen.

    message  -> normalise -> link -> store (visible at once) -> embed in batches -> searchable     remember
    question -> route -> recall (buffer | archive | the platform's history) -> decide -> answer    ask

Adapters call Memory and nothing below it. `remember` and `ask` never raise for an unreachable Redis: messages are
queued, and questions are answered from the platform's history, or with a note on what could not be searched.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from channelmem.browse import Browse, FilteredHistory, Overview
from channelmem.context import ContextBuilder, given_to
from channelmem.embedding.embed import Embedder, open_embedder
from channelmem.embedding.model import Progress
from channelmem.errors import RedisUnavailableError
from channelmem.ids import MessageId
from channelmem.ingest.normalise import ENRICHMENT_CHARS, normalise, tidy_line
from channelmem.ingest.worker import Worker
from channelmem.linking.linker import ChannelLinkers
from channelmem.media.media import Media
from channelmem.policy.policies import Policies
from channelmem.policy.policy import Policy
from channelmem.recalling.candidates import Asked
from channelmem.recalling.recall import Found, Recall, decide
from channelmem.recalling.verdict import Verdict
from channelmem.recaps import Recaps
from channelmem.routing.route import route
from channelmem.scenes import FollowUps, LocalCopies, Rosters, removed, scene_of
from channelmem.server.lease import check_server, connect_url
from channelmem.settings import Settings, load_settings
from channelmem.store.buckets import Buckets
from channelmem.store.channel_state import Bookmarks
from channelmem.store.derived import SummaryStore
from channelmem.store.redis import connect
from channelmem.store.search import Newest, Search
from channelmem.store.store import Store
from channelmem.summaries.reader import SummaryReader
from channelmem.summaries.summaries import Summaries
from channelmem.summaries.update import Summariser
from channelmem.tasks import beside
from channelmem.telling import budget as tokens
from channelmem.telling.answer import tell
from channelmem.types import (
    Answer,
    ChannelStatus,
    Context,
    ContextRequest,
    Gap,
    History,
    Kind,
    Message,
    Mode,
    Origin,
    Outcome,
    Question,
    Source,
    Timing,
)

T = TypeVar("T")
Clock = Callable[[], float]

log = logging.getLogger(__name__)

BATCH = 32
"""Messages of a long list that are linked and stored together, in one step of the event loop."""


class Memory:
    """What a bot remembers of the channels around it. Open it with `async with Memory.open(settings) as memory`."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        *,
        history: History | None = None,
        summariser: Summariser | None = None,
    ) -> None:
        settings = store.buckets.settings
        self._store, self.policies, self._changes = store, Policies(settings, store), store.buckets.changes
        self.spending, self.loads = store.spending, store.loads
        self._history = past = FilteredHistory(history, store.decisions, self.policies) if history else None
        self._bookmarks, self._follow_ups = Bookmarks(store.buckets), FollowUps()
        self._search = search = Search(store.buckets)
        self._linkers = ChannelLinkers(Newest(search, self.policies.storing))
        self._rosters = Rosters(store, past, self._linkers.authors)
        self.media = Media(store, self.policies, search, past)
        self._local = LocalCopies(self._linkers, self._rosters, self._follow_ups, self.media, self._changes)
        wait_s = settings.pending_wait_ms / 1000
        self._recall = Recall(search, embedder, clock=store.buckets.clock, pending_wait_s=wait_s, history=past)
        reader = SummaryReader(SummaryStore(store.buckets), settings.summary_slot_s)
        self._context = ContextBuilder(search, self._recall, past, self.policies, reader, self.media)
        self.recaps = Recaps(search, reader, past)
        self.summaries = Summaries(store, self.policies, search, reader, self._context, summariser)
        self.browse = Browse(search, self._recall, store.channels, self.policies, reader)
        self.overview = Overview(store, self.policies, self.browse)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Settings | None = None,
        *,
        clock: Clock = time.time,
        history: History | None = None,
        embedder: Embedder | None = None,
        summariser: Summariser | None = None,
        progress: Progress | None = None,
        patient: bool = False,
    ) -> AsyncIterator[Memory]:
        """Connects, loads the model, and embeds and summarises in the background until the block ends.

        `clock` can replay the past. `patient` also opens while Redis is unreachable, and uses it once it is back.
        """
        parts = _opened(settings or load_settings(), clock, embedder, progress, patient=patient)
        async with parts as (store, model):
            memory = cls(store, model, history=history, summariser=summariser)
            summarises = store.buckets.settings.embed_in_process  # else other processes do
            async with (
                memory.media,
                beside(memory.summaries.worker.run()) if summarises else nullcontext(),
                beside(memory.policies.keep_fitted()),
            ):
                yield memory

    # --- the two flows ---

    async def remember(self, message: Message) -> Outcome:
        """Stores a message: "what was just said" sees it at once, search by meaning a moment later."""
        return (await self.remember_many([message]))[0]

    async def remember_many(self, messages: Sequence[Message]) -> list[Outcome]:
        """The same for many messages, in order: the first are already being embedded while the last are stored."""
        results: list[Outcome] = []
        for at in range(0, len(messages), BATCH):
            results += await self._remember(messages[at : at + BATCH])
        return results

    async def _remember(self, messages: Sequence[Message]) -> list[Outcome]:
        """One batch, in one round trip."""
        policies = list(map(self.policies.of_message, messages))
        await self.policies.learn_threads(messages)
        normal = list(map(normalise, messages, policies))
        linked = await self._linkers.link(list(filter(None, normal)))
        kept = [policy for one, policy in zip(normal, policies, strict=True) if one]
        stored = iter(await self._store.add(linked, kept))
        results = [next(stored) if one else Outcome.IGNORED for one in normal]
        self._settle([one or message for one, message in zip(normal, messages, strict=True)], results)
        return results

    def _settle(self, messages: Sequence[Message], outcomes: Sequence[Outcome]) -> None:
        """Authors of stored messages become known; refused messages (opt-out, pause, earlier delete) leave no trace."""
        results = list(zip(messages, outcomes, strict=True))
        for message, outcome in results:
            if outcome is Outcome.IGNORED:
                self._local.drop(message.guild_id, message.channel_id, [message.id])
            else:
                self._rosters.hear(message)
        self.media.arrived([message for message, outcome in results if outcome is Outcome.STORED])

    async def ask(self, question: Question) -> Answer:
        """Reads a question, looks for what answers it, and lets the evidence decide: a quote, a guess, an honest no."""
        started = time.perf_counter()
        asked, found, route_ms = await self._current(question.guild_id, lambda: self._look_up(question))
        found = decide(found)
        self._follow_ups.note(asked.question, found.route, found.hits, found.messages)
        answer = await self._answer(asked, found)
        total_ms = (time.perf_counter() - started) * 1000
        return replace(answer, ms=Timing(route_ms, found.embed_ms, found.search_ms, total_ms))

    async def _look_up(self, question: Question) -> tuple[Asked, Found, float]:
        """The question as it is understood, what is found for it, and how long understanding it took."""
        question, policy = self._reached(question)
        pointed = await self.media.pointed(question, policy) if self.media.may_point(question) else ()
        people = await self._rosters.of(question, policy)
        before = self._follow_ups.previous(question) if policy.enabled else None
        started = time.perf_counter()
        routed = route(question.text, scene_of(question, people, policy, before), question.kind)
        if routed.stranger or not (people.seen and people.read_at):
            more = await self._rosters.beyond(question, policy, routed, people)
            routed = route(question.text, scene_of(question, more, policy, before), question.kind) if more else routed
        route_ms = (time.perf_counter() - started) * 1000
        asked = Asked.of(question, routed, policy, pointed, self._history.link if self._history else None)
        found = await self._recall(asked)
        if routed.mode is Mode.RECAP:
            asked, found = await self.recaps.widened(asked, found, self._recall)
        read = [one for one in found.reports if one.source is not Source.HISTORY and not one.problem]
        if routed.speakers and not read:  # it names people, and no copy of them was checked by a read
            with suppress(RedisUnavailableError):
                await self._changes.look(self._store.buckets.bucket(question.guild_id))
        return asked, found, route_ms

    async def _current(self, guild_id: int, look_up: Callable[[], Awaitable[T]]) -> T:
        """What is looked up with the help of this process's copies; again, if what was read for it shows that another
        process has removed or changed something since."""
        found = await look_up()
        return await look_up() if await self._changes.catch_up(self._store.buckets.bucket(guild_id)) else found

    async def _answer(self, asked: Asked, found: Found) -> Answer:
        one_message = asked.pointed or (asked.route.that is not None and found.hits)
        if asked.route.mode is Mode.RECAP and not one_message:
            recap = await self.recaps.by_summaries(asked, found)
            if recap is not None:
                return recap
        if asked.route.topic and found.verdict is Verdict.NOTHING:
            found = await self.recaps.expired(asked, found)
        ours = found.route.kind is not Kind.NONE or not asked.policy.enabled
        return tell(asked, found, "" if ours else self._rosters.somebody(asked.question))

    async def flush(self, timeout_s: float = 30.0) -> bool:
        """Returns when everything accepted is searchable; False if that takes longer than `timeout_s`."""
        return await self._store.flush(timeout_s)

    def policy(self, guild_id: int, channel_id: int) -> Policy:
        """What applies to a channel, whoever answers."""
        return self.policies.of(guild_id, channel_id)

    def _reached(self, question: Question) -> tuple[Question, Policy]:
        """The question without channels whose memory is off, and what applies to it."""
        return self.policies.reached(question), self.policies.of_question(question)

    # --- for a language model ---

    async def context(self, question: Question, answer: Answer) -> Context:
        """What surrounds a question, as a block of text within the limits."""
        question, policy = self._reached(question)
        return await self._context.context(question, answer, policy)

    async def look(self, request: ContextRequest) -> Context:
        """What the `get_channel_context` tool returns; RedisUnavailableError where that could not be found out."""
        return await self._current(request.question.guild_id, lambda: self._looked(request))

    async def _looked(self, request: ContextRequest) -> Context:
        question, policy = self._reached(request.question)
        request = replace(request, question=question)
        people = await self._rosters.of(question, policy)
        if request.speaker and self._rosters.is_unknown(question, people):
            people = await self._rosters.from_history(question, policy)
        scene = scene_of(question, people, policy, self._follow_ups.previous(question))
        return await self._context.look(request, scene, policy)

    async def standing(self, question: Question, answer: Answer, context: Context) -> frozenset[Origin]:
        """What of all that a language model was given is visible and unchanged; may raise RedisUnavailableError."""
        question, policy = self._reached(question)
        given, where = given_to(answer, context), (question.guild_id, question.channel_id)
        stored = await self.browse.standing(*where, given, question.character, question.thread_of)
        return stored | given & await self._context.standing_past(question, answer, policy)

    async def to_redact(self) -> list[MessageId]:
        """The bot's answers of the last day that quote what was deleted or forgotten since."""
        return await self._store.derived.to_redact()

    async def redacted(self, guild_id: int, channel_id: int, message_id: int) -> None:
        await self._store.derived.redacted(guild_id, channel_id, message_id)

    # --- changes ---

    async def edit(self, message: Message) -> Outcome:
        """Replaces text and vector; an older revision than the stored one changes nothing."""
        policy = self.policies.of_message(message)
        normal = normalise(message, policy)
        if normal is None:  # where memory is off, too: the old text is no longer what the message says
            drop = partial(self._local.drop, message.guild_id, message.channel_id, [message.id])
            return await removed(drop, self._store.edit(replace(message, content="")))
        outcome = await self._store.edit(await self._linkers.relink(normal), policy)
        self._settle([normal], [outcome])
        return outcome

    async def enrich(self, guild_id: int, channel_id: int, message_id: int, attachment_id: int, text: str) -> bool:
        """Makes a stored message findable by a description or transcript of its attachment, which is not an edit; False
        if the message or attachment does not exist (any more), or there is nothing to add."""
        known = tidy_line(text, ENRICHMENT_CHARS)
        policy = self.policies.storing(guild_id, channel_id)
        if not (known and policy.enabled):
            return False
        return await self._store.enrich(guild_id, channel_id, message_id, attachment_id, known, policy)

    async def delete(self, guild_id: int, channel_id: int, ids: Iterable[int]) -> int:
        ids = list(ids)
        drop = partial(self._local.drop, guild_id, channel_id, ids)
        return await removed(drop, self._store.delete(guild_id, channel_id, ids))

    async def delete_channel(self, guild_id: int, channel_id: int, at: float | None = None) -> int:
        """`at` is when it was deleted, as for `clear`."""
        drop = partial(self._local.drop_channel, guild_id, channel_id)
        return await removed(drop, self._store.delete_channel(guild_id, channel_id, at=at))

    async def delete_guild(self, guild_id: int, at: float | None = None) -> int:
        drop = partial(self._local.drop_guild, guild_id)
        return await removed(drop, self._store.delete_guild(guild_id, at=at))

    # --- what people decide ---

    async def forget(self, author_id: int, guild_id: int | None = None) -> None:
        """Opts a person out and removes everything of theirs; invisible when this returns, or when it raises
        DecisionDelayedError: then Redis could not write it yet, and it is delivered later."""
        await removed(partial(self._local.drop_author, author_id), self._store.consent.forget(author_id, guild_id))

    async def opt_out(self, author_id: int, guild_id: int | None = None) -> None:
        await removed(partial(self._local.drop_author, author_id), self._store.consent.opt_out(author_id, guild_id))

    async def opted_out(self, author_id: int, guild_id: int | None = None) -> bool:
        """Whether nothing of a person may be shown; without Redis by the copy of what was decided."""
        return author_id in await self._store.decisions.hidden(guild_id or 0, {author_id})

    async def opt_in(self, author_id: int, guild_id: int | None = None) -> int | None:
        """Undoes an opt-out: at once (None), or in the background when what was forgotten is removed (`returning`)."""
        return await self._store.consent.opt_in(author_id, guild_id)

    async def returning(self, author_id: int, guild_id: int | None = None) -> int | None:
        """How many messages are left to remove before an opt-in takes effect; None if none waits."""
        return await self._store.consent.returning(author_id, guild_id)

    def export(self, author_id: int) -> AsyncIterator[Message]:
        """Everything stored of a person, but for what a switched-off archive still holds."""
        return self._store.consent.export(author_id, self.policies.storing)

    async def pause(self, guild_id: int, channel_id: int) -> None:
        await self._store.channels.pause(guild_id, channel_id)

    async def resume(self, guild_id: int, channel_id: int) -> None:
        await self._store.channels.resume(guild_id, channel_id)

    async def clear(self, guild_id: int, channel_id: int, at: float | None = None) -> int:
        """Forgets what was said in a channel up to now, or up to `at` by the clock that dates its messages."""
        drop = partial(self._local.drop_channel, guild_id, channel_id)
        return await removed(drop, self._store.clear(guild_id, channel_id, self.policy(guild_id, channel_id), at=at))

    async def recent(self, guild_id: int, channel_id: int, limit: int) -> list[Message]:
        """The newest messages of a channel, oldest first; may raise RedisUnavailableError."""
        return (await self.browse.newest(guild_id, channel_id, limit))[::-1]

    async def status(self, guild_id: int, channel_id: int) -> ChannelStatus:
        return await self._store.channels.status(guild_id, channel_id, self.policy(guild_id, channel_id))

    # --- for adapters that fetch a channel's past ---

    async def last_seen(self, guild_id: int, channel_id: int) -> int | None:
        """The newest stored message."""
        return await self._store.channels.last_seen(guild_id, channel_id)

    async def known(self, guild_id: int, channel_id: int, newest: int) -> dict[int, float]:
        """The ids of the `newest` most recent stored messages, with their revisions."""
        return await self._store.known(guild_id, channel_id, newest)

    async def note_gap(self, guild_id: int, channel_id: int, newest_id: int | None, oldest_id: int) -> None:
        """Remembers that a stretch of a channel's past is still to be fetched."""
        await self._bookmarks.note(guild_id, Gap(channel_id, newest_id, oldest_id))

    async def close_gap(self, guild_id: int, channel_id: int) -> None:
        await self._bookmarks.close(guild_id, channel_id)

    async def gaps(self, guild_id: int) -> list[Gap]:
        return await self._bookmarks.open(guild_id)

    # --- health ---

    @property
    def available(self) -> bool:
        """Whether Redis answered last time."""
        return self._store.available

    @property
    def queued(self) -> int:
        """Messages kept in memory while Redis is unreachable."""
        return self._store.queued

    def is_queued(self, guild_id: int) -> bool:
        """Whether a change in this guild still waits for Redis. It holds in this process, and is lost if that ends."""
        return self._store.is_queued(guild_id)

    @property
    def dropped(self) -> int:
        return self._store.dropped

    async def pending(self) -> int:
        """Messages that are still waiting for their vector."""
        return await self._store.pending()

    async def lag_s(self) -> float:
        """How long the oldest of them has waited."""
        return await self._store.lag_s()


# --- opening ---


@asynccontextmanager
async def _opened(
    settings: Settings, clock: Clock, embedder: Embedder | None, progress: Progress | None, *, patient: bool
) -> AsyncIterator[tuple[Store, Embedder]]:
    """Opens everything that Memory stands on, and closes it in order: Redis, or the embedded one, while the model is
    read from disk, and what works in the background until the block ends."""
    async with AsyncExitStack() as stack:
        url, model = await asyncio.gather(
            _connect(stack, settings), asyncio.to_thread(_model, settings, embedder, progress)
        )
        if embedder is None:  # one that was passed in belongs to the caller
            stack.callback(model.close)
        redis = connect(url, settings)
        stack.push_async_callback(redis.aclose)
        if not patient:
            await asyncio.to_thread(check_server, url, timeout_s=settings.redis_timeout_s)
        store = await _open_store(Buckets(redis, settings, dims=model.dims, identity=model.identity, clock=clock))
        stack.push_async_callback(store.close)
        await asyncio.gather(store.decisions.sync(), store.levels.load())  # from the first moment on, Redis may go away
        store.buckets.changes.begin()
        await stack.enter_async_context(beside(store.decisions.keep_synced()))
        await stack.enter_async_context(beside(store.levels.follow()))
        if settings.embed_in_process:
            await stack.enter_async_context(_embedding(Worker(store, model)))
        yield store, model


async def _connect(stack: AsyncExitStack, settings: Settings) -> str:
    """The URL of the configured Redis, or of the embedded one, which is started here and held until the end."""
    lease = connect_url(settings)
    url = await asyncio.to_thread(lease.__enter__)
    stack.callback(lease.__exit__, None, None, None)
    return url


def _model(settings: Settings, embedder: Embedder | None, progress: Progress | None) -> Embedder:
    """Reads from disk what the first question needs."""
    tokens.warm()
    return embedder or open_embedder(settings, progress)


async def _open_store(buckets: Buckets) -> Store:
    """The first call meets an unreachable Redis again; everything else that is wrong is reported now."""
    store = Store(buckets)
    with suppress(RedisUnavailableError):
        await buckets.open()
        store.sweep()
    return store


@asynccontextmanager
async def _embedding(worker: Worker) -> AsyncIterator[None]:
    task = asyncio.create_task(worker.run(), name="channelmem embedding")
    task.add_done_callback(_complain)
    try:
        yield
    finally:
        worker.stop()
        await task


def _complain(task: asyncio.Task[None]) -> None:
    """Nobody awaits the worker before the end, and without it new messages cannot be found by meaning."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("Embedding stopped; new messages get no vectors: %s", error)
