"""ECharts options: histograms on common bins."""

import numpy as np
import pytest

from gymlab.web.charts.options import on_common_bins

pytestmark = pytest.mark.fast


def test_histograms_with_other_edges_keep_their_mass_on_common_bins():
    from gymlab.runs.metrics_db import Histograms

    found = Histograms("x", np.array([1.0, 2.0]), np.array([[0.0, 1, 2], [0, 2, 4]]), np.array([[1, 3], [2, 2]]))
    edges, shares = on_common_bins(found)
    assert edges.tolist() == [0, 2, 4]
    assert shares.tolist() == [[1, 0], [0.5, 0.5]]
