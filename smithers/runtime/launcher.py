"""Run as a script in a program's place: makes it the leader of a process group, then becomes it.

python launcher.py FILE PROGRAM [ARGUMENT...]

FILE gets the number of the group, before the program has done anything.
"""

import os
import sys


def main() -> None:
    file, program = sys.argv[1:3]
    os.setsid()
    # Whole or not there: somebody may be reading it at this moment.
    with open(f"{file}.part", "w", encoding="ascii") as part:
        part.write(str(os.getpid()))
    os.rename(f"{file}.part", file)
    try:
        os.execv(program, sys.argv[2:])
    except OSError as error:
        sys.exit(f"cannot start {program}: {error.strerror}")


if __name__ == "__main__":
    main()
