"""``python -m dask_rcylon demo``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dask_rcylon.demo import job


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m dask_rcylon")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="a TPC-H query with Dask as it is, and with one line")
    demo.add_argument("--scale", type=float, default=0.2, help="TPC-H scale factor (0.2)")
    demo.add_argument("--ranks", type=int, help="workers of one thread (one for each CPU)")
    demo.add_argument("--data", type=Path, help="where the tables are kept (a cache folder)")
    demo.add_argument("--keep", type=Path, help="leave the two results here")
    args = parser.parse_args()
    try:
        return 0 if job.run(args.scale, args.ranks, args.data, args.keep) else 1
    except (ValueError, RuntimeError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
