"""Many runs at once: a pool of warm worker processes on a CPU, one vmapped program on a GPU or where asked for."""
