# Run by `site` at every start of the interpreter, before the program is opened: it must cost nothing unless it is
# told to wait.
import os

if "BELLJAR_WARM" in os.environ:
    with open("/usr/lib/belljar/warm.py", "rb") as source:
        code = compile(source.read(), "/usr/lib/belljar/warm.py", "exec")
    exec(code, {"__name__": "belljar_warm"})
    del source, code
del os
