"""Begins a script in an interpreter that its task names: `python_gate.py SCRIPT SYMPTOMS VERSION LAUNCHER`.

It writes the version of the interpreter into the file VERSION, and goes on with `python_launcher` if that is not too
old. No version there, and the program is no Python, or a broken one. Invariant: every Python since 2.6 can read this
file, or it could not say what is wrong.
"""

import sys

OLDEST = (3, 9)
"""The oldest version that `python_launcher`, and the code of today's scripts, run in."""
EXIT_TOO_OLD = 65
VERSION_FILE = "version"


def _begin():  # type: ignore[no-untyped-def]  # a Python 2 reads no annotations
    script, symptoms, version, launcher = sys.argv[1:5]
    with open(version, "w") as file:
        file.write(".".join(map(str, sys.version_info[:3])))
    if tuple(sys.version_info[:2]) < OLDEST:
        sys.exit(EXIT_TOO_OLD)
    with open(launcher, "rb") as file:
        code = file.read()
    sys.argv[1:] = [script, symptoms]
    # Under the name of this file, so that the launcher takes both of them out of a traceback.
    exec(compile(code, __file__, "exec"), {"__name__": "__main__", "__file__": __file__})


if __name__ == "__main__":
    _begin()  # type: ignore[no-untyped-call]  # as above
