#!/usr/bin/env python3
"""An evaluation harness: many programs with known verdicts, in parallel, on one belljar server.

    cargo build --release
    examples/eval.py                       # the built-in tasks, four at a time
    examples/eval.py --parallel 8 --tasks my_tasks.jsonl

It needs nothing but Python's standard library, and speaks MCP over the server's standard streams.
A task is a solution and the tests for it; both run in a fresh sandbox, so that no solution can see
another one, the harness or the network. The verdict comes from how the run ended, never from what the
program printed: output is data from inside, and a solution may well print "all tests passed". Solution
and tests share one process, so a solution that ends it with status 0 before its tests counts as passed;
where that matters, give "stdout" and let the tests print something that depends on the answers.

A file of tasks has one JSON object a line:
    {"name": "add", "solution": "def add(a, b): return a + b", "tests": "assert add(1, 2) == 3"}
Optional keys: "language" (default python), "stdin", "files" ({path: text}), "timeout_seconds",
"limits", "stdout" (the exact output wanted), "verdict" (default "passed": what the harness should
find; "failed" and the statuses of run_code are the others).

Exit status: 0 when every verdict is the one wanted, 1 when one is not, 2 when the server could not be
used.
"""
import argparse
import concurrent.futures
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time

PROTOCOL = "2025-11-25"
# Beyond a task's own timeout: waiting for a place, the container's start, collecting its files.
GRACE_SECONDS = 120
# Long enough for a server to remove its containers.
STOP_SECONDS = 15

TASKS = [
    {
        "name": "running_max",
        "solution": """
def running_max(numbers):
    best, out = None, []
    for n in numbers:
        best = n if best is None or n > best else best
        out.append(best)
    return out
""",
        "tests": """
assert running_max([]) == []
assert running_max([3, 1, 4, 1, 5]) == [3, 3, 4, 4, 5]
assert running_max([-2, -7]) == [-2, -2]
""",
    },
    {
        "name": "balanced_brackets",
        "solution": """
def balanced(text):
    pairs, stack = {")": "(", "]": "[", "}": "{"}, []
    for c in text:
        if c in "([{":
            stack.append(c)
        elif c in pairs and (not stack or stack.pop() != pairs[c]):
            return False
    return not stack
""",
        "tests": """
assert balanced("([]{})") and balanced("")
assert not balanced("([)]") and not balanced("(") and not balanced("]")
""",
    },
    {
        "name": "roman_numerals",
        "solution": """
def roman(n):
    signs = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"),
             (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]
    out = ""
    for value, sign in signs:
        out += sign * (n // value)
        n %= value
    return out
""",
        "tests": """
assert [roman(n) for n in (1, 4, 9, 14, 1994, 2026)] == ["I", "IV", "IX", "XIV", "MCMXCIV", "MMXXVI"]
""",
    },
    {
        "name": "least_squares_with_numpy",
        "solution": """
import numpy
def slope(xs, ys):
    return float(numpy.polyfit(xs, ys, 1)[0])
""",
        "tests": "assert abs(slope([0, 1, 2, 3], [1, 3, 5, 7]) - 2) < 1e-9",
    },
    {
        "name": "words_from_stdin",
        "solution": "import sys\nprint(len(sys.stdin.read().split()))",
        "tests": "",
        "stdin": "one two  three\nfour",
        "stdout": "4\n",
    },
    {
        "name": "sum_of_a_column",
        "language": "bash",
        "solution": "awk -F, 'NR > 1 { sum += $2 } END { print sum }' prices.csv",
        "tests": "",
        "files": {"prices.csv": "name,price\npear,2\nfig,5\n"},
        "stdout": "7\n",
    },
    {
        "name": "group_by_length",
        "language": "javascript",
        "solution": """
function byLength(words) {
    const groups = {};
    for (const word of words) (groups[word.length] ??= []).push(word);
    return groups;
}
""",
        "tests": """
const assert = require('node:assert');
assert.deepEqual(byLength(['a', 'bb', 'c']), {1: ['a', 'c'], 2: ['bb']});
""",
    },
    # A harness that only ever sees right solutions proves nothing: these must be found out.
    {
        "name": "wrong_solution",
        "solution": "def double(n): return n + 2",
        "tests": "assert double(2) == 4 and double(3) == 6",
        "verdict": "failed",
    },
    {
        "name": "claims_to_have_passed",
        "solution": "print('all tests passed')\nimport sys; sys.exit(1)",
        "tests": "assert False",
        "verdict": "failed",
    },
    {
        "name": "endless_loop",
        "solution": "while True: pass",
        "tests": "",
        "timeout_seconds": 2,
        "verdict": "timed_out",
    },
    {
        "name": "endless_output",
        "solution": "while True: print('again')",
        "tests": "",
        "limits": {"output_kib": 64},
        "verdict": "output_limit",
    },
    {
        "name": "kills_itself",
        "language": "bash",
        "solution": "kill -SEGV $$",
        "tests": "",
        "verdict": "signaled",
    },
]


class ServerGone(Exception):
    """The server ended, or never spoke."""


class Server:
    """One MCP server as a child process. Calls may come from many threads at the same time."""

    def __init__(self, command, state):
        config = os.path.join(state, "belljar.toml")
        with open(config, "w") as f:
            f.write("")  # the closed defaults, whatever this user's own configuration says
        environment = {**os.environ, "BELLJAR_STATE_DIR": state, "BELLJAR_CONFIG": config}
        try:
            self.process = subprocess.Popen([command, "serve"], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, env=environment)
        except OSError as error:
            raise ServerGone(f"cannot start {command}: {error.strerror}; is it built?") from error
        self.lock = threading.Lock()  # guards everything below, and the order of lines on stdin
        self.waiting = {}
        self.last_id = 0
        self.gone = None
        threading.Thread(target=self._read, daemon=True).start()

    def open(self):
        self.request("initialize", {
            "protocolVersion": PROTOCOL, "capabilities": {},
            "clientInfo": {"name": "belljar-eval", "version": "1"}}, GRACE_SECONDS)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _read(self):
        why = "the server closed its output"
        try:
            for line in self.process.stdout:
                message = json.loads(line)
                if not isinstance(message, dict):
                    raise ValueError(message)
                if "method" in message:
                    continue  # a notification
                with self.lock:
                    box = self.waiting.pop(message.get("id"), None)
                if box:
                    box.put(message)
        except ValueError:
            why = "the server wrote something that is not the protocol"
        with self.lock:
            self.gone = why
            waiting, self.waiting = self.waiting, {}
        for box in waiting.values():
            box.put(None)

    def _send(self, message):
        line = json.dumps(message).encode() + b"\n"
        with self.lock:
            if self.gone:
                raise ServerGone(self.gone)
            try:
                self.process.stdin.write(line)
                self.process.stdin.flush()
            except OSError as error:
                self.gone = "the server closed its input"
                raise ServerGone(self.gone) from error

    def request(self, method, params, timeout):
        box = queue.Queue(1)
        with self.lock:
            if self.gone:
                raise ServerGone(self.gone)
            self.last_id += 1
            number = self.last_id
            self.waiting[number] = box
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        try:
            reply = box.get(timeout=timeout)
        except queue.Empty:
            with self.lock:
                self.waiting.pop(number, None)
            self._send({"jsonrpc": "2.0", "method": "notifications/cancelled",
                        "params": {"requestId": number, "reason": "no answer in time"}})
            raise TimeoutError(f"no answer to {method} within {timeout} s") from None
        if reply is None:
            raise ServerGone(self.gone)
        if "error" in reply:
            raise RuntimeError(f"{method}: {reply['error'].get('message')}")
        return reply["result"]

    def run_code(self, arguments):
        timeout = arguments.get("timeout_seconds", 30) + GRACE_SECONDS
        return self.request("tools/call", {"name": "run_code", "arguments": arguments}, timeout)

    def close(self):
        """The end of its input stops the server; one that does not stop is ended."""
        try:
            self.process.stdin.close()
        except OSError:
            pass
        for stop in (self.process.terminate, self.process.kill):
            try:
                self.process.wait(STOP_SECONDS)
                return
            except subprocess.TimeoutExpired:
                stop()
        self.process.wait()


def judge(task, result):
    """The verdict on a task and a short word on why."""
    if result.get("isError"):
        text = " ".join(c.get("text", "") for c in result["content"])
        return "refused", text
    run = result["structuredContent"]
    if run["status"] != "exited":
        return run["status"], ""
    if run["exit_code"] != 0:
        last = run["stderr"]["text"].strip().rsplit("\n", 1)[-1]
        return "failed", f"exit code {run['exit_code']} {last}"
    if "stdout" in task and run["stdout"]["text"] != task["stdout"]:
        return "failed", f"printed {run['stdout']['text'][:60]!r}"
    return "passed", ""


def evaluate(server, task):
    """One row of the table: (name, wanted, found, seconds, detail)."""
    arguments = {
        "language": task.get("language", "python"),
        "code": task["solution"] + "\n" + task["tests"],
        "files": [{"path": p, "text": t} for p, t in task.get("files", {}).items()],
        **{key: task[key] for key in ("stdin", "timeout_seconds", "limits") if key in task},
    }
    begin = time.monotonic()
    try:
        found, detail = judge(task, server.run_code(arguments))
    except ServerGone as error:
        found, detail = "server_gone", str(error)
    except (TimeoutError, RuntimeError, KeyError) as error:
        found, detail = "error", f"{type(error).__name__}: {error}"
    return task["name"], task.get("verdict", "passed"), found, time.monotonic() - begin, detail


def load(path):
    tasks = []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if not line.strip():
                continue
            try:
                task = json.loads(line)
                task["name"], task["solution"], task["tests"]
            except (ValueError, KeyError, TypeError) as error:
                sys.exit(f"{path}:{number}: not a task: {error!r}")
            tasks.append(task)
    return tasks


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--server", default=os.path.join(here, "..", "target", "release", "belljar"))
    parser.add_argument("--parallel", type=int, default=4, help="tasks at a time (default 4)")
    parser.add_argument("--tasks", help="a file with one task a line instead of the built-in ones")
    options = parser.parse_args()
    if options.parallel < 1:
        parser.error("--parallel must be at least 1")
    tasks = load(options.tasks) if options.tasks else TASKS

    with tempfile.TemporaryDirectory(prefix="belljar-eval-") as state:
        try:
            server = Server(options.server, state)
        except ServerGone as error:
            print(error, file=sys.stderr)
            return 2
        begin = time.monotonic()
        try:
            server.open()
            with concurrent.futures.ThreadPoolExecutor(options.parallel) as pool:
                rows = list(pool.map(lambda task: evaluate(server, task), tasks))
        except (ServerGone, TimeoutError, RuntimeError) as error:
            print(f"the server cannot be used: {error}", file=sys.stderr)
            return 2
        finally:
            server.close()
        seconds = time.monotonic() - begin

    width = max((len(row[0]) for row in rows), default=4)
    print(f"{'task':<{width}}  {'wanted':<12}  {'found':<12}  {'time':>7}")
    for name, wanted, found, took, detail in rows:
        mark = "" if found == wanted else f"  <- {ascii(detail)[:200]}"
        print(f"{name:<{width}}  {wanted:<12}  {found:<12}  {took:>6.2f}s{mark}")
    right = sum(row[1] == row[2] for row in rows)
    print(f"{right} of {len(rows)} as wanted, {seconds:.1f} s, {options.parallel} at a time")
    if any(row[2] == "server_gone" for row in rows):
        return 2
    return 0 if right == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
