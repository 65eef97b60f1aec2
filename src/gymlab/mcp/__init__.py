"""MCP server: gymlab as typed tools for coding agents. JAX is never imported here: tools that need it run commands."""
