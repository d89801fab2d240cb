"""``python -m fastbin`` is the ``fastbin`` command."""

from fastbin.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
