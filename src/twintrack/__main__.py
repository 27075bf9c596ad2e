"""``python -m twintrack`` is the ``twintrack`` command."""

from twintrack.cli import main

if __name__ == "__main__":
    main()
