"""Checks a picture before a model sees it; runs in a process of its own (`confined.py`). One that is small enough and
carries nothing but itself stays byte for byte; any other is scaled down and re-encoded, which leaves out where and with
what it was taken. Pillow is an optional package (extra `media`)."""

from __future__ import annotations

import io
from typing import Final

from PIL import Image, ImageOps, UnidentifiedImageError

from channelmem.media.kinds import lasting
from channelmem.media.reader import LONGEST_SIDE, Picture

MOST_PIXELS: Final = 40_000_000
"""A camera's picture has fewer. A file of a few kilobytes can claim millions, which take gigabytes once unpacked."""
MOST_SCANS: Final = 50  # of a JPEG. A progressive one has about ten; one of hundreds is unpacked hundreds of times.
SCAN: Final = b"\xff\xda"
MOST_SENT: Final = 3_500_000  # bytes: providers take 5 MB of base64
TYPES: Final = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp", "GIF": "image/gif"}
"""What every provider takes."""
OPENED: Final = (*TYPES, "BMP")
HARMLESS: Final = {
    "dpi", "gamma", "srgb", "transparency", "chromaticity", "interlace", "aspect",  # PNG
    "jfif", "jfif_version", "jfif_unit", "jfif_density", "progressive", "progression", "adobe", "adobe_transform",
    "background", "version", "extension", "duration", "loop", "timestamp",  # GIF, WebP
}  # fmt: skip
"""What Pillow reads besides the picture that says nothing about who took it, where and with what."""
ENDS: Final = {"PNG": b"IEND\xaeB`\x82", "JPEG": b"\xff\xd9", "GIF": b";"}
"""Whatever follows is not part of the picture."""
BROKEN: Final = (OSError, SyntaxError, ValueError, EOFError, TypeError, Image.DecompressionBombError)
"""What Pillow raises for files that are not what they begin like."""
NOT_AN_IMAGE: Final = "it is not a picture, or a broken one"


def checked(content: bytes) -> Picture:
    """Blocking: megapixels take a second."""
    try:
        with Image.open(io.BytesIO(content), formats=OPENED) as image:
            width, height = image.size
            if width * height > MOST_PIXELS:
                raise lasting(f"it has more than {MOST_PIXELS // 1_000_000} million pixels")
            if content.count(SCAN) > MOST_SCANS and image.format in {"JPEG", "MPO"}:
                raise lasting(NOT_AN_IMAGE)
            image.load()
            if _can_stay(image, content):
                return Picture(content, TYPES[image.format or ""], width, height)
            return _written_anew(image)
    except UnidentifiedImageError:
        raise lasting("it is not a picture") from None
    except BROKEN:
        raise lasting(NOT_AN_IMAGE) from None


def pixels(content: bytes) -> Picture:
    """The same as rows of RGB."""
    with Image.open(io.BytesIO(checked(content).content)) as image:
        return Picture(image.convert("RGB").tobytes(), "image/x-rgb", *image.size)


def _can_stay(image: Image.Image, content: bytes) -> bool:
    kind = image.format or ""
    if kind not in TYPES or max(image.size) > LONGEST_SIDE or len(content) > MOST_SENT:
        return False
    return not (getattr(image, "is_animated", False) or _says_more(image) or not content.endswith(ENDS.get(kind, b"")))


def _says_more(image: Image.Image) -> bool:
    """Whether the file holds anything besides the picture: Exif, GPS, comments, colour profiles, unknown parts."""
    parts = [name for name, _ in getattr(image, "applist", ())]
    unknown = getattr(image, "private_chunks", ())
    return bool(set(image.info) - HARMLESS or set(parts) - {"APP0", "APP14"} or unknown or image.getexif())


def _written_anew(image: Image.Image) -> Picture:
    if getattr(image, "is_animated", False):
        image.seek(0)
    ImageOps.exif_transpose(image, in_place=True)  # the turn is metadata, too
    clear = image.has_transparency_data
    plain = image.convert("RGBA" if clear else "RGB")
    plain.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
    drawn = clear or image.format in {"PNG", "GIF", "BMP"}  # text stays sharp without JPEG's blur
    kind = "PNG" if drawn else "JPEG"
    content = _saved(plain, kind)
    if len(content) > MOST_SENT:
        kind, content = "JPEG", _saved(plain.convert("RGB"), "JPEG")
    return Picture(content, TYPES[kind], *plain.size)


def _saved(image: Image.Image, kind: str) -> bytes:
    out, bare = io.BytesIO(), Image.new(image.mode, image.size)
    bare.paste(image)  # a new image has no info that could be written along
    bare.save(out, kind, quality=85, optimize=kind == "JPEG")
    return out.getvalue()
