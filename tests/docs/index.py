#!/usr/bin/env python3
"""Serve a directory of wheels as a package index (PEP 503) over HTTPS, for pages that install packages.

tests/docs/run calls this within the environment of a page, where there is no other network.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import re
import ssl
import tempfile
from pathlib import Path


def normalise(wheel: Path) -> str:
    """Return the normalized name of a wheel's project, which is the name of its directory in an index."""
    return re.sub(r"[-_.]+", "-", wheel.name.partition("-")[0]).lower()


def arrange(wheels: Path, top: Path) -> None:
    """Create the directories of an index. Their listings are its pages."""
    for wheel in wheels.glob("*.whl"):
        directory = top / "simple" / normalise(wheel)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / wheel.name).symlink_to(wheel)


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True, help="where to listen, on port 443")
    parser.add_argument("--certificate", type=Path, required=True, help="certificate and key in one file")
    parser.add_argument("wheels", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as top:
        arrange(options.wheels.resolve(), Path(top))
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=top)
        with http.server.ThreadingHTTPServer((options.address, 443), handler) as server:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(options.certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            server.serve_forever()


if __name__ == "__main__":
    main()
