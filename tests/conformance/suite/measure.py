"""Runs one command and says what it took: measure.py REPORT TIMEOUT COMMAND...

A program of its own, started afresh and small, because the kernel counts the memory of the process that
starts a command into that command's peak. Writes {"status", "signal", "timed_out", "cpu_seconds",
"peak_bytes"} to REPORT; streams pass through.
"""

import json
import os
import signal
import sys


def main():
    report, limit, command = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    pid = os.posix_spawnp(command[0], command, os.environ)
    timed_out = False

    def stop(*_):
        nonlocal timed_out
        timed_out = True
        os.kill(pid, signal.SIGKILL)

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit)
    _, status, usage = os.wait4(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    with open(report, "w", encoding="ascii") as file:
        json.dump({"status": max(code, 0), "signal": max(-code, 0), "timed_out": timed_out,
                   "cpu_seconds": usage.ru_utime + usage.ru_stime, "peak_bytes": usage.ru_maxrss * 1024}, file)


if __name__ == "__main__":
    main()
