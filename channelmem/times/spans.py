"""Calendar arithmetic: a moment of asking, and the local days, weeks and months before it. Vague words get wide spans
on purpose: a window that is too wide costs a few extra messages, one that is too narrow hides the answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

MINUTE, HOUR, DAY, WEEK, MONTH, YEAR = 60.0, 3_600.0, 86_400.0, 604_800.0, 30 * 86_400.0, 365 * 86_400.0


class Clue(StrEnum):
    """What a time expression says about which memory the question means."""

    RECENT = "recent"
    EXPLICIT = "explicit"
    PAST = "past"
    FUTURE = "future"


class Span(NamedTuple):
    """A stretch of time; None leaves an end open. `day` and `hours` are set if the other may still narrow the span."""

    start: float | None
    end: float | None
    clue: Clue = Clue.EXPLICIT
    nominal: float | None = None  # the moment the words name, if the span is wider than that ("30 minutes ago")
    day: date | None = None
    hours: tuple[float, float] | None = None
    either_half: bool = False  # the hours may be those before or after noon


@lru_cache(maxsize=64)
def zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


@dataclass(frozen=True)
class Moment:
    """When and where a question is asked."""

    now: float
    tz: str = "UTC"
    horizon_s: float = 1_800.0
    last_spoke_ts: float | None = None
    joined_ts: float | None = None

    @cached_property
    def local(self) -> datetime:
        return datetime.fromtimestamp(self.now, zone(self.tz))

    @cached_property
    def today(self) -> date:
        return self.local.date()

    @cached_property
    def hour(self) -> float:
        return self.local.hour + self.local.minute / 60

    def day(self, back: int) -> date:
        """The local day so many days ago."""
        return self.today - timedelta(days=back)

    def midnight(self, ts: float) -> float:
        """When the local day of a moment begins."""
        return self.at(datetime.fromtimestamp(ts, zone(self.tz)).date())

    def at(self, day: date, hour: float = 0.0) -> float:
        """Epoch seconds of a local hour; hours beyond 24 fall on the next day."""
        whole = timedelta(days=int(hour // 24))
        rest = hour % 24
        wall = datetime(day.year, day.month, day.day, int(rest), round(rest % 1 * 60) % 60, tzinfo=zone(self.tz))
        return (wall + whole).timestamp()

    def clip(self, span: Span) -> Span:
        """The span, so that it ends no later than the question and no earlier than it starts."""
        end = self.now if span.end is None else min(span.end, self.now)
        start = None if span.start is None else min(span.start, end)
        return span._replace(start=start, end=end)


def whole_day(moment: Moment, day: date) -> Span:
    return Span(moment.at(day), moment.at(day, 24), day=day)


def weekday(moment: Moment, index: int) -> Span:
    """The most recent such day before today."""
    return whole_day(moment, moment.day((moment.today.weekday() - index) % 7 or 7))


def part_of_day(moment: Moment, day: date, hours: tuple[float, float]) -> Span:
    return Span(moment.at(day, hours[0]), moment.at(day, hours[1]), day=day, hours=hours)


def night(moment: Moment, back: int) -> Span:
    """The evening and night that began so many days ago."""
    return part_of_day(moment, moment.day(back), (17.0, 30.0))


def weekend(moment: Moment, *, previous: bool) -> Span:
    """From Friday evening to Sunday night; the current one counts unless `previous`."""
    since_saturday = (moment.today.weekday() - 5) % 7
    saturday = moment.day(since_saturday)
    if previous and since_saturday < 2:
        saturday -= timedelta(days=7)
    return Span(moment.at(saturday - timedelta(days=1), 18), moment.at(saturday, 48))


def month_start(year: int, month: int) -> date:
    return date(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)


def months(moment: Moment, year: int, first: int, count: int = 1) -> Span:
    return Span(moment.at(month_start(year, first)), moment.at(month_start(year, first + count)))


def whole(moment: Moment, unit: str, back: int = 0) -> Span:
    """The week, month or year that is so many before this one."""
    today = moment.today
    if unit == "week":
        monday = today - timedelta(days=today.weekday() + 7 * back)
        return Span(moment.at(monday), moment.at(monday + timedelta(days=7)))
    if unit == "month":
        return months(moment, today.year, today.month - back)
    return months(moment, today.year - back, 1, 12)


def named_month(moment: Moment, month: int, *, previous: bool = False) -> Span:
    """The most recent such month; the current one counts unless `previous`."""
    this = moment.today.month
    year = moment.today.year - (month > this or (previous and month == this))
    return months(moment, year, month)


def ago(moment: Moment, count: float, unit_s: float, *, loose: bool = False) -> Span:
    """Around `count` units before now: days as whole local days, everything else with a growing margin."""
    back = count * unit_s
    if unit_s == DAY and not loose and count <= 6:
        return whole_day(moment, moment.day(int(count)))._replace(nominal=moment.now - back)
    margin = max(back * (0.6 if loose else 0.3), unit_s * 0.5)
    nominal = moment.now - back
    return Span(nominal - margin, nominal + min(margin, back * 0.6), nominal=nominal)


def rolling(moment: Moment, seconds: float) -> Span:
    return Span(moment.now - seconds, moment.now, nominal=moment.now - seconds)


def clock(moment: Moment, hour: float, *, either_half: bool) -> float:
    """The last time the clock showed that hour; without am or pm, the later of the two."""
    hours = (hour % 12, hour % 12 + 12) if either_half else (hour,)
    seen = [moment.at(moment.day(back), h) for back in (0, 1) for h in hours]
    return max(ts for ts in seen if ts <= moment.now)
