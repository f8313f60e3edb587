"""Runs each program after the first argument with the prelude in the first, and prints a line for each."""
import subprocess, sys

for program in sys.argv[2:]:
    argv = [sys.executable, "-c", sys.argv[1], program]
    ran = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    print(" ".join((ran.stdout or ran.stderr).split()), flush=True)
