"""Why an attachment could not be read. In: nothing. Out: the error that fetching and readers raise."""

from __future__ import annotations


class UnreadableError(Exception):
    """Says why in a few words of our own: "it is not an image". A server's words may hold keys or people's text."""

    def __init__(self, why: str, *, lasting: bool) -> None:
        super().__init__(why)
        self.lasting = lasting
        """Whether trying again in a minute would not help: not an image, gone, refused."""


def lasting(why: str) -> UnreadableError:
    return UnreadableError(why, lasting=True)


def passing(why: str) -> UnreadableError:
    return UnreadableError(why, lasting=False)
