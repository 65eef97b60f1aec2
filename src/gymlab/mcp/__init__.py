"""`gymlab mcp`: the lab as typed tools for coding agents. Never imports JAX: what needs it runs as a command."""
