"""Warm workers that all tests of sweeps share: starting them takes longer than all they do here."""

import pytest

from gymlab.experiment.many.pool import Pool


@pytest.fixture(scope="session")
def pools():
    with Pool(1) as one, Pool(2) as two:
        yield {1: one, 2: two}
