"""By which proxy a site reaches its coordinator: the one that the environment names for HTTPS, if any, by CONNECT."""

from __future__ import annotations

from urllib.request import getproxies_environment, proxy_bypass

from thebes.wire.address import is_loopback


def proxy_of(coordinator: str) -> str | None:
    """Return the address of the proxy for HOST:PORT. None where none is named, where `no_proxy` names the host or is
    `*`, and for this machine itself: a proxy elsewhere would look for it on its own. gRPC alone would read neither `*`
    nor names in capitals, and would send what is said within this machine away from it."""
    host = coordinator.rpartition(":")[0].strip("[]")
    named = getproxies_environment()  # by kind, in either case
    proxy = named.get("grpc") or named.get("https")
    without = {"no": named.get("no_grpc") or named.get("no", "")}
    if not proxy or is_loopback(host) or proxy_bypass(host, without):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def is_usable(proxy: str) -> bool:
    """Return whether a site can go by a proxy: by one of HTTP only. With another it would go past it."""
    return proxy.lower().startswith("http://")
