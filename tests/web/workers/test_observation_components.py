"""The parts of observation spaces: paths, names, bounds."""

import numpy as np
from gymnasium import spaces as S

from gymlab.web.workers.observation_components import components


def test_components_have_paths_names_and_bounds():
    space = S.Dict(a=S.Box(-1.0, np.inf, (2,)), b=S.Tuple([S.Discrete(3, start=1), S.MultiBinary(2)]))
    found = [(part.path, part.name, part.kind, part.low, part.high) for part in components(space)]
    assert found == [
        (("a", 0), "a[0]", "number", -1.0, None), (("a", 1), "a[1]", "number", -1.0, None),
        (("b", 0), "b.0", "choice", 1.0, 3.0), (("b", 1, 0), "b.1[0]", "choice", 0.0, 1.0),
        (("b", 1, 1), "b.1[1]", "choice", 0.0, 1.0),
    ]  # fmt: skip
    assert [part.name for part in components(space, ["v", "w", "x", "y", "z"])] == ["v", "w", "x", "y", "z"]


def test_pictures_and_long_vectors_are_one_component_each():
    assert [part.kind for part in components(S.Box(0, 255, (84, 84, 4), np.uint8))] == ["picture"]
    assert [part.kind for part in components(S.Box(-1, 1, (65,)))] == ["many"]
    assert len(components(S.Box(-1, 1, (64,)))) == 64
