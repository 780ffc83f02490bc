"""Executes a program as the parent of all that its descendants leave: `subreaper_program.py SOCKET PROGRAM ARGUMENT…`.

The program has what was the input of this one as descriptor SOCKET, and an empty input. The kernel keeps the attribute
when a program is executed, and gives it to no child. A program that is executed without it could not tell what its
descendants leave, so nothing is executed then.
"""

import ctypes
import os
import sys

PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    """Does not return."""
    libc, none = ctypes.CDLL(None, use_errno=True), ctypes.c_ulong(0)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), none, none, none) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    control, program = int(sys.argv[1]), sys.argv[2]
    os.dup2(0, control)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        os.execv(program, sys.argv[2:])
    except OSError as error:
        sys.exit(f"{program}: {error.strerror}")


if __name__ == "__main__":
    main()
