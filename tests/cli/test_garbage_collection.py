import gc

import pytest

from gymlab.cli.garbage_collection import no_collecting


def test_garbage_is_collected_again_once_a_run_is_announced():
    said = []
    with no_collecting() as until:
        assert not gc.isenabled()
        until(said.append)("it begins")
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
    assert said == ["it begins"]
    assert gc.get_freeze_count() == 0


def test_also_where_a_run_could_not_begin():
    with pytest.raises(ValueError, match="no"), no_collecting():
        raise ValueError("no")
    assert gc.isenabled()
