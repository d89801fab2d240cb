"""Print the command that README.md marks for CI, so that what the README promises is what CI runs.

A marked command is one line in a fenced block under an HTML comment:

    <!-- ci: test -->
    ```sh
    python3 -m venv .venv && ...
    ```
"""

import re
import sys
from pathlib import Path


def marked_command(text: str, mark: str) -> str:
    """Return the one command line under ``<!-- ci: mark -->``; raise ValueError when it is not there."""
    blocks = re.findall(
        rf"<!--\s*ci:\s*{re.escape(mark)}\s*-->\s*\n```\w*\n(.*?)\n```", text, flags=re.DOTALL
    )
    if len(blocks) != 1:
        raise ValueError(
            f"README.md must mark exactly one fenced block with <!-- ci: {mark} -->; found {len(blocks)}"
        )
    lines = blocks[0].splitlines()
    if len(lines) != 1:
        raise ValueError(
            f"the block marked <!-- ci: {mark} --> must hold one command line; it has {len(lines)}"
        )
    return lines[0].strip()


if __name__ == "__main__":
    try:
        print(marked_command(Path(sys.argv[2]).read_text(encoding="utf-8"), sys.argv[1]))
    except (OSError, ValueError) as error:
        sys.exit(f"readme_command: {error}")
