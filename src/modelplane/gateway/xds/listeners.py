"""Listeners: the ones that clients reach, and the loopback one that carries health checks to where they belong."""

from __future__ import annotations

from typing import Final

from modelplane.api.meta import Object
from modelplane.gateway.xds.names import (
    HEALTH_CLUSTER,
    HEALTH_HEADER,
    HEALTH_LISTENER,
    METADATA,
    PATH_HEADER,
    REWRITE_HEADER,
    TYPE,
)
from modelplane.gateway.xds.replies import local_replies

_CODEC: Final[Object] = {
    "name": "envoy.filters.http.upstream_codec",
    "typed_config": {"@type": f"{TYPE}envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec"},
}

# Runs once per try, on the same headers each time: so the path is always made from the path as it came.
_REWRITE: Final = f"""
function envoy_on_request(handle)
  local headers = handle:headers()
  local rewrite = headers:get("{REWRITE_HEADER}")
  if rewrite == nil then return end
  headers:remove("{REWRITE_HEADER}")
  local came = headers:get("{PATH_HEADER}")
  if came == nil then return end
  local length, path = string.match(came, "^(%d+) (.*)$")
  local kind, target = string.match(rewrite, "^(%a+) ?(.*)$")
  if kind == nil then return end
  if kind ~= "keep" then
    local cut = string.find(path, "?", 1, true)
    local query = ""
    if cut then path, query = string.sub(path, 1, cut - 1), string.sub(path, cut) end
    if kind == "full" then
      path = target
    else
      local rest = string.sub(path, tonumber(length) + 1)
      if rest ~= "" then target = string.gsub(target, "/+$", "") end
      path = target .. rest
    end
    path = path .. query
  end
  headers:replace(":path", path)
end
"""

_HEALTH: Final = f"""
function envoy_on_request(handle)
  local headers = handle:headers()
  local path = headers:get("{HEALTH_HEADER}")
  headers:remove("{HEALTH_HEADER}")
  headers:replace(":path", path or "/")
end
"""


def listener(name: str, address: str, port: int, routes: str, door: str = "") -> Object:
    """An HTTP listener with its routes over RDS. Nothing is buffered and nothing but a route ends a request.

    With a ``door`` it listens on that Unix socket as well, and shares its port with whoever passes connections on to it.
    """
    manager: Object = {
        "stat_prefix": name,
        "rds": {"route_config_name": routes, "config_source": {"ads": {}, "resource_api_version": "V3"}},
        "http_filters": [_router(rewriting=True)],
        "stream_idle_timeout": "0s",
        "request_timeout": "0s",
        "use_remote_address": True,
        "normalize_path": True,
        "local_reply_config": local_replies(),
        "http_protocol_options": {"accept_http_10": True},
    }
    made = _listener(name, address, port, manager)
    if door:
        made["additional_addresses"] = [{"address": {"pipe": {"path": door}}}]
        made["enable_reuse_port"] = True
    return made


def health_listener(port: int, *, shared: bool = False) -> Object:
    """Takes this proxy's own health checks and sends each to the address and path in its headers."""
    manager: Object = {
        "stat_prefix": HEALTH_LISTENER,
        "route_config": {
            "name": HEALTH_LISTENER,
            "virtual_hosts": [
                {
                    "name": HEALTH_LISTENER,
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "route": {"cluster": HEALTH_CLUSTER, "timeout": "1s"}}],
                }
            ],
        },
        "http_filters": [_lua(_HEALTH), _router(rewriting=False)],
        "generate_request_id": False,
    }
    return {**_listener(HEALTH_LISTENER, "127.0.0.1", port, manager), "enable_reuse_port": shared}


def _listener(name: str, address: str, port: int, manager: Object) -> Object:
    kind = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
    connections = {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {"@type": TYPE + kind, **manager},
    }
    return {
        "name": name,
        "address": {"socket_address": {"address": address, "port_value": port}},
        # Two proxies must not share a port by accident, each taking half of the connections; a `Door` sees to that itself.
        "enable_reuse_port": False,
        "filter_chains": [{"filters": [connections]}],
    }


def _router(*, rewriting: bool) -> Object:
    config: Object = {"@type": f"{TYPE}envoy.extensions.filters.http.router.v3.Router", "suppress_envoy_headers": True}
    if rewriting:
        value = {"key": REWRITE_HEADER, "value": f"%UPSTREAM_METADATA({METADATA}:rewrite)%"}
        mutation = {"append": {"header": value, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}}
        config["upstream_http_filters"] = [
            {
                "name": "envoy.filters.http.header_mutation",
                "typed_config": {
                    "@type": f"{TYPE}envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
                    "mutations": {"request_mutations": [mutation]},
                },
            },
            _lua(_REWRITE),
            _CODEC,
        ]
    return {"name": "envoy.filters.http.router", "typed_config": config}


def _lua(source: str) -> Object:
    return {
        "name": "envoy.filters.http.lua",
        "typed_config": {
            "@type": f"{TYPE}envoy.extensions.filters.http.lua.v3.Lua",
            "default_source_code": {"inline_string": source},
        },
    }
