"""The security modules that hold a program, and what the errors and `pysbx doctor` say about them."""

from __future__ import annotations

import errno

import pytest

from pysbx.container import start_refusals
from pysbx.machine import doctor, pod

APPARMOR = "AppArmor's profile 'containers-default-0.50.1' of the container around this program refuses that"
SELINUX = "SELinux's type 'container_t' of the container around this program refuses that"


@pytest.mark.parametrize(
    ("texts", "found", "remedy"),
    [
        ({}, None, ""),
        ({"/proc/self/attr/current": "unconfined"}, None, ""),
        (
            {"/proc/self/attr/current": "containers-default-0.50.1 (enforce)"},
            ("AppArmor", "containers-default-0.50.1"),
            APPARMOR,
        ),
        (
            {"/proc/self/attr/apparmor/current": "containers-default-0.50.1 (enforce)"},
            ("AppArmor", "containers-default-0.50.1"),
            APPARMOR,
        ),
        (
            {"/proc/self/attr/current": "system_u:system_r:container_t:s0:c1,c2\0"},
            ("SELinux", "container_t"),
            SELINUX,
        ),
        # Not of a container, and the type of contrib/k8s/selinux: another cause.
        (
            {"/proc/self/attr/current": "unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023"},
            ("SELinux", "unconfined_t"),
            "",
        ),
        ({"/proc/self/attr/current": "system_u:system_r:pysbx_serve_t:s0:c1,c2"}, ("SELinux", "pysbx_serve_t"), ""),
    ],
)
def test_the_error_names_the_module_that_refuses_and_its_option(
    texts: dict[str, str], found: tuple[str, str] | None, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_refusals, "text_of", lambda path: texts.get(path, ""))
    assert start_refusals.confinement() == found
    said = start_refusals.remedy_for("not-permitted")
    assert said.startswith(remedy) if remedy else not said
    if remedy == SELINUX:
        assert "label=type:pysbx_serve_t" in said and "seLinuxOptions: {type: pysbx_serve_t}" in said


@pytest.mark.parametrize(
    ("module", "refused", "field"),
    [
        ("SELinux", errno.EACCES, True),
        ("SELinux", errno.EPERM, False),
        ("SELinux", 0, False),
        ("AppArmor", errno.EACCES, False),
    ],
)
def test_doctor_in_a_pod_names_the_field_of_selinux(
    module: str, refused: int, field: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod, "confinement", lambda: start_refusals.Confinement(module, "container_t"))
    monkeypatch.setattr(pod, "_refusal", lambda: refused)
    named = any("seLinuxOptions: {type: pysbx_serve_t}" in missing.text for missing in pod.missing())
    assert named == field


def test_doctor_names_the_type_where_the_policy_cannot_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "text_of", lambda _path: "")
    monkeypatch.setattr(doctor, "confinement", lambda: start_refusals.Confinement("SELinux", "pysbx_serve_t"))
    found = doctor._selinux()
    assert (found.status, found.found.endswith("pysbx_serve_t")) == ("ok", True)
