"""XLA compiles at LLVM's first level unless another is asked for; the fingerprint of a run tells which."""

import json
import subprocess
import sys

import pytest

from tests.running import environment

SCRIPT = """
import json, sys
import jax
from pathlib import Path
from gymlab.session.jax_setup import set_up_jax
from gymlab.runs.manifest import fingerprint
from jaxlib import xla_client

if sys.argv[2] == "late":
    jax.numpy.zeros(1).block_until_ready()
set_up_jax(Path(sys.argv[1]))
set_up_jax(Path(sys.argv[1]))
told = fingerprint()["variables"].get("XLA_FLAGS")
level = xla_client.CompileOptions().executable_build_options.debug_options.xla_backend_optimization_level
print(json.dumps([told, level]))
"""


@pytest.mark.parametrize(
    ("flags", "moment", "told", "level"),
    [
        (None, "early", "--xla_backend_optimization_level=1", 1),
        ("--xla_backend_optimization_level=2", "early", "--xla_backend_optimization_level=2", 2),
        ("--xla_cpu_enable_fast_math=false", "early",
         "--xla_cpu_enable_fast_math=false --xla_backend_optimization_level=1", 1),
        (None, "late", None, 3),
    ],
)  # fmt: skip
def test_the_level_told_is_the_level_used(tmp_path, flags, moment, told, level):
    environ = environment(**({} if flags is None else {"XLA_FLAGS": flags}))
    if flags is None:
        del environ["XLA_FLAGS"]  # the tests' own
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), moment],
        check=True, env=environ, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert json.loads(done.stdout) == [told, level]
