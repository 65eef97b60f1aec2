"""Video files (H.264 in MP4): written atomically with metadata, and read back frame by frame."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from gymlab.core.errors import UserError
from gymlab.media.camera import INSTALL_HINT
from gymlab.runs import files, platform
from gymlab.runs.records import VideoRecord

_KEY_SECONDS = 0.5  # between key frames


class FilmWriter:
    """`with FilmWriter(path, fps) as film: film.add(picture)`; the file appears when the block ends well.

    `about` is stored in the file's metadata as JSON, for readers without its sidecar.
    """

    def __init__(
        self,
        path: Path,
        fps: float,
        about: Mapping[str, object] | None = None,
        *,
        crf: int = 20,
        preset: str = "veryfast",
    ) -> None:
        try:
            import av
        except ImportError as error:
            raise UserError(INSTALL_HINT) from error
        self._av = av
        self.fps = fps
        self.frames = 0
        self._about = dict(about or {})
        self._options = {"crf": str(crf), "preset": preset}
        self.size = (0, 0)  # width, height
        self._path = path
        # Not files.atomic: `faststart` reopens the file by its name.
        self._temp = path.with_name(f".{path.name}{files.TEMP_MARK}{os.getpid()}-{secrets.token_hex(4)}")

    def __enter__(self) -> Self:
        try:
            options = {"movflags": "+faststart"}
            self._container: Any = self._av.open(str(self._temp), "w", format="mp4", options=options)
        except OSError as error:
            raise UserError(f"cannot write '{self._path}': {error.strerror}") from error
        self._container.metadata["title"] = str(self._about.get("title", "gymlab"))
        self._container.metadata["comment"] = json.dumps(self._about)
        self._stream: Any = None
        return self

    def add(self, picture: np.ndarray) -> None:
        """One more picture; those after the first must have its size."""
        if self._stream is None:
            self._begin(picture)
        width, height = self.size
        frame = self._av.VideoFrame.from_ndarray(_fitted(picture, width, height), format="rgb24")
        self._container.mux(self._stream.encode(frame))
        self.frames += 1

    def _begin(self, picture: np.ndarray) -> None:
        height, width = picture.shape[:2]
        self.size = (width + width % 2, height + height % 2)  # 4:2:0 chroma needs even sides
        rate = Fraction(self.fps).limit_denominator(1000)
        options = {**self._options, "g": str(max(1, round(self.fps * _KEY_SECONDS)))}
        self._stream = self._container.add_stream("libx264", rate=rate, options=options)
        self._stream.width, self._stream.height = self.size
        self._stream.pix_fmt = "yuv420p"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                if self._stream is None:
                    raise ValueError("a film needs at least one picture")
                self._container.mux(self._stream.encode())
            self._container.close()
            if error is None:
                self._publish()
        finally:
            self._temp.unlink(missing_ok=True)

    def _publish(self) -> None:
        with self._temp.open("rb") as file:
            os.fsync(file.fileno())
        platform.replace(self._temp, self._path)
        platform.fsync_folder(self._path.parent)


def _fitted(picture: np.ndarray, width: int, height: int) -> np.ndarray:
    """The picture padded (edge repeated) or cropped to the film's size."""
    picture = picture[:height, :width]
    down = height - picture.shape[0]
    right = width - picture.shape[1]
    return np.pad(picture, ((0, down), (0, right), (0, 0)), mode="edge") if down or right else picture


def read_about(path: Path) -> VideoRecord:
    """The metadata of a film."""
    import av

    with av.open(str(path)) as container:
        about: VideoRecord = json.loads(container.metadata.get("comment", "{}"))
        return about


def read_frames(path: Path) -> Iterator[np.ndarray]:
    """The pictures of a film, one after the other."""
    import av

    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            yield frame.to_ndarray(format="rgb24")
