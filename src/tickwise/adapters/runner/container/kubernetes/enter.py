"""Runs the script of an attempt in a pod, and says its result as lines of the log:
`enter.py MOST PROGRAM ARGUMENT…`.

Kubernetes gives nothing of a pod's files back, only its log. The parent unpacks the files that travel with the task,
waits for the script, and writes what it left, in base64, each line with a mark that the executor takes out again. It
stands alone: it runs on the Python of an image, 3.8 or newer. MOST: bytes of a result.
"""

import base64
import os
import signal
import sys

IN, WORK, OUT = "/tickwise/in", "/tickwise/work", "/tickwise/out"
MARK = "\x1etickwise-"
LINE_BYTES = 3_000
SYMPTOMS_BYTES = 16 << 10


def tell(name: str, file: str, most: int) -> None:
    """Write the content of a file, a byte more than `most` at the most."""
    try:
        # A link is no result: it could name what the script did not write.
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW), "rb") as opened:
            content = opened.read(most + 1)
    except OSError:
        return
    lines = [content[place : place + LINE_BYTES] for place in range(0, len(content), LINE_BYTES)]
    # One line feed ahead ends what the script left open; the executor takes it out with the lines.
    sys.stdout.write("\n" + "".join(f"{MARK}{name}:{base64.b64encode(line).decode()}\n" for line in lines))
    sys.stdout.flush()


def main() -> int:
    """The exit status of the script; 128 and its number after a signal."""
    most, program = int(sys.argv[1]), sys.argv[2:]
    archive = f"{IN}/work.tar"
    if os.path.exists(archive):
        import tarfile

        with tarfile.open(archive) as opened:
            opened.extractall(WORK)  # of our own making
    child = os.fork()
    if child == 0:
        os.execvp(program[0], program)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: os.kill(child, number))
    _, status = os.waitpid(child, 0)
    tell("symptoms", f"{OUT}/symptoms", SYMPTOMS_BYTES)
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status)
    if os.WEXITSTATUS(status) == 0:
        tell("result", f"{OUT}/result.json", most)
    return os.WEXITSTATUS(status)


if __name__ == "__main__":
    sys.exit(main())
