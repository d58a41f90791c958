"""Pages as a browser shows them: headless Chromium of the system, where it is installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

#: Without a window, a network, or anything of a user's; each run has a profile of its own.
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--allow-file-access-from-files", "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr",
)  # fmt: skip


@dataclass(frozen=True)
class Shown:
    """dom : the page after its scripts ran. errors : what its console said."""

    dom: str
    errors: list[str]


def opened(file: Path, width: int = 1280, dark: bool = False, query: str = "") -> Shown | None:
    """A file in the browser; None where there is no Chromium. query : what follows "?" in its address."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        return None
    with tempfile.TemporaryDirectory() as profile:
        more = [f"--user-data-dir={profile}", f"--window-size={width},800", "--virtual-time-budget=4000", "--dump-dom"]
        if dark:
            more.append("--blink-settings=preferredColorScheme=0")
        command = [browser, *FLAGS, *more, f"{file.resolve().as_uri()}?{query}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return Shown(done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line])
