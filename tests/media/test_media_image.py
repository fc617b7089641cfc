"""Pictures before a model sees them: what they are by content, nothing but themselves, within limits."""

from __future__ import annotations

import io
import os
import struct
import zlib
from typing import Any

import pytest
from hostile_media import many_scans
from media_server import picture
from PIL import Image, ImageChops
from PIL.PngImagePlugin import PngInfo

from channelmem.media.confined import MOST_PIXELS, MOST_SCANS, MOST_SENT, SCAN, checked
from channelmem.media.kinds import UnreadableError
from channelmem.media.reader import LONGEST_SIDE, Picture


def opened(one: Picture) -> Any:
    return Image.open(io.BytesIO(one.content))


def exif() -> Image.Exif:
    made = Image.Exif()
    made[0x010F] = "A camera"
    made.get_ifd(0x8825)[1] = "N"
    return made


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_small_bare_picture_stays_byte_for_byte(kind: str) -> None:
    content = picture(kind=kind)
    one = checked(content)
    assert one.content == content
    assert one.media_type == f"image/{kind.lower()}"


def _comment(kind: str) -> bytes:
    return picture(kind=kind, comment=b"at home")


def _png_text() -> bytes:
    info = PngInfo()
    info.add_text("GPS", "52.5 N")
    return picture(pnginfo=info)


TELLING = {
    "exif in jpeg": lambda: picture(kind="JPEG", exif=exif()),
    "exif in png": lambda: picture(exif=exif()),
    "exif in webp": lambda: picture(kind="WEBP", exif=exif()),
    "comment in jpeg": lambda: _comment("JPEG"),
    "comment in gif": lambda: _comment("GIF"),
    "text in png": _png_text,
    "unknown part in png": lambda: picture()[:-12] + chunk(b"prVt", b"hidden") + picture()[-12:],
    "something behind it": lambda: picture() + b"PK\x03\x04 a zip file",
    "profile": lambda: picture(icc_profile=b"\0" * 200),
    "xmp": lambda: picture(kind="JPEG", xmp=b"<x:xmpmeta/>"),
}


@pytest.mark.parametrize("made", TELLING.values(), ids=TELLING)
def test_whatever_else_a_file_says_is_left_out(made: Any) -> None:
    content = made()
    one = checked(content)
    assert one.content != content
    assert checked(one.content).content == one.content, "nothing is left to leave out"
    for hidden in (b"A camera", b"at home", b"52.5", b"hidden", b"PK\x03", b"xmpmeta"):
        assert hidden not in one.content
    grey = Image.new("RGB", (64, 48), "grey")
    extrema: Any = ImageChops.difference(opened(one).convert("RGB"), grey).getextrema()
    assert all(most <= 3 for _, most in extrema), "the picture is the same"


def test_a_large_picture_is_scaled_down_and_keeps_its_shape() -> None:
    one = checked(picture(size=(4096, 1024), kind="JPEG"))
    assert (one.width, one.height) == opened(one).size == (LONGEST_SIDE, 256)
    assert one.media_type == "image/jpeg"


def test_a_turned_picture_is_upright_without_saying_that_it_was_turned() -> None:
    turned = exif()
    turned[0x0112] = 6
    one = checked(picture(size=(40, 20), kind="JPEG", exif=turned))
    assert opened(one).size == (20, 40)
    assert not opened(one).getexif()


def test_of_a_moving_picture_the_first_frame_counts() -> None:
    frames = [Image.new("RGB", (32, 32), colour) for colour in ("red", "green", "blue")]
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:], duration=100)
    one = checked(out.getvalue())
    assert one.media_type == "image/png"
    assert opened(one).convert("RGB").getpixel((5, 5)) == (255, 0, 0)


def test_transparency_stays() -> None:
    out = io.BytesIO()
    Image.new("RGBA", (2000, 10), (255, 0, 0, 0)).save(out, "PNG")
    assert opened(checked(out.getvalue())).mode == "RGBA"


def test_a_picture_that_stays_heavy_as_png_becomes_a_jpeg() -> None:
    noise = Image.frombytes("RGBA", (1200, 1200), os.urandom(1200 * 1200 * 4))
    out = io.BytesIO()
    noise.save(out, "PNG")
    one = checked(out.getvalue())
    assert len(one.content) <= MOST_SENT


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("side", [10_000, 30_000])
def test_a_file_of_kilobytes_that_claims_a_hundred_million_pixels_is_refused(side: int) -> None:
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    bomb = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )
    assert side * side > MOST_PIXELS
    with pytest.raises(UnreadableError) as caught:
        checked(bomb)
    assert caught.value.lasting


def test_a_progressive_picture_is_one_and_a_jpeg_of_hundreds_of_scans_is_not() -> None:
    """Each scan unpacks the whole picture once more."""
    assert checked(many_scans(0)).media_type == "image/jpeg"
    assert many_scans(300).count(SCAN) > MOST_SCANS
    with pytest.raises(UnreadableError) as caught:
        checked(many_scans(300))
    assert caught.value.lasting


HOSTILE = {
    "html named png": b"<!DOCTYPE html><html><script>alert(1)</script></html>",
    "nothing": b"",
    "text": b"hello",
    "half a png": picture(size=(500, 500))[:300],
    "only a head": b"\x89PNG\r\n\x1a\n",
    "half a jpeg": picture(kind="JPEG", size=(500, 500))[:400],
    "a gif without frames": b"GIF89a\x01\x00\x01\x00\x00\x00\x00;",
    "svg": b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>',
    "pdf": b"%PDF-1.7\n1 0 obj",
    "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n(/etc/passwd) run",
    "ico": b"\x00\x00\x01\x00\x01\x00\x10\x10",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_picture_is_refused_whatever_it_is_called(content: bytes) -> None:
    with pytest.raises(UnreadableError) as caught:
        checked(content)
    assert caught.value.lasting
    assert "picture" in str(caught.value)
