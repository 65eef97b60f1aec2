import gc

import pytest

from gymlab.cli.startup import gc_off_during_start

pytestmark = pytest.mark.fast


def test_garbage_collection_is_enabled_when_a_run_is_announced():
    said = []
    with gc_off_during_start() as enable_at:
        assert not gc.isenabled()
        enable_at(said.append)("it begins")
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
    assert said == ["it begins"]
    assert gc.get_freeze_count() == 0


def test_garbage_collection_is_enabled_when_a_start_fails():
    with pytest.raises(ValueError, match="no"), gc_off_during_start():
        raise ValueError("no")
    assert gc.isenabled()
