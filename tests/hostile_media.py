"""Files that look like a picture or a recording and are made to harm whoever opens them; and honest recordings."""

from __future__ import annotations

import io
import struct
import wave
from typing import Any

import av
import numpy as np
from PIL import Image

SESSION = (
    b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n"
    b"m=audio 0 RTP/AVP 97\r\na=rtpmap:97 L16/8000/1\r\n"
)
"""SDP: FFmpeg opens a UDP port on all addresses for it."""


def playlist(*files: str) -> bytes:
    """FFmpeg plays these files in its place."""
    return "\n".join(["ffconcat version 1.0", *(f"file {one}" for one in files), ""]).encode()


def wav(seconds: float, rate: int = 8_000, channels: int = 1) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes(b"\0\0" * channels * int(seconds * rate))
    return out.getvalue()


def recording(container: str, codec: str, streams: int = 1, seconds: float = 1.0) -> bytes:
    """A tone, in any format that FFmpeg writes."""
    out = io.BytesIO()
    with av.open(out, "w", format=container) as file:
        made: list[Any] = [file.add_stream(codec, rate=48_000) for _ in range(streams)]
        for stream in made:
            stream.layout = "mono"
        for stream in made:
            resampler = av.AudioResampler(format=stream.format, layout="mono", rate=48_000)
            for frame in (*resampler.resample(_tone(seconds)), None):
                file.mux(stream.encode(frame))
    return out.getvalue()


def _tone(seconds: float) -> av.AudioFrame:
    times = np.arange(int(48_000 * seconds)) / 48_000
    samples = (10_000 * np.sin(times * 440 * 2 * np.pi)).astype(np.int16)
    frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), format="s16", layout="mono")
    frame.sample_rate = 48_000
    return frame


def silent_flac(rate: int, frames: int, block: int = 65_535) -> bytes:
    """Thirteen bytes for each 65,535 samples, and a head that claims a single sample."""
    claims = (rate << 44) | (15 << 36) | 1
    info = struct.pack(">HH", block, block) + bytes(6) + claims.to_bytes(8, "big") + bytes(16)
    return b"fLaC\x80" + len(info).to_bytes(3, "big") + info + b"".join(_flac_frame(n, block) for n in range(frames))


def _flac_frame(number: int, block: int) -> bytes:
    head = b"\xff\xf8\x70\x08" + chr(number).encode() + struct.pack(">H", block - 1)
    head += bytes([_crc(head, 0x07, 8)])
    return head + bytes(3) + struct.pack(">H", _crc(head + bytes(3), 0x8005, 16))


def _crc(data: bytes, polynomial: int, bits: int) -> int:
    crc, top, most = 0, 1 << (bits - 1), (1 << bits) - 1
    for byte in data:
        crc ^= byte << (bits - 8)
        for _ in range(8):
            crc = ((crc << 1) ^ polynomial if crc & top else crc << 1) & most
    return crc


def many_scans(count: int, side: int = 500) -> bytes:
    """A progressive JPEG with this many scans more than usual: each unpacks the whole picture once more."""
    out = io.BytesIO()
    Image.new("RGB", (side, side), "grey").save(out, "JPEG", progressive=True)
    content = out.getvalue()
    last = content.rfind(b"\xff\xda")
    return content[:last] + content[last:-2] * (count + 1) + content[-2:]
