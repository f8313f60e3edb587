"""A Python that waits for its program.

This runs inside `site`, before the interpreter opens its program. It imports what programs are likely to need, hides
all of it again, says that it is ready, waits until it is told of its program, and returns: the interpreter goes on as
it always does. A module that was hidden is given back when the program imports it, together with what its own
execution would have imported, so that `sys.modules`, the attributes of packages, the filters for warnings and
whatever else is done by executing a module come into view exactly then. Where that cannot be exact (a file of the
program's own shadows a module, say) this process becomes a new interpreter in place.

Descriptor 3 is a socket: one byte says that this waits; what comes is fields that each end with a NUL (is there
standard input; the number of arguments; these; the environment). Descriptor 4 is the pipe for standard input.
"""

import _imp
import _io
import _signal
import _warnings
import builtins
import os
import posix
import sys

CHANNEL = 3
STDIN = 4
HOOK_VARIABLE = b"BELLJAR_WARM"
HERE = "/usr/lib/belljar"
# Most that is read of the message: arguments and variables are bounded far below this before they come here.
MAX_MESSAGE = 4 * 1024 * 1024

bootstrap = sys.modules["_frozen_importlib"]
external = sys.modules["_frozen_importlib_external"]


class Event:
    """Something that the execution of a module did to the interpreter beside making the module."""

    __slots__ = ("number", "replay")

    def __init__(self, number, replay):
        self.number = number
        self.replay = replay


class Entry:
    """A hidden module."""

    __slots__ = (
        "name", "module", "spec", "number", "imports", "events", "aliases", "parent", "child", "bound", "top",
        "folder", "path", "unique", "closure",
    )


class Recorder:
    """Watches imports and notes what each module's execution imports and does."""

    def __init__(self):
        self.base = set(sys.modules)
        self.known = set(sys.modules)
        self.stack = []
        self.imports = {}
        self.events = {}
        self.aliases = {}
        self.order = {}
        self.specs = {}
        self.count = 0
        self.hidden = {}
        self.filters = list(_warnings.filters)
        self.meta_path = list(sys.meta_path)
        self.path_hooks = list(sys.path_hooks)
        self.environ = dict(os.environ)

    def number(self):
        self.count += 1
        return self.count

    def owner(self):
        return self.stack[-1] if self.stack else None

    def note(self, name):
        owner = self.owner()
        while owner is not None and name:
            if name not in self.base and name != owner:
                self.imports.setdefault(owner, {})[name] = None
            name = name.rpartition(".")[0]

    def event(self, replay):
        owner = self.owner()
        if owner is not None:
            self.events.setdefault(owner, []).append(Event(self.number(), replay))

    def settle(self):
        """What has changed since the last time is the work of the module that is executing."""
        if _warnings.filters != self.filters:
            before, after = self.filters, list(_warnings.filters)
            self.filters = after
            self.event(lambda: replay_filters(before, after))
        for changed, current in ((self.meta_path, sys.meta_path), (self.path_hooks, sys.path_hooks)):
            if len(changed) != len(current):
                added = [one for one in current if one not in changed]
                changed[:] = current
                self.event(lambda current=current, added=added: current.extend(added))
        if os.environ._data and len(os.environ._data) != len(self.environ):
            raise RuntimeError("a module changes the environment")
        if len(sys.modules) + len(self.hidden) != len(self.known):
            for name in list(sys.modules):
                if name not in self.known:
                    self.known.add(name)
                    owner = self.owner()
                    if owner is not None:
                        self.aliases.setdefault(owner, []).append(name)

    def load(self, spec):
        self.settle()
        name = spec.name
        self.note(name)
        self.order[name] = self.number()
        self.specs[name] = spec
        self.known.add(name)
        # Extensions ask for modules past `__import__`: what they import is seen only if it is not there.
        extension = isinstance(spec.loader, external.ExtensionFileLoader)
        outer = self.hidden
        if extension:
            self.hidden = dict(outer)
            for other in list(sys.modules):
                if other not in self.base and other not in self.stack:
                    self.hidden[other] = sys.modules.pop(other)
        self.stack.append(name)
        try:
            return real_load(spec)
        finally:
            self.settle()
            self.stack.pop()
            if extension:
                for other, module in self.hidden.items():
                    if other not in outer:
                        sys.modules[other] = module
                self.hidden = outer

    def find_and_load(self, name, import_):
        if name in self.hidden:
            self.bring_back(name)
        module = real_find_and_load(name, import_)
        self.note(name)
        return module

    def bring_back(self, name):
        while name:
            if name in self.hidden:
                sys.modules[name] = self.hidden.pop(name)
            name = name.rpartition(".")[0]

    def import_(self, name, globals=None, locals=None, fromlist=(), level=0):
        module = real_import(name, globals, locals, fromlist, level)
        if self.stack:
            if level:
                package = bootstrap._calc___package__(globals)
                absolute = bootstrap._resolve_name(name, package, level)
            else:
                absolute = name
            self.note(absolute)
            if fromlist:
                for item in fromlist:
                    if isinstance(item, str) and absolute + "." + item in sys.modules:
                        self.note(absolute + "." + item)
        return module


def replay_filters(before, after):
    """The filters that a module adds come first, as they do when it executes."""
    current = _warnings.filters
    if current == before:
        current[:] = after
    else:
        added = [item for item in after if item not in before]
        for item in added:
            if item in current:
                current.remove(item)
        old = [item for item in after if item in before]
        front = [item for item in added if not old or after.index(item) < after.index(old[0])]
        current[:0] = front
        current.extend(item for item in added if item not in front)
    _warnings._filters_mutated()


real_load = bootstrap._load_unlocked
real_find_and_load = bootstrap._find_and_load
real_import = builtins.__import__


def preload(names):
    """Imports `names` and returns what is to be hidden, by name."""
    recorder = Recorder()
    import atexit
    import threading

    # Both are recorded like the rest once they are watched.
    for name in list(sys.modules):
        if name not in recorder.base:
            del sys.modules[name]
    real = {
        (atexit, "register"): atexit.register,
        (atexit, "unregister"): atexit.unregister,
        (os, "register_at_fork"): os.register_at_fork,
        (posix, "register_at_fork"): posix.register_at_fork,
    }
    register, at_fork = atexit.register, os.register_at_fork
    recorder.known = set(sys.modules)

    def record_atexit(function, *args, **kwargs):
        recorder.event(lambda: register(function, *args, **kwargs))
        return function

    def record_at_fork(**kwargs):
        recorder.event(lambda: at_fork(**kwargs))

    # The first import of threading was for nothing but its names: what it registered is harmless twice.
    sys.modules["atexit"] = atexit
    atexit.register = record_atexit
    os.register_at_fork = posix.register_at_fork = record_at_fork
    bootstrap._load_unlocked = recorder.load
    bootstrap._find_and_load = recorder.find_and_load
    builtins.__import__ = recorder.import_
    try:
        del sys.modules["atexit"]
        for name in names:
            bootstrap._gcd_import(name)
            recorder.settle()
            if name == "threading" or "threading" in sys.modules:
                watch_threading(recorder, real)
    finally:
        builtins.__import__ = real_import
        bootstrap._find_and_load = real_find_and_load
        bootstrap._load_unlocked = real_load
        for (module, name), function in real.items():
            setattr(module, name, function)
    return hide(recorder)
