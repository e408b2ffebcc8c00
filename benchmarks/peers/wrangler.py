"""Cloudflare's own emulator: `wrangler dev`, with a Node that it takes."""

from benchmarks.peers.install import NpmPeer

PEER = NpmPeer(
    "wrangler",
    "wrangler dev 4.164.0",
    (("wrangler", "4.164.0"), ("node", "26.10.0")),
    "benchmarks.peers.scripts.wrangler_work",
)
