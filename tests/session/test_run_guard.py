import gc

import pytest

from gymlab.session.run_guard import guard_command
from gymlab.session.startup_tuning import resume_collection

pytestmark = pytest.mark.fast


def test_garbage_collection_is_enabled_when_the_start_is_over():
    with guard_command(gc_off=True):
        assert not gc.isenabled()
        resume_collection()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


def test_garbage_collection_is_enabled_when_a_start_fails():
    with pytest.raises(ValueError, match="no"), guard_command(gc_off=True):
        raise ValueError("no")
    assert gc.isenabled()


def test_garbage_collection_stays_enabled_without_a_request():
    with guard_command():
        assert gc.isenabled()
        resume_collection()
        assert gc.get_freeze_count() == 0
