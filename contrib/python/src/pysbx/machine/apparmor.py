"""The profile for AppArmor: it lets an installed runtime make user namespaces where Ubuntu restricts them.

See apparmor.d(5), apparmor_parser(8).
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from pysbx.base import children
from pysbx.base.directories import write_whole
from pysbx.base.managed_files import is_ours, marked
from pysbx.container.start_refusals import PROFILE, SHIPPED

DIRECTORY = Path(PROFILE).parent


def _parse(*arguments: str) -> str:
    """Run AppArmor's parser; return "", or the reason why it failed."""
    parser = shutil.which("apparmor_parser", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if parser is None:
        return "apparmor_parser is not installed"
    done: subprocess.CompletedProcess[str] = children.run(
        [parser, *arguments], capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL
    )
    return "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"


def _is_unchanged(profile: Path, shipped: Path) -> bool:
    """Tell whether a profile is as some version of this package has written it, or a copy of the present one."""
    return is_ours(profile) or profile.read_bytes() == shipped.read_bytes()


def install(prefix: Path) -> str:
    """Install the profile of a prefix and load it; return a sentence about that, or "" if AppArmor is not here.

    Raises:
        OSError: the file cannot be written.
    """
    shipped = prefix / SHIPPED
    if not DIRECTORY.is_dir() or not shipped.is_file():
        return ""
    profile, content = Path(PROFILE), shipped.read_text(encoding="utf-8")
    if reason := _parse("--skip-kernel-load", "--skip-cache", str(shipped)):
        return f"AppArmor: no profile is installed: {reason.splitlines()[-1]}"
    if profile.exists() and not _is_unchanged(profile, shipped):
        return f"AppArmor: {profile} was changed, and stays as it is: the one for this runtime is {shipped}"
    write_whole(profile, marked(content, "pysbx runtime install").encode())
    failed = _parse("--replace", str(profile))
    return f"AppArmor: {profile} is installed" + (f", and loaded at the next boot: {failed}" if failed else "")


def uninstall(prefix: Path) -> str:
    """Remove the profile that install() has installed for a prefix, before the prefix is emptied; see install()."""
    shipped, profile = prefix / SHIPPED, Path(PROFILE)
    if not profile.is_file() or not shipped.is_file() or not _is_unchanged(profile, shipped):
        return ""
    _parse("--remove", str(profile))
    profile.unlink()
    return f"AppArmor: {profile} is removed"
