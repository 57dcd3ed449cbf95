"""Claim a pod of the pool pysbx with the Python client of agent-sandbox, print the pod, and give it back.

usage: claim.py [WAY]

With WAY, the address of that pod's service, the client runs a command and reads a file there. KUBECONFIG names the
cluster and the account, PYSBX_TOKEN has the token of the service.
"""

from __future__ import annotations

import os
import sys

from k8s_agent_sandbox import SandboxClient  # type: ignore[import]
from k8s_agent_sandbox.models import SandboxDirectConnectionConfig  # type: ignore[import]

NAMESPACE = "pysbx"


def main(way: str = "http://127.0.0.1:1") -> None:
    """Do what a program does that needs a sandbox for a while."""
    config = SandboxDirectConnectionConfig(
        api_url=way, extra_headers={"X-Pysbx-Token": os.environ.get("PYSBX_TOKEN", "")}
    )
    client = SandboxClient(connection_config=config)
    sandbox = client.create_sandbox("pysbx", namespace=NAMESPACE, sandbox_ready_timeout=600)
    claims = client.list_all_sandboxes(namespace=NAMESPACE)
    assert claims == [sandbox.claim_name], claims
    print(sandbox.get_pod_name(), flush=True)
    if sys.argv[1:]:
        done = sandbox.commands.run("echo $((6 * 7)) >answer; pwd", timeout=600)
        assert (done.stdout, done.exit_code) == ("/work\n", 0), done
        assert sandbox.files.read("answer") == b"42\n"
    client.delete_sandbox(sandbox.claim_name, namespace=NAMESPACE)


main(*sys.argv[1:])
