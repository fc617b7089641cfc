"""Implicit replies, on conversations made by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest

from channelmem.linking.linker import PARENTS, Linker, guess, shipped
from channelmem.linking.window import FEATURES, SPAN, tabulate
from channelmem.types import Message

PEOPLE = ["ann", "bob", "carol", "dave", "Zoë Müller", "山田 太郎", "x|away", "eve"]


def say(number: int, author: str, text: str, **more: object) -> Message:
    """Message `number`, ten seconds after the one before it unless `ts` says otherwise."""
    who = PEOPLE.index(author) + 1 if author in PEOPLE else 1000 + len(author)
    given: dict[str, object] = {"ts": 1_000_000.0 + 10 * number, **more}
    return Message(1, 2, number, who, author, text, **given)  # type: ignore[arg-type]


TWO_TALKS = [
    say(1, "ann", "my printer is broken, does anyone know how to reset the spooler?"),
    say(2, "carol", "has anybody tried the new pizza place at the station?"),
    say(3, "dave", "carol: not yet, is it any good?"),
    say(4, "carol", "dave: the crust is great, go there"),
]


def best(linker: Linker, message: Message) -> int | None:
    """The likeliest parent; None if starting something new is likelier."""
    parents = linker.parents(message)
    if not parents or parents[0][1] < 1 - sum(chance for _, chance in parents):
        return None
    return parents[0][0]


def test_an_answer_goes_to_the_person_it_addresses() -> None:
    assert best(Linker(TWO_TALKS), say(5, "bob", "ann: restart the spooler service")) == 1


def test_of_several_messages_by_the_addressed_person_the_newest_is_answered() -> None:
    assert best(Linker(TWO_TALKS), say(5, "dave", "carol: thanks, will do")) == 4


def test_a_mention_by_id_counts_like_a_name() -> None:
    message = say(5, "bob", "you have to restart that service", mentions=(PEOPLE.index("ann") + 1,))
    assert best(Linker(TWO_TALKS), message) == 1


@pytest.mark.parametrize("name", ["Zoë Müller", "山田 太郎", "x|away"])
@pytest.mark.parametrize("form", ["{}: restart the spooler service", "@{} restart the spooler service"])
def test_names_with_spaces_marks_and_other_scripts_are_recognised(name: str, form: str) -> None:
    linker = Linker([say(1, name, TWO_TALKS[0].content), *TWO_TALKS[1:]])
    assert best(linker, say(5, "bob", form.format(name))) == 1


def test_an_alias_is_recognised() -> None:
    linker = Linker([replace(TWO_TALKS[0], aliases=("annie1990",)), *TWO_TALKS[1:]])
    assert best(linker, say(5, "bob", "annie1990: restart the spooler service")) == 1


def test_an_unaddressed_answer_goes_to_the_question_before_it() -> None:
    linker = Linker([say(1, "ann", "how do I list hidden files in a directory?")])
    assert best(linker, say(2, "bob", "ls -a lists hidden files")) == 1


def test_somebody_who_keeps_talking_continues_their_own_message() -> None:
    assert best(Linker(TWO_TALKS), say(5, "carol", "and the dough too")) == 4


def test_a_question_to_everybody_after_a_pause_starts_something_new() -> None:
    message = say(9, "eve", "hi all, does anyone know how to mount an usb disk?", ts=1_003_600.0)
    assert best(Linker(TWO_TALKS), message) is None


def test_an_explicit_reply_is_certain_even_to_a_message_long_gone() -> None:
    linker = Linker(TWO_TALKS)
    assert linker.parents(say(5, "bob", "carol: yes", reply_to=1)) == ((1, 1.0),)
    assert linker.parents(say(5, "bob", "carol: yes", reply_to=-77)) == ((-77, 1.0),)


def test_an_explicit_reply_tells_who_talks_to_whom() -> None:
    linker = Linker([*TWO_TALKS, say(5, "bob", "restart it", reply_to=1)])
    column = FEATURES.index("addresses me")
    ids, rows = linker.features(say(6, "ann", "that did not help"))
    assert [number for number, row in zip(ids, rows[1:], strict=True) if row[column]] == [5]


def test_an_unknown_name_is_no_error_and_still_gives_a_distribution() -> None:
    parents = Linker(TWO_TALKS).parents(say(5, "bob", "nobody_here: did you reboot?", mentions=(987_654_321,)))
    assert 0 < sum(chance for _, chance in parents) <= 1


@pytest.mark.parametrize("text", ["", " ", "@", ":", "?!", "🙂", "\u202e", "a" * 4000, "ann " * 900])
def test_any_text_gives_at_most_three_parents_with_at_most_all_the_chance(text: str) -> None:
    parents = Linker(TWO_TALKS).parents(say(5, "bob", text))
    chances = [chance for _, chance in parents]
    assert len(parents) <= PARENTS
    assert chances == sorted(chances, reverse=True)
    assert sum(chances) <= 1.001


def test_what_the_parents_leave_covers_the_chance_of_a_new_thread() -> None:
    linker, message = Linker(TWO_TALKS), say(5, "bob", "anyway, who is here?")
    new = shipped().chances(tabulate([linker.see(message)])).item(0)
    assert 1 - sum(chance for _, chance in linker.parents(message)) >= new - 0.001


def test_the_first_message_of_a_channel_has_no_parent() -> None:
    assert Linker().parents(say(1, "ann", "hello?")) == ()


def test_only_the_newest_messages_are_kept() -> None:
    linker = Linker(say(n, PEOPLE[n % 3], f"note {n}") for n in range(200))
    for n in range(200, 300):
        linker.add(say(n, PEOPLE[n % 3], f"note {n}"))
    assert len(linker) == SPAN
    assert linker.features(say(300, "dave", "ok"))[0] == list(range(300 - SPAN, 300))


def test_the_long_way_and_a_cold_start_end_in_the_same_state() -> None:
    talk = [say(n, PEOPLE[n * n % 5], f"{PEOPLE[n % 4]}: note number {n % 7} of the day?") for n in range(130)]
    grown, cold = Linker(), Linker(talk[-SPAN:])
    for message in talk:
        grown.add(message)
    probe = say(130, "bob", "ann: which note of the day?")
    ids, rows = grown.features(probe)
    assert ids == cold.features(probe)[0]
    # Whether it was an author's first message depends on what was known when it came; all else must agree.
    same = [at for at, name in enumerate(FEATURES) if name != "its first here"]
    np.testing.assert_allclose(rows[:, same], cold.features(probe)[1][:, same], atol=1e-5)


def test_a_dropped_message_is_never_a_parent_again() -> None:
    linker = Linker(TWO_TALKS)
    linker.drop([1, 12345])
    assert 1 not in linker.features(say(5, "bob", "ann: restart the spooler service"))[0]
    linker.add(say(6, "bob", "ann: hello?"))
    assert len(linker) == 4


def test_an_answer_of_the_bot_goes_with_what_it_quotes() -> None:
    first, second = (say(n, "bob", f"xylophone {n}") for n in (1, 2))
    own = replace(say(3, "carol", "xylophone, bob said"), own=True, derived_from=(first.origin,))
    linker = Linker([first, second, own])
    linker.drop([2])
    assert 3 in linker
    linker.drop([1])
    assert 3 not in linker
    linker = Linker([second, replace(own, derived_from=())])
    linker.drop_author(PEOPLE.index("ann") + 1)
    assert 3 not in linker, "it may quote anybody"
    assert 2 in linker


def test_dropping_a_person_leaves_no_word_of_what_has_left_the_window() -> None:
    linker = Linker([say(0, "eve", "xylophone"), *(say(n, "bob", f"note {n}") for n in range(1, SPAN))])
    linker.add(say(SPAN, "ann", "hello"))
    linker.drop_author(PEOPLE.index("eve") + 1)
    assert "xyloph" not in linker._past._words
    assert PEOPLE.index("eve") + 1 not in linker._past._by


def test_dropping_a_person_forgets_their_name_too() -> None:
    linker = Linker(TWO_TALKS)
    linker.drop_author(PEOPLE.index("carol") + 1)
    ids, rows = linker.features(say(5, "bob", "carol: hello"))
    assert ids == [1, 3]
    assert rows[0, FEATURES.index("addresses")] == 0


def test_an_edit_changes_what_is_matched_but_not_the_order() -> None:
    linker = Linker(TWO_TALKS)
    linker.edit(replace(TWO_TALKS[2], content="ann: are you coming?"))
    ids, rows = linker.features(say(5, "ann", "yes I am"))
    assert ids == [1, 2, 3, 4]
    assert rows[1:, FEATURES.index("addresses me")].tolist() == [0, 0, 1, 0]


def test_an_edit_of_an_unknown_message_adds_nothing() -> None:
    linker = Linker(TWO_TALKS)
    linker.edit(say(99, "bob", "late edit"))
    assert len(linker) == 4


def test_adding_a_message_twice_keeps_one() -> None:
    linker = Linker(TWO_TALKS)
    linker.add(TWO_TALKS[1])
    assert linker.features(say(5, "bob", "ok"))[0] == [1, 2, 3, 4]


def test_a_late_message_is_put_in_its_place() -> None:
    linker = Linker([TWO_TALKS[0], TWO_TALKS[3]])
    linker.add(TWO_TALKS[1])
    assert linker.features(say(5, "bob", "ok"))[0] == [1, 2, 4]


def test_only_what_came_before_a_message_may_be_its_parent() -> None:
    whole, past = Linker(TWO_TALKS), Linker(TWO_TALKS[:2])
    assert whole.parents(TWO_TALKS[2]) == past.parents(TWO_TALKS[2])


def test_asking_for_parents_changes_nothing() -> None:
    linker = Linker(TWO_TALKS)
    message = say(5, "bob", "ann: restart it")
    assert linker.parents(message) == linker.parents(message)
    assert len(linker) == 4


def test_asking_before_adding_makes_no_difference() -> None:
    asked, silent = Linker(TWO_TALKS), Linker(TWO_TALKS)
    message = say(5, "bob", "ann: restart it")
    asked.parents(message)
    asked.add(replace(message, parents=((1, 0.9),)))
    silent.add(message)
    probe = say(6, "ann", "it works")
    assert asked.parents(probe) == silent.parents(probe)


def test_the_chances_are_the_mean_of_the_networks() -> None:
    clues = tabulate([Linker(TWO_TALKS).see(say(5, "bob", "ann: restart it"))])
    hidden = clues[0, :-1].T
    *inner, (last, last_bias) = shipped().layers
    for matrix, bias in inner:
        hidden = np.maximum(hidden @ matrix + bias, 0)
    odds = np.exp(hidden @ last + last_bias)[..., 0]
    expected = (odds / odds.sum(axis=1, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(shipped().chances(clues)[0], expected, atol=1e-5)


def test_many_at_once_are_guessed_like_one_by_one() -> None:
    talk = [say(n, PEOPLE[n * n % 5], f"{PEOPLE[n % 4]}: note number {n % 7} of the day?") for n in range(70)]
    talk[9] = replace(talk[9], reply_to=3)
    together, alone = Linker(), Linker()
    at_once = guess([together.hear(message) for message in talk])
    for message, parents in zip(talk, at_once, strict=True):
        assert dict(parents) == pytest.approx(dict(alone.parents(message)), abs=1e-4)
        alone.add(message)


def test_the_shipped_weights_are_small_fit_the_features_and_name_their_source() -> None:
    file = resources.files("channelmem.linking").joinpath("links.npz")
    assert len(file.read_bytes()) < 40_000
    assert shipped().layers[0][0].shape[1] == len(FEATURES)
    with file.open("rb") as opened, np.load(opened) as archive:
        about = json.loads(str(archive["about"]))
    assert "CC BY 4.0" in about["data"]
