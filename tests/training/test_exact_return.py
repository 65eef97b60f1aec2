import numpy as np

from gymlab.envs.ports.registry import find_port
from gymlab.training.evaluation import exact_return

LEFT, DOWN, RIGHT = range(3)


def test_the_known_optimum_of_slippery_frozen_lake():
    # The stationary policy that value iteration finds: 0.7402 within 100 steps (REFERENCE: 0.7402).
    table = find_port("FrozenLake-v1", {}, None)
    value = np.zeros(16)
    for _ in range(5000):
        q = np.sum(table.probability * (table.reward + ~table.terminal * value[table.successor]), -1)
        value = q.max(-1)
    assert abs(exact_return(table, q.argmax(-1)) - 0.7402) < 5e-4


def test_a_walk_by_hand():
    # Not slippery, down down right right down right reaches the goal; always left never does.
    table = find_port("FrozenLake-v1", {"is_slippery": False}, None)
    path = np.full(16, LEFT)
    path[[0, 4, 8, 9, 10, 14]] = [DOWN, DOWN, RIGHT, RIGHT, DOWN, RIGHT]
    assert exact_return(table, path) == 1.0
    assert exact_return(table, np.full(16, LEFT)) == 0.0


def test_the_time_limit_counts():
    # Cliff walking: 13 steps of -1 along the safe path; a limit of 5 leaves -5.
    table = find_port("CliffWalking-v1", {}, 5)
    up, right, down = range(3)
    path = np.full(48, right)
    path[36], path[35] = up, down
    assert exact_return(table, path) == -5.0
    assert exact_return(find_port("CliffWalking-v1", {}, 1000), path) == -13.0
