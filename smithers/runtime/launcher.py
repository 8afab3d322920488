"""Run as a script in a program's place: makes it the leader of a process group, then becomes it.

python launcher.py FILE PROGRAM [ARGUMENT...]

FILE gets the number of the group, before the program has done anything. On Linux the program is
asked to end (SIGTERM) when the one that has started it dies, even by SIGKILL.
"""

import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    file, program = sys.argv[1:3]
    parent = os.getppid()
    os.setsid()
    if sys.platform == "linux":
        end_with_parent(parent)
    # Whole or not there: somebody may be reading it at this moment.
    with open(f"{file}.part", "w", encoding="ascii") as part:
        part.write(str(os.getpid()))
    os.rename(f"{file}.part", file)
    try:
        os.execv(program, sys.argv[2:])
    except OSError as error:
        sys.exit(f"cannot start {program}: {error.strerror}")


def end_with_parent(parent: int) -> None:
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit("whoever has started this is gone")  # before it could be asked for


if __name__ == "__main__":
    main()
