"""URLs of a Redis Cluster, and of its nodes, with the same login and options. A few nodes are enough: they name the
others."""

from __future__ import annotations

import re

_CLUSTER = re.compile(r"(rediss?)\+cluster://((?:[^/?#]*@)?)([^/?#@]*)(.*)", re.DOTALL)
"""Scheme, login, hosts, and what follows."""


def is_cluster(url: str) -> bool:
    return url.startswith(("redis+cluster://", "rediss+cluster://"))


def node_urls(url: str) -> list[str]:
    """One URL for each node that a cluster's URL names; a URL of a single server is its own."""
    found = _CLUSTER.fullmatch(url)
    if found is None:
        return [url]
    scheme, login, hosts, rest = found.groups()
    return [f"{scheme}://{login}{host}{rest}" for host in hosts.split(",")]


def node_url(url: str, host: str, port: int) -> str:
    """The same for a node that only the cluster names."""
    shown = f"[{host}]" if ":" in host else host
    return _CLUSTER.sub(rf"\g<1>://\g<2>{shown}:{port}\g<4>", url)
