"""Image observations as grids of tiles, heat maps and PNG files."""

import struct
import zlib

import numpy as np
import pytest

from gymlab.networks.encoders import ImageShape
from gymlab.web.workers.episode_pictures import grid, heated, png, tiles

pytestmark = pytest.mark.fast


def decoded(data):
    """What a PNG without filters holds."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    columns, rows, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert depth == 8
    at, packed = 8, b""
    while at < len(data):
        (size,), name = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(name + body)
        packed += body if name == b"IDAT" else b""
        at += 12 + size
    channels = {0: 1, 2: 3}[kind]
    lines = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(rows, 1 + columns * channels)
    return lines[:, 1:].reshape(rows, columns, channels)


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3)])
def test_a_picture_comes_back_from_its_png(shape):
    picture = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    assert np.array_equal(decoded(png(picture)).reshape(shape), picture)


def test_a_stack_of_grey_frames_is_a_row_of_tiles_oldest_first():
    stack = np.stack([np.full((80, 80), 50 * i, np.uint8) for i in range(4)], 2)
    drawn = grid(tiles(stack, ImageShape(80, 80, 4), stack=4))
    assert drawn.shape == (160, 4 * 160 + 3 * 2, 3)  # each doubled, with gaps between
    assert [int(drawn[80, 80 + i * 162, 0]) for i in range(4)] == [0, 50, 100, 150]


def test_colours_and_channels_first_are_understood():
    colour = np.zeros((3, 90, 100), np.uint8)
    colour[1] = 200
    (tile,) = tiles(colour, ImageShape(90, 100, 3, channels_first=True))
    assert tile.shape == (90, 100, 3)
    assert tile[0, 0].tolist() == [0, 200, 0]
    assert len(tiles(np.zeros((90, 100, 6), np.uint8), ImageShape(90, 100, 6), stack=2)) == 2


def test_what_mattered_most_is_red_and_what_did_not_keeps_its_grey():
    frame, heat = np.full((4, 4), 100, np.uint8), np.zeros((4, 4))
    heat[1, 2] = 3.0
    (drawn,) = heated([frame], [heat])
    assert drawn[1, 2].tolist() == [255, 40, 0]
    assert drawn[0, 0].tolist() == [60, 60, 60]
    assert heated([frame], [np.zeros((4, 4))])[0][0, 0].tolist() == [60, 60, 60]
