"""``mcp``: serves agents, by the Model Context Protocol."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from models.errors import UsageError


def mcp(
    *,
    http: Annotated[
        bool,
        typer.Option(
            "--http",
            help="Answer at /mcp beside the pages and the HTTP API, as web does.",
        ),
    ] = False,
) -> None:
    """
    Serve agents by the Model Context Protocol.

    On standard input and output, with the key in MINUTEHAND_MCP_KEY; or by HTTP, where
    each request has a key. What a key may do by the API, an agent may do with it.
    """
    try:
        serving = import_module("cli.mcp_server")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("mcp"):
            raise
        raise UsageError(
            "this needs the package mcp, which is not installed:"
            " pip install 'minutehand[mcp]'"
        ) from None
    if http:
        serving.serve_http()
    else:
        serving.serve_stdio()
